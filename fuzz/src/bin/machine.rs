//! The fuzz target `machine`: see `targets::machine`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::targets::machine::run(bytes));
