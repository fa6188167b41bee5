//! A disk as it may be after a power cut: the model that `power.rs` describes.
//!
//! In: records, up to the cut. Out: a directory. Holds for each inode what is safe and what is not yet, and for a folder its
//! names likewise; chance decides about the rest.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::chance::Chance;
use super::record::{EVERYTHING, Record};

/// What a disk reads and writes as a whole.
const SECTOR: usize = 512;

/// A change of a file that is not safe yet.
enum Change<'a> {
    Write { offset: usize, data: Cow<'a, [u8]> },
    Resize { len: usize },
}

/// A change of a folder that is not safe yet.
enum Naming {
    Gets { name: OsString, inode: usize },
    Loses { name: OsString },
    Moves { from: OsString, to: OsString },
}

enum Kind<'a> {
    File { safe: Vec<u8>, pending: Vec<Change<'a>> },
    Folder { now: Names, safe: Names, pending: Vec<Naming> },
}

type Names = BTreeMap<OsString, usize>;

/// A file or folder.
struct Inode<'a> {
    kind: Kind<'a>,
    /// How many changes have become safe.
    settled: usize,
}

impl Inode<'_> {
    fn new(is_folder: bool) -> Self {
        let kind = if is_folder {
            Kind::Folder { now: Names::new(), safe: Names::new(), pending: Vec::new() }
        } else {
            Kind::File { safe: Vec::new(), pending: Vec::new() }
        };
        Self { kind, settled: 0 }
    }

    /// How many changes there have been.
    fn changes(&self) -> usize {
        self.settled
            + match &self.kind {
                Kind::File { pending, .. } => pending.len(),
                Kind::Folder { pending, .. } => pending.len(),
            }
    }

    /// The changes up to this one are safe.
    fn settle(&mut self, upto: usize) {
        let count = upto.saturating_sub(self.settled);
        match &mut self.kind {
            Kind::File { safe, pending } => pending.drain(..count).for_each(|change| apply(safe, &change)),
            Kind::Folder { safe, pending, .. } => pending.drain(..count).for_each(|naming| rename(safe, &naming)),
        }
        self.settled += count;
    }
}

fn apply(content: &mut Vec<u8>, change: &Change<'_>) {
    match change {
        Change::Write { offset, data } => {
            content.resize(content.len().max(offset + data.len()), 0);
            content[*offset..offset + data.len()].copy_from_slice(data);
        }
        Change::Resize { len } => content.resize(*len, 0),
    }
}

fn rename(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Gets { name, inode } => drop(names.insert(name.clone(), *inode)),
        Naming::Loses { name } => drop(names.remove(name)),
        Naming::Moves { from, to } => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

/// What a power cut leaves of the changes that are not safe.
#[derive(Debug, Clone, Copy)]
pub enum Mood {
    /// Nothing.
    Lost,
    /// Everything.
    Kept,
    /// Of each file and folder the first so many.
    Cut,
    /// Of each file any sector as it was after any of its writes, and a length that it had; of each folder the first so many.
    Torn,
}

/// All of the disk, below one folder.
pub struct Disk<'a> {
    inodes: Vec<Inode<'a>>,
    /// Inodes by the number that the file system gave them.
    numbers: HashMap<u64, usize>,
    /// Syncs under way: what each covers, and how far.
    syncs: HashMap<u64, Vec<(usize, usize)>>,
}

/// The watched folder itself.
const ROOT: usize = 0;

impl<'a> Disk<'a> {
    /// A disk with an empty folder of this inode number, and what these records did to it.
    pub fn after(root: u64, records: &'a [Record]) -> Self {
        let numbers = HashMap::from([(root, ROOT)]);
        let mut disk = Self { inodes: vec![Inode::new(true)], numbers, syncs: HashMap::new() };
        disk.replay(records);
        disk
    }

    /// A disk that holds a folder as it is. Nothing of it is safe: it was copied here a moment ago.
    pub fn copied(root: &Path) -> Self {
        let mut disk = Self { inodes: Vec::new(), numbers: HashMap::new(), syncs: HashMap::new() };
        disk.read(root);
        disk
    }

