//! Opening: the lock, a new store made apart and moved into place, leftovers removed, everything synced, damage told.
//!
//! In: a directory. Out: a store that readers and one writer may use, or one clear sentence. Never an empty start where
//! there was a store, never a panic.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::codec::{self, Kind};
use super::super::{Bounds, Error, Store, mint_epoch};
use super::body::{FOLDER, file_named, is_unfinished};
use super::reached::{Extent, Reached, Standing};
use super::shown::Shown;
use super::writer::{TypeRow, Writer};
use super::{
    BeforeSync, Options, Sled, Trees, compact, contained, doubt, failure, files, format, keys, make, opening, reached,
    read, refusal, segments, settle, verify,
};
use crate::fault::{self, Breach, Point};
use crate::job::{BODY_SMALL_MAX, Epoch, Job, Position};

/// The file whose lock keeps others out; it says who has it.
const LOCK: &str = "LOCK";
/// How long a lock that somebody else has is waited for: a killed process gives it up a moment later.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_LOOKS: u32 = 250;
const SHORTER: &str = "the data file is shorter than it was";

/// Opens what is there, or makes it.
pub fn open(options: &Options, before_sync: Option<BeforeSync>) -> Result<Sled, Error> {
    let dir = &options.dir;
    settle::undo(dir)?;
    if is_absent(dir)?
        && let Err(error) = create(dir)
        && is_absent(dir)?
    {
        return Err(error);
    }
    format::check_marker(dir)?;
    let (store, doubts) = open_locked(options, lock(dir)?)?;
    let mut store = match &doubts.suspicion {
        None => ready(store, &doubts, Look::Through)?,
        Some(doubt) => {
            tracing::warn!(dir = %dir.display(), doubt, "the store is written anew and looked through before it is served");
            store.close()?;
            compact::anew(dir, verify::Files::Not)?;
            open_held(options, lock(dir)?)?
        }
    };
    store.before_sync = before_sync;
    settle::clear(dir);
    Ok(store)
}

/// Opens what is there, whose lock is held, for use.
pub fn open_held(options: &Options, lock: File) -> Result<Sled, Error> {
    let (store, doubts) = open_locked(options, lock)?;
    match &doubts.suspicion {
        None => ready(store, &doubts, Look::Through),
        Some(doubt) => Err(advise(&options.dir, Error::Corrupt { at: "the data file".into(), why: doubt.clone() })),
    }
}

/// Opens what is there, whose lock is held, to be copied: whether it is whole is seen in the copy.
pub fn open_to_copy(options: &Options, lock: File) -> Result<Sled, Error> {
    let (store, doubts) = open_locked(options, lock)?;
    ready(store, &doubts, Look::Not)
}

/// Whether a store of which something may be missing is looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Through,
    Not,
}

/// Makes ready for use what has been opened.
fn ready(mut store: Sled, doubts: &Doubts, look: Look) -> Result<Sled, Error> {
    let dir = store.options.dir.clone();
    let made = contained(|| {
        store.with_trees(|trees| {
            store.settle_standing(trees, &doubts.standing, look)?;
            format::upgrade(&dir, trees)?;
            store.sweep(trees)
        })
    });
    made.map_err(|error| advise(&dir, error))?;
    store.reached = store.with_trees(|trees| Ok(Reached::make(&dir, &store.extent(trees))))?;
    Ok(store)
}

/// Opens what is there and leaves it as it is, for `verify`.
pub fn open_as_it_is(options: &Options) -> Result<(Sled, Doubts), Error> {
    settle::undo(&options.dir)?;
    if is_absent(&options.dir)? {
        return Err(Error::Unavailable(format!("there is no store at {}", options.dir.display())));
    }
    format::check_marker(&options.dir)?;
    open_locked(options, lock(&options.dir)?)
}

/// What opening by itself did not settle.
pub struct Doubts {
    /// Why what sled replayed may not be all there was.
    suspicion: Option<String>,
    /// What is known from the last time.
    pub standing: Standing,
}

