//! How far the log is known to reach, kept beside sled's files, and by which file: a restored copy is known by it.
//!
//! In: the log's end, each time it is synced. Out: a refusal where less than that is found. sled takes what it can read of
//! a damaged `db` file for all there is; this tells a rollback from a store, before anything of it is served, numbered
//! again or swept away. The record is overwritten in place behind each sync, itself unsynced: after the death of the
//! process it is exact, after a power cut it may be behind, and it is never ahead.
//!
//! The file is made anew at each start and says when it was born. Whoever puts an older copy of the directory back makes
//! another file, or writes the old record into the file of a later start: either way the birth is not the one it says.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use super::super::{Bounds, Error};
use super::body::sync_folder;
use super::refusal;
use crate::fault::{self, Breach};
use crate::job::{Epoch, EventId, Position};

/// The file.
pub const FILE: &str = "REACHED";
/// All of it, within one sector, so that no power cut leaves half a record.
const SIZE: usize = 512;

/// When a file was made, as its file system tells it; `UNTOLD` where that tells none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Birth {
    seconds: u64,
    nanos: u32,
}

const UNTOLD: Birth = Birth { seconds: 0, nanos: 0 };

impl Birth {
    fn of(file: &File) -> io::Result<Self> {
        let since = file.metadata()?.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(since.map_or(UNTOLD, |since| Self { seconds: since.as_secs(), nanos: since.subsec_nanos() }))
    }
}

/// How far the store reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The last entry.
    pub last: EventId,
    /// Bytes of sled's data file.
    pub data: u64,
}

impl Extent {
    /// Of this log in this data file.
    pub fn of(bounds: &Bounds, data: &File) -> Self {
        let last = EventId { epoch: bounds.epoch, position: bounds.last };
        Self { last, data: data.metadata().map_or(0, |data| data.len()) }
    }
}

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    extent: Extent,
    birth: Birth,
}

impl Record {
    fn text(&self) -> String {
        let Extent { last: EventId { epoch: Epoch(epoch), position: Position(position) }, data } = self.extent;
        let Birth { seconds, nanos } = self.birth;
        let said = format!("reached {epoch:08x}-{position:020}, data {data:020}, file born {seconds:020}.{nanos:09}");
        let checksum = crc32fast::hash(said.as_bytes());
        format!("{:<width$}\n", format!("{said}, checksum {checksum:08x}"), width = SIZE - 1)
    }

    fn parse(text: &str) -> Option<Self> {
        let (said, checksum) = text.trim_end().rsplit_once(", checksum ")?;
        let (extent, birth) = said.strip_prefix("reached ")?.split_once(", file born ")?;
        let (last, data) = extent.split_once(", data ")?;
        let (epoch, position) = last.split_once('-')?;
        let (seconds, nanos) = birth.split_once('.')?;
        let last =
            EventId { epoch: Epoch(u32::from_str_radix(epoch, 16).ok()?), position: Position(position.parse().ok()?) };
        let extent = Extent { last, data: data.parse().ok()? };
        let record = Self { extent, birth: Birth { seconds: seconds.parse().ok()?, nanos: nanos.parse().ok()? } };
        // Only what is written back exactly so, with its checksum, was written by us.
        (record.text() == text && format!("{:08x}", crc32fast::hash(said.as_bytes())) == checksum).then_some(record)
    }
}

/// What is known from the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The log reaches as far as it did.
    Kept,
    /// It does, and the data file is shorter than it was, which sled may have made it.
    Shorter,
    /// It does, and this is another directory than the one that it was: a copy that was put back.
    Copied {
        /// The data file is shorter than it was, too.
        is_shorter: bool,
    },
    /// Nothing is known, for this reason.
    Unknown(String),
}

/// Compares the log with what is known of it.
///
/// # Errors
/// `Error::Corrupt` if it reaches less far; `Error::Unavailable` if the disk refuses.
pub fn check(dir: &Path, found: &Extent) -> Result<Standing, Error> {
    let path = dir.join(FILE);
    let what = || format!("cannot read {}", path.display());
    let unknown = |why: &str| Ok(Standing::Unknown(format!("the file {FILE} {why}")));
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return unknown("is missing"),
        Err(error) => return Err(refusal(what())(error)),
    };
    let mut bytes = [0; SIZE];
    let is_whole = file.metadata().map_err(refusal(what()))?.len() == SIZE as u64;
    if !is_whole || file.read_exact_at(&mut bytes, 0).is_err() {
        return unknown("has not its length");
    }
    let Some(known) = std::str::from_utf8(&bytes).ok().and_then(Record::parse) else {
        return unknown("is damaged");
    };
    let birth = Birth::of(&file).map_err(refusal(what()))?;
    let is_another = known.birth != UNTOLD && birth != UNTOLD && known.birth != birth;
    let is_copy = is_another && !fault::is_broken(Breach::CopyUnnoticed);
    let (was, is) = (known.extent.last, found.last);
    // A kill after a copy got its new epoch and before this file did leaves the old one here.
    if was.position > is.position || (!is_copy && was.epoch != is.epoch) {
        let why = format!("the log had reached {was} and now ends at {is}: entries are lost");
        return Err(Error::Corrupt { at: format!("the file {FILE}"), why });
    }
    Ok(match (is_copy, known.extent.data > found.data) {
        (true, is_shorter) => Standing::Copied { is_shorter },
        (false, true) => Standing::Shorter,
        (false, false) => Standing::Kept,
    })
}

