//! What a directory is, and in which layout: a file in words for people and for other versions, and a cell.
//!
//! In: a store's directory. Out: whether this longhaul can read it, and, once it is open for use, the present format. Each
//! format reads what those before it wrote, so that nothing is rewritten: from here on the store may hold both.
//!
//! - 1: a row of ends for each job; each payload is a body.
//! - 2: rows of ends are shared (`ends`); records carry small payloads (`job::Carried`).

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::super::codec::{self, Kind};
use super::super::{Durability, Error};
use super::body::sync_folder;
use super::{Trees, failure, keys, refusal};

/// The layout of records and keys that is written.
pub const FORMAT: u32 = 2;
/// The oldest one that is read.
const FORMAT_FIRST: u32 = 1;
/// The file that says what the directory is.
pub const MARKER: &str = "FORMAT";
/// What it is called until all of it is on disk.
const UNFINISHED: &str = "FORMAT.new";

/// What a new store's file says.
pub fn marker() -> String {
    marker_of(FORMAT)
}

fn marker_of(format: u32) -> String {
    format!("longhaul store, format {format}\n")
}

/// Whether the file says a format that is read here.
pub fn check_marker(dir: &Path) -> Result<(), Error> {
    let corrupt = |why: String| Error::Corrupt { at: dir.display().to_string(), why };
    match fs::read(dir.join(MARKER)) {
        Ok(bytes) if (FORMAT_FIRST..=FORMAT).any(|format| bytes == marker_of(format).as_bytes()) => Ok(()),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let found = text.lines().next().unwrap_or_default().chars().take(80).collect::<String>();
            Err(corrupt(format!(
                "its {MARKER} says {found:?}, and this longhaul reads formats {FORMAT_FIRST} to {FORMAT} only. Use the \
                 longhaul that wrote it, or its `backup` and this one's `restore`"
            )))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(corrupt(format!(
            "it is not empty, and no store of longhaul: there is no {MARKER} file. Name another data directory, or put it \
             back from a backup"
        ))),
        Err(error) => Err(refusal(format!("cannot read {}", dir.join(MARKER).display()))(error)),
    }
}

/// Whether the cell says a format that is read here.
pub fn check_cell(format: u32) -> Result<(), Error> {
    if (FORMAT_FIRST..=FORMAT).contains(&format) {
        return Ok(());
    }
    let why = format!("it says {format}, not {FORMAT_FIRST} to {FORMAT}");
    Err(Error::Corrupt { at: "the cell format".into(), why })
}

/// Says the present format where an older one stands, before anything is written in it. A kill in between leaves a store
/// that this longhaul opens, and that an older one refuses.
pub fn upgrade(dir: &Path, trees: &Trees) -> Result<(), Error> {
    let path = dir.join(MARKER);
    let what = || format!("cannot write {}", path.display());
    if fs::read(&path).map_err(refusal(what()))? == marker().as_bytes() {
        return Ok(());
    }
    trees.cells.insert(keys::FORMAT, codec::encode(Kind::Own, &FORMAT)).map_err(failure)?;
    trees.sync(Durability::Disk)?;
    let write = || {
        let new = dir.join(UNFINISHED);
        let mut file = File::create(&new)?;
        file.write_all(marker().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync_folder(dir)
    };
    write().map_err(refusal(what()))?;
    tracing::info!(dir = %dir.display(), format = FORMAT, "the store was of an older format, and is of this one now");
    Ok(())
}
