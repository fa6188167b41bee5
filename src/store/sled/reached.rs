//! How far the log is known to reach, kept beside sled's files.
//!
//! In: the log's end, when the store is opened and when it is closed. Out: a refusal if less than that is found. sled takes
//! what it can read of a damaged `db` file for all there is; this tells a rollback from a store, before anything of it is
//! served, numbered again or swept away. Between a start and a kill it does not move: it is a lower bound.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::super::{Bounds, Error};
use super::body::sync_folder;
use super::refusal;
use crate::job::EventId;

/// The file, one line: the event id of the last entry.
const FILE: &str = "REACHED";

/// Whether the log reaches as far as it is known to have reached.
pub fn check(dir: &Path, found: &Bounds) -> Result<(), Error> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        // A store that has never been closed or opened again.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refusal(format!("cannot read {}", path.display()))(error)),
    };
    let found = EventId { epoch: found.epoch, position: found.last };
    let damaged = |why: String| Error::Corrupt { at: format!("the file {FILE}"), why };
    let known: EventId = text.trim_end().parse().map_err(|_| damaged("it holds no event id".into()))?;
    if known.epoch == found.epoch && known.position <= found.position {
        return Ok(());
    }
    Err(damaged(format!("the log had reached {known} and now ends at {found}: entries are lost")))
}

/// Notes how far the log reaches: everything up to there must be synced. Durable when it returns. A disk that has no room
/// for it leaves the last note in place, which is as true, and keeps nobody from serving.
pub fn note(dir: &Path, bounds: &Bounds) {
    let write = || -> std::io::Result<()> {
        let new = dir.join(format!("{FILE}.new"));
        let mut file = File::create(&new)?;
        writeln!(file, "{}", EventId { epoch: bounds.epoch, position: bounds.last })?;
        file.sync_all()?;
        fs::rename(&new, dir.join(FILE))?;
        sync_folder(dir)
    };
    if let Err(error) = write() {
        tracing::warn!(%error, dir = %dir.display(), "cannot write {FILE}");
    }
}
