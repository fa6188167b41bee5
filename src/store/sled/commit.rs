//! A group of changes as one durable step, in as few operations as it takes.
//!
//! In: changes and what they were decided from. Out: positions or conflicts. Per submit: its head, its payload, its key
//! if it has one; per step of a running job: its head; per end: the head goes, the record comes, with two rows of the
//! index. The entries of all of them share chunks. Nothing is looked up for jobs that are not ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::sled::IVec;
use bytes::Bytes;

use super::super::chunk::{Chunks, Item};
use super::super::codec::{self, Kind, Row};
use super::super::{CellChange, Change, Conflict, Error, JobChange};
use super::ends::Ends;
use super::shown::InFlight;
use super::writer::{Piles, Writer};
use super::{Sled, Trees, failure, keys};
use crate::job::{BODY_SMALL_MAX, BodyRef, Job, JobId, Part, Position, Trail};

/// How a job stands after the changes of the group so far.
struct Standing {
    revision: u32,
    trail: Trail,
}

/// A commit being put together.
struct Group<'a> {
    store: &'a Sled,
    trees: &'a Trees,
    writer: &'a mut Writer,
    standings: HashMap<JobId, Standing>,
    new_keys: HashSet<keys::KeyRow>,
    cells: HashMap<&'a str, Option<&'a Bytes>>,
    piles: Piles,
    chunks: Chunks,
    ends: Ends,
    in_flight: InFlight,
    /// Files of bodies that no record names any more, to be removed after the sync.
    dropped_files: Vec<(JobId, BodyRef)>,
    types_changed: HashSet<Arc<str>>,
}

impl Sled {
    pub(super) fn commit_group(
        &self,
        trees: &Trees,
        writer: &mut Writer,
        changes: &[Change],
    ) -> Result<Vec<Result<Position, Conflict>>, Error> {
        let mut group = Group::new(self, trees, writer);
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            done.push(if group.admits(change)? { Ok(group.apply(change)?) } else { Err(Conflict) });
        }
        group.commit(changes)?;
        Ok(done)
    }

    /// Takes in entries that have their positions already, rising, each as the change of its job. `Err(n)`: the n-th does
    /// not fit what is there, and nothing was written.
    pub(super) fn adopt_group(
        &self,
        trees: &Trees,
        writer: &mut Writer,
        positions: &[Position],
        changes: &[Change],
    ) -> Result<Result<(), usize>, Error> {
        let mut group = Group::new(self, trees, writer);
        for (n, (position, change)) in positions.iter().zip(changes).enumerate() {
            if !group.admits(change)? {
                return Ok(Err(n));
            }
            group.writer.next = *position;
            group.apply(change)?;
        }
        group.commit(changes).map(Ok)
    }

    /// The value of a cell.
    fn cell(&self, trees: &Trees, name: &str) -> Result<Option<Bytes>, Error> {
        self.count(1);
        Ok(trees.cells.get(name).map_err(failure)?.map(|value| Bytes::copy_from_slice(&value)))
    }
}

impl<'a> Group<'a> {
    fn new(store: &'a Sled, trees: &'a Trees, writer: &'a mut Writer) -> Self {
        Self {
            store,
            trees,
            writer,
            standings: HashMap::new(),
            new_keys: HashSet::new(),
            cells: HashMap::new(),
            piles: Piles::default(),
            chunks: Chunks::default(),
            ends: Ends::default(),
            in_flight: InFlight::default(),
            dropped_files: Vec::new(),
            types_changed: HashSet::new(),
        }
    }

