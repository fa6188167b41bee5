# Steps: a headline and its seconds each, and which one failed. What a step started ends with it.

started=()         # process ids of what runs beside the current step
steps=()           # "seconds name" of each step that passed
current=""
began=$SECONDS
scratch=$(mktemp -d)

# step NAME COMMAND…: runs the command. Never as a condition, so that its own failures count.
step() {
  current=$1
  local from=$SECONDS
  shift
  printf '\n=== %s\n' "$current"
  "$@"
  steps+=("$(printf '%5d s  %s' $((SECONDS - from)) "$current")")
  printf '=== %s: %d s\n' "$current" $((SECONDS - from))
  current=""
}

# end PID: ends a process that this script started.
end() {
  kill -TERM "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

finish() {
  local code=$?
  for pid in "${started[@]}"; do end "$pid"; done
  rm -rf "$scratch"
  if [ "$code" -ne 0 ]; then
    printf '\n=== FAILED: %s (exit %d, after %d s)\n' "${current:-outside of any step}" "$code" $((SECONDS - began))
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

summary() {
  printf '\n=== passed, %d s\n' $((SECONDS - began))
  printf '%s\n' "${steps[@]}"
}
