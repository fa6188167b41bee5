//! Which job starts next: by priority, then age; fair turns between types; limits per type; suspects one at a time.
//!
//! In: jobs that wait, the time, jobs that have ended. Out: the next one to start, whose time has come or is over, when to
//! look again. Built anew from the unfinished jobs at start; remembers nothing that they do not say. Never looks at a
//! job that cannot start now: a type at its limit is set aside as a whole, so that a claim costs the same under any backlog.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Job, JobId, Millis, Timestamp, retry};

mod shelf;

use shelf::{Kind, Lane, Shelves};

/// What is waiting, ready and running. Pure: time comes in, ids go out.
///
/// A clock that jumps back holds nothing up that was ready before; a job that waits is compared with the time given.
#[derive(Default)]
pub struct Queue {
    jobs: HashMap<JobId, Slot>,
    shelves: Shelves,
    /// Jobs whose time has not come, by when it does.
    waiting: BTreeSet<(Timestamp, JobId)>,
    /// When unfinished jobs expire, as far as `expired` has not said so.
    expiries: BTreeSet<(Timestamp, JobId)>,
    /// Jobs that wait for answers, not for a time.
    asked: usize,
    /// How many ready jobs became due in which second.
    ready_since: BTreeMap<i64, usize>,
    ready: usize,
    looks: usize,
}

/// What the queue knows of a job. A million of them are kept, so it is small.
struct Slot {
    run_at: Timestamp,
    /// `NEVER` if it does not expire.
    expires_at: Timestamp,
    lane: u32,
    priority: i8,
    kind: Kind,
    phase: Phase,
}

const _: () = assert!(size_of::<(JobId, Slot)>() <= 48);

const NEVER: Timestamp = Timestamp(i64::MAX);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Asked,
    Ready,
    Running,
}

impl Queue {
    /// Nothing in it, no limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most `at_once` jobs of this type run at the same time; `None`: as many as come. Running ones go on.
    pub fn set_limit(&mut self, job_type: &Arc<str>, at_once: Option<u32>) {
        let lane = self.shelves.lane(job_type);
        self.shelves.set_limit(lane, at_once);
    }

    /// The job is pending: new, or back from an attempt. Ready if its `run_at` has come, else it waits for that.
    pub fn pending(&mut self, job: &Job, now: Timestamp) {
        self.put(job, Phase::Waiting);
        self.waiting.insert((job.run_at, job.id()));
        if job.run_at <= now {
            self.due(now);
        }
    }

    /// The job waits for answers: nothing but its expiry comes by itself.
    pub fn asked(&mut self, job: &Job) {
        self.put(job, Phase::Asked);
        self.asked += 1;
    }

    fn put(&mut self, job: &Job, phase: Phase) {
        self.remove(job.id());
        let slot = Slot {
            run_at: job.run_at,
            expires_at: job.spec.expires_at.unwrap_or(NEVER),
            lane: self.shelves.lane(&job.spec.job_type),
            priority: job.spec.priority,
            kind: if retry::is_suspect(job.interruptions) { Kind::Suspect } else { Kind::Ordinary },
            phase,
        };
        if slot.expires_at != NEVER {
            self.expiries.insert((slot.expires_at, job.id()));
        }
        self.jobs.insert(job.id(), slot);
    }

    /// The job has ended, whatever it was doing. An unknown one is passed over.
    pub fn remove(&mut self, id: JobId) {
        let Some(slot) = self.jobs.remove(&id) else { return };
        self.expiries.remove(&(slot.expires_at, id));
        match slot.phase {
            Phase::Waiting => {
                self.waiting.remove(&(slot.run_at, id));
            }
            Phase::Asked => self.asked -= 1,
            Phase::Ready => {
                self.shelves.remove(slot.lane, slot.kind, slot.priority, id);
                self.forget_ready(slot.run_at);
            }
            Phase::Running => self.shelves.ended(slot.lane, slot.kind),
        }
    }

    /// What has come due by `now` is ready from now on.
    pub fn due(&mut self, now: Timestamp) {
        while let Some((run_at, id)) = self.waiting.first().copied().filter(|(run_at, _)| *run_at <= now) {
            self.waiting.remove(&(run_at, id));
            self.looks += 1;
            let Some(slot) = self.jobs.get_mut(&id) else { continue };
            slot.phase = Phase::Ready;
            self.shelves.insert(slot.lane, slot.kind, slot.priority, id);
            *self.ready_since.entry(second(run_at)).or_default() += 1;
            self.ready += 1;
        }
    }

    /// When to look again: the next `run_at` or expiry. `None`: nothing will happen by itself.
    pub fn next_due(&self) -> Option<Timestamp> {
        let run_at = self.waiting.first().map(|(run_at, _)| *run_at);
        let expires_at = self.expiries.first().map(|(expires_at, _)| *expires_at);
        run_at.into_iter().chain(expires_at).min()
    }

    /// Unfinished jobs that have expired by `now`, running ones too, the longest expired first, at most `at_most`. Names
    /// each once. Ask before `take`, which does not look at expiries.
    pub fn expired(&mut self, now: Timestamp, at_most: usize) -> Vec<JobId> {
        let mut ids = Vec::new();
        while ids.len() < at_most
            && let Some((expires_at, id)) = self.expiries.first().copied().filter(|(expires_at, _)| *expires_at <= now)
        {
            self.expiries.remove(&(expires_at, id));
            ids.push(id);
        }
        ids
    }

    /// The next job to start, running from now on; `None` if none is ready that may start. What has come due by `now`
    /// takes part.
    pub fn take(&mut self, now: Timestamp) -> Option<JobId> {
        self.looks = 0;
        self.due(now);
        let (id, looks) = self.shelves.take();
        self.looks += looks;
        let slot = self.jobs.get_mut(&id?)?;
        slot.phase = Phase::Running;
        let run_at = slot.run_at;
        self.forget_ready(run_at);
        id
    }

    /// How many entries and lanes the last `take` looked at: its cost, for tests.
    pub fn looks(&self) -> usize {
        self.looks
    }

    /// Jobs that may start, limits apart.
    pub fn ready_len(&self) -> usize {
        self.ready
    }

    /// Jobs that wait for their time.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Jobs that wait for answers.
    pub fn asked_len(&self) -> usize {
        self.asked
    }

    /// Jobs that run.
    pub fn running_len(&self) -> usize {
        self.jobs.len() - self.ready - self.waiting.len() - self.asked
    }

    /// Jobs of this type that run.
    pub fn running_of(&self, job_type: &str) -> usize {
        self.shelves.named(job_type).map_or(0, Lane::running)
    }

    /// Ready jobs whose `run_at` is at least `age` ago, to the second. Costs a step per second of backlog.
    pub fn overdue(&self, age: Millis, now: Timestamp) -> usize {
        let until = i64::try_from(age.0).map_or(i64::MIN, |age| second(Timestamp(now.0.saturating_sub(age))));
        self.ready_since.range(..=until).map(|(_, count)| count).sum()
    }

    /// How long the ready job that came due first has been ready, to the second.
    pub fn oldest_ready(&self, now: Timestamp) -> Option<Millis> {
        let (since, _) = self.ready_since.first_key_value()?;
        Some(now.since(Timestamp(since.saturating_mul(1_000))))
    }

    fn forget_ready(&mut self, run_at: Timestamp) {
        self.ready -= 1;
        if let Some(count) = self.ready_since.get_mut(&second(run_at)) {
            *count -= 1;
            if *count == 0 {
                self.ready_since.remove(&second(run_at));
            }
        }
    }
}

/// The second that an instant is in.
fn second(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}
