//! The fuzz target `codec`: see `targets::codec`. Counts what reading allocates.

#![no_main]

use longhaul_fuzz::counting::{Counting, most_held};
use longhaul_fuzz::targets::codec;

#[global_allocator]
static COUNTING: Counting = Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| codec::run_measured(bytes, most_held));
