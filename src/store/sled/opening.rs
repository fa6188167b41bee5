//! What stood at the end of sled's log when an opening began, noted until that opening is on disk.
//!
//! While sled opens, it writes a snapshot, gives it its name, and zeroes the segments of which the snapshot needs nothing any
//! more; whether the disk takes the name or the zeroes first is left to the disk. A power cut may leave the zeroes and not the
//! name. The next opening then replays from the older snapshot, finds a segment missing at the end of the log, and takes that
//! for the end: what was synced behind it would be gone. So the segments there are noted before. One that is missing
//! afterwards held nothing that later ones do not hold again, and an empty one is put in its place.
//!
//! In: the store's directory, before sled has opened it and once that is on disk. Out: a note, or a log without gaps. A note that
//! is left over harms nothing: a newer snapshot begins behind all but the last that it names, and the last is never touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::super::codec::{self, Kind};
use super::body::sync_folder;
use super::segments::{self, DATA, SEGMENT, Segments};

/// The note.
pub const FILE: &str = "OPENING";
/// What it is called until all of it is on disk.
const UNFINISHED: &str = "OPENING.new";
/// Most segments that are noted; sled's log has some three that it has not called stable.
const NOTED_MAX: usize = 64;

/// Makes good what an opening that was cut short has left, and notes what stands there now, all of it on disk.
pub fn begin(dir: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(dir.join(DATA))?;
    mend(dir, &file)?;
    file.sync_all()?;
    let new = dir.join(UNFINISHED);
    let mut note = File::create(&new)?;
    note.write_all(&codec::encode(Kind::Own, &ends(dir, &file)?))?;
    note.sync_all()?;
    fs::rename(&new, dir.join(FILE))?;
    sync_folder(dir)
}

/// The opening is on disk.
pub fn done(dir: &Path) {
    // Left over, it harms nothing.
    let _ = fs::remove_file(dir.join(FILE));
}

/// The places at the end of the log, as far as they follow each other and can be read; the last may be cut anywhere.
fn ends(dir: &Path, file: &File) -> io::Result<Vec<u64>> {
    let segments = Segments::of(dir, file)?;
    let mut places = Vec::new();
    for (expected, (place, at)) in (0..NOTED_MAX as u64).zip(segments.replayed.range(segments.tail..)) {
        if *place != segments.tail + expected * SEGMENT {
            break;
        }
        places.push(*place);
        if segments::unreadable(file, *at, *place)?.is_some() {
            break;
        }
    }
    Ok(places)
}

/// Puts an empty segment where one was noted and is gone.
fn mend(dir: &Path, file: &File) -> io::Result<()> {
    let note = match fs::read(dir.join(FILE)) {
        Ok(note) => note,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // It got its name once it was on disk: what cannot be read was put there by somebody else.
    let Ok(noted) = codec::decode::<Vec<u64>>(Kind::Own, &note) else { return Ok(()) };
    let mut segments = Segments::of(dir, file)?;
    let Some((last, before)) = noted.split_last() else { return Ok(()) };
    if !segments.replayed.contains_key(last) {
        return Ok(());
    }
    let from = segments.from;
    for place in before.iter().filter(|place| **place >= from) {
        let there = segments.replayed.get(place).copied();
        let at = match there {
            Some(at) if segments::unreadable(file, at, *place)?.is_none() => continue,
            Some(at) => Some(at),
            None => segments.unused.pop(),
        };
        let Some(at) = at else { return Ok(()) };
        tracing::warn!(place, at, "an opening was cut short: a segment that it no longer needed is put back, empty");
        file.write_all_at(&segments::empty(*place), at)?;
    }
    Ok(())
}
