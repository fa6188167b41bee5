//! Requests to others: callbacks that a client has asked for, and so to nowhere but the open net.
//!
//! In: a URL, headers, a body. Out: a status and the beginning of the answer, or a category of failure. Every request resolves the
//! name, refuses addresses that are not globally routable, and connects to the very address that was looked at. Follows no
//! redirect, keeps no connection, and takes no proxy.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

mod address;
mod client;
mod target;

pub use client::{ANSWER_MAX, Client};
pub use target::{BAD_SCHEME, Target, URL_MAX};

/// A request is given up after so long, from the look-up of the name to the last byte of the answer.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// A POST to be.
#[derive(Debug, Clone)]
pub struct Post {
    /// Where to.
    pub target: Target,
    /// Further headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Bytes,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// HTTP status.
    pub status: u16,
    /// The beginning of the body, at most `ANSWER_MAX`.
    pub body: Bytes,
}

/// Why nothing came back. Says nothing of the other side that whoever asked could not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The host has no address, refused, or broke off.
    ConnectionRefused,
    /// It took longer than `ATTEMPT_MAX`.
    Timeout,
    /// No TLS came about.
    Tls,
    /// The host's addresses are not in the open net, or the URL is not https. Looks like `ConnectionRefused` from outside.
    Forbidden,
}

impl Failure {
    /// The category that clients are told.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionRefused | Self::Forbidden => "connection_refused",
            Self::Timeout => "timeout",
            Self::Tls => "tls_error",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request on its way.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Answered, Failure>> + Send + 'a>>;

/// The port to the net.
pub trait Courier: Send + Sync {
    /// Sends it. Dropping the future gives it up. Done within `ATTEMPT_MAX`.
    fn post(&self, post: Post) -> Sending<'_>;
}

/// Where requests may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Also to http, and to addresses that are not globally routable: for tests, and for nets that are closed.
    pub private: bool,
    /// Only to these host names; empty: to any.
    pub hosts: Vec<Box<str>>,
}

impl Reach {
    /// Whether the URL may be called as far as it alone tells; its addresses are looked at with every call.
    pub fn admits(&self, target: &Target) -> bool {
        let is_named =
            self.hosts.is_empty() || self.hosts.contains(&target.host) || self.hosts.contains(&target.authority);
        let is_open = target.address().is_none_or(address::is_open);
        is_named && (self.private || (target.is_secure && is_open))
    }
}
