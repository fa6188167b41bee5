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
  LONGHAUL_BINARY=$CARGO_TARGET_DIR/release/longhaul timeout 900 cargo test --test it -- session
}

# fuzz SECONDS: without a sanitizer, since the crate has no unsafe code; on a disk in memory where there is one. Four
# processes on two cores: each waits for locks and syncs most of the time.
fuzz() {
  local tmp=$scratch
  [ ! -w /dev/shm ] || tmp=$(mktemp -d -p /dev/shm)
  mkdir -p fuzz/corpus/recovery
  local code=0
  TMPDIR=$tmp timeout $((2400 + $1)) cargo +nightly fuzz run recovery --sanitizer none \
    fuzz/corpus/recovery fuzz/seeds/recovery -- -fork=4 -max_total_time="$1" -max_len=600 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 || code=$?
  [ "$tmp" = "$scratch" ] || rm -rf "$tmp"
  return "$code"
}
