//! The store's directory as files: what is there, how much, and that all of it is on disk.
//!
//! In: paths. Out: sizes, synced files. Never reads what is inside them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::{Error, Health};
use super::body::{FOLDER, sync_folder};
use super::refusal;

/// How the store is.
pub fn health(dir: &Path, body_bytes: u64) -> Result<Health, Error> {
    let disk = rustix::fs::statvfs(dir).map_err(|e| refusal(format!("cannot look at {}", dir.display()))(e.into()))?;
    let own = size(dir).map_err(refusal(format!("cannot look at {}", dir.display())))?;
    Ok(Health {
        store_bytes: own + body_bytes,
        disk_free: disk.f_bavail.saturating_mul(disk.f_frsize),
        disk_size: disk.f_blocks.saturating_mul(disk.f_frsize),
    })
}

/// Bytes of the files right in a folder; one that goes meanwhile counts nothing.
pub fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata().ok().filter(fs::Metadata::is_file).map_or(0, |data| data.len());
    }
    Ok(bytes)
}

/// Puts every file and folder of the store on disk. Files of large bodies were synced by those who brought them.
pub fn sync(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        } else if entry.file_name() == FOLDER {
            sync_folder(&entry.path())?;
        } else if kind.is_dir() {
            // Links and pipes are somebody else's.
            sync(&entry.path())?;
        }
    }
    sync_folder(dir)
}

/// Puts the names of the store's directory and of the folders above on disk: a server that made or moved one may have died
/// before it did so itself. Ends where the disk does, and where the folders are no longer ours.
pub fn sync_above(dir: &Path) -> io::Result<()> {
    let disk = fs::metadata(dir)?.dev();
    for folder in fs::canonicalize(dir)?.ancestors().skip(1) {
        if fs::metadata(folder)?.dev() != disk {
            return Ok(());
        }
        match sync_folder(folder) {
            // What we may not read, we have not changed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            synced => synced?,
        }
    }
    Ok(())
}

/// Removes what a kill during sled's start leaves behind: sled takes it for a broken snapshot and refuses to open.
pub fn remove_unfinished_snapshots(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!(file = %entry.path().display(), "removing a snapshot that a kill left unfinished");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