    /// A disk that holds a folder as it is, all of it safe.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self::copied(root);
        disk.inodes.iter_mut().for_each(|inode| inode.settle(inode.changes()));
        disk
    }

    /// Reads a file or folder; its place among the inodes.
    fn read(&mut self, path: &Path) -> usize {
        let inode = self.inodes.len();
        let data = fs::metadata(path).expect("a file or folder");
        self.numbers.insert(data.ino(), inode);
        self.inodes.push(Inode::new(data.is_dir()));
        if data.is_dir() {
            for entry in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry")) {
                let below = self.read(&entry.path());
                self.name(inode, Naming::Gets { name: entry.file_name(), inode: below });
            }
        } else {
            let data = fs::read(path).expect("a file").into();
            self.inodes[inode].kind = Kind::File { safe: Vec::new(), pending: vec![Change::Write { offset: 0, data }] };
        }
        inode
    }

    /// Does to it what these records say.
    pub fn replay(&mut self, records: &'a [Record]) {
        records.iter().for_each(|record| self.take(record));
    }

    fn take(&mut self, record: &'a Record) {
        match record {
            Record::Created { ino, path, is_folder } => {
                let inode = self.inodes.len();
                self.inodes.push(Inode::new(*is_folder));
                self.numbers.insert(*ino, inode);
                let (folder, name) = self.place(path);
                self.name(folder, Naming::Gets { name: name.to_owned(), inode });
            }
            Record::Written { ino, offset, data } => {
                let offset = usize::try_from(*offset).expect("a small file");
                self.change(*ino, Change::Write { offset, data: data.into() });
            }
            Record::Resized { ino, len } => {
                self.change(*ino, Change::Resize { len: usize::try_from(*len).expect("a small file") });
            }
            Record::Renamed { from, to } => {
                let (folder, old) = self.place(from);
                let (other, new) = self.place(to);
                assert_eq!(folder, other, "{from:?} to {to:?}: renames between folders are not modelled");
                self.name(folder, Naming::Moves { from: old.to_owned(), to: new.to_owned() });
            }
            Record::Removed { path } => {
                let (folder, name) = self.place(path);
                self.name(folder, Naming::Loses { name: name.to_owned() });
            }
            Record::SyncBegan { ino, token } => {
                let covered = match *ino {
                    EVERYTHING => (0..self.inodes.len()).collect(),
                    ino => vec![self.numbered(ino)],
                };
                let covered = covered.into_iter().map(|inode: usize| (inode, self.inodes[inode].changes())).collect();
                self.syncs.insert(*token, covered);
            }
            Record::SyncEnded { token } => {
                for (inode, upto) in self.syncs.remove(token).expect("a sync that began") {
                    self.inodes[inode].settle(upto);
                }
            }
            Record::Sent { .. } | Record::Mark(_) => {}
            Record::Foreign(what) => panic!("the recorder does not understand {what}"),
        }
    }

    fn numbered(&self, ino: u64) -> usize {
        *self.numbers.get(&ino).expect("an inode that was made")
    }

    /// The folder of a path, and the name in it.
    fn place<'p>(&self, path: &'p Path) -> (usize, &'p OsStr) {
        let mut folder = ROOT;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return (folder, name);
            }
            let Kind::Folder { now, .. } = &self.inodes[folder].kind else { panic!("{path:?} is not below folders") };
            folder = *now.get(name).unwrap_or_else(|| panic!("{path:?}: no {name:?}"));
        }
        panic!("the watched folder itself was changed")
    }

    fn name(&mut self, folder: usize, naming: Naming) {
        let Kind::Folder { now, pending, .. } = &mut self.inodes[folder].kind else { panic!("a name in a file") };
        rename(now, &naming);
        pending.push(naming);
    }

    fn change(&mut self, ino: u64, change: Change<'a>) {
        let inode = self.numbered(ino);
        let Kind::File { pending, .. } = &mut self.inodes[inode].kind else { panic!("bytes in a folder") };
        pending.push(change);
    }

    /// Writes what may be left after a power cut now, for a server to open.
    pub fn cut(&self, mood: Mood, chance: &mut Chance, into: &Path) {
        self.copy(mood, chance, into);
        ["REACHED", "REACHED.new"].iter().for_each(|name| keep_birth(&into.join("data/store").join(name)));
    }

    /// The same, byte for byte.
    pub fn copy(&self, mood: Mood, chance: &mut Chance, into: &Path) {
        self.write_folder(ROOT, mood, chance, into);
    }

    fn write_folder(&self, inode: usize, mood: Mood, chance: &mut Chance, into: &Path) {
        let Kind::Folder { safe, pending, .. } = &self.inodes[inode].kind else { panic!("a file as a folder") };
        let mut names = safe.clone();
        let kept = match mood {
            Mood::Lost => 0,
            Mood::Kept => pending.len(),
            Mood::Cut | Mood::Torn => chance.below(pending.len() + 1),
        };
        pending[..kept].iter().for_each(|naming| rename(&mut names, naming));
        fs::create_dir_all(into).expect("a folder of the image");
        for (name, inode) in names {
            let path = into.join(name);
            match &self.inodes[inode].kind {
                Kind::File { safe, pending } => {
                    fs::write(path, left(safe, pending, mood, chance)).expect("a file of the image");
                }
                Kind::Folder { .. } => self.write_folder(inode, mood, chance, &path),
            }
        }
    }
}

