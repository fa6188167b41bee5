#!/usr/bin/env bash
# Runs the official MCP conformance suite against a longhaul of its own: tests/conformance/run.sh [BINARY] [OUT]
# Needs npm; the suite itself and the node that it wants come from the registry. Every part runs, whatever failed before it;
# exits non-zero if anything failed that expected-failures.yml does not name, or passed although it does.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(realpath "${1:-$here/../../target/release/longhaul}")
scratch=$(mktemp -d)
out=$(realpath -m "${2:-$scratch/out}")
server=""
failed=()

finish() {
  local code=$?
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  [ "$code" -eq 0 ] || tail -n 40 "$scratch/log" 2>/dev/null || true
  rm -rf "$scratch"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The configuration names its scripts and files relative to its folder, and some of them write there.
cp -R "$here" "$scratch/served"
cd "$scratch/served"
"$binary" serve --config server.toml --listen 127.0.0.1:0 --data-dir "$scratch/data" >"$scratch/log" 2>&1 &
server=$!
url=""
for _ in $(seq 600); do
  url=$(grep -om1 'http://[0-9.:]*' "$scratch/log" || true)
  [ -z "$url" ] || break
  kill -0 "$server" 2>/dev/null || exit 1
  sleep 0.1
done
[ -n "$url" ] || exit 1

# conformance VERSION ARGUMENT…: one run of the suite, with the node that it wants.
conformance() {
  local at=$scratch/suite-$1
  local bin=$at/node_modules/.bin
  [ -x "$bin/conformance" ] ||
    npm install --silent --no-audit --no-fund --prefix "$at" node@22 "@modelcontextprotocol/conformance@$1"
  shift
  (cd "$scratch" && PATH=$bin:$PATH timeout 300 "$bin/conformance" "$@")
}

# part NAME COMMAND…: one part, of which only the end is shown; all of it if it failed.
part() {
  local name=$1
  shift
  printf '\n--- %s\n' "$name"
  if "$@" >"$scratch/part" 2>&1; then
    tail -n 4 "$scratch/part"
  else
    cat "$scratch/part"
    failed+=("$name")
  fi
}

newest=0.2.0-alpha.12
known=(--expected-failures "$here/expected-failures.yml")
at=(--url "$url/mcp")

for revision in 2025-11-25 2026-07-28; do
  part "requirements of $revision" conformance "$newest" server "${at[@]}" --requirements "$revision" "${known[@]}" -o "$out/$revision"
done
scenarios=(
  tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
  tasks-request-headers tasks-dispatch-and-envelope tasks-status-notifications tasks-required-task-error
  tasks-mrtr-composition http-header-validation http-custom-header-server-validation json-schema-2020-12
  server-session-lifecycle server-sse-polling
)
for scenario in "${scenarios[@]}"; do
  part "$scenario" conformance "$newest" server "${at[@]}" --scenario "$scenario" "${known[@]}" -o "$out/single"
done
part "the active suite of 0.1.16" conformance 0.1.16 server "${at[@]}" --suite active "${known[@]}"

if [ "${#failed[@]}" -gt 0 ]; then
  printf '\nfailed: %s\n' "${failed[@]}"
  exit 1
fi
