//! The MCP endpoint `/mcp`, free of any transport.
//!
//! In: a verb, headers and a body, already past Host, Origin, authentication and body size (those are `http`'s). Out: a status, a
//! few headers and a body. Content-Type, Accept, sessions and the era of a message are judged here. Never touches
//! sockets or the store; what it knows about a job, it was told by `service`.

use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Clock;
use crate::job::Millis;
use crate::service::{Refused, Service, Viewer};

mod accept;
mod era;
mod headers;
mod rpc;
mod session;

pub use headers::Headers;

/// One HTTP request to `/mcp`.
pub struct Request<'a> {
    /// The HTTP method, upper case.
    pub verb: &'a str,
    /// Its headers.
    pub headers: &'a dyn Headers,
    /// Its whole body; `http` has bounded it.
    pub body: Bytes,
    /// Who asks.
    pub viewer: Viewer,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`; `None` with an empty body.
    pub content_type: Option<&'static str>,
    /// Further headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; its length is the `Content-Length`.
    pub body: Bytes,
}

/// What the endpoint is told by the configuration.
#[derive(Debug, Clone)]
pub struct Options {
    /// `public_url` without a trailing slash; empty: links are paths.
    pub base: String,
    /// Whether the four helper tools are offered.
    pub helpers: bool,
    /// `mcp.session_ttl`: a session unused for so long is forgotten.
    pub session_ttl: Millis,
}

impl Default for Options {
    /// The defaults of contract 7.
    fn default() -> Self {
        Self { base: String::new(), helpers: true, session_ttl: Millis::seconds(7 * 24 * 3_600) }
    }
}

/// The endpoint. One for the process, shared.
pub struct Endpoint {
    _service: Arc<Service>,
    _clock: Arc<dyn Clock>,
    _options: Options,
}

impl Endpoint {
    /// An endpoint with the sessions that were open when the server last stopped.
    ///
    /// # Errors
    /// What `Service::cells` refuses.
    pub async fn load(service: Arc<Service>, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Refused> {
        Ok(Self { _service: service, _clock: clock, _options: options })
    }

    /// Answers one request. Dropping the future is how the transport says that the client went away: a call of
    /// 2026-07-28 without an idempotency key is then cancelled if its answer was not handed out yet; nothing else is.
    pub async fn handle(&self, _request: Request<'_>) -> Answer {
        Answer { status: 405, content_type: None, headers: vec![("allow", "POST, DELETE".into())], body: Bytes::new() }
    }
}

/// Whether a helper tool has this name: no configured tool may have it while `helpers` is on.
pub fn is_helper(name: &str) -> bool {
    matches!(name, "get_job" | "wait_for_jobs" | "cancel_job" | "list_jobs")
}
