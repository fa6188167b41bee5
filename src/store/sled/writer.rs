//! What the one committing thread knows by heart, and how a set of batches becomes durable.
//!
//! In: batches, at most one per tree. Out: nothing, once one transaction, one flush and one sync have them on disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use ::sled::transaction::{ConflictableTransactionError, TransactionError};
use ::sled::{Batch, IVec, Transactional};

use super::super::codec::{self, Buffer, Kind};
use super::super::{Durability, Error, Kept, Totals};
use super::keys::{self, TypeNumber};
use super::shown::ShownTypes;
use super::{Sled, Trees, failure, refusal};
use crate::fault::{self, Breach, Point, Steps};
use crate::job::{Head, JobId, Position};

/// What would cost operations to look up for each commit.
#[derive(Debug)]
pub struct Writer {
    /// Revisions of all unfinished jobs; `None` until they were read.
    pub revisions: Option<HashMap<JobId, u32>>,
    /// No ended job has a later id, so that a new id above it needs no look-up.
    pub newest_ended: Option<JobId>,
    /// The position of the next entry.
    pub next: Position,
    /// At and above it every entry exists.
    pub floor: Position,
    /// The types of which jobs have ended.
    pub types: BTreeMap<Arc<str>, TypeRow>,
    /// Where records are written before sled copies them.
    pub scratch: Buffer,
}

/// A type of which a job has ended: its number, which it keeps, and what is kept of its ended jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct TypeRow {
    /// Stands for the type in the rows of ends.
    pub number: TypeNumber,
    /// Its ended jobs.
    pub kept: Kept,
}

impl Writer {
    /// The row of a type, made if it is the first time.
    pub fn type_row(&mut self, job_type: &Arc<str>) -> &mut TypeRow {
        // Rows are never removed, so this number is a new one.
        let number = TypeNumber::try_from(self.types.len()).unwrap_or(TypeNumber::MAX);
        let new = || TypeRow { number, kept: Kept::default() };
        self.types.entry(Arc::clone(job_type)).or_insert_with(new)
    }

    /// Writes the rows of these types down.
    pub fn put_types(&self, changed: &HashSet<Arc<str>>, piles: &mut Piles) {
        for (job_type, row) in changed.iter().filter_map(|job_type| self.types.get_key_value(job_type)) {
            piles.cells.put([keys::TYPE, job_type.as_bytes()].concat(), codec::encode(Kind::Own, row));
        }
    }

    /// What readers are shown of the types.
    pub fn shown_types(&self) -> ShownTypes {
        let numbers = self.types.iter().map(|(job_type, row)| (Arc::clone(job_type), row.number)).collect();
        let kept = self.types.iter().filter(|(_, row)| row.kept.jobs > 0);
        let types = kept.map(|(job_type, row)| (Arc::clone(job_type), row.kept)).collect();
        ShownTypes { numbers: Arc::new(numbers), totals: Arc::new(Totals { types }) }
    }

    /// The cell that says where the log stands, with that floor.
    pub fn standing(&self, floor: Position) -> Vec<u8> {
        codec::encode(Kind::Own, &(floor.0, self.next.0 - 1))
    }
}

/// The writes to one tree.
#[derive(Default)]
pub struct Pile {
    batch: Batch,
    count: usize,
}

impl Pile {
    /// The key gets this value.
    pub fn put(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.batch.insert(key, value);
        self.count += 1;
    }

    /// The key goes.
    pub fn remove(&mut self, key: impl Into<IVec>) {
        self.batch.remove(key);
        self.count += 1;
    }
}

/// The writes of one commit.
#[derive(Default)]
pub struct Piles {
    /// Heads of unfinished jobs.
    pub live: Pile,
    /// Records of ended jobs.
    pub jobs: Pile,
    /// Bodies and blocks.
    pub bodies: Pile,
    /// Chunks.
    pub events: Pile,
    /// Rows.
    pub index: Pile,
    /// Idempotency keys.
    pub keys: Pile,
    /// Cells.
    pub cells: Pile,
}

