//! The fuzz target `config`: see `targets::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::targets::config::run(bytes));
