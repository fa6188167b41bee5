//! That sled has replayed past something it could not read, noted until the store has been written anew.
//!
//! In: the store's directory, before sled opens it. Out: why what sled makes of it cannot be trusted, and a note of that.
//! sled's first opening takes the evidence with it: its new snapshot begins behind the place. What it made then may look
//! whole and not be: pages that miss a change may overlap or be cut off, so that a look-up finds what a walk does not meet.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use super::body::sync_folder;
use super::segments;

/// The note: that it is there says it all. A store that was written anew has none.
pub const FILE: &str = "DOUBT";
/// Most of a note that is read: ours are shorter.
const NOTE_MAX: u64 = 256;

/// Why what sled makes of this directory cannot be taken for all that was in it; `None` if it can. The note is on disk.
pub fn about(dir: &Path) -> io::Result<Option<String>> {
    if let Some(noted) = noted(&dir.join(FILE))? {
        return Ok(Some(format!("noted at an earlier opening: {noted}")));
    }
    let found = segments::suspicion(dir)?;
    if let Some(why) = &found {
        let mut note = File::create(dir.join(FILE))?;
        note.write_all(why.as_bytes())?;
        note.sync_all()?;
        sync_folder(dir)?;
    }
    Ok(found)
}

/// What the note says. Whatever else has its name counts as one, and is not opened.
fn noted(path: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {
            let mut note = Vec::new();
            File::open(path)?.take(NOTE_MAX).read_to_end(&mut note)?;
            Ok(Some(String::from_utf8_lossy(&note).escape_debug().to_string()))
        }
        Ok(_) => Ok(Some(format!("{FILE} is no file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
