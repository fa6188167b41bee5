//! The group that is being decided: what its commands have changed so far, over what is durable.
//!
//! In: entries that were decided. Out: changes for one commit. One part per job, however many commands touched it, so
//! that a job costs the store one write per group. Never touches the store.

use std::collections::HashMap;
use std::sync::Arc;

use crate::job::{Body, BodyRef, Entry, Head, Job, JobId, Logged, Position, Progress, Timestamp, machine};
use crate::store::{CellChange, Change, JobChange};

/// Most commands decided and committed together. Larger groups were no faster and kept readers waiting (design 11).
pub const GROUP_MAX: usize = 128;
/// Once the small bodies of a group reach this many bytes, it takes no further command: the store keeps room for one
/// such group ahead.
pub const GROUP_BYTES_MAX: u64 = 1024 * 1024;

/// An unfinished job as the core holds it.
pub(super) struct Live {
    pub head: Arc<Head>,
    /// Progress kept back: not durable, and no loss if it is lost.
    pub held: Option<Box<Progress>>,
}

/// Every unfinished job.
#[derive(Default)]
pub(super) struct Table {
    pub live: HashMap<JobId, Live>,
    /// Payload bytes of unfinished jobs.
    pub payload_bytes: u64,
}

/// Whom a key belongs to, and the key: (owner, type, key).
pub(super) type KeyName = (Arc<str>, Arc<str>, Arc<str>);

/// See the head of this file.
pub(super) struct Group {
    /// The time of everything decided in it.
    pub now: Timestamp,
    pub changes: Vec<Change>,
    /// Where each touched job stands in `changes`.
    at: HashMap<JobId, (usize, usize)>,
    /// Keys given to jobs that this group creates.
    pub keys: HashMap<KeyName, JobId>,
    /// Bytes of the bodies that it brings.
    pub body_bytes: u64,
}

impl Group {
    pub fn new(now: Timestamp) -> Self {
        Self { now, changes: Vec::new(), at: HashMap::new(), keys: HashMap::new(), body_bytes: 0 }
    }

    /// The unfinished job as the group has left it so far.
    pub fn job<'a>(&'a self, table: &'a Table, id: JobId) -> Option<&'a Job> {
        match self.part(id) {
            Some(part) => (!part.after.status().is_terminal()).then_some(&part.after),
            None => table.live.get(&id).map(|live| &live.head.job),
        }
    }

    /// The job's part of the group, if it has one.
    pub fn part(&self, id: JobId) -> Option<&JobChange> {
        self.at.get(&id).map(|(change, part)| &self.changes[*change].jobs[*part])
    }

    /// Adds a job that did not exist.
    pub fn create(&mut self, entry: Entry, body: Body) -> Result<(), machine::Impossible> {
        self.body_bytes += weight(&body);
        let change = self.created(entry, body)?;
        self.changes.push(Change { jobs: vec![change], cells: Vec::new() });
        self.index(self.changes.len() - 1);
        Ok(())
    }

    /// Adds a new job made from a dead letter, and the dead letter's own entry, as one change.
    pub fn replay(
        &mut self,
        dead: Arc<Head>,
        replayed: Entry,
        created: Entry,
        body: Body,
    ) -> Result<(), machine::Impossible> {
        self.body_bytes += weight(&body);
        let new = self.created(created, body)?;
        let after = machine::apply(Some(dead.job.clone()), self.now, &replayed)?;
        let old = JobChange {
            before: Some(dead),
            after,
            entries: vec![replayed],
            at: self.now,
            bodies: Vec::new(),
            dropped: Vec::new(),
        };
        self.changes.push(Change { jobs: vec![old, new], cells: Vec::new() });
        self.index(self.changes.len() - 1);
        Ok(())
    }

    fn created(&self, entry: Entry, body: Body) -> Result<JobChange, machine::Impossible> {
        let after = machine::apply(None, self.now, &entry)?;
        Ok(JobChange {
            before: None,
            after,
            entries: vec![entry],
            at: self.now,
            bodies: vec![body],
            dropped: Vec::new(),
        })
    }

    /// Adds what was decided about an unfinished job. Returns the bodies that nothing names after all.
    pub fn step(
        &mut self,
        table: &Table,
        id: JobId,
        entries: Vec<Entry>,
        bodies: Vec<Body>,
    ) -> Result<Vec<BodyRef>, machine::Impossible> {
        if entries.is_empty() {
            return Ok(bodies.iter().map(|body| body.name).collect());
        }
        if !self.at.contains_key(&id) {
            let Some(live) = table.live.get(&id) else { return Ok(Vec::new()) };
            let part = JobChange {
                before: Some(live.head.clone()),
                after: live.head.job.clone(),
                entries: Vec::new(),
                at: self.now,
                bodies: Vec::new(),
                dropped: Vec::new(),
            };
            self.changes.push(Change { jobs: vec![part], cells: Vec::new() });
            self.index(self.changes.len() - 1);
        }
        let (change, part) = self.at[&id];
        let part = &mut self.changes[change].jobs[part];
        let mut after = part.after.clone();
        for entry in entries {
            after = machine::apply(Some(after), self.now, &entry)?;
            part.entries.push(entry);
        }
        let before = std::mem::replace(&mut part.after, after);
        // What the record names already has been written, or is about to be.
        let is_new = |body: &Body| !before.bodies().any(|known| known == body.name);
        let bodies: Vec<Body> = bodies.into_iter().filter(is_new).collect();
        self.body_bytes += bodies.iter().map(weight).sum::<u64>();
        part.bodies.extend(bodies);
        Ok(part.settle_bodies(&before))
    }

    /// Small named records, apart from any job. Returns which change they are.
    pub fn cells(&mut self, cells: Vec<CellChange>) -> usize {
        self.changes.push(Change { jobs: Vec::new(), cells });
        self.changes.len() - 1
    }

    fn index(&mut self, change: usize) {
        for (part, job) in self.changes[change].jobs.iter().enumerate() {
            self.at.insert(job.after.id(), (change, part));
        }
    }
}

/// What the body adds to the commit: nothing if it was brought.
fn weight(body: &Body) -> u64 {
    body.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
}

impl JobChange {
    /// Sorts out bodies after a step: what the step dropped is dropped here, unless this very group brought it; then
    /// it is returned as never named.
    fn settle_bodies(&mut self, before: &Job) -> Vec<BodyRef> {
        let named: Vec<BodyRef> = self.after.bodies().collect();
        for gone in machine::dropped(before, &self.after) {
            if !self.bodies.iter().any(|body| body.name == gone) {
                self.dropped.push(gone);
            }
        }
        let (kept, unnamed) = std::mem::take(&mut self.bodies).into_iter().partition(|body| named.contains(&body.name));
        self.bodies = kept;
        unnamed.into_iter().map(|body: Body| body.name).collect()
    }

    /// The head and the entries that this part became when its first entry got `first`.
    pub(super) fn landed(&self, first: Position) -> (Arc<Head>, Vec<Logged>) {
        let mut trail = self.before.as_ref().map(|head| head.trail.clone()).unwrap_or_default();
        let spec = &self.after.spec;
        let mut logged = Vec::with_capacity(self.entries.len());
        for (n, entry) in self.entries.iter().enumerate() {
            let position = first.plus(n as u64);
            trail.push(position);
            logged.push(Logged {
                position,
                at: self.at,
                job: spec.id,
                job_type: spec.job_type.clone(),
                owner: spec.owner.clone(),
                tags: spec.tags.clone(),
                entry: entry.clone(),
            });
        }
        (Arc::new(Head { job: self.after.clone(), trail }), logged)
    }
}
