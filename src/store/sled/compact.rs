//! Compacting: the same store rewritten into a fresh folder, which then takes the old one's place.
//!
//! In: the place of a store that nobody uses. Out: the same epoch, positions and bytes of every record, in less space. What is
//! in the store's own place is whole at every moment but one, and that one the next start undoes:
//!
//! 1. `store.compact` is made, verified and synced; until then a kill leaves the store as it was, and a folder beside it.
//! 2. The two change places in one step (`RENAME_EXCHANGE`). Before and after it, `store` is whole, old or new.
//! 3. Where the system cannot do that: `store` becomes `store.old`, then `store.compact` becomes `store`. A kill between the
//!    two leaves no `store`, and `settle::undo` puts `store.old` back.
//! 4. The folder above is synced; only then the old store is removed.
//!
//! Files of large bodies are linked, not copied: both folders have them, and removing the old one removes a name.

use std::fs::{self, File};
use std::path::Path;

use ::sled::Batch;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::{Bounds, Durability, Error, Store};
use super::body::{FOLDER, file_named};
use super::make::{self, Apart, beside};
use super::verify::{self, Files};
use super::{Options, Sled, Trees, failure, files, format, keys, open, refusal, settle};
use crate::fault::{self, Point};

/// Bytes of keys and values that are written at once.
const BATCH_BYTES: usize = 1024 * 1024;
/// Bytes of pages that sled keeps in memory meanwhile, for each of the two stores.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes before.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
    /// The log, which is as it was.
    pub bounds: Bounds,
}

/// Compacts the store in `dir`. Blocks for as long as that takes.
pub fn compact(dir: &Path) -> Result<Compacted, Error> {
    anew(dir, Files::Too)
}

/// The same; with `Files::Not` a store of which only files of large bodies are damaged is written anew too.
pub fn anew(dir: &Path, files: Files) -> Result<Compacted, Error> {
    settle::undo(dir)?;
    if open::is_absent(dir)? {
        return Err(Error::Unavailable(format!("there is no store at {}", dir.display())));
    }
    format::check_marker(dir)?;
    // The old store's lock is held until it is gone: it keeps everybody out of the new one as well, because who waits for
    // it looks again where it is.
    let lock = open::lock(dir)?;
    let kept = lock.try_clone().map_err(refusal(format!("cannot hold {}", dir.display())))?;
    settle::clear(dir);
    let (apart, new_lock) = Apart::begin(dir, make::COMPACTED)?;
    let before = size(dir)?;
    let bounds = rewrite(dir, lock, &apart.new, new_lock)?;
    fault::point(Point::CompactFilled);
    check(dir, &apart.new, files)?;
    apart.sync()?;
    let after = size(&apart.new)?;
    fault::point(Point::CompactSynced);
    let new_lock = open::lock(&apart.new)?;
    let old = swap(&apart)?;
    fault::point(Point::CompactSwapped);
    apart.keep()?;
    fault::point(Point::CompactKept);
    // It is a copy of what is in its place: what cannot be removed now goes with the next start.
    if let Err(error) = fs::remove_dir_all(&old) {
        tracing::warn!(%error, folder = %old.display(), "the old store cannot be removed yet");
    }
    drop((kept, new_lock));
    Ok(Compacted { before, after, bounds })
}

fn size(dir: &Path) -> Result<u64, Error> {
    let what = || format!("cannot look at {}", dir.display());
    let bodies = files::size(&dir.join(FOLDER)).map_err(refusal(what()))?;
    Ok(files::size(dir).map_err(refusal(what()))? + bodies)
}

/// Opens both, copies, closes both. Their locks are given up with that; the caller's own copy of the old one stays.
fn rewrite(dir: &Path, lock: File, new: &Path, new_lock: File) -> Result<Bounds, Error> {
    let options =
        |dir: &Path| Options { dir: dir.to_path_buf(), cache_bytes: CACHE_BYTES, durability: Durability::Process };
    let old = open::open_to_copy(&options(dir), lock)?;
    let bounds = old.bounds();
    make::empty(new, bounds.epoch)?;
    let copy = open::open_held(&options(new), new_lock)?;
    let copied = old.with_trees(|from| {
        copy.with_trees(|to| {
            copy_trees(from, to)?;
            to.sync(Durability::Process)
        })
    });
    let linked = copied.map_err(|error| open::advise(dir, error)).and_then(|()| link_bodies(&old, new));
    copy.set_last(bounds);
    let closed = copy.close();
    old.close()?;
    linked?;
    closed?;
    Ok(bounds)
}

