//! What the HTTP side is told once, at start. Made by `cli/serve.rs` from the configuration (contract 7).

use std::net::SocketAddr;
use std::time::Duration;

use super::auth::Token;

/// What `Server::bind` needs.
#[derive(Clone)]
pub struct Options {
    /// `server.listen`.
    pub listen: SocketAddr,
    /// `server.public_url`: what links begin with; its host is allowed too.
    pub public_url: Option<String>,
    /// `server.allowed_hosts`, beside the loopback names: `name` for any port, or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// `server.allowed_origins`: `scheme://host[:port]`, as browsers send it.
    pub allowed_origins: Vec<String>,
    /// `[[auth.tokens]]`. None: everybody is `local` and may do everything.
    pub tokens: Vec<Token>,
    /// `server.max_body`, in bytes; also the longest line of a bulk body. Beyond: 413.
    pub max_body: usize,
    /// `server.max_connections`. Beyond: closed at once.
    pub max_connections: usize,
    /// `server.max_streams`, per principal; `local` has no limit. Beyond: 429.
    pub max_streams: usize,
    /// `server.header_timeout`: for the first byte, and for each request's head. Then the connection ends.
    pub header_timeout: Duration,
    /// `server.stream_heartbeat`: quiet after which a stream says that it lives.
    pub stream_heartbeat: Duration,
    /// `server.stream_write_timeout`: how long a peer may take nothing of what is written. Then the connection ends.
    pub stream_write_timeout: Duration,
    /// Fresh randomness: becomes the key of tickets if the store holds none yet.
    pub ticket_seed: [u8; 32],
}

impl Default for Options {
    /// The defaults of contract 7. The seed is none: whoever issues tickets has to bring one.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7450)),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tokens: Vec::new(),
            max_body: 1024 * 1024,
            max_connections: 20_000,
            max_streams: 1_000,
            header_timeout: Duration::from_secs(10),
            stream_heartbeat: Duration::from_secs(15),
            stream_write_timeout: Duration::from_secs(30),
            ticket_seed: [0; 32],
        }
    }
}
