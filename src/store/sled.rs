//! The store on sled 0.34, after the eleven rules of design 5, each learned from its source or measured.
//!
//! In: whole changes, one thread at a time. Out: positions, once the disk has them. sled costs 5-6 µs an operation,
//! so operations are what is saved here: see `commit`. Nothing of sled is seen outside this module, nor do its panics
//! leave it: whatever goes wrong inside is an error, and the last thing this store does.

mod blocks;
mod body;
mod commit;
mod compact;
mod doubt;
mod ends;
mod files;
mod forget;
mod format;
mod keys;
mod make;
mod open;
mod opening;
mod pin;
mod reached;
mod read;
mod restore;
mod room;
mod segments;
mod settle;
mod shown;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::{Bounds, Change, Conflict, Durability, Error, Health, Listing, Pin, Query, Store, Totals};
use crate::fault::{self, Point};
use crate::job::{BodyRef, Head, JobId, Logged, Position, Timestamp};
pub use compact::{Compacted, compact};
pub(super) use restore::restore;
pub use restore::{Restored, Unrestored};
pub use room::COMMIT_MAX;
pub use settle::is_absent;
use shown::Shown;
pub(super) use verify::verify;
#[cfg(any(debug_assertions, feature = "trial"))]
pub(super) use writer::TypeRow;
use writer::Writer;

/// How to open the store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The store's directory; made if it is not there.
    pub dir: PathBuf,
    /// How many bytes of pages sled keeps in memory.
    pub cache_bytes: u64,
    /// When a commit counts as done.
    pub durability: Durability,
}

/// Called with the error after which nothing more is tried.
pub type OnFailure = Box<dyn Fn(&Error) + Send + Sync>;

/// Called between a commit's flush and its sync.
pub type BeforeSync = Box<dyn Fn() + Send + Sync>;

/// The open database.
struct Trees {
    db: ::sled::Db,
    /// Heads of unfinished jobs.
    live: ::sled::Tree,
    /// Records of ended jobs.
    jobs: ::sled::Tree,
    /// Small bodies in pieces, and blocks of trails.
    bodies: ::sled::Tree,
    /// Chunks of entries.
    events: ::sled::Tree,
    /// Rows of ended jobs.
    index: ::sled::Tree,
    /// Idempotency keys.
    keys: ::sled::Tree,
    /// Small named records, and the store's own.
    cells: ::sled::Tree,
    /// Our own handle of the `db` file: `flush` alone is no fsync.
    file: File,
}

/// The store on disk.
pub struct Sled {
    options: Options,
    /// `None` once closed. Readers take a share and leave the lock at once.
    trees: Mutex<Option<Arc<Trees>>>,
    /// `None` while a commit has it, so that two at once are noticed.
    writer: Mutex<Option<Box<Writer>>>,
    shown: Mutex<Shown>,
    /// Bytes in files of large bodies.
    body_bytes: AtomicU64,
    /// Reads and writes asked of sled so far: the budget of design 5.2 is counted in them.
    operations: AtomicU64,
    /// Set by the first error of sled: nothing is tried after it (design 5.9).
    failed: AtomicBool,
    /// Who is told of it.
    on_failure: OnceLock<OnFailure>,
    before_sync: Option<BeforeSync>,
    pins: pin::Pins,
    /// Where it is noted how far the log reaches; `None` if the store is only looked at, or the disk refused.
    reached: Option<reached::Reached>,
    /// Held as long as the store is open.
    lock: Mutex<Option<File>>,
}

impl Sled {
    /// Opens the store in `options.dir`, or makes a new one there if there is nothing. Blocks while another process
    /// that is going away still holds it, at most `open::LOCK_WAIT`.
    ///
    /// # Errors
    /// `Error::Locked` if another process keeps holding it; `Error::Corrupt` if the directory is no store of this
    /// version, which is then left as it was, or is damaged; `Error::Unavailable` if the disk refuses.
    pub fn open(options: &Options) -> Result<Self, Error> {
        open::open(options, None)
    }

    /// The same, with something to do before each sync: tests look at what is visible then.
    ///
    /// # Errors
    /// As `open`.
    #[cfg(any(test, debug_assertions, feature = "trial"))]
    pub fn open_with(options: &Options, before_sync: BeforeSync) -> Result<Self, Error> {
        open::open(options, Some(before_sync))
    }

    /// Who is told, once, when the store fails: also a read that nobody else waits for must end the process. The first
    /// one who asks for it is.
    pub fn on_failure(&self, told: OnFailure) {
        // A second one is not told; there is only one process to end.
        let _ = self.on_failure.set(told);
    }

    /// How many reads and writes sled was asked for since the store was opened.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    fn count(&self, operations: usize) {
        self.operations.fetch_add(operations as u64, Ordering::Relaxed);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the trees. A panic of sled becomes an error; after the first error there is no second try.
    fn with_trees<T>(&self, work: impl FnOnce(&Trees) -> Result<T, Error>) -> Result<T, Error> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Unavailable("it failed before; nothing more is tried".into()));
        }
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let trees = trees.ok_or_else(|| Error::Unavailable("it is closed".into()))?;
        let done = contained(|| work(&trees));
        match &done {
            Ok(_) | Err(Error::Body { .. }) => {}
            Err(error @ (Error::Unavailable(_) | Error::Corrupt { .. } | Error::Locked(_) | Error::Full(_))) => {
                if !self.failed.swap(true, Ordering::AcqRel) {
                    self.on_failure.get().iter().for_each(|told| told(error));
                }
            }
        }
        done
    }
}