impl Trees {
    /// Makes the writes one step: all or none of them are found after a crash. Not yet durable.
    pub fn write(&self, piles: &Piles) -> Result<usize, Error> {
        let all = [
            (&self.live, &piles.live),
            (&self.jobs, &piles.jobs),
            (&self.bodies, &piles.bodies),
            (&self.events, &piles.events),
            (&self.index, &piles.index),
            (&self.keys, &piles.keys),
            (&self.cells, &piles.cells),
        ];
        let touched: Vec<_> = all.into_iter().filter(|(_, pile)| pile.count > 0).collect();
        let trees: Vec<&::sled::Tree> = touched.iter().map(|(tree, _)| *tree).collect();
        if trees.is_empty() {
            return Ok(0);
        }
        if fault::is_broken(Breach::SeparateBatches) {
            for (tree, pile) in &touched {
                tree.apply_batch(pile.batch.clone()).map_err(failure)?;
                fault::point(Point::BetweenBatches);
            }
            return Ok(touched.iter().map(|(_, pile)| pile.count).sum());
        }
        let done = Transactional::<()>::transaction(&trees[..], |views| {
            for (view, (_, pile)) in views.iter().zip(&touched) {
                view.apply_batch(&pile.batch).map_err(ConflictableTransactionError::from)?;
            }
            Ok(())
        });
        match done {
            Ok(()) => Ok(touched.iter().map(|(_, pile)| pile.count).sum()),
            Err(TransactionError::Storage(error)) => Err(failure(error)),
            Err(TransactionError::Abort(())) => Err(Error::Unavailable("a commit was called off".into())),
        }
    }

    /// Hands everything written to the system and, unless told otherwise, waits for the disk.
    pub fn sync(&self, durability: Durability) -> Result<(), Error> {
        self.db.flush().map_err(failure)?;
        match durability {
            Durability::Disk => self.file.sync_data().map_err(refusal("cannot sync")),
            Durability::Process => Ok(()),
        }
    }
}

impl Sled {
    /// Makes the writes durable. `steps`: what they do.
    pub(super) fn write_through(&self, trees: &Trees, piles: &Piles, steps: impl Fn() -> Steps) -> Result<(), Error> {
        fault::group_point(Point::BeforeCommit, &steps);
        self.count(trees.write(piles)?);
        if let Some(hook) = &self.before_sync {
            trees.db.flush().map_err(failure)?;
            hook();
        }
        fault::group_point(Point::BeforeSync, &steps);
        if fault::is_broken(Breach::AnswerBeforeSync) {
            return trees.sync(Durability::Process);
        }
        trees.sync(self.options.durability)?;
        fault::group_point(Point::AfterSync, &steps);
        Ok(())
    }

    /// Notes how far the log reaches, now that this is synced. Where commits are not, it must not run ahead of the disk.
    pub(super) fn note_reached(&self, trees: &Trees) {
        match (self.options.durability, &self.reached) {
            (Durability::Disk, Some(reached)) => reached.note(&self.extent(trees)),
            (Durability::Process, _) | (_, None) => {}
        }
    }

    /// Heads of all unfinished jobs; the writer learns their revisions with them.
    pub(super) fn learn_live(&self, trees: &Trees) -> Result<Vec<Head>, Error> {
        let live = self.read_live(trees)?;
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.as_mut().filter(|writer| writer.revisions.is_none()) {
            writer.revisions = Some(revisions(&live));
        }
        drop(writer);
        Ok(live)
    }

    /// Does something with the writer's knowledge. After an error that is gone: it may be wrong, and nothing follows.
    pub(super) fn with_writer<T>(
        &self,
        trees: &Trees,
        work: impl FnOnce(&mut Writer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let taken = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut writer = taken.ok_or_else(|| Error::Unavailable("two threads commit at once".into()))?;
        if writer.revisions.is_none() {
            writer.revisions = Some(revisions(&self.read_live(trees)?));
        }
        let done = work(&mut writer)?;
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(done)
    }
}

fn revisions(live: &[Head]) -> HashMap<JobId, u32> {
    live.iter().map(|head| (head.job.id(), head.job.revision)).collect()
}
