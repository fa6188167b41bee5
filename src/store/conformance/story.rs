//! Jobs for tests of stores: their lives told step by step, as changes to commit.
//!
//! In: what happens next. Out: the change, and the head as it must then be found. The same fold as everywhere.

use std::sync::Arc;

use bytes::Bytes;

use super::super::{Change, JobChange, Store};
use crate::job::{
    Body, BodyRef, Carried, ClaimNo, Class, Completion, End, Entry, Failure, Head, Job, JobId, Key, Millis, Part,
    Position, Progress, Spec, Timestamp, Trail, machine,
};

/// A job as it should stand.
#[derive(Clone)]
pub struct Story {
    /// What must be found, once the last change is committed.
    pub head: Option<Arc<Head>>,
    /// What it was made from.
    pub spec: Arc<Spec>,
    /// Its payload.
    pub payload: Bytes,
    now: Timestamp,
}

/// The job with this number: rising numbers are rising ids, created a second apart.
pub fn job(number: u64) -> Story {
    job_with(number, |_| ())
}

/// The same, with some of it changed.
pub fn job_with(number: u64, change: impl FnOnce(&mut Spec)) -> Story {
    let payload = Bytes::from(format!("{{\"number\":{number}}}"));
    let created_at = Timestamp(1_700_000_000_000 + i64::try_from(number).unwrap_or(0) * 1_000);
    let mut spec = Spec {
        id: JobId::from_u128(u128::from(number) << 80 | 0x7abc),
        job_type: "echo".into(),
        owner: "local".into(),
        payload: BodyRef::of(Part::Payload, 0, &payload),
        carried: Carried::default(),
        priority: 0,
        max_attempts: 5,
        created_at,
        expires_at: None,
        key: None,
        tags: Arc::new([]),
        traceparent: None,
        replay_of: None,
    };
    change(&mut spec);
    Story { head: None, spec: Arc::new(spec), payload, now: created_at }
}

/// The key with this text.
pub fn key(text: &str) -> Option<Arc<Key>> {
    Some(Arc::new(Key { text: text.into(), digest: [7; 32] }))
}

/// A body and its bytes.
pub fn body(part: Part, seq: u64, bytes: &Bytes) -> Body {
    Body { name: BodyRef::of(part, seq, bytes), bytes: Some(bytes.clone()) }
}

impl Story {
    /// Its id.
    pub fn id(&self) -> JobId {
        self.spec.id
    }

    /// How it must be found.
    ///
    /// # Panics
    /// Before it was created.
    pub fn head(&self) -> Arc<Head> {
        self.head.clone().expect("the job was created")
    }

    fn claim(&self) -> ClaimNo {
        ClaimNo(self.head().job.claims)
    }

    /// The change that these entries make, a millisecond after the last one.
    ///
    /// # Panics
    /// When such entries cannot follow.
    pub fn step(&mut self, entries: Vec<Entry>, bodies: Vec<Body>) -> JobChange {
        self.now.0 += 1;
        let at = if self.head.is_none() { self.spec.created_at } else { self.now };
        let before = self.head.clone();
        let mut job = before.as_ref().map(|head| head.job.clone());
        for entry in &entries {
            job = Some(machine::apply(job, at, entry).expect("a possible entry"));
        }
        let after = job.expect("at least one entry");
        let kept: Vec<BodyRef> = after.bodies().collect();
        let named = before.iter().flat_map(|head| head.job.bodies());
        let dropped = named.filter(|name| !kept.contains(name)).collect();
        JobChange { before, after, entries, at, bodies, dropped }
    }

    /// Takes in where the change was committed.
    pub fn landed(&mut self, change: &JobChange, first: Position) {
        let mut trail = self.head.as_ref().map(|head| head.trail.clone()).unwrap_or_default();
        for n in 0..change.entries.len() {
            trail.push(first.plus(n as u64));
        }
        self.head = Some(Arc::new(Head { job: change.after.clone(), trail }));
    }

    /// Commits these entries.
    ///
    /// # Panics
    /// When the store refuses.
    pub fn put(&mut self, store: &dyn Store, entries: Vec<Entry>, bodies: Vec<Body>) -> Position {
        let change = self.step(entries, bodies);
        let position = commit_one(store, change, |position, change| self.landed(change, position));
        position.expect("no conflict")
    }

    /// The entry that creates it.
    pub fn created(&self) -> Entry {
        Entry::Created { spec: Arc::clone(&self.spec), run_at: None }
    }

