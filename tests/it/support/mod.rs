//! What the integration tests share: the real binary on a real port, and plain clients for it.
//!
//! In: a configuration. Out: a server that ends with the test, by its own process id. Waits for lines and answers,
//! never for time.

pub mod chance;
pub mod client;
pub mod disk;
#[path = "../../schemas/mod.rs"]
pub mod schemas;
pub mod server;
pub mod sse;

pub use chance::Chance;
pub use client::{Answer, Client};
pub use server::{Moment, Server, TRIAL};

/// Whether the long forms are asked for.
pub fn is_long() -> bool {
    std::env::var_os("LONGHAUL_LONG").is_some()
}
