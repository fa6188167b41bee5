# A release server of its own for a command that needs one.

# with_server COMMAND…: runs the command with the server's URL as its last argument.
with_server() {
  local dir log pid url=""
  dir=$(mktemp -d -p "$scratch")
  log=$dir/log
  "$CARGO_TARGET_DIR/release/longhaul" serve --listen 127.0.0.1:0 --data-dir "$dir/data" >"$log" 2>&1 &
  pid=$!
  started+=("$pid")
  for _ in $(seq 600); do
    url=$(grep -om1 'http://[0-9.:]*' "$log" || true)
    [ -z "$url" ] || break
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  if [ -z "$url" ] || ! curl -fsS --max-time 10 "$url/readyz" >/dev/null; then
    cat "$log"
    return 1
  fi
  local code=0
  timeout 600 "$@" "$url" || code=$?
  [ "$code" -eq 0 ] || cat "$log"
  end_well "$pid" || code=$?
  started=()
  return "$code"
}

# end_well PID: a server that is asked to end does so, with status 0.
end_well() {
  local code=0
  kill -TERM "$1"
  wait "$1" || code=$?
  [ "$code" -eq 0 ] || echo "the server ended with status $code"
  return "$code"
}
