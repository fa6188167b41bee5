//! The fuzz target `http`: see `targets::http`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::targets::http::run(bytes));
