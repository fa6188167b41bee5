//! A job's record is the fold of its entries: this is the fold.
//!
//! In: the job so far and one more entry. Out: the job with it, or what does not fit (then the log is damaged, or the
//! code is wrong). Decides nothing: what `machine::decide` made always fits.

use std::fmt;
use std::sync::Arc;

use super::progress::merge;
use super::{
    Answer, BodyRef, ClaimNo, Entry, Failure, Job, JobId, LOGS_MAX, LastError, Place, Progress, Questions, Receipt,
    Spec, State, Timestamp,
};

/// Why an entry cannot follow what came before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// The first entry is no creation.
    NotCreated,
    /// A creation that is not the first entry.
    CreatedTwice,
    /// The job has ended before.
    AfterEnd,
    /// The job does not wait.
    NotPending,
    /// No attempt holds the job.
    NotRunning,
    /// Another claim than this one is meant to be named.
    WrongClaim {
        /// The claim that would have fitted.
        expected: ClaimNo,
        /// The one in the entry.
        found: ClaimNo,
    },
    /// The attempt's number is not the next.
    WrongAttempt,
    /// A cancel is requested, delivered or fulfilled out of turn.
    CancelOutOfTurn,
    /// Only a dead letter is replayed, and once.
    NotDeadLettered,
    /// A key is asked twice, or too many are.
    AskedOutOfTurn,
    /// What is answered is not open.
    AnsweredOutOfTurn,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated => f.write_str("the first entry does not create the job"),
            Self::CreatedTwice => f.write_str("the job is created twice"),
            Self::AfterEnd => f.write_str("an entry follows the terminal one"),
            Self::NotPending => f.write_str("the entry needs a waiting job"),
            Self::NotRunning => f.write_str("the entry needs a running attempt"),
            Self::WrongClaim { expected, found } => {
                write!(f, "the entry names claim {} where {} is due", found.0, expected.0)
            }
            Self::WrongAttempt => f.write_str("the attempt's number is not the next"),
            Self::CancelOutOfTurn => f.write_str("a cancel is requested, delivered or fulfilled out of turn"),
            Self::NotDeadLettered => f.write_str("what is replayed is no dead letter"),
            Self::AskedOutOfTurn => f.write_str("a question is asked twice, or there are too many"),
            Self::AnsweredOutOfTurn => f.write_str("what is answered is no open question"),
        }
    }
}

impl std::error::Error for Impossible {}

/// The job after one more entry, decided at `at`.
///
/// # Errors
/// Any `Impossible`: the entry does not follow from the job.
pub fn apply(job: Option<Job>, at: Timestamp, entry: &Entry) -> Result<Job, Impossible> {
    let mut job = match (job, entry) {
        (None, Entry::Created { spec, run_at }) => return Ok(created(spec, *run_at, at)),
        (None, _) => return Err(Impossible::NotCreated),
        (Some(job), _) => job,
    };
    advance(&mut job, at, entry)?;
    job.revision = job.revision.saturating_add(1);
    job.updated_at = at;
    Ok(job)
}

/// The record that the entries of one job make, in order; `None` if there are none.
///
/// # Errors
/// The first `Impossible`.
pub fn fold<'a>(entries: impl IntoIterator<Item = (Timestamp, &'a Entry)>) -> Result<Option<Job>, Impossible> {
    entries.into_iter().try_fold(None, |job, (at, entry)| apply(job, at, entry).map(Some))
}

/// Bodies that the record named before and no longer names.
pub fn dropped(before: &Job, after: &Job) -> Vec<BodyRef> {
    before.bodies().filter(|body| !after.bodies().any(|kept| kept == *body)).collect()
}

fn created(spec: &Arc<Spec>, run_at: Option<Timestamp>, at: Timestamp) -> Job {
    Job {
        spec: spec.clone(),
        state: State::Pending,
        revision: 1,
        claims: 0,
        attempts: 0,
        interruptions: 0,
        run_at: run_at.unwrap_or(spec.created_at),
        updated_at: at,
        started_at: None,
        finished_at: None,
        progress: None,
        progress_at: None,
        reached: None,
        reached_before: None,
        partial: None,
        error: None,
        cancel: None,
        logs: Vec::new(),
        questions: Questions::default(),
    }
}

