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

/// What the server of this directory last wrote down. It may not run any more.
pub fn written(data_dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path(data_dir)).ok()?;
    let url = text.trim();
    url.starts_with("http://").then(|| url.to_owned())
}

/// Writes down where this directory's server listens, for clients on this machine. Whoever cannot read it is told by `--server`.
pub fn write(data_dir: &Path, url: &str) {
    let (new, path) = (data_dir.join("address.new"), path(data_dir));
    if let Err(why) = std::fs::write(&new, url).and_then(|()| std::fs::rename(&new, &path)) {
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