/// The store notes when this file was born, to know a copy of itself. A disk keeps that over a power cut, and an image of it
/// cannot: so the note is brought in line with the image.
fn keep_birth(path: &Path) {
    let Ok(text) = fs::read_to_string(path) else { return };
    let born = fs::metadata(path).and_then(|data| data.created()).ok();
    let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let (Some(born), Some((before, rest))) = (born, text.split_once(", file born ")) else { return };
    assert!(rest.contains(", checksum "), "another note: {text}");
    let said = format!("{before}, file born {:020}.{:09}", born.as_secs(), born.subsec_nanos());
    let note = format!("{said}, checksum {:08x}", crc32fast::hash(said.as_bytes()));
    // In place: the file must stay the same.
    let file = fs::File::options().write(true).open(path).expect("the image's own file");
    file.write_all_at(format!("{note:<width$}\n", width = text.len() - 1).as_bytes(), 0).expect("a note");
}

/// What may be left of a file.
fn left(safe: &[u8], pending: &[Change<'_>], mood: Mood, chance: &mut Chance) -> Vec<u8> {
    let mut content = safe.to_vec();
    let kept = match mood {
        Mood::Lost => 0,
        Mood::Kept => pending.len(),
        Mood::Cut => chance.below(pending.len() + 1),
        Mood::Torn => return torn(content, pending, chance),
    };
    pending[..kept].iter().for_each(|change| apply(&mut content, change));
    content
}

/// Each sector as it was after any of its changes, older and newer ones beside each other, and a length that the file had.
fn torn(mut content: Vec<u8>, pending: &[Change<'_>], chance: &mut Chance) -> Vec<u8> {
    // A length lasts until the next change of it, and is told apart from the bytes.
    let lasts = chance.below(pending.len() + 1);
    let mut length = content.len();
    let mut sectors: HashMap<usize, usize> = HashMap::new();
    // How often a sector is old, new, or something between: a third of the files each.
    let lean = chance.below(3);
    for (number, change) in pending.iter().enumerate() {
        match change {
            Change::Resize { len } if number < lasts => {
                content.truncate(*len);
                length = *len;
            }
            Change::Resize { .. } => {}
            Change::Write { offset, data } => {
                let end = offset + data.len();
                if number < lasts {
                    length = length.max(end);
                }
                content.resize(content.len().max(end), 0);
                let mut at = *offset;
                while at < end {
                    let sector = at / SECTOR;
                    let next = ((sector + 1) * SECTOR).min(end);
                    let upto = *sectors.entry(sector).or_insert_with(|| match chance.below(4) {
                        0 => 0,
                        1 => pending.len(),
                        _ if lean == 0 => 0,
                        _ if lean == 1 => pending.len(),
                        _ => chance.below(pending.len() + 1),
                    });
                    if number < upto {
                        content[at..next].copy_from_slice(&data[at - offset..next - offset]);
                    }
                    at = next;
                }
            }
        }
    }
    content.resize(length, 0);
    content
}

/// What differs between a folder and an image of it; nothing if they are the same.
pub fn difference(one: &Path, other: &Path) -> Vec<String> {
    let list = |folder: &Path| -> BTreeMap<OsString, bool> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        entries.map(|entry| (entry.file_name(), entry.path().is_dir())).collect()
    };
    let (left, right) = (list(one), list(other));
    let mut found = Vec::new();
    for (name, is_folder) in &left {
        let (mine, theirs) = (one.join(name), other.join(name));
        match right.get(name) {
            Some(true) if *is_folder => found.extend(difference(&mine, &theirs)),
            Some(false) if !*is_folder => {
                let (left, right) = (fs::read(&mine).expect("a file"), fs::read(&theirs).expect("a file"));
                if left != right {
                    found.push(format!("{} differs: {} and {} bytes", mine.display(), left.len(), right.len()));
                }
            }
            Some(_) => found.push(format!("{} is of another kind", mine.display())),
            None => found.push(format!("{} is missing", theirs.display())),
        }
    }
    found.extend(right.keys().filter(|name| !left.contains_key(*name)).map(|name| format!("{name:?} is too many")));
    found
}