fn advance(job: &mut Job, at: Timestamp, entry: &Entry) -> Result<(), Impossible> {
    if job.status().is_terminal() && !matches!(entry, Entry::Replayed { .. }) {
        return Err(Impossible::AfterEnd);
    }
    match entry {
        Entry::Created { .. } => return Err(Impossible::CreatedTwice),
        Entry::Started { claim, attempt, worker, .. } => start(job, at, *claim, *attempt, worker)?,
        Entry::Progress(progress) => report(job, at, progress)?,
        Entry::Partial { body, .. } => {
            job.claim().ok_or(Impossible::NotRunning)?;
            job.partial = Some(*body);
        }
        Entry::Retrying { claim, failure, next_at, log, .. } => {
            leave(job, *claim, *log)?;
            uncanceled(job)?;
            blame(job, failure);
            wait(job, *next_at);
        }
        Entry::Released { claim, log } => {
            leave(job, *claim, *log)?;
            uncanceled(job)?;
            job.attempts = job.attempts.saturating_sub(1);
            wait(job, at);
        }
        Entry::Interrupted { claim, charged } => {
            leave(job, *claim, None)?;
            uncanceled(job)?;
            job.attempts = job.attempts.saturating_sub(1);
            job.interruptions = job.interruptions.saturating_add(u32::from(*charged));
            wait(job, at);
        }
        Entry::CancelRequested { by, reason } => {
            job.claim().ok_or(Impossible::NotRunning)?;
            uncanceled(job)?;
            job.cancel = Some(Arc::new(requested(at, by, reason)));
        }
        Entry::CancelDelivered { claim } => deliver(job, at, *claim)?,
        Entry::Completed { claim, completion, log, .. } => {
            leave(job, *claim, *log)?;
            uncanceled(job)?;
            job.error = None;
            end(job, at, State::Completed(completion.clone()));
        }
        Entry::Failed { claim, failure, log, .. } => {
            leave_or_pending(job, *claim, *log)?;
            uncanceled(job)?;
            blame(job, failure);
            end(job, at, State::Failed { replayed_as: None });
        }
        Entry::Canceled { claim, by, reason, log } => stop(job, at, *claim, by, reason, *log)?,
        Entry::Replayed { as_job } => replay(job, *as_job)?,
        Entry::Asked { claim, key, body, .. } => ask(job, at, *claim, key, *body)?,
        Entry::Answered { answers, .. } => answer(job, at, answers)?,
    }
    Ok(())
}

fn start(job: &mut Job, at: Timestamp, claim: ClaimNo, attempt: u32, worker: &Arc<str>) -> Result<(), Impossible> {
    if job.state != State::Pending {
        return Err(Impossible::NotPending);
    }
    let expected = ClaimNo(job.claims.saturating_add(1));
    if claim != expected {
        return Err(Impossible::WrongClaim { expected, found: claim });
    }
    if attempt != job.attempts.saturating_add(1) {
        return Err(Impossible::WrongAttempt);
    }
    job.claims = claim.0;
    job.attempts = attempt;
    job.started_at = Some(at);
    job.reached_before = job.reached;
    job.state = State::InProgress { claim, worker: worker.clone() };
    Ok(())
}

fn report(job: &mut Job, at: Timestamp, progress: &Progress) -> Result<(), Impossible> {
    job.claim().ok_or(Impossible::NotRunning)?;
    let nothing = Progress::default();
    let place = Place::of(job, progress);
    if place > job.reached {
        job.reached = place;
    }
    let last = job.progress.as_deref().unwrap_or(&nothing);
    job.progress = Some(Arc::new(merge(last, progress)));
    job.progress_at = Some(at);
    Ok(())
}

fn ask(job: &mut Job, at: Timestamp, claim: ClaimNo, key: &str, body: BodyRef) -> Result<(), Impossible> {
    held_by(job, claim)?;
    uncanceled(job)?;
    if job.questions.ask(key, body, at) { Ok(()) } else { Err(Impossible::AskedOutOfTurn) }
}