fn open_locked(options: &Options, lock: File) -> Result<(Sled, Doubts), Error> {
    let dir = &options.dir;
    files::remove_unfinished_snapshots(dir).map_err(refusal(format!("cannot clean {}", dir.display())))?;
    require_data(dir)?;
    if !fault::is_broken(Breach::NoSyncAtOpen) {
        opening::begin(dir).map_err(refusal(format!("cannot note what is in {}", dir.display())))?;
    }
    let suspicion = doubt::about(dir).map_err(refusal(format!("cannot look at {}", dir.display())))?;
    let opened = contained(|| {
        let trees = open_trees(dir, options.cache_bytes)?;
        let store = assemble(options, trees, lock)?;
        let extent = store.with_trees(|trees| Ok(store.extent(trees)))?;
        let standing = reached::check(dir, &extent)?;
        Ok((store, Doubts { suspicion, standing }))
    });
    opened.map_err(|error| advise(dir, error))
}

/// Says what to do about damage.
pub fn advise(dir: &Path, error: Error) -> Error {
    match error {
        Error::Corrupt { at, why } => Error::Corrupt {
            at: format!("{} ({at})", dir.display()),
            why: format!(
                "{why}. Put the directory back from a backup; `longhaul verify` says what is wrong with it. \
                 It was not replaced by an empty store"
            ),
        },
        Error::Unavailable(_) | Error::Body { .. } | Error::Locked(_) | Error::Full(_) => error,
    }
}

/// Whether there is nothing at all: no directory, or an empty one.
pub fn is_absent(dir: &Path) -> Result<bool, Error> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(refusal(format!("cannot look at {}", dir.display()))(error)),
    }
}

/// A store whose data file is gone must not start empty, nor one whose large bodies are; nor one under other settings.
fn require_data(dir: &Path) -> Result<(), Error> {
    let damaged = |at: &str, why: &str| Err(advise(dir, Error::Corrupt { at: at.into(), why: why.into() }));
    if !fs::metadata(dir.join(segments::DATA)).is_ok_and(|data| data.len() > 0) {
        return damaged("the data file db", "it is missing or empty");
    }
    if !dir.join(FOLDER).is_dir() {
        return damaged("the folder bodies", "it is missing");
    }
    if !segments::has_sound_settings(dir).map_err(refusal("cannot read sled's settings"))? {
        return damaged("sled's settings, the file conf", "their checksum does not match");
    }
    Ok(())
}

/// Takes the directory for this process.
pub fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let what = || format!("cannot lock {}", path.display());
    let options = File::options().read(true).write(true).create(true).truncate(false).clone();
    let mut file = options.open(&path).map_err(refusal(what()))?;
    for _ in 0..LOCK_LOOKS {
        match file.try_lock() {
            // A compaction gave up the lock of a store that is no longer here: look at the one that is.
            Ok(()) if !is_at(&file, &path) => file = options.open(&path).map_err(refusal(what()))?,
            Ok(()) => {
                // Only for those who find it locked: a disk that has no room for it keeps nobody from opening.
                let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT / LOCK_LOOKS),
            Err(TryLockError::Error(error)) => return Err(refusal(what())(error)),
        }
    }
    let mut who = String::new();
    let _ = file.rewind().and_then(|()| file.take(20).read_to_string(&mut who));
    let who = if who.is_empty() { "another process".to_owned() } else { format!("process {who}") };
    Err(Error::Locked(format!("{} is used by {who}", dir.display())))
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    file.metadata().and_then(|one| Ok(same(one, fs::metadata(path)?))).unwrap_or(false)
}

