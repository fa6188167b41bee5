//! The fuzz target `handler_lines`: see `targets::handler_lines`. Counts what reading allocates.

#![no_main]

use longhaul_fuzz::counting::{Counting, most_held};
use longhaul_fuzz::targets::handler_lines;

#[global_allocator]
static COUNTING: Counting = Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| handler_lines::run_measured(bytes, most_held));