/// Turns a panic inside sled into an error.
fn contained<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = crate::panic_text(panic.as_ref());
        Err(Error::Corrupt { at: "the data file".into(), why: format!("sled gave up: {text}") })
    })
}

/// sled's errors by remedy.
fn failure(error: ::sled::Error) -> Error {
    match error {
        ::sled::Error::Corruption { at, .. } => Error::Corrupt {
            at: "the data file".into(),
            why: at.map_or("sled reports corruption".into(), |at| format!("sled reports corruption at {at:?}")),
        },
        // What it looks for lies behind the end of the file.
        ::sled::Error::Io(ref short) if short.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::Corrupt { at: "the data file".into(), why: format!("it is too short: {short}") }
        }
        ::sled::Error::Io(ref refused) => Error::refused("sled", refused),
        // The format is ours to check, and was: what sled does not know there is damage.
        ::sled::Error::Unsupported(why) => Error::Corrupt { at: "sled's files".into(), why },
        ::sled::Error::CollectionNotFound(_) | ::sled::Error::ReportableBug(_) => Error::Unavailable(error.to_string()),
    }
}

/// The operating system's refusals.
fn refusal(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::refused(what, &error)
}

impl Store for Sled {
    fn live(&self) -> Result<Vec<Head>, Error> {
        self.with_trees(|trees| self.learn_live(trees))
    }

    fn commit(&self, changes: &[Change]) -> Result<Vec<Result<Position, Conflict>>, Error> {
        self.with_trees(|trees| self.with_writer(trees, |writer| self.commit_group(trees, writer, changes)))
    }

    fn bring(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), Error> {
        self.write_body_file(job, name, bytes)
    }

    fn discard(&self, job: JobId, name: BodyRef) {
        self.remove_body_file(job, name);
    }

    fn job(&self, id: JobId) -> Result<Option<Arc<Head>>, Error> {
        self.with_trees(|trees| self.read_job(trees, id))
    }

    fn jobs(&self, query: &Query) -> Result<Listing, Error> {
        self.with_trees(|trees| self.list(trees, query))
    }

    fn keyed(&self, owner: &str, job_type: &str, key: &str) -> Result<Option<JobId>, Error> {
        self.with_trees(|trees| self.read_key(trees, keys::key(owner, job_type, key)))
    }

    fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error> {
        self.with_trees(|trees| self.read_body(trees, job, name, offset, limit))
    }

    fn bounds(&self) -> Bounds {
        self.shown().bounds
    }

    fn events(&self, after: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        self.with_trees(|trees| self.read_events(trees, after, limit))
    }

    fn entries(&self, positions: &[Position]) -> Result<Vec<Logged>, Error> {
        self.with_trees(|trees| self.read_entries(trees, positions))
    }

    fn trail(&self, job: JobId, number: u32) -> Result<Vec<Position>, Error> {
        self.with_trees(|trees| self.read_block(trees, job, number))
    }

    fn cells(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, Error> {
        self.with_trees(|trees| self.read_cells(trees, prefix))
    }

    fn ends(
        &self,
        job_type: &str,
        failed: bool,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, Error> {
        let number = self.shown().types.numbers.get(job_type).copied();
        let Some(number) = number else { return Ok(Vec::new()) };
        self.with_trees(|trees| self.read_ends(trees, number, failed, before, limit))
    }

    fn forget(&self, ids: &[JobId]) -> Result<(), Error> {
        if self.pins.is_on() {
            return Ok(());
        }
        self.with_trees(|trees| self.with_writer(trees, |writer| self.forget_group(trees, writer, ids)))
    }

    fn pin(&self) -> Result<Pin, Error> {
        self.with_trees(|_| Ok(self.begin_pin()))
    }

    fn unpin(&self, pin: &Pin) {
        if self.has_pin(pin) {
            self.end_pin();
        }
    }

    fn is_pinned(&self, pin: &Pin) -> bool {
        self.has_pin(pin)
    }

    fn pinned_entries(&self, pin: &Pin, after: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        self.with_trees(|trees| self.read_pinned(trees, pin, after, limit))
    }

    fn pinned_body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error> {
        self.with_trees(|trees| self.read_pinned_body(trees, job, name, offset, limit))
    }

    fn totals(&self) -> Arc<Totals> {
        Arc::clone(&self.shown().types.totals)
    }

    fn room(&self) -> Result<bool, Error> {
        self.with_trees(|trees| room::is_there(&trees.file, &self.options.dir))
    }

    fn health(&self) -> Result<Health, Error> {
        files::health(&self.options.dir, self.body_bytes.load(Ordering::Relaxed))
    }

    fn close(&self) -> Result<(), Error> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(trees) = trees else { return Ok(()) };
        self.end_pin();
        contained(|| {
            // Whatever the setting: what is noted as reached must be there.
            trees.sync(Durability::Disk)?;
            let extent = self.extent(&trees);
            drop(trees);
            fault::point(Point::Closed);
            self.reached.iter().for_each(|reached| reached.settle(&extent));
            Ok(())
        })?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}
