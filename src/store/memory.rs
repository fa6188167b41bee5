//! The reference store: what the Store port means, in memory, simple enough to be seen right.
//!
//! It keeps two copies: one that runs ahead with the commit in hand, and one that readers see. Each step that the first
//! took is taken again on the second once the commit counts as synced. Nothing here survives the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Bounds, Change, Conflict, Error, Health, JobChange, Listing, Pin, Query, SCAN_MAX, Store, Totals};
use crate::job::{Body, BodyRef, Head, JobId, Logged, Part, Position, Status, TRAIL_RECENT_MAX, Timestamp};

type BodyName = (JobId, Part, u64);
type KeyName = (Arc<str>, Arc<str>, Arc<str>);

/// All that is kept, as of some commit.
#[derive(Clone)]
struct Kept {
    heads: BTreeMap<JobId, Arc<Head>>,
    log: BTreeMap<Position, Logged>,
    blocks: HashMap<JobId, Vec<Position>>,
    bodies: BTreeMap<BodyName, Bytes>,
    keys: HashMap<KeyName, JobId>,
    cells: BTreeMap<String, Bytes>,
    ends: BTreeSet<(Arc<str>, bool, Timestamp, JobId)>,
    totals: Totals,
    bounds: Bounds,
    /// Which pin is on, and what was dropped under it.
    pinned: Option<(u64, BTreeMap<BodyName, Bytes>)>,
    pins: u64,
}

/// What is done once a commit counts as synced: held back by tests that look at what is visible before.
type Sync = Box<dyn Fn() + Send + std::marker::Sync>;

/// A store that ends with the process.
pub struct Memory {
    ahead: Mutex<Kept>,
    shown: Mutex<Kept>,
    sync: Sync,
    /// The disk that it pretends to be on, and whether that has room for a commit.
    disk: Mutex<(Health, bool)>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// A disk that is never full.
const ENDLESS: Health = Health { store_bytes: 0, disk_free: u64::MAX, disk_size: u64::MAX };

impl Memory {
    /// An empty store under a fresh epoch.
    pub fn new() -> Self {
        Self::with_sync(Box::new(|| ()))
    }

    /// An empty store that does this where a disk would sync, before the commit becomes visible.
    pub fn with_sync(sync: Sync) -> Self {
        let kept = Kept {
            heads: BTreeMap::new(),
            log: BTreeMap::new(),
            blocks: HashMap::new(),
            bodies: BTreeMap::new(),
            keys: HashMap::new(),
            cells: BTreeMap::new(),
            ends: BTreeSet::new(),
            totals: Totals::default(),
            bounds: Bounds { epoch: super::mint_epoch(), floor: Position(1), last: Position::ZERO },
            pinned: None,
            pins: 0,
        };
        Self { ahead: Mutex::new(kept.clone()), shown: Mutex::new(kept), sync, disk: Mutex::new((ENDLESS, true)) }
    }

    /// Pretends to be on this disk, which has room for one more commit or has not.
    pub fn set_disk(&self, disk: Health, has_room: bool) {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = (disk, has_room);
    }

    fn shown(&self) -> MutexGuard<'_, Kept> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, Kept> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn admits(&self, change: &Change) -> bool {
        let jobs = change.jobs.iter().all(|job| match &job.before {
            Some(before) => self.heads.get(&job.after.id()).is_some_and(|h| h.job.revision == before.job.revision),
            None => {
                let named = key_of(&job.after).is_some_and(|key| self.keys.contains_key(&key));
                !named && !self.heads.contains_key(&job.after.id())
            }
        });
        let holds = |name: &String, wanted: &Option<Bytes>| self.cells.get(name) == wanted.as_ref();
        jobs && change.cells.iter().all(|cell| cell.expect.as_ref().is_none_or(|wanted| holds(&cell.name, wanted)))
    }

    fn apply(&mut self, change: &Change) -> Result<Position, Conflict> {
        if !self.admits(change) {
            return Err(Conflict);
        }
        let before = self.bounds.last;
        change.jobs.iter().for_each(|job| self.apply_job(job));
        for cell in &change.cells {
            match &cell.value {
                Some(value) => self.cells.insert(cell.name.clone(), value.clone()),
                None => self.cells.remove(&cell.name),
            };
        }
        Ok(if change.jobs.is_empty() { before } else { before.next() })
    }

