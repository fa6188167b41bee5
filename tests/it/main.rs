//! Promises of the whole product, kept by the real binary on real sockets.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod backup;
mod cli;
mod crash;
mod damage;
mod depth;
mod ends;
mod found;
mod full;
mod fuzz_replay;
mod kills;
mod mcp;
mod memory;
#[cfg(target_os = "linux")]
mod power;
mod questions;
mod races;
mod recovery_replay;
mod reload;
mod resume;
mod retention;
mod session;
mod stalls;
mod starts;
mod stdio;
mod story;
mod support;
mod tidy;
mod tokens;
mod verify;
mod webhooks;
