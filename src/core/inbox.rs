//! What the core can be asked, and how it answers. Two bounded lanes: inner before submit.
//!
//! In: wishes from any thread. Out: answers that are sent only once what they say is synced.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use super::pin::PinRefusal;
use crate::job::{Body, ClaimNo, Command, Head, JobId, Refusal, Rules, Spec, Timestamp};
use crate::store::{CellChange, Pin};
use crate::work;

/// Submits that wait for the core at most; one more is refused as busy.
pub const SUBMIT_MAX: usize = 8_192;
/// Inner commands that wait at most. A worker thread that finds it full waits; async callers are refused as busy.
pub const INNER_MAX: usize = 65_536;

/// A job to be created.
#[derive(Debug)]
pub struct Creation {
    /// Everything that never changes; the core sets `created_at`.
    pub spec: Spec,
    /// Not before.
    pub run_at: Option<Timestamp>,
    /// The arguments.
    pub payload: Body,
}

/// Why no job was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitRefusal {
    /// The key names this job, which has another payload.
    KeyConflict(JobId),
    /// The named limit is reached.
    Full(&'static str),
    /// The disk is below its reserve.
    DiskFull,
    /// Shutting down.
    Draining,
}

/// A durable answer to a submit: the job, and whether this created it.
pub type SubmitAnswer = Result<(Arc<Head>, bool), SubmitRefusal>;

/// A wish in the submit lane.
pub(super) struct Submission {
    pub creation: Box<Creation>,
    pub reply: oneshot::Sender<SubmitAnswer>,
}

/// Why a command on an existing job was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActRefusal {
    /// The core holds no unfinished job of that id (it has ended, or never was).
    NotLive,
    /// The machine says no.
    Refused(Refusal),
    /// The disk has no room for it.
    DiskFull,
}

/// Why no small named record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellsRefusal {
    /// One does not hold what was expected.
    Conflict,
    /// The disk is below its reserve, and one would be written; or it has no room at all.
    DiskFull,
}

/// Why no new job was made from a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayRefusal {
    /// No such job, not failed, or replayed before.
    Refused(Refusal),
    /// As for any submit.
    Submit(SubmitRefusal),
}

/// A wish in the inner lane.
pub(super) enum Inner {
    /// Claims for a source that has room.
    Claim { want: usize, reply: Sender<Vec<work::Claim>> },
    /// An attempt says something; nobody waits for an answer.
    Report { job: JobId, command: Command, bodies: Vec<Body> },
    /// An attempt is over; `freed` is called when that is durable or refused.
    Finish { job: JobId, claim: ClaimNo, command: Command, bodies: Vec<Body>, freed: Box<dyn FnOnce() + Send> },
    /// Somebody acts on an unfinished job.
    Act { job: JobId, command: Command, bodies: Vec<Body>, reply: oneshot::Sender<Result<Arc<Head>, ActRefusal>> },
    /// A new job from a dead letter.
    Replay { of: JobId, creation: Box<Creation>, reply: oneshot::Sender<Result<Arc<Head>, ReplayRefusal>> },
    /// Small named records.
    Cells { cells: Vec<CellChange>, reply: oneshot::Sender<Result<(), CellsRefusal>> },
    /// Nothing is to be forgotten for a while.
    Pin { reply: oneshot::Sender<Result<Pin, PinRefusal>> },
    /// The end of that.
    Unpin(Pin),
    /// The tools are others from now on.
    Configure(HashMap<Arc<str>, Rules>),
    /// No more claims and submits from now on.
    Drain,
    /// Running attempts are to be given back.
    Release,
    /// The end: what still runs is released, the store closed.
    Close,
}
