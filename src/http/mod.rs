//! The outside over HTTP/1.1 and h2c: sockets to calls on `service`, and answers back.
//!
//! In the order of a request: `server` accepts, `io` guards the socket, `app` takes one request through `guard`, `router`,
//! `cors` and `auth` to a call in `api` or to `mcp`. What goes wrong leaves as a `problem`. Never decides anything about a
//! job, and never touches the store.

pub mod api;
pub mod app;
pub mod auth;
pub mod body;
pub mod cors;
pub mod guard;
mod heartbeat;
pub mod io;
pub mod mcp;
pub mod options;
pub mod problem;
pub mod query;
pub mod router;
pub mod server;
pub mod sse;
pub mod streams;
pub mod ticket;
#[cfg(any(debug_assertions, feature = "trial"))]
pub mod unbound;

pub use app::Parts;
pub use options::Options;
pub use server::{Server, may_bind};

#[cfg(test)]
mod tests;
