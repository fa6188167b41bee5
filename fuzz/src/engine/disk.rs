//! The store under test, on a real directory, and the deaths of the process that has it.
//!
//! In: how it dies. Out: the store as the next process finds it. A kill is a copy of the directory as it stands at that
//! moment: what was handed to the system is there, what was not is lost. (A power cut would lose more: not here.)

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::store::sled::{Options, Sled};
use longhaul::store::{Durability, Store as _, verify};

/// An open store and where it is.
pub struct Disk {
    root: tempfile::TempDir,
    number: u32,
    /// Where to copy the directory to at the next sync.
    dies_into: Arc<Mutex<Option<PathBuf>>>,
    /// The store.
    pub store: Sled,
}

impl Disk {
    /// A new store.
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let dies_into = Arc::default();
        let store = open(&directory(root.path(), 0), &dies_into);
        Self { root, number: 0, dies_into, store }
    }

    fn directory(&self) -> PathBuf {
        directory(self.root.path(), self.number)
    }

    fn next(&self) -> PathBuf {
        directory(self.root.path(), self.number + 1)
    }

    /// The process will be killed at the next sync.
    pub fn will_die(&self) {
        *self.dies_into.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.next());
    }

    /// Closes the store and opens it again.
    pub fn close(&mut self) {
        self.store.close().expect("a store closes");
        check(&self.directory());
        self.reopen();
    }

    /// The process is killed, unless it has died already; what it leaves behind is opened again.
    pub fn kill(&mut self, while_starting: bool) {
        let next = self.next();
        let has_died = self.dies_into.lock().unwrap_or_else(PoisonError::into_inner).take().is_none() && next.exists();
        if !has_died {
            copy(&self.directory(), &next);
        }
        self.store.close().expect("a store closes");
        fs::remove_dir_all(self.directory()).expect("what is left of the dead process goes");
        self.number += 1;
        if while_starting {
            litter(&self.directory());
        }
        check(&self.directory());
        if while_starting {
            litter(&self.directory());
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.store = open(&self.directory(), &self.dies_into);
    }
}

fn directory(root: &Path, number: u32) -> PathBuf {
    root.join(format!("store-{number}"))
}

fn open(dir: &Path, dies_into: &Arc<Mutex<Option<PathBuf>>>) -> Sled {
    let options = Options { dir: dir.to_owned(), cache_bytes: 4 * 1024 * 1024, durability: Durability::Process };
    let (from, into) = (dir.to_owned(), Arc::clone(dies_into));
    let hook = move || {
        if let Some(into) = into.lock().unwrap_or_else(PoisonError::into_inner).take() {
            copy(&from, &into);
        }
    };
    Sled::open_with(&options, Box::new(hook)).expect("the store opens")
}

/// `verify` accepts what a process has left.
fn check(dir: &Path) {
    let report = verify::verify(dir).expect("the store can be read");
    assert!(report.is_whole(), "verify complains: {:#?}", report.complaints);
}

/// What a process may leave that was killed while it opened the store or brought a body.
fn litter(dir: &Path) {
    fs::write(dir.join("snap.ffffffffffffffff.generating"), [7; 4_096]).expect("a file is written");
    fs::write(dir.join("bodies").join("0.1.2.new"), b"half of it").expect("a file is written");
}

fn copy(from: &Path, into: &Path) {
    fs::create_dir(into).expect("a directory is made");
    for entry in fs::read_dir(from).expect("a directory is read") {
        let entry = entry.expect("a directory is read");
        let target = into.join(entry.file_name());
        if entry.file_type().expect("an entry has a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}
