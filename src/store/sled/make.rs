//! Stores made apart and moved into place: new ones, restored ones, compacted ones.
//!
//! In: the place where a store shall be. Out: a folder beside it to fill, which becomes that place in one step or goes again.
//! A kill at any moment leaves the place as it was, and beside it at most a folder that the next start removes.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::super::codec::{self, Kind};
use super::super::{Bounds, Error};
use super::body::FOLDER;
use super::reached::{Extent, Reached};
use super::{contained, failure, files, format, keys, open, refusal, segments};
use crate::job::{Epoch, Position};

/// A store that is being restored.
pub const RESTORED: &str = "restore";
/// A store that is being compacted, or, once that has taken its place, the old one.
pub const COMPACTED: &str = "compact";
/// The old store, where two folders cannot change places in one step.
pub const OLD: &str = "old";

/// The folder beside `dir` for a purpose.
pub fn beside(dir: &Path, purpose: &str) -> PathBuf {
    let mut path = dir.to_path_buf();
    path.set_file_name(format!("{}.{purpose}", dir.file_name().unwrap_or_default().to_string_lossy()));
    path
}

/// The folders above `dir` that are not there yet, the nearest first.
fn absent_above(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let dir = std::path::absolute(dir)?;
    Ok(dir.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Into::into).collect())
}

/// Makes a store's folder, and those above that are not there: these for their owner alone, as they hold payloads and secrets. Whoever wants
/// more readers makes the data directory before.
pub fn folder(dir: &Path) -> std::io::Result<()> {
    if let Some(above) = dir.parent().filter(|above| !above.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    fs::create_dir_all(dir)
}

/// An empty store of that epoch, closed, in a folder that is there. Not synced.
pub fn empty(new: &Path, epoch: Epoch) -> Result<(), Error> {
    let what = || format!("cannot make {}", new.display());
    contained(|| {
        fs::create_dir_all(new.join(FOLDER)).map_err(refusal(what()))?;
        let db = open::start(new, 1024 * 1024)?;
        for tree in ["live", "jobs", "bodies", "events", "index", "keys"] {
            db.open_tree(tree).map_err(failure)?;
        }
        let cells = db.open_tree("cells").map_err(failure)?;
        cells.insert(keys::FORMAT, codec::encode(Kind::Own, &format::FORMAT)).map_err(failure)?;
        cells.insert(keys::EPOCH, codec::encode(Kind::Own, &epoch)).map_err(failure)?;
        db.flush().map_err(failure)?;
        drop((db, cells));
        let data = File::open(new.join(segments::DATA)).map_err(refusal(what()))?;
        let bounds = Bounds { epoch, floor: Position(1), last: Position::ZERO };
        Reached::anew(new, &Extent::of(&bounds, &data)).map(drop).map_err(refusal(what()))
    })?;
    fs::write(new.join(format::MARKER), format::marker()).map_err(refusal(what()))
}

/// A folder beside a store's place, locked, being filled. Removed with all that was made for it unless it is moved in.
pub struct Apart {
    /// Where the store shall be.
    pub dir: PathBuf,
    /// Where it is made.
    pub new: PathBuf,
    /// Folders above that were made for it, the nearest first.
    made: Vec<PathBuf>,
    moved: bool,
}

impl Apart {
    /// An empty folder for a purpose. Answers its lock as well.
    pub fn begin(dir: &Path, purpose: &str) -> Result<(Self, File), Error> {
        let new = beside(dir, purpose);
        let what = || format!("cannot make {}", new.display());
        let made = absent_above(dir).map_err(refusal(what()))?;
        folder(&new).map_err(refusal(what()))?;
        let lock = open::lock(&new)?;
        let apart = Self { dir: dir.to_path_buf(), new: new.clone(), made, moved: false };
        open::wipe(&apart.new).map_err(refusal(what()))?;
        Ok((apart, lock))
    }

    /// Puts all of it on disk.
    pub fn sync(&self) -> Result<(), Error> {
        files::sync(&self.new).map_err(refusal(format!("cannot sync {}", self.new.display())))
    }

    /// Gives it its place, where nothing or an empty folder is. It must be synced.
    pub fn move_in(mut self) -> Result<(), Error> {
        let what = || format!("cannot make {}", self.dir.display());
        fs::rename(&self.new, &self.dir).map_err(refusal(what()))?;
        self.moved = true;
        self.sync_above()
    }

    /// It has its place by other means: makes that last.
    pub fn keep(mut self) -> Result<(), Error> {
        self.moved = true;
        self.sync_above()
    }

    /// Puts the names above it on disk.
    fn sync_above(&self) -> Result<(), Error> {
        files::sync_above(&self.dir).map_err(refusal(format!("cannot sync what is above {}", self.dir.display())))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if self.moved {
            return;
        }
        // What cannot be removed now goes with the next start.
        let _ = fs::remove_dir_all(&self.new);
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Payloads and secrets were there for every user of the machine to read.
    #[test]
    fn a_data_directory_that_is_made_is_its_owners_alone_and_one_that_is_there_stays_as_it_is() {
        let folder_of = tempfile::tempdir().expect("a folder");
        let there = folder_of.path().join("there");
        fs::create_dir(&there).expect("made");
        fs::set_permissions(&there, PermissionsExt::from_mode(0o755)).expect("set");
        folder(&there.join("data/store")).expect("made");
        folder(&there.join("store")).expect("made");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&there), mode(&there.join("data"))), (0o755, 0o700));
    }
}