    fn apply_job(&mut self, change: &JobChange) {
        let spec = &change.after.spec;
        let mut trail = self.heads.get(&spec.id).map(|head| head.trail.clone()).unwrap_or_default();
        for entry in &change.entries {
            let position = self.bounds.last.next();
            self.bounds.last = position;
            let full = trail.push(position);
            self.blocks.entry(spec.id).or_default().extend(full.into_iter().flatten());
            let (job_type, owner, tags) = (spec.job_type.clone(), spec.owner.clone(), spec.tags.clone());
            let logged = Logged { position, at: change.at, job: spec.id, job_type, owner, tags, entry: entry.clone() };
            self.log.insert(position, logged);
        }
        for Body { name, bytes } in &change.bodies {
            if let Some(bytes) = bytes {
                self.bodies.insert((spec.id, name.part, name.seq), bytes.clone());
            }
        }
        for name in &change.dropped {
            let name = (spec.id, name.part, name.seq);
            let dropped = self.bodies.remove(&name);
            if let (Some((_, kept)), Some(bytes)) = (&mut self.pinned, dropped) {
                kept.insert(name, bytes);
            }
        }
        if let Some(key) = key_of(&change.after) {
            self.keys.insert(key, spec.id);
        }
        self.replace(spec.id, Some(Arc::new(Head { job: change.after.clone(), trail })));
    }

    /// Puts a head in the place of what stood there, and keeps totals and end times in step.
    fn replace(&mut self, id: JobId, head: Option<Arc<Head>>) {
        let old = match head.clone() {
            Some(head) => self.heads.insert(id, head),
            None => self.heads.remove(&id),
        };
        for (head, now) in [(old, false), (head, true)] {
            let Some(job) = head.as_ref().map(|head| &head.job).filter(|job| job.status().is_terminal()) else {
                continue;
            };
            let (job_type, at) = (&job.spec.job_type, job.finished_at.unwrap_or(job.updated_at));
            let end = (job_type.clone(), job.status() == Status::Failed, at, id);
            let kept = self.totals.types.entry(job_type.clone()).or_default();
            if now {
                self.ends.insert(end);
                kept.add(job);
            } else {
                self.ends.remove(&end);
                kept.remove(job);
            }
            self.totals.types.retain(|_, kept| kept.jobs > 0);
        }
    }

    fn pin(&mut self) -> Pin {
        self.pins += 1;
        self.pinned = Some((self.pins, BTreeMap::new()));
        Pin { number: self.pins, bounds: self.bounds }
    }

    fn is_pinned(&self, pin: &Pin) -> bool {
        self.pinned.as_ref().is_some_and(|(number, _)| *number == pin.number)
    }

    fn unpin(&mut self, pin: &Pin) {
        if self.is_pinned(pin) {
            self.pinned = None;
        }
    }

    fn forget(&mut self, ids: &[JobId]) {
        if self.pinned.is_some() {
            return;
        }
        for id in ids {
            let Some(head) = self.heads.get(id).filter(|head| head.job.status().is_terminal()).cloned() else {
                continue;
            };
            self.bounds.floor = self.bounds.floor.max(head.trail.last().next());
            self.replace(*id, None);
            for position in self.blocks.remove(id).iter().flatten().chain(&head.trail.recent) {
                self.log.remove(position);
            }
            self.bodies.retain(|(job, ..), _| job != id);
            if let Some(key) = key_of(&head.job) {
                self.keys.remove(&key);
            }
        }
    }
}

fn range(bytes: &Bytes, offset: u64, limit: usize) -> Bytes {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(from..from.saturating_add(limit).min(bytes.len()))
}

fn key_of(job: &crate::job::Job) -> Option<KeyName> {
    let key = job.spec.key.as_ref()?;
    Some((job.spec.owner.clone(), job.spec.job_type.clone(), key.text.clone()))
}

impl Store for Memory {
    fn live(&self) -> Result<Vec<Head>, Error> {
        let live = |head: &&Arc<Head>| !head.job.status().is_terminal();
        Ok(self.shown().heads.values().filter(live).map(|head| Head::clone(head)).collect())
    }

    fn commit(&self, changes: &[Change]) -> Result<Vec<Result<Position, Conflict>>, Error> {
        let done: Vec<_> = {
            let mut ahead = self.ahead();
            changes.iter().map(|change| ahead.apply(change)).collect()
        };
        (self.sync)();
        let mut shown = self.shown();
        for change in changes {
            // Refused or not exactly as before: the shown copy takes the same steps from the same state.
            let _ = shown.apply(change);
        }
        Ok(done)
    }

