//! longhaul gives MCP clients jobs that outlive the conversation: the map of its code follows.
#![doc = include_str!("README.md")]

pub mod cli;
pub mod clock;
pub mod config;
pub mod core;
pub mod events;
pub mod fault;
pub mod handler;
pub mod http;
pub mod job;
pub mod mcp;
pub mod metrics;
pub mod net;
pub mod run;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod work;

#[cfg(test)]
#[path = "../tests/schemas/mod.rs"]
mod schemas;

/// What a caught panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