fn copy_trees(from: &Trees, to: &Trees) -> Result<(), Error> {
    let pairs = [
        (&from.live, &to.live),
        (&from.jobs, &to.jobs),
        (&from.bodies, &to.bodies),
        (&from.events, &to.events),
        (&from.index, &to.index),
        (&from.keys, &to.keys),
        (&from.cells, &to.cells),
    ];
    for (from, to) in pairs {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        let mut met = 0;
        for row in from {
            let (key, value) = row.map_err(failure)?;
            met += 1;
            bytes += key.len() + value.len();
            batch.insert(key, value);
            if bytes >= BATCH_BYTES {
                to.apply_batch(std::mem::take(&mut batch)).map_err(failure)?;
                bytes = 0;
            }
        }
        to.apply_batch(batch).map_err(failure)?;
        // A page that lacks a change may cut a walk short, and then only in one direction.
        if from.iter().rev().count() != met {
            let why = "a walk from its end does not meet what one from its beginning meets";
            return Err(Error::Corrupt {
                at: format!("tree {}", String::from_utf8_lossy(&from.name())),
                why: why.into(),
            });
        }
    }
    // The cells of the old store say its epoch, and the empty one began with that.
    match to.cells.get(keys::EPOCH).map_err(failure)? == from.cells.get(keys::EPOCH).map_err(failure)? {
        true => Ok(()),
        false => Err(Error::Corrupt { at: "the cell epoch".into(), why: "it changed while it was copied".into() }),
    }
}

/// Gives the new store every large body that a record names.
fn link_bodies(old: &Sled, new: &Path) -> Result<(), Error> {
    let folder = old.options.dir.join(FOLDER);
    let what = || format!("cannot link what is in {}", folder.display());
    for entry in fs::read_dir(&folder).map_err(refusal(what()))? {
        let entry = entry.map_err(refusal(what()))?;
        let name = entry.file_name();
        if file_named(&name.to_string_lossy()).is_none() {
            continue;
        }
        let to = new.join(FOLDER).join(&name);
        if fs::hard_link(entry.path(), &to).is_err() {
            // A system without links.
            fs::copy(entry.path(), &to).and_then(|_| File::open(&to)?.sync_all()).map_err(refusal(what()))?;
        }
    }
    Ok(())
}

/// The copy is as whole as a store can be; so was the old one then.
fn check(dir: &Path, new: &Path, files: Files) -> Result<(), Error> {
    let report = verify::of(new, files)?;
    report.into_error("the store was left as it was").map_or(Ok(()), |damage| Err(open::advise(dir, damage)))
}

/// Gives the new store the old one's place. Answers where the old one is now.
fn swap(apart: &Apart) -> Result<std::path::PathBuf, Error> {
    let (dir, new) = (&apart.dir, &apart.new);
    let what = || format!("cannot put the new store in the place of {}", dir.display());
    let one_step = if fault::is_broken(fault::Breach::NoExchange) {
        Err(rustix::io::Errno::NOSYS)
    } else {
        renameat_with(CWD, new, CWD, dir, RenameFlags::EXCHANGE)
    };
    match one_step {
        Ok(()) => return Ok(new.clone()),
        // The system or the file system has no such step.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => {}
        Err(error) => return Err(refusal(what())(error.into())),
    }
    let old = beside(dir, make::OLD);
    fs::rename(dir, &old).map_err(refusal(what()))?;
    fault::point(Point::CompactHalfway);
    if let Err(error) = fs::rename(new, dir) {
        // Back to how it was; if even that fails, the next start does it.
        let _ = fs::rename(&old, dir);
        return Err(refusal(what())(error));
    }
    Ok(old)
}

impl Sled {
    /// The copied log, for the note of how far it reaches.
    fn set_last(&self, bounds: Bounds) {
        self.shown().bounds = bounds;
    }
}

#[cfg(test)]
mod tests;