    fn bring(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), Error> {
        let bytes = Bytes::copy_from_slice(bytes);
        self.ahead().bodies.insert((job, name.part, name.seq), bytes.clone());
        self.shown().bodies.insert((job, name.part, name.seq), bytes);
        Ok(())
    }

    fn discard(&self, job: JobId, name: BodyRef) {
        self.ahead().bodies.remove(&(job, name.part, name.seq));
        self.shown().bodies.remove(&(job, name.part, name.seq));
    }

    fn job(&self, id: JobId) -> Result<Option<Arc<Head>>, Error> {
        Ok(self.shown().heads.get(&id).cloned())
    }

    fn jobs(&self, query: &Query) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        if !query.admits_ended() {
            return Ok(listing);
        }
        let shown = self.shown();
        let older = shown.heads.range(..query.before.unwrap_or(JobId::from_u128(u128::MAX)));
        let ended = older.rev().filter(|(_, head)| head.job.status().is_terminal());
        for (looked, (id, head)) in ended.enumerate() {
            if listing.jobs.len() >= query.limit || looked == SCAN_MAX {
                return Ok(listing);
            }
            listing.next = Some(*id);
            if query.admits(&head.job) {
                listing.jobs.push(head.clone());
            }
        }
        listing.next = None;
        Ok(listing)
    }

    fn keyed(&self, owner: &str, job_type: &str, key: &str) -> Result<Option<JobId>, Error> {
        Ok(self.shown().keys.get(&(owner.into(), job_type.into(), key.into())).copied())
    }

    fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error> {
        let Some(bytes) = self.shown().bodies.get(&(job, name.part, name.seq)).cloned() else { return Ok(None) };
        Ok(Some(range(&bytes, offset, limit)))
    }

    fn bounds(&self) -> Bounds {
        self.shown().bounds
    }

    fn events(&self, after: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        let shown = self.shown();
        let from = after.next().max(shown.bounds.floor);
        Ok(shown.log.range(from..).take(limit.max(1)).map(|(_, logged)| logged.clone()).collect())
    }

    fn entries(&self, positions: &[Position]) -> Result<Vec<Logged>, Error> {
        let shown = self.shown();
        Ok(positions.iter().filter_map(|position| shown.log.get(position).cloned()).collect())
    }

    fn trail(&self, job: JobId, number: u32) -> Result<Vec<Position>, Error> {
        let shown = self.shown();
        let blocks = shown.blocks.get(&job).map(Vec::as_slice).unwrap_or_default();
        Ok(blocks.chunks(TRAIL_RECENT_MAX).nth(number as usize).map(<[Position]>::to_vec).unwrap_or_default())
    }

    fn cells(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, Error> {
        let shown = self.shown();
        let from = shown.cells.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        Ok(from.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn ends(
        &self,
        job_type: &str,
        failed: bool,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, Error> {
        let shown = self.shown();
        let bound = |at| (Arc::from(job_type), failed, at, JobId::from_u128(0));
        let ends = shown.ends.range(bound(Timestamp(i64::MIN))..bound(before));
        Ok(ends.take(limit).map(|(_, _, at, id)| (*at, *id)).collect())
    }

    fn forget(&self, ids: &[JobId]) -> Result<(), Error> {
        self.ahead().forget(ids);
        (self.sync)();
        self.shown().forget(ids);
        Ok(())
    }

    fn pin(&self) -> Result<Pin, Error> {
        self.ahead().pin();
        Ok(self.shown().pin())
    }

    fn unpin(&self, pin: &Pin) {
        self.ahead().unpin(pin);
        self.shown().unpin(pin);
    }

    fn is_pinned(&self, pin: &Pin) -> bool {
        self.shown().is_pinned(pin)
    }

    fn pinned_entries(&self, pin: &Pin, after: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        let shown = self.shown();
        let found = shown.log.range(after.next()..).take_while(|(position, _)| **position <= pin.bounds.last);
        Ok(found.take(limit.max(1)).map(|(_, logged)| logged.clone()).collect())
    }

    fn pinned_body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error> {
        if let Some(found) = self.body(job, name, offset, limit)? {
            return Ok(Some(found));
        }
        let shown = self.shown();
        let kept = shown.pinned.as_ref().and_then(|(_, kept)| kept.get(&(job, name.part, name.seq)));
        Ok(kept.map(|bytes| range(bytes, offset, limit)))
    }

    fn totals(&self) -> Arc<Totals> {
        Arc::new(self.shown().totals.clone())
    }

    fn room(&self) -> Result<bool, Error> {
        Ok(self.disk.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    fn health(&self) -> Result<Health, Error> {
        Ok(self.disk.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