/// The open file.
pub struct Reached {
    file: File,
    birth: Birth,
    has_complained: AtomicBool,
}

impl Reached {
    /// Makes the file anew, durably: everything up to the log's end must be synced. On a disk that has no room the one
    /// that is there is written over, so that a full disk keeps nobody from serving.
    pub fn make(dir: &Path, extent: &Extent) -> Option<Self> {
        let made = Self::anew(dir, extent).or_else(|error| {
            tracing::warn!(%error, dir = %dir.display(), "cannot make {FILE} anew");
            let file = File::options().write(true).open(dir.join(FILE))?;
            Self::begin(file, extent)
        });
        made.inspect_err(|error| tracing::warn!(%error, dir = %dir.display(), "cannot write {FILE}")).ok()
    }

    /// Makes the file anew, or says why not.
    pub fn anew(dir: &Path, extent: &Extent) -> io::Result<Self> {
        let new = dir.join(format!("{FILE}.new"));
        // Not written over: it shall be born now.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let made = Self::begin(File::create_new(&new)?, extent)?;
        fs::rename(&new, dir.join(FILE))?;
        sync_folder(dir)?;
        Ok(made)
    }

    fn begin(file: File, extent: &Extent) -> io::Result<Self> {
        let reached = Self { birth: Birth::of(&file)?, file, has_complained: AtomicBool::new(false) };
        reached.write(extent)?;
        reached.file.sync_all()?;
        Ok(reached)
    }

    fn write(&self, extent: &Extent) -> io::Result<()> {
        let record = Record { extent: *extent, birth: self.birth };
        self.file.write_all_at(record.text().as_bytes(), 0)
    }

    /// Notes that everything up to here is synced. Itself it is not: a write into what is there already.
    pub fn note(&self, extent: &Extent) {
        if let Err(error) = self.write(extent)
            && !self.has_complained.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "cannot write {FILE}: it will be behind");
        }
    }

    /// The same, durably.
    pub fn settle(&self, extent: &Extent) {
        self.note(extent);
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "cannot sync {FILE}: it may be behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(epoch: u32, last: u64) -> Extent {
        Extent { last: EventId { epoch: Epoch(epoch), position: Position(last) }, data: 9 }
    }

    fn made(last: u64) -> (tempfile::TempDir, Reached) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let reached = Reached::make(dir.path(), &extent(0xab, last)).expect("made");
        (dir, reached)
    }

    #[test]
    fn a_log_that_reaches_less_far_is_refused_and_one_that_reaches_further_is_not() {
        let (dir, reached) = made(5);
        let standing = |last| check(dir.path(), &extent(0xab, last));
        assert_eq!(standing(5).expect("kept"), Standing::Kept);
        assert!(standing(4).is_err());
        reached.note(&extent(0xab, u64::MAX));
        assert!(standing(6).is_err());
        assert_eq!(standing(u64::MAX).expect("kept"), Standing::Kept);
        assert!(check(dir.path(), &extent(0xac, u64::MAX)).is_err(), "another log");
        let shorter = Extent { data: 8, ..extent(0xab, u64::MAX) };
        assert_eq!(check(dir.path(), &shorter).expect("kept"), Standing::Shorter);
    }

    #[test]
    fn any_other_byte_is_no_record() {
        let (dir, _) = made(5);
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).expect("there");
        assert_eq!(whole.len(), SIZE);
        for at in 0..SIZE {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("written");
            let standing = check(dir.path(), &extent(0xab, 9)).expect("no refusal");
            assert!(matches!(standing, Standing::Unknown(_)), "byte {at}: {standing:?}");
        }
        for bytes in [&whole[..0], &whole[..100], &[&whole[..], b"x"].concat()] {
            fs::write(&path, bytes).expect("written");
            assert!(matches!(check(dir.path(), &extent(0xab, 9)), Ok(Standing::Unknown(_))));
        }
        fs::remove_file(&path).expect("removed");
        assert!(matches!(check(dir.path(), &extent(0xab, 9)), Ok(Standing::Unknown(_))));
    }

    #[test]
    fn a_copy_is_known_by_its_birth_whether_it_is_a_new_file_or_written_over_a_later_one() {
        let (dir, reached) = made(5);
        if reached.birth == UNTOLD {
            return;
        }
        let path = dir.path().join(FILE);
        let copy = fs::read(&path).expect("there");
        drop(reached);
        let later = Reached::make(dir.path(), &extent(0xab, 8)).expect("made");
        assert_eq!(check(dir.path(), &extent(0xab, 8)).expect("kept"), Standing::Kept);
        later.file.write_all_at(&copy, 0).expect("put back");
        assert_eq!(check(dir.path(), &extent(0xab, 5)).expect("kept"), Standing::Copied { is_shorter: false });
        fs::remove_file(&path).expect("removed");
        fs::write(&path, &copy).expect("put back");
        assert_eq!(check(dir.path(), &extent(0xab, 5)).expect("kept"), Standing::Copied { is_shorter: false });
        assert_eq!(
            check(dir.path(), &extent(0xac, 5)).expect("kept"),
            Standing::Copied { is_shorter: false },
            "killed in between"
        );
        assert!(check(dir.path(), &extent(0xac, 4)).is_err(), "half a copy");
        let half = Extent { data: 8, ..extent(0xab, 5) };
        assert_eq!(check(dir.path(), &half).expect("kept"), Standing::Copied { is_shorter: true });
    }
}
