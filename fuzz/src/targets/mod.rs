//! One module per fuzz target: any bytes in, nothing out, or a panic that says which promise was broken.
//!
//! Shared by the fuzz targets and by a test that replays their seeds. Nothing here needs the fuzzer.

pub mod codec;
pub mod config;
pub mod handler_lines;
pub mod http;
pub mod last_event_id;
pub mod machine;
pub mod mcp;
mod pieces;
mod request;
mod world;

/// Reads bytes and checks.
pub type Run = fn(&[u8]);

/// Every target of this module by its name; `recovery` is in `engine`.
pub const ALL: &[(&str, Run)] = &[
    ("codec", codec::run),
    ("config", config::run),
    ("handler_lines", handler_lines::run),
    ("http", http::run),
    ("last_event_id", last_event_id::run),
    ("machine", machine::run),
    ("mcp", mcp::run),
];
