# The checks that are more than one command.

documentation() {
  RUSTDOCFLAGS="-D warnings" cargo doc --no-deps
}

# Only what runs from this clone counts: others may share the machine.
no_process_is_left() {
  if pgrep -af "^$CARGO_TARGET_DIR/debug/"; then
    echo "these are left"
    return 1
  fi
}

# The same test that `cargo test` has run with the development build.
session() {
  LONGHAUL_BINARY=$CARGO_TARGET_DIR/release/longhaul timeout 900 cargo test --test it -- session::
}

# fuzz SECONDS: each target for so long, two at a time: one for each of two cores. Without a sanitizer, since the crate has no
# unsafe code; on a disk in memory where there is one. Whichever fails is named, and what it failed on is printed.
fuzz() {
  cargo +nightly fuzz build --sanitizer none
  local names=() failed=() pids=() name at
  for name in fuzz/seeds/*/; do names+=("$(basename "$name")"); done
  local tmp=$scratch
  [ ! -w /dev/shm ] || tmp=$(mktemp -d -p /dev/shm)
  for ((at = 0; at < ${#names[@]}; at += 2)); do
    pids=()
    for name in "${names[@]:at:2}"; do
      (TMPDIR=$tmp fuzz_one "$name" "$1") >"$scratch/fuzz-$name.log" 2>&1 &
      pids+=("$!")
      started+=("$!")
    done
    for name in "${names[@]:at:2}"; do
      if wait "${pids[0]}"; then fuzz_told "$name" 4; else failed+=("$name"); fuzz_told "$name" 80; fi
      pids=("${pids[@]:1}")
    done
  done
  [ "$tmp" = "$scratch" ] || rm -rf "$tmp"
  [ "${#failed[@]}" -eq 0 ] || { echo "failed: ${failed[*]}"; return 1; }
}

# fuzz_one TARGET SECONDS: ends as the fuzzer does.
fuzz_one() {
  local name=$1 options=(-max_len=4096 -timeout=30) folders=("fuzz/corpus/$1" "fuzz/seeds/$1")
  local host
  host=$(rustc +nightly -vV | sed -n 's/^host: //p')
  case $name in
    # It waits for locks and syncs most of the time.
    recovery) options=(-max_len=600 -timeout=60 -fork=2) ;;
    machine) options=(-max_len=2000 -timeout=30) ;;
    last_event_id) options=(-max_len=300 -timeout=30) ;;
  esac
  [ ! -f "fuzz/dict/$name.dict" ] || options+=("-dict=fuzz/dict/$name.dict")
  [ ! -d "fuzz/crashes/$name" ] || folders+=("fuzz/crashes/$name")
  rm -rf "fuzz/artifacts/$name"
  mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
  exec timeout $(($2 + 300)) "$CARGO_TARGET_DIR/$host/release/$name" "${folders[@]}" "${options[@]}" "-max_total_time=$2" \
    "-artifact_prefix=fuzz/artifacts/$name/" -rss_limit_mb=4096 -print_final_stats=1
}

# fuzz_told TARGET LINES: the last lines of what it said, and every input that it failed on.
fuzz_told() {
  local log=$scratch/fuzz-$1.log artifact
  printf -- '--- %s: %s executions\n' "$1" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)"
  grep -v '^stat::' "$log" | tail -n "$2"
  for artifact in "fuzz/artifacts/$1"/{crash,timeout,oom}-*; do
    [ ! -f "$artifact" ] || printf '%s, base64: %s\n' "$artifact" "$(base64 -w0 "$artifact")"
  done
}
