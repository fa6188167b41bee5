//! Restoring: a backup becomes a store of a new epoch, made apart and moved into place once `verify` accepts it.
//!
//! In: bytes that may be anything, and a place where no store is. Out: a store, or the line that is wrong, and then nothing.
//! Entries keep their positions. What ran when the backup was taken is found running, as after a crash: the first start
//! interrupts it.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use super::super::backup::replay::{Portion, Replay, Step, check_json, is_json};
use super::super::backup::{EntryLine, Header, Line, Reader, Refusal, Trailer};
use super::super::{Bounds, Change, Durability, Error, Store, mint_epoch};
use super::body::{FOLDER, file_name};
use super::make::{self, Apart};
use super::writer::Piles;
use super::{Options, Sled, blocks, contained, keys, open, refusal, settle};
use crate::fault::{self, Point, Steps};
use crate::job::{Entry, Epoch, Head, Position};

/// Entries that are written at once.
const GROUP: usize = 512;
/// And bytes of bodies.
const GROUP_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of pages that sled keeps in memory meanwhile.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the backup says of itself.
    pub header: Header,
    /// What it holds.
    pub trailer: Trailer,
    /// The new history.
    pub epoch: Epoch,
}

/// Why nothing was restored.
#[derive(Debug)]
pub enum Unrestored {
    /// The backup is not as it was written, or was never one: the line.
    Backup(Refusal),
    /// Something is in the place.
    Taken(String),
    /// The disk, or a bug that `verify` found.
    Store(Error),
}

impl From<Refusal> for Unrestored {
    fn from(refusal: Refusal) -> Self {
        Self::Backup(refusal)
    }
}

impl From<Error> for Unrestored {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Restores a backup to `dir`, which must be absent or empty. Blocks for as long as that takes.
pub fn restore(input: impl Read, dir: &Path) -> Result<Restored, Unrestored> {
    settle::undo(dir)?;
    if !open::is_absent(dir)? {
        return Err(Unrestored::Taken(format!(
            "{} is not empty: a backup is restored where nothing is",
            dir.display()
        )));
    }
    // Nothing is made for what is no backup at all.
    let (reader, header) = Reader::open(input)?;
    let replay = Replay::new(&header).map_err(|why| reader.refuse(why))?;
    let (apart, lock) = Apart::begin(dir, make::RESTORED)?;
    let epoch = other_epoch(replay.bounds().epoch);
    make::empty(&apart.new, epoch)?;
    let options = Options { dir: apart.new.clone(), cache_bytes: CACHE_BYTES, durability: Durability::Process };
    let store = open::open_held(&options, lock)?;
    let filled = Filling { store: &store, reader, replay, steps: Vec::new(), bytes: 0, file: None }.fill();
    let closed = store.close();
    let trailer = filled?;
    closed?;
    fault::point(Point::RestoreFilled);
    let report = super::verify(&apart.new)?;
    if let Some(complaint) = report.complaints.first() {
        let at = complaint.at.clone();
        return Err(Error::Corrupt { at, why: format!("{}, in what was restored", complaint.why) }.into());
    }
    apart.sync()?;
    fault::point(Point::RestoreSynced);
    apart.move_in()?;
    Ok(Restored { header, trailer, epoch })
}

/// A new epoch that is not the old one.
fn other_epoch(old: Epoch) -> Epoch {
    loop {
        let epoch = mint_epoch();
        if epoch != old {
            return epoch;
        }
    }
}

/// A store being filled from a backup.
struct Filling<'a, R: Read> {
    store: &'a Sled,
    reader: Reader<R>,
    replay: Replay,
    /// Complete, and not written yet.
    steps: Vec<Step>,
    bytes: u64,
    /// The large body that is coming.
    file: Option<File>,
}

