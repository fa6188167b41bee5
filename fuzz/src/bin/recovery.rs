//! The fuzz target `recovery`: see `engine`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::engine::run(bytes));
