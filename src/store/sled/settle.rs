//! What a kill during `compact` or `restore` leaves beside a store, put right.
//!
//! In: the place of a store. Out: the store that was there, and nothing beside it. The store's own place always tells which
//! step was reached: see `compact`.

use std::fs;
use std::path::Path;

use super::super::Error;
use super::make::{self, beside};
use super::{files, open, refusal};

/// Undoes the first of two steps in which `compact` changes two folders' places where the system has no single one.
pub fn undo(dir: &Path) -> Result<(), Error> {
    let old = beside(dir, make::OLD);
    if !open::is_absent(dir)? || open::is_absent(&old)? {
        return Ok(());
    }
    tracing::warn!(dir = %dir.display(), "a compaction was cut short: the store as it was is put back");
    match fs::rename(&old, dir) {
        Ok(()) => files::sync_above(dir).map_err(refusal(format!("cannot sync what is above {}", dir.display()))),
        // Another process that starts was quicker.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refusal(format!("cannot put {} back", dir.display()))(error)),
    }
}

/// Whether there is no store in that place, nor one that `undo` would put there.
///
/// # Errors
/// `Error::Unavailable` if that cannot be seen.
pub fn is_absent(dir: &Path) -> Result<bool, Error> {
    Ok(open::is_absent(dir)? && open::is_absent(&beside(dir, make::OLD))?)
}

/// Removes what is left over beside a store whose lock is held. What cannot be removed is said, and harms nobody.
pub fn clear(dir: &Path) {
    for purpose in [make::COMPACTED, make::OLD, make::RESTORED] {
        let left = beside(dir, purpose);
        if !left.exists() {
            continue;
        }
        tracing::info!(folder = %left.display(), "removing what a compaction or a restore left over");
        if let Err(error) = fs::remove_dir_all(&left) {
            tracing::warn!(%error, folder = %left.display(), "cannot remove it");
        }
    }
}
