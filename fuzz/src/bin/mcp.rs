//! The fuzz target `mcp`: see `targets::mcp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::targets::mcp::run(bytes));
