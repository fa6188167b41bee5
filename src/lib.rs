//! longhaul gives MCP clients jobs that outlive the conversation.

pub mod clock;
pub mod events;
pub mod handler;
pub mod http;
pub mod job;
pub mod metrics;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod work;