    /// Whether all that the change was decided from still holds.
    fn admits(&self, change: &Change) -> Result<bool, Error> {
        for job in &change.jobs {
            let holds = match &job.before {
                Some(before) => self.revision(job.after.id())? == Some(before.job.revision),
                None => self.is_new(&job.after)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        for CellChange { name, expect, .. } in &change.cells {
            let Some(wanted) = expect else { continue };
            let holds = match self.cells.get(name.as_str()) {
                Some(pending) => *pending == wanted.as_ref(),
                None => self.store.cell(self.trees, name)? == *wanted,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn unfinished(&self, id: JobId) -> Option<u32> {
        self.writer.revisions.as_ref().and_then(|revisions| revisions.get(&id).copied())
    }

    /// The revision of a job; a look-up only if it is ended.
    fn revision(&self, id: JobId) -> Result<Option<u32>, Error> {
        let known = self.standings.get(&id).map(|standing| standing.revision).or_else(|| self.unfinished(id));
        if known.is_some() {
            return Ok(known);
        }
        Ok(self.store.read_ended(self.trees, id)?.map(|head| head.job.revision))
    }

    /// Whether neither the job nor its key exists; a look-up only if there is a key or the id is an old one.
    fn is_new(&self, job: &Job) -> Result<bool, Error> {
        let id = job.id();
        if self.standings.contains_key(&id) || self.unfinished(id).is_some() {
            return Ok(false);
        }
        if self.writer.newest_ended.is_some_and(|newest| id <= newest)
            && self.store.read_ended(self.trees, id)?.is_some()
        {
            return Ok(false);
        }
        let Some(row) = key_row(job) else { return Ok(true) };
        if self.new_keys.contains(&row) {
            return Ok(false);
        }
        self.store.count(1);
        Ok(self.trees.keys.get(row).map_err(failure)?.is_none())
    }

    /// Takes the change in. Answers the position of its first entry.
    fn apply(&mut self, change: &'a Change) -> Result<Position, Error> {
        let first = self.writer.next;
        for job in &change.jobs {
            self.apply_job(job)?;
        }
        for cell in &change.cells {
            if !self.cells.contains_key(cell.name.as_str()) {
                let before = self.store.cell(self.trees, &cell.name)?;
                self.in_flight.cells.push((cell.name.clone(), before));
            }
            match &cell.value {
                Some(value) => self.piles.cells.put(cell.name.as_bytes(), &value[..]),
                None => self.piles.cells.remove(cell.name.as_bytes()),
            }
            self.cells.insert(&cell.name, cell.value.as_ref());
        }
        Ok(if change.jobs.is_empty() { Position(first.0 - 1) } else { first })
    }

    fn apply_job(&mut self, change: &JobChange) -> Result<(), Error> {
        let id = change.after.id();
        let trail = match self.standings.remove(&id) {
            Some(standing) => standing.trail,
            None => {
                self.in_flight.heads.push((id, change.before.clone()));
                change.before.as_ref().map(|before| before.trail.clone()).unwrap_or_default()
            }
        };
        let trail = self.log(change, trail);
        self.keep_bodies(change)?;
        self.keep_record(change, &trail);
        if change.before.is_none()
            && let Some(row) = key_row(&change.after)
        {
            self.new_keys.insert(row);
            self.piles.keys.put(&row, codec::encode(Kind::Key, &id));
        }
        self.standings.insert(id, Standing { revision: change.after.revision, trail });
        Ok(())
    }

    /// Gives the entries their positions.
    fn log(&mut self, change: &JobChange, mut trail: Trail) -> Trail {
        let spec = &change.after.spec;
        for entry in &change.entries {
            let position = self.writer.next;
            self.writer.next = position.next();
            self.chunks.push(&Item {
                position,
                at: change.at,
                job: spec.id,
                job_type: &spec.job_type,
                owner: &spec.owner,
                tags: &spec.tags,
                entry,
            });
            if let Some(full) = trail.push(position) {
                self.piles.bodies.put(&keys::block(spec.id, trail.blocks - 1), codec::encode(Kind::Block, &full));
            }
        }
        trail
    }

    fn keep_bodies(&mut self, change: &JobChange) -> Result<(), Error> {
        let id = change.after.id();
        for body in &change.bodies {
            let Some(bytes) = &body.bytes else { continue };
            let name = body.name;
            if name.part == Part::Payload && change.after.spec.carried.bytes(name).is_some() {
                continue;
            }
            if name.len > BODY_SMALL_MAX as u64 {
                // Not brought before, as it should have been: it costs the group the time, and is as safe.
                self.store.write_body_file(id, name, bytes)?;
                continue;
            }
            self.in_flight.bodies.push((id, name.part, name.seq, None));
            for number in 0..keys::pieces(bytes.len() as u64) {
                let piece = &bytes[number * keys::PIECE..bytes.len().min((number + 1) * keys::PIECE)];
                self.piles.bodies.put(&keys::piece(id, name, number), piece);
            }
        }
        for name in &change.dropped {
            if name.len > BODY_SMALL_MAX as u64 {
                if !self.store.keep_dropped(change, *name, None) {
                    self.dropped_files.push((id, *name));
                }
                continue;
            }
            let before = self.store.read_pieces(self.trees, id, *name)?;
            if let Some(bytes) = &before {
                self.store.keep_dropped(change, *name, Some(bytes));
            }
            self.in_flight.bodies.push((id, name.part, name.seq, before));
            for number in 0..keys::pieces(name.len) {
                self.piles.bodies.remove(&keys::piece(id, *name, number));
            }
        }
        Ok(())
    }

    /// Puts the record where a job of its status is kept, and its rows if it has just ended.
    fn keep_record(&mut self, change: &JobChange, trail: &Trail) {
        let job = &change.after;
        let key = keys::job(job.id());
        let was_ended = change.before.as_ref().is_some_and(|before| before.job.status().is_terminal());
        let was_dead = change.before.as_ref().is_some_and(|before| before.job.is_dead_letter());
        let revisions = self.writer.revisions.get_or_insert_default();
        if !job.status().is_terminal() {
            revisions.insert(job.id(), job.revision);
            self.piles.live.put(&key, self.writer.scratch.head(job, trail));
            return;
        }
        self.piles.jobs.put(&key, self.writer.scratch.head(job, trail));
        if !was_ended {
            revisions.remove(&job.id());
            self.writer.newest_ended = self.writer.newest_ended.max(Some(job.id()));
            if change.before.is_some() {
                self.piles.live.remove(&key);
            }
            let number = self.writer.type_row(&job.spec.job_type).number;
            self.ends.add(number, job);
        }
        if !was_ended || was_dead != job.is_dead_letter() {
            self.piles.index.put(&keys::owned(&job.spec.owner, job.id()), owner_row(job));
        }
        if was_dead != job.is_dead_letter() {
            match job.is_dead_letter() {
                true => self.piles.index.put(&keys::dead(job.id()), IVec::default()),
                false => self.piles.index.remove(&keys::dead(job.id())),
            }
        }
        self.count_ended(change);
    }

    /// The job has ended, or its ended record is another.
    fn count_ended(&mut self, change: &JobChange) {
        let job_type = &change.after.spec.job_type;
        let row = self.writer.type_row(job_type);
        if let Some(before) = change.before.as_ref().filter(|before| before.job.status().is_terminal()) {
            row.kept.remove(&before.job);
        }
        row.kept.add(&change.after);
        self.types_changed.insert(Arc::clone(job_type));
    }

    /// Makes it durable, then visible.
    fn commit(mut self, changes: &[Change]) -> Result<(), Error> {
        self.writer.put_types(&self.types_changed, &mut self.piles);
        for (first, chunk) in self.chunks.finish() {
            self.piles.events.put(&keys::chunk(first), chunk);
        }
        self.ends.put(&mut self.piles.index);
        self.store.shown().in_flight = Some(self.in_flight);
        self.store.write_through(self.trees, &self.piles, || Change::steps(changes))?;
        {
            let mut shown = self.store.shown();
            shown.bounds.last = Position(self.writer.next.0 - 1);
            if !self.types_changed.is_empty() {
                shown.types = self.writer.shown_types();
            }
            shown.in_flight = None;
        }
        self.store.note_reached(self.trees);
        for (job, name) in self.dropped_files {
            self.store.remove_body_file(job, name);
        }
        Ok(())
    }
}

/// The row of the job's key, if it has one.
pub fn key_row(job: &Job) -> Option<keys::KeyRow> {
    let spec = &job.spec;
    spec.key.as_ref().map(|key| keys::key(&spec.owner, &spec.job_type, &key.text))
}

/// What an ended job's row among those of its owner says.
pub fn owner_row(job: &Job) -> Vec<u8> {
    let (status, dead_letter) = (job.status(), job.is_dead_letter());
    codec::encode(Kind::Row, &Row { status, dead_letter, job_type: Arc::clone(&job.spec.job_type) })
}
