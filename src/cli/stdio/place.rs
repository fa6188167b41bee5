//! Where the server is: named, or found by its data directory, or about to be there.
//!
//! In: a URL, or what the server in this process or another one has written down. Out: a URL to ask, and word when nobody answers there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The file in the data directory that says where its server listens.
pub const FILE: &str = "address";

/// See the head of this file. Shared.
#[derive(Clone)]
pub struct Place {
    url: Arc<Mutex<Option<String>>>,
    /// Somebody looked for the server in vain.
    missed: Arc<Notify>,
}

impl Place {
    /// A place that is not known yet, or that never changes.
    pub fn new(url: Option<String>) -> Self {
        Self { url: Arc::new(Mutex::new(url)), missed: Arc::default() }
    }

    /// The server's URL, without a slash at its end.
    pub fn url(&self) -> Option<String> {
        self.url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server is here.
    pub fn set(&self, url: String) {
        *self.url.lock().unwrap_or_else(PoisonError::into_inner) = Some(url);
    }

    /// Nobody answers there.
    pub fn miss(&self) {
        self.missed.notify_one();
    }

    /// Returns when nobody answered.
    pub async fn missed(&self) {
        self.missed.notified().await;
    }
}

/// A server as it has written itself down. It may not run any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// Its URL, without a slash at its end.
    pub url: String,
    /// It runs for itself: whoever started it starts it again.
    pub stays: bool,
}

/// The server that this directory had last. One that would not be on this machine is none: whoever can write a file must not be told tokens.
pub fn written(data_dir: &Path) -> Option<Written> {
    let text = std::fs::read_to_string(path(data_dir)).ok()?;
    let (url, kind) = text.trim().split_once(' ')?;
    let address = url.strip_prefix("http://")?.parse().ok().and_then(here)?;
    Some(Written { url: format!("http://{address}"), stays: kind == "serve" })
}

/// How a server that listens there is reached from this machine; `None` if that is another machine's address.
pub fn here(listens: SocketAddr) -> Option<SocketAddr> {
    let ip = match listens.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        // Only an address of this machine can be bound.
        other if other.is_loopback() || UdpSocket::bind((other, 0)).is_ok() => other,
        _ => return None,
    };
    Some(SocketAddr::new(ip, listens.port()))
}

/// Writes down where this directory's server listens, for clients on this machine. Whoever cannot read it is told by `--server`.
pub fn write(data_dir: &Path, server: &Written) {
    let (new, path) = (data_dir.join("address.new"), path(data_dir));
    let text = format!("{} {}\n", server.url, if server.stays { "serve" } else { "stdio" });
    if let Err(why) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)) {
        tracing::warn!(%why, "clients that look for the server in {} will not find it", data_dir.display());
    }
}

/// Nobody listens there any more.
pub fn remove(data_dir: &Path) {
    // What stays leads nowhere, and is found out by whoever asks there.
    let _ = std::fs::remove_file(path(data_dir));
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_a_server_of_this_machine_or_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        for (text, url) in [
            ("http://127.0.0.1:80 serve\n", Some("http://127.0.0.1:80")),
            ("http://[::1]:80 stdio\n", Some("http://[::1]:80")),
            ("http://0.0.0.0:80 serve\n", Some("http://127.0.0.1:80")),
            ("http://192.0.2.1:80 serve\n", None),
            ("http://example.org:80 serve\n", None),
            ("http://127.0.0.1:80@example.org serve\n", None),
            ("https://127.0.0.1:80 serve\n", None),
            ("http://127.0.0.1:80\n", None),
            ("", None),
        ] {
            std::fs::write(path(dir), text).expect("written");
            assert_eq!(written(dir).map(|written| written.url).as_deref(), url, "{text}");
        }
    }
}
