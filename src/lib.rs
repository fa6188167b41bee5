//! longhaul gives MCP clients jobs that outlive the conversation.

pub mod clock;
pub mod config;
pub mod events;
pub mod handler;
pub mod job;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod work;
