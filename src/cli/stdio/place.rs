//! Where the server is: named, or found by its data directory, or about to be there.
//!
//! In: a URL, or what the server in this process or another one has written down. Out: a URL to ask, and word when nobody answers there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The file in the data directory that says where its server listens.
const FILE: &str = "address";

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

/// The server that this directory had last.
pub fn written(data_dir: &Path) -> Option<Written> {
    let text = std::fs::read_to_string(path(data_dir)).ok()?;
    let (url, kind) = text.trim().split_once(' ')?;
    url.starts_with("http://").then(|| Written { url: url.to_owned(), stays: kind == "serve" })
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