/// Makes a store apart, closed and synced, and moves it into place: a kill leaves either nothing or all of it.
fn create(dir: &Path) -> Result<(), Error> {
    let what = || format!("cannot make {}", dir.display());
    let new = make::beside(dir, "new");
    make::folder(&new).map_err(refusal(what()))?;
    let held = lock(&new)?;
    if !is_absent(dir)? {
        // Another process was first, and what we waited for was its lock.
        return Ok(());
    }
    wipe(&new).map_err(refusal(what()))?;
    make::empty(&new, mint_epoch())?;
    files::sync(&new).map_err(refusal(what()))?;
    fault::point(Point::Creating);
    fs::rename(&new, dir).map_err(refusal(what()))?;
    files::sync_above(dir).map_err(refusal(what()))?;
    drop(held);
    Ok(())
}

/// Removes what an earlier attempt at making the store left, except the lock.
pub fn wipe(new: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(new)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// sled itself. Its own lock may be held a moment longer than ours.
pub fn start(dir: &Path, cache_bytes: u64) -> Result<::sled::Db, Error> {
    let config = ::sled::Config::new().path(dir).cache_capacity(cache_bytes).flush_every_ms(None);
    for _ in 1..LOCK_LOOKS {
        match config.open() {
            Err(::sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                std::thread::sleep(LOCK_WAIT / LOCK_LOOKS);
            }
            other => return other.map_err(failure),
        }
    }
    Err(Error::Locked(format!("{} is used by another process", dir.display())))
}

fn open_trees(dir: &Path, cache_bytes: u64) -> Result<Trees, Error> {
    let db = start(dir, cache_bytes)?;
    let tree = |name: &str| db.open_tree(name).map_err(failure);
    let trees = Trees {
        live: tree("live")?,
        jobs: tree("jobs")?,
        bodies: tree("bodies")?,
        events: tree("events")?,
        index: tree("index")?,
        keys: tree("keys")?,
        cells: tree("cells")?,
        file: File::options().write(true).open(dir.join("db")).map_err(refusal("cannot open the data file"))?,
        db,
    };
    trees.db.flush().map_err(failure)?;
    fault::point(Point::Opening);
    if !fault::is_broken(Breach::NoSyncAtOpen) {
        let synced = files::sync(dir).and_then(|()| files::sync_above(dir));
        synced.map_err(refusal(format!("cannot sync {}", dir.display())))?;
        opening::done(dir);
    }
    Ok(trees)
}

/// One of the store's own cells.
fn own<T: bincode::Decode<()>>(trees: &Trees, name: &[u8]) -> Result<Option<T>, Error> {
    let place = || format!("the cell {:?}", String::from_utf8_lossy(name));
    let bytes = trees.cells.get(name).map_err(failure)?;
    bytes.map(|bytes| codec::decode(Kind::Own, &bytes).map_err(|damage| damage.at(place()))).transpose()
}

/// Reads what writer and readers must know.
fn assemble(options: &Options, trees: Trees, lock: File) -> Result<Sled, Error> {
    let absent = |what: &str| Error::Corrupt { at: format!("the cell {what}"), why: "it is missing".into() };
    let format: u32 = own(&trees, keys::FORMAT)?.ok_or_else(|| absent("format"))?;
    format::check_cell(format)?;
    let epoch: Epoch = own(&trees, keys::EPOCH)?.ok_or_else(|| absent("epoch"))?;
    let (floor, mut last) = own::<(u64, u64)>(&trees, keys::STANDING)?.unwrap_or((1, 0));
    if let Some((key, bytes)) = trees.events.last().map_err(failure)? {
        let (_, chunk) = read::chunk(&key, &bytes)?;
        let newest = chunk.entries.last().map_or(0, |entry| entry.position.0);
        last = last.max(newest);
    }
    let mut types = std::collections::BTreeMap::new();
    for row in trees.cells.scan_prefix(keys::TYPE) {
        let (key, bytes) = row.map_err(failure)?;
        let row: TypeRow = codec::decode(Kind::Own, &bytes).map_err(|damage| damage.at("the row of a type"))?;
        types.insert(String::from_utf8_lossy(&key[keys::TYPE.len()..]).into(), row);
    }
    let newest_ended = trees.jobs.last().map_err(failure)?.and_then(|(key, _)| keys::job_id(&key));
    let bounds = Bounds { epoch, floor: Position(floor), last: Position(last) };
    let next = if fault::is_broken(Breach::PositionTwice) { bounds.last } else { bounds.last.next() };
    let writer = Writer {
        revisions: None,
        newest_ended,
        next: next.max(Position(1)),
        floor: bounds.floor,
        types,
        scratch: codec::Buffer::default(),
    };
    let bytes = files::size(&options.dir.join(FOLDER)).map_err(refusal("cannot look at the bodies"))?;
    Ok(Sled {
        options: options.clone(),
        trees: Mutex::new(Some(Arc::new(trees))),
        shown: Mutex::new(Shown { bounds, types: writer.shown_types(), in_flight: None }),
        writer: Mutex::new(Some(Box::new(writer))),
        body_bytes: AtomicU64::new(bytes),
        operations: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        on_failure: std::sync::OnceLock::new(),
        before_sync: None,
        pins: super::pin::Pins::default(),
        reached: None,
        lock: Mutex::new(Some(lock)),
    })
}

impl Sled {
    /// How far the store reaches now.
    pub(super) fn extent(&self, trees: &Trees) -> Extent {
        Extent::of(&self.shown().bounds, &trees.file)
    }

    /// Where something may be missing, everything is looked at before it is served; where ids may have been issued that
    /// are not known here, the log gets a new epoch, so that none is issued twice.
    fn settle_standing(&self, trees: &Trees, standing: &Standing, look: Look) -> Result<(), Error> {
        let dir = self.options.dir.display();
        let (doubt, is_other_log) = match standing {
            Standing::Kept => (None, false),
            Standing::Shorter => (Some(SHORTER), false),
            Standing::Copied { is_shorter } => (is_shorter.then_some(SHORTER), true),
            Standing::Unknown(why) => (Some(why.as_str()), true),
        };
        if let Some(doubt) = doubt.filter(|_| look == Look::Through) {
            tracing::warn!(%dir, doubt, "looking at all of the store before it is served, as `longhaul verify` does");
            verify::look_through(self, trees, verify::Files::Not)?.into_error(doubt).map_or(Ok(()), Err)?;
        }
        if is_other_log {
            let epoch = mint_epoch();
            trees.cells.insert(keys::EPOCH, codec::encode(Kind::Own, &epoch)).map_err(failure)?;
            trees.sync(super::Durability::Disk)?;
            let before = std::mem::replace(&mut self.shown().bounds.epoch, epoch);
            let why = doubt.unwrap_or("the directory is a copy that was put back");
            tracing::warn!(%dir, why, before = before.0, "the log gets a new epoch: readers with older cursors are told");
        }
        Ok(())
    }

    /// Removes files of large bodies that no record names: one look-up per file, whatever the history.
    fn sweep(&self, trees: &Trees) -> Result<(), Error> {
        let folder = self.options.dir.join(FOLDER);
        let what = || format!("cannot sweep {}", folder.display());
        for entry in fs::read_dir(&folder).map_err(refusal(what()))? {
            let entry = entry.map_err(refusal(what()))?;
            let named = file_named(&entry.file_name().to_string_lossy());
            let kept = match named {
                Some((job, part, seq)) => {
                    let large = |len: u64| len > BODY_SMALL_MAX as u64;
                    let names =
                        |job: &Job| job.bodies().any(|name| name.part == part && name.seq == seq && large(name.len));
                    self.read_job(trees, job)?.is_some_and(|head| names(&head.job))
                }
                // Somebody else's: not ours to remove.
                None => !is_unfinished(&entry.file_name().to_string_lossy()),
            };
            if !kept {
                tracing::info!(file = %entry.path().display(), "removing a body that no job names");
                fault::point(Point::BodySweeping);
                let bytes = entry.metadata().map_or(0, |data| data.len());
                fs::remove_file(entry.path()).map_err(refusal(what()))?;
                self.body_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
