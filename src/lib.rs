//! longhaul gives MCP clients jobs that outlive the conversation.

pub mod clock;
pub mod handler;
pub mod job;
pub mod store;
pub mod work;