impl<R: Read> Filling<'_, R> {
    fn fill(mut self) -> Result<Trailer, Unrestored> {
        loop {
            match self.reader.next()? {
                Line::Header(_) => return Err(self.reader.refuse("a second header").into()),
                Line::Entry(entry) => {
                    let step = self.replay.complete().map_err(|why| self.reader.refuse(why))?;
                    self.add(step)?;
                    let ended = self.ended(&entry)?;
                    let added = self.replay.entry(self.reader.number(), entry, ended);
                    added.map_err(|why| self.reader.refuse(why))?;
                }
                Line::Body(piece) => {
                    self.bytes += piece.name.len.min(GROUP_BYTES);
                    let portion = self.replay.body(piece).map_err(|why| self.reader.refuse(why))?;
                    if let Some(portion) = portion {
                        self.write(&portion)?;
                    }
                }
                Line::Trailer(trailer) => {
                    let last = self.replay.finish(&trailer).map_err(|why| self.reader.refuse(why))?;
                    self.steps.extend(last);
                    self.write_steps()?;
                    self.store.set_bounds(self.replay.bounds())?;
                    return Ok(trailer);
                }
            }
        }
    }

    /// The record of the entry's job if that has ended, in what is written or in what is not.
    fn ended(&mut self, line: &EntryLine) -> Result<Option<Arc<Head>>, Unrestored> {
        // Whether a created job is there already is asked when it is written.
        if matches!(line.entry, Entry::Created { .. }) || self.replay.is_open(line.job) {
            return Ok(None);
        }
        if self.steps.iter().any(|step| step.change.after.id() == line.job) {
            self.write_steps()?;
        }
        Ok(self.store.job(line.job)?)
    }

    fn add(&mut self, step: Option<Step>) -> Result<(), Unrestored> {
        self.steps.extend(step);
        if self.steps.len() >= GROUP || self.bytes >= GROUP_BYTES {
            self.write_steps()?;
        }
        Ok(())
    }

    fn write_steps(&mut self) -> Result<(), Unrestored> {
        self.bytes = 0;
        let steps = std::mem::take(&mut self.steps);
        let lines: Vec<u64> = steps.iter().map(|step| step.line).collect();
        let one = |step: Step| (step.position, Change { jobs: vec![step.change], cells: Vec::new() });
        let (positions, changes): (Vec<_>, Vec<_>) = steps.into_iter().map(one).unzip();
        match self.store.adopt(&positions, &changes)? {
            Ok(()) => Ok(()),
            Err(refused) => {
                let why = "its job or its idempotency key is there already".to_owned();
                Err(Refusal { line: lines[refused], why }.into())
            }
        }
    }

    /// Writes a part of a large body to its file.
    fn write(&mut self, portion: &Portion) -> Result<(), Unrestored> {
        let Portion { job, name, is_first, is_last, bytes } = portion;
        let path = self.store.options.dir.join(FOLDER).join(file_name(*job, *name));
        let what = || format!("cannot write {}", path.display());
        if *is_first {
            let new = File::options().read(true).write(true).create_new(true).open(&path);
            self.file = Some(new.map_err(refusal(what()))?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes).map_err(refusal(what()))?;
        if *is_last {
            blocks::append_sums(file, *name).and_then(|()| file.sync_all()).map_err(refusal(what()))?;
            self.file = None;
            if is_json(name.part) {
                let written = File::open(&path).map_err(refusal(what()))?;
                let checked = contained(|| Ok(check_json(name.part, BufReader::new(written.take(name.len)))))?;
                checked.map_err(|why| self.reader.refuse(why))?;
            }
        }
        Ok(())
    }
}

impl Sled {
    /// Takes in entries where they stood; `Err(n)`: the n-th does not fit.
    fn adopt(&self, positions: &[Position], changes: &[Change]) -> Result<Result<(), usize>, Error> {
        self.with_trees(|trees| self.with_writer(trees, |writer| self.adopt_group(trees, writer, positions, changes)))
    }

    /// Floor and last position of a restored log, which may have lost its last entries before it was backed up.
    fn set_bounds(&self, bounds: Bounds) -> Result<(), Error> {
        self.with_trees(|trees| {
            self.with_writer(trees, |writer| {
                (writer.floor, writer.next) = (bounds.floor, bounds.last.next());
                let mut piles = Piles::default();
                piles.cells.put(keys::STANDING, writer.standing(bounds.floor));
                self.write_through(trees, &piles, Steps::default)?;
                let mut shown = self.shown();
                (shown.bounds.floor, shown.bounds.last) = (bounds.floor, bounds.last);
                Ok(())
            })
        })
    }
}
