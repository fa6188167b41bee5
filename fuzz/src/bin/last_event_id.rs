//! The fuzz target `last_event_id`: see `targets::last_event_id`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhaul_fuzz::targets::last_event_id::run(bytes));
