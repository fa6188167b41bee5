//! The WorkSource port: where attempts come from and where they report to.
//!
//! In: free slots. Out: claims. The core gives work to this process; a remote source will give it over HTTP.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;

use crate::job::{Asking, BodyRef, Carried, ClaimNo, JobId, Millis, Outcome, Progress, Timestamp};

pub mod content;

/// One attempt, handed out.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Of this job.
    pub job: JobId,
    /// Its type: chooses the handler.
    pub job_type: Arc<str>,
    /// The fencing token: each report carries it.
    pub number: ClaimNo,
    /// Which attempt of those that count, from 1.
    pub attempt: u32,
    /// Runs in all.
    pub max_attempts: u32,
    /// Name of the arguments; `WorkSource::body` reads them.
    pub payload: BodyRef,
    /// The arguments themselves, where they are a few bytes.
    pub carried: Carried,
    /// When the attempt must be over.
    pub deadline: Timestamp,
    /// The caller's idempotency key.
    pub idempotency_key: Option<Arc<str>>,
    /// W3C trace context, as submitted.
    pub traceparent: Option<Arc<str>>,
    /// Told when the attempt is to stop.
    pub stop: Arc<StopFlag>,
    /// What was answered before, then what is answered while the attempt runs.
    pub answers: Arc<Answers>,
}

/// Names of answers on their way to an attempt. Wakes who asked to be woken.
#[derive(Default)]
pub struct Answers {
    mail: Mutex<Mail>,
}

#[derive(Default)]
struct Mail {
    names: Vec<BodyRef>,
    wake: Option<Box<dyn Fn() + Send>>,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Answers").field(&self.mail().names).finish()
    }
}

impl Answers {
    /// Those given so far.
    pub fn new(names: Vec<BodyRef>) -> Self {
        Self { mail: Mutex::new(Mail { names, wake: None }) }
    }

    /// Adds those that have just become durable.
    pub fn put(&self, names: impl IntoIterator<Item = BodyRef>) {
        let mut mail = self.mail();
        mail.names.extend(names);
        if let Some(wake) = &mail.wake {
            wake();
        }
    }

    /// Those that were not taken before; `WorkSource::body` reads them.
    pub fn take(&self) -> Vec<BodyRef> {
        std::mem::take(&mut self.mail().names)
    }

    /// Calls `wake` whenever answers come, on the thread that brings them: it must neither block nor come back here. A
    /// second call replaces the first.
    pub fn on_new(&self, wake: impl Fn() + Send + 'static) {
        self.mail().wake = Some(Box::new(wake));
    }

    fn mail(&self) -> std::sync::MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Why an attempt is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stop {
    /// The job is being cancelled (or has expired): end within the grace, then be killed.
    Cancel = 1,
    /// The server is shutting down and its grace is over: the attempt is given back and runs again later.
    Shutdown = 2,
    /// The claim is no longer the job's current one: whatever comes of it is refused.
    Stale = 3,
}

type OnStop = Box<dyn FnOnce(Stop) + Send>;

/// The wish that an attempt stop. Set once, the first reason stays; wakes who asked to be woken.
#[derive(Default)]
pub struct StopFlag {
    reason: AtomicU8,
    waiting: Mutex<Option<OnStop>>,
}

impl std::fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopFlag").field(&self.get()).finish()
    }
}

impl StopFlag {
    /// Whether to stop, and why. Neither blocks nor allocates.
    pub fn get(&self) -> Option<Stop> {
        match self.reason.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Stop::Cancel),
            2 => Some(Stop::Shutdown),
            _ => Some(Stop::Stale),
        }
    }

    /// Asks the attempt to stop. A second call changes nothing.
    pub fn set(&self, reason: Stop) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.reason.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
            && let Some(tell) = waiting.take()
        {
            drop(waiting);
            tell(reason);
        }
    }

    /// Calls `tell` once when the attempt is to stop, at once if it already is. It runs on the thread that sets the
    /// flag: it may send to a channel with room, and must not block. A second call replaces the first.
    pub fn on_stop(&self, tell: impl FnOnce(Stop) + Send + 'static) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match self.get() {
            Some(reason) => {
                drop(waiting);
                tell(reason);
            }
            None => *waiting = Some(Box::new(tell)),
        }
    }
}

/// What a running attempt has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// How far it is.
    Progress(Progress),
    /// A partial result: one JSON value, compact. `count` is the attempt's number of partials so far, from 1.
    Partial {
        /// The value.
        data: Bytes,
        /// Which of the attempt's.
        count: u32,
    },
    /// A question. `count` is the attempt's number of questions so far, from 1.
    Ask {
        /// Its words.
        asking: Arc<Asking>,
        /// Which of the attempt's.
        count: u32,
    },
    /// The attempt was told to stop.
    Delivered,
}

/// How an attempt leaves.
#[derive(Debug, Clone, PartialEq)]
pub enum Leave {
    /// With an outcome.
    Over(Outcome),
    /// Given back, uncounted: the server shuts down, or a question waits too long for its answer.
    Released,
}

/// No more work will come: the source is closed or the server drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// A body could not be had: the claim is stale, or the store has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoBody(pub String);

/// Where attempts come from.
pub trait WorkSource: Send + Sync {
    /// Blocks until there is work, then gives 1 to `want` claims, each durable. One thread at a time.
    ///
    /// # Errors
    /// `Closed` once nothing more will be handed out.
    fn claim(&self, want: usize) -> Result<Vec<Claim>, Closed>;

    /// The arguments of a claim or an answer, a JSON object either. Blocks on the disk.
    ///
    /// # Errors
    /// `NoBody` says why there is none.
    fn body(&self, claim: &Claim, name: BodyRef) -> Result<Bytes, NoBody>;

    /// Reports on a running attempt. Never waits for the disk (a large partial apart, which this thread writes); what
    /// comes too often is merged. A question's answer comes by `Claim::answers`.
    fn report(&self, claim: &Claim, report: Report);

    /// Hands the end over and returns; `freed` is called, on another thread, once it is durable or refused: then the
    /// slot is free. `log` is what the attempt logged, in lines, possibly empty.
    fn finish(&self, claim: &Claim, leave: Leave, log: Bytes, freed: Box<dyn FnOnce() + Send>);
}

/// How long an attempt has from the wish to stop to the kill.
pub type Grace = Millis;