/// A job that was given up for its questions waits for a turn again once the last is answered.
fn answer(job: &mut Job, at: Timestamp, answers: &[Answer]) -> Result<(), Impossible> {
    uncanceled(job)?;
    if answers.is_empty() || !answers.iter().all(|answer| job.questions.answer(answer)) {
        return Err(Impossible::AnsweredOutOfTurn);
    }
    if job.state == State::InputRequired {
        wait(job, job.run_at.max(at));
    }
    Ok(())
}

fn held_by(job: &Job, claim: ClaimNo) -> Result<(), Impossible> {
    let expected = job.claim().ok_or(Impossible::NotRunning)?;
    if claim == expected { Ok(()) } else { Err(Impossible::WrongClaim { expected, found: claim }) }
}

/// The attempt is over; its log stays, among the newest.
fn leave(job: &mut Job, claim: ClaimNo, log: Option<BodyRef>) -> Result<(), Impossible> {
    held_by(job, claim)?;
    if let Some(log) = log {
        job.logs.push(log);
        let surplus = job.logs.len().saturating_sub(LOGS_MAX);
        job.logs.drain(..surplus);
    }
    Ok(())
}

/// The attempt is over, or there was none.
fn leave_or_pending(job: &mut Job, claim: Option<ClaimNo>, log: Option<BodyRef>) -> Result<(), Impossible> {
    match claim {
        Some(claim) => leave(job, claim, log),
        None if job.claim().is_none() => Ok(()),
        None => Err(Impossible::NotPending),
    }
}

/// Once a cancel was requested nothing but the cancel can follow from the attempt.
fn uncanceled(job: &Job) -> Result<(), Impossible> {
    if job.cancel.is_some() { Err(Impossible::CancelOutOfTurn) } else { Ok(()) }
}

/// However its attempt ended, a job with open questions waits for those first: without the answers the next attempt
/// would only come to ask again.
fn wait(job: &mut Job, run_at: Timestamp) {
    job.run_at = run_at;
    job.state = if job.questions.are_open() { State::InputRequired } else { State::Pending };
}

fn end(job: &mut Job, at: Timestamp, state: State) {
    job.finished_at = Some(at);
    job.questions.close();
    job.state = state;
}

fn blame(job: &mut Job, failure: &Failure) {
    job.error = Some(Arc::new(LastError { failure: failure.clone(), attempt: job.attempts }));
}

fn requested(at: Timestamp, by: &Arc<str>, reason: &Arc<str>) -> Receipt {
    Receipt { requested_at: at, requested_by: by.clone(), reason: reason.clone(), delivered_at: None, stopped_at: None }
}

/// The times of a receipt rise, also when the clock was set back in between.
fn deliver(job: &mut Job, at: Timestamp, claim: ClaimNo) -> Result<(), Impossible> {
    held_by(job, claim)?;
    let receipt = job.cancel.as_mut().filter(|receipt| receipt.delivered_at.is_none());
    let receipt = Arc::make_mut(receipt.ok_or(Impossible::CancelOutOfTurn)?);
    receipt.delivered_at = Some(at.max(receipt.requested_at));
    Ok(())
}

fn stop(
    job: &mut Job,
    at: Timestamp,
    claim: Option<ClaimNo>,
    by: &Arc<str>,
    reason: &Arc<str>,
    log: Option<BodyRef>,
) -> Result<(), Impossible> {
    leave_or_pending(job, claim, log)?;
    let mut receipt = match (&job.cancel, claim) {
        (Some(receipt), Some(_)) => Receipt::clone(receipt),
        (None, None) => requested(at, by, reason),
        (Some(_), None) | (None, Some(_)) => return Err(Impossible::CancelOutOfTurn),
    };
    receipt.stopped_at = Some(at.max(receipt.delivered_at.unwrap_or(receipt.requested_at)));
    job.cancel = Some(Arc::new(receipt));
    end(job, at, State::Canceled { by: by.clone(), reason: reason.clone() });
    Ok(())
}

fn replay(job: &mut Job, as_job: JobId) -> Result<(), Impossible> {
    match &mut job.state {
        State::Failed { replayed_as: replayed_as @ None } => *replayed_as = Some(as_job),
        State::Failed { .. }
        | State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Completed(_)
        | State::Canceled { .. } => return Err(Impossible::NotDeadLettered),
    }
    Ok(())
}
