//! What the fuzz targets try, apart from the fuzzer: `tests/it/` replays the same on stable.

pub mod counting;
pub mod engine;
pub mod targets;
