#!/usr/bin/env bash
# Runs real MCP clients, each against a server of its own that it may kill: tests/clients/run.sh BINARY [CLIENT…]
# Needs node 20, python 3.10, curl and cargo; installs the clients as their lock files say. The first promise that is not
# kept ends it. At the end it prints what which client has shown, and docs/clients.md has to say the same.
set -euo pipefail
binary=$(realpath "${1:?usage: run.sh BINARY [CLIENT…]}")
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
run=$(mktemp -d)
export LONGHAUL_BINARY=$binary LONGHAUL_RUN=$run PYTHONDONTWRITEBYTECODE=1
supervisor="" wire=""

# As often as a client kills it, the server starts again where it was. Ends when it ends otherwise.
supervise() {
  local listen=127.0.0.1:0 code
  for _ in $(seq 20); do
    "$binary" serve --config server.toml --listen "$listen" --data-dir "$run/data" >>"$run/log" 2>&1 &
    echo $! >"$run/pid.new" && mv "$run/pid.new" "$run/pid"
    code=0
    # Bash's own word about what was killed says nothing new.
    wait $! 2>/dev/null || code=$?
    [ "$code" -eq 137 ] || break
    listen=$(grep -om1 '127.0.0.1:[0-9]*' "$run/log")
  done
  return "$code"
}

# first FILE PATTERN: what a program that was just started prints about itself.
first() {
  for _ in $(seq 600); do
    if grep -om1 "$2" "$1" 2>/dev/null; then return; fi
    sleep 0.05
  done
  cat "$1" >&2
  return 1
}

# Between the client and the server everything that the server says is held against the schema of its revision.
start_server() {
  rm -rf "${run:?}"/*
  supervise &
  supervisor=$!
  "$python" python/wire.py "$(first "$run/log" 'http://[0-9.:]*' | sed 's/.*://')" >"$run/wire" &
  wire=$!
  LONGHAUL_URL=http://127.0.0.1:$(first "$run/wire" '^[0-9]*$')
  export LONGHAUL_URL
}

# A server that is asked to end does so, with status 0.
end_server() {
  local code=0
  if [ -n "$wire" ]; then
    kill -TERM "$wire" 2>/dev/null || true
    wait "$wire" || code=$?
    wire=""
    tail -n +2 "$run/wire"
  fi
  [ -n "$supervisor" ] || return "$code"
  kill -TERM "$(cat "$run/pid")" 2>/dev/null || true
  wait "$supervisor" || { code=$?; echo "the server ended with status $code"; }
  supervisor=""
  return "$code"
}

finish() {
  local code=$?
  if [ "$code" -ne 0 ] && [ -e "$run/log" ]; then tail -n 40 "$run/log"; fi
  end_server || true
  rm -rf "$run" "$run.told"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

python=python/.venv/bin/python target=${CARGO_TARGET_DIR:-../../target}/clients
install() {
  case $1 in
    typescript) (cd typescript && npm ci --no-audit --no-fund --loglevel=error) ;;
    python)
      [ -x "$python" ] || python3 -m venv python/.venv
      "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r python/requirements.txt
      ;;
    rmcp) cargo build --quiet --locked --manifest-path rmcp/Cargo.toml --target-dir "$target" ;;
  esac
}

client() {
  case $1 in
    typescript-1) node typescript/sdk1.mjs ;;
    typescript-2) node typescript/sdk2.mjs ;;
    typescript-1.*) node typescript/old.mjs "${1#typescript-}" ;;
    python-2) "$python" python/sdk2.py ;;
    fastmcp) "$python" python/fast.py ;;
    rmcp) "$target/debug/longhaul-rmcp-check" ;;
  esac
}

told=$run.told
clients=("$@")
[ "${#clients[@]}" -gt 0 ] || clients=(typescript-1 typescript-2 typescript-1.11 typescript-1.13 python-2 fastmcp rmcp)
install python
installed=" python "
for name in "${clients[@]}"; do
  needs=${name%-*}
  [ "$needs" != fastmcp ] || needs=python
  [[ $installed == *" $needs "* ]] || install "$needs"
  installed+="$needs "
  start_server
  client "$name" | tee -a "$told"
  end_server
done
python3 table.py "$told" ../../docs/clients.md