    /// Creates it.
    pub fn create(&mut self, store: &dyn Store) -> Position {
        let payload = body(Part::Payload, 0, &self.payload);
        self.put(store, vec![self.created()], vec![payload])
    }

    /// Hands out a claim.
    pub fn start(&mut self, store: &dyn Store) -> Position {
        let job = &self.head().job;
        let (claim, attempt, max_attempts) = (ClaimNo(job.claims + 1), job.attempts + 1, job.spec.max_attempts);
        self.put(store, vec![Entry::Started { claim, attempt, max_attempts, worker: "w1".into() }], Vec::new())
    }

    /// Reports that step.
    pub fn progress(&mut self, store: &dyn Store, step: u32) -> Position {
        let progress = Progress { step: Some(step), ..Progress::default() };
        self.put(store, vec![Entry::Progress(progress)], Vec::new())
    }

    /// Reports a partial result, in the place of the last one.
    pub fn partial(&mut self, store: &dyn Store, number: u64, bytes: &Bytes) -> Position {
        let body = body(Part::Partial, self.claim().0 << 32 | number, bytes);
        self.put(store, vec![Entry::Partial { body: body.name, inline: None }], vec![body])
    }

    /// Ends it well.
    pub fn complete(&mut self, store: &dyn Store, result: &Bytes) -> Position {
        let body = body(Part::Result, self.claim().0, result);
        let result = Some(body.name);
        let completion = Completion { summary: "done".into(), result, content: None, is_error: false, lossy: false };
        let (claim, completion, attempts) = (self.claim(), Arc::new(completion), self.head().job.attempts);
        let duration = Millis(1);
        let entry = Entry::Completed { claim, completion, attempts, duration, inline: None, log: None };
        self.put(store, vec![entry], vec![body])
    }

    /// Ends it badly.
    pub fn fail(&mut self, store: &dyn Store) -> Position {
        let (claim, end) = (Some(self.claim()), Some(End::Failed));
        let failure = Failure::new(Class::Fatal, Some("panic"), "it broke");
        let attempts = self.head().job.attempts;
        self.put(store, vec![Entry::Failed { claim, end, failure, attempts, log: None }], Vec::new())
    }

    /// Its whole life in one change, ended well.
    pub fn live(self, store: &dyn Store) -> Self {
        let result = body(Part::Result, 1, &Bytes::from_static(b"\"done\""));
        let name = Some(result.name);
        let completion =
            Completion { summary: "done".into(), result: name, content: None, is_error: false, lossy: false };
        let (completion, duration) = (Arc::new(completion), Millis(1));
        let end = Entry::Completed { claim: ClaimNo(1), completion, attempts: 1, duration, inline: None, log: None };
        self.at_once(store, end, vec![result])
    }

    /// Its whole life in one change, ended badly.
    pub fn die(self, store: &dyn Store) -> Self {
        let failure = Failure::new(Class::Permanent, None, "no");
        let (claim, end) = (Some(ClaimNo(1)), Some(End::Failed));
        self.at_once(store, Entry::Failed { claim, end, failure, attempts: 1, log: None }, Vec::new())
    }

    fn at_once(mut self, store: &dyn Store, end: Entry, mut bodies: Vec<Body>) -> Self {
        let max_attempts = self.spec.max_attempts;
        let started = Entry::Started { claim: ClaimNo(1), attempt: 1, max_attempts, worker: "w1".into() };
        bodies.push(body(Part::Payload, 0, &self.payload));
        let created = self.created();
        self.put(store, vec![created, started, end], bodies);
        self
    }
}

/// Commits one job's change, and tells where it landed.
pub fn commit_one(store: &dyn Store, change: JobChange, landed: impl FnOnce(Position, &JobChange)) -> Option<Position> {
    let change = Change { jobs: vec![change], cells: Vec::new() };
    let done = store.commit(std::slice::from_ref(&change)).expect("the store works");
    let position = done[0].ok()?;
    landed(position, &change.jobs[0]);
    Some(position)
}

/// All positions of a job's entries, as the trail says.
pub fn positions(store: &dyn Store, id: JobId, trail: &Trail) -> Vec<Position> {
    let older = (0..trail.blocks).flat_map(|number| store.trail(id, number).expect("the store works"));
    older.chain(trail.recent.iter().copied()).collect()
}

/// The record of a job, as found.
pub fn found(store: &dyn Store, id: JobId) -> Option<Job> {
    store.job(id).expect("the store works").map(|head| head.job.clone())
}
