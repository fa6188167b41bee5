//! The fuzz target: see `engine`.

#![no_main]

mod engine;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| engine::run(bytes));
