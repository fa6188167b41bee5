//! What becomes of a command: the one place where it is decided what may happen to a job.
//!
//! In: the job, the command, the moment. Out: the entries that this makes, in order, or a refusal that changes nothing.
//! Pure: what it returns is not yet so; it is once it is committed and folded (`apply`).

use std::sync::Arc;

pub use super::apply::{Impossible, apply, dropped, fold};
use super::{
    ANSWERS_TOLD_MAX, Answer, Asking, BodyRef, ClaimNo, Class, Command, End, Entry, Failing, Failure, Job, JobId,
    OnInterrupt, Progress, QUESTIONS_MAX, REASON_MAX, Receipt, Refusal, Rules, Spec, Standing, State, Throttle,
    Timestamp, cut, progress, retry,
};

/// Who cancels a job that has expired.
pub const LONGHAUL: &str = "longhaul";
/// Why.
pub const TIMEOUT: &str = "timeout";

/// What a decision depends on besides the job and the command.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// The rules for jobs of this type.
    pub rules: &'a Rules,
    /// How often progress is news.
    pub throttle: &'a Throttle,
    /// A chance of 0 to 1, for the jitter of a retry.
    pub spread: f64,
}

/// The first entry of a job. `run_at` is left out if it does not delay it.
pub fn create(spec: Arc<Spec>, run_at: Option<Timestamp>) -> Entry {
    let run_at = run_at.filter(|run_at| *run_at > spec.created_at);
    Entry::Created { spec, run_at }
}

/// Decides one command. `Ok` and empty: what was asked for is so already, or is not news.
///
/// `held` is progress of the running attempt that came too often to be logged; it comes out before the job's next other
/// entry. It belongs to the caller's memory, not to the record: a crash loses it.
///
/// # Errors
/// `StaleClaim`: a report or an end by any claim but the one that holds the job. `Ended`, `NotNow`: the job is not in a
/// state for this. `NotWaiting`: what is answered is not open. `TooManyQuestions`: one more than `QUESTIONS_MAX`.
/// `NotDeadLettered`, `AlreadyReplayed`: there is nothing to replay.
pub fn decide(
    job: &Job,
    held: &mut Option<Progress>,
    command: &Command,
    moment: &Moment<'_>,
) -> Result<Vec<Entry>, Refusal> {
    let entries = match command {
        Command::Start { worker } => start(job, worker)?,
        Command::Report { claim, progress } => {
            holds(job, *claim)?;
            return Ok(progress::news(job, held, progress, moment).map(Entry::Progress).into_iter().collect());
        }
        Command::Partial { claim, body, inline } => {
            holds(job, *claim)?;
            let repeats = job.partial.is_some_and(|last| (last.len, last.crc) == (body.len, body.crc));
            if repeats { Vec::new() } else { vec![Entry::Partial { body: *body, inline: inline.clone() }] }
        }
        Command::Ask { claim, asking, body } => ask(job, *claim, asking, *body)?,
        Command::Answer { by, answers } => answer(job, by, answers)?,
        Command::Complete { claim, completion, inline, log } => {
            holds(job, *claim)?;
            vec![stopped(job, *claim, *log).unwrap_or_else(|| Entry::Completed {
                claim: *claim,
                completion: completion.clone(),
                attempts: job.attempts,
                duration: moment.now.since(job.started_at.unwrap_or(moment.now)),
                inline: inline.clone(),
                log: *log,
            })]
        }
        Command::Fail { claim, failing, log } => {
            holds(job, *claim)?;
            vec![stopped(job, *claim, *log).unwrap_or_else(|| fail(job, *claim, failing, *log, moment))]
        }
        Command::Release { claim, log } => {
            holds(job, *claim)?;
            vec![stopped(job, *claim, *log).unwrap_or(Entry::Released { claim: *claim, log: *log })]
        }
        Command::Interrupt { charged } => interrupt(job, *charged, moment.rules)?,
        Command::Cancel { by, reason } => cancel(job, by, cut(reason, REASON_MAX).into())?,
        Command::Delivered { claim } => deliver(job, *claim)?,
        Command::Expire => expire(job, moment.now)?,
        Command::Replay { as_job } => {
            vec![replay(job, *as_job)?]
        }
    };
    Ok(after_held(job, held, entries))
}

/// What was held back comes before the job's next other entry.
fn after_held(job: &Job, held: &mut Option<Progress>, mut entries: Vec<Entry>) -> Vec<Entry> {
    if !entries.is_empty()
        && let Some(progress) = held.take()
        && job.claim().is_some()
    {
        entries.insert(0, Entry::Progress(progress));
    }
    entries
}

/// Only the current claim may speak for the job.
fn holds(job: &Job, claim: ClaimNo) -> Result<(), Refusal> {
    if job.claim() == Some(claim) { Ok(()) } else { Err(Refusal::StaleClaim) }
}

/// Only a job that waits is handed out. Whether its time has come is the queue's business: the clock may have jumped.
fn start(job: &Job, worker: &Arc<str>) -> Result<Vec<Entry>, Refusal> {
    match job.state {
        State::Pending => Ok(vec![Entry::Started {
            claim: ClaimNo(job.claims.saturating_add(1)),
            attempt: job.attempts.saturating_add(1),
            max_attempts: job.spec.max_attempts,
            worker: worker.clone(),
        }]),
        State::InProgress { .. } | State::InputRequired => Err(Refusal::NotNow),
        State::Completed(_) | State::Failed { .. } | State::Canceled { .. } => Err(Refusal::Ended),
    }
}

/// A key that was asked before, by whatever attempt, is the same question. Nobody answers a job that is being canceled.
fn ask(job: &Job, claim: ClaimNo, asking: &Asking, body: BodyRef) -> Result<Vec<Entry>, Refusal> {
    holds(job, claim)?;
    if job.cancel.is_some() || job.questions.keyed(&asking.key).is_some() {
        return Ok(Vec::new());
    }
    if job.questions.all().len() >= QUESTIONS_MAX {
        return Err(Refusal::TooManyQuestions);
    }
    let Asking { key, message, schema } = asking.clone();
    Ok(vec![Entry::Asked { claim, key, message, schema, body }])
}

/// All of the answers are taken, or none; one that was given before in the same words is passed over.
fn answer(job: &Job, by: &Arc<str>, answers: &[Answer]) -> Result<Vec<Entry>, Refusal> {
    if job.status().is_terminal() {
        return Err(Refusal::Ended);
    }
    let mut taken: Vec<Answer> = Vec::new();
    for answer in answers {
        let question = job.questions.keyed(&answer.key).ok_or(Refusal::NotWaiting)?;
        let twice = taken.iter().any(|earlier| earlier.key == answer.key);
        match question.standing {
            Standing::Open { .. } if job.awaits_input() && !twice => taken.push(answer.clone()),
            Standing::Answered { action, body } if (action, body) == (answer.action, answer.body) => {}
            Standing::Open { .. } | Standing::Answered { .. } => return Err(Refusal::NotWaiting),
        }
    }
    let told = |answers: &[Answer]| Entry::Answered { by: by.clone(), answers: answers.to_vec() };
    Ok(taken.chunks(ANSWERS_TOLD_MAX).map(told).collect())
}

/// Once a cancel was decided the attempt's end is that cancel, whatever it brings: one wins, and it was first.
fn stopped(job: &Job, claim: ClaimNo, log: Option<BodyRef>) -> Option<Entry> {
    let receipt: &Receipt = job.cancel.as_deref()?;
    let (by, reason) = (receipt.requested_by.clone(), receipt.reason.clone());
    Some(Entry::Canceled { claim: Some(claim), by, reason, log })
}

fn fail(job: &Job, claim: ClaimNo, failing: &Failing, log: Option<BodyRef>, moment: &Moment<'_>) -> Entry {
    let end = match failing.end {
        End::TimedOut => End::TimedOut,
        End::Failed | End::Succeeded | End::Canceled | End::Released | End::Interrupted => End::Failed,
    };
    let failed = |failure| Entry::Failed { claim: Some(claim), end: Some(end), failure, attempts: job.attempts, log };
    let failure = failing.failure.clone();
    if failure.class != Class::Transient || job.attempts >= job.spec.max_attempts {
        return failed(failure);
    }
    let delay = retry::delay(&moment.rules.retry, job.attempts, failing.retry_after, moment.spread);
    let next_at = moment.now.plus(delay);
    if job.spec.expires_at.is_some_and(|expires_at| next_at >= expires_at) {
        let why = format!("The job expires before it could be tried again. {}", failure.message);
        return failed(Failure::new(Class::Transient, Some("expired"), &why));
    }
    Entry::Retrying { claim, end, failure, retry: job.attempts, max_attempts: job.spec.max_attempts, next_at, log }
}

/// Server or worker died: the job runs again, unless it is not to, or this has happened too often.
fn interrupt(job: &Job, charged: bool, rules: &Rules) -> Result<Vec<Entry>, Refusal> {
    let claim = match &job.state {
        State::InProgress { claim, .. } => *claim,
        State::Pending | State::InputRequired => return Err(Refusal::NotNow),
        State::Completed(_) | State::Failed { .. } | State::Canceled { .. } => return Err(Refusal::Ended),
    };
    if let Some(canceled) = stopped(job, claim, None) {
        return Ok(vec![canceled]);
    }
    match rules.on_interrupt {
        OnInterrupt::Fail => {
            let why = "The process died during the attempt: whether the work was done is unknown.";
            let failure = Failure::new(Class::Fatal, Some("outcome_unknown"), why);
            let (claim, end) = (Some(claim), Some(End::Interrupted));
            Ok(vec![Entry::Failed { claim, end, failure, attempts: job.attempts, log: None }])
        }
        OnInterrupt::Retry => {
            let mut entries = vec![Entry::Interrupted { claim, charged }];
            let times = job.interruptions.saturating_add(1);
            if charged && times >= rules.retry.max_interruptions {
                let why = format!("The process died while this job ran; interrupted attempts: {times}.");
                let failure = Failure::new(Class::Fatal, Some("worker_died"), &why);
                let attempts = job.attempts.saturating_sub(1);
                entries.push(Entry::Failed { claim: None, end: None, failure, attempts, log: None });
            }
            Ok(entries)
        }
    }
}

/// A job that waits ends at once; a running one is to be told. Asking twice changes nothing.
fn cancel(job: &Job, by: &Arc<str>, reason: Arc<str>) -> Result<Vec<Entry>, Refusal> {
    match job.state {
        State::Pending | State::InputRequired => {
            Ok(vec![Entry::Canceled { claim: None, by: by.clone(), reason, log: None }])
        }
        State::InProgress { .. } if job.cancel.is_some() => Ok(Vec::new()),
        State::InProgress { .. } => Ok(vec![Entry::CancelRequested { by: by.clone(), reason }]),
        State::Completed(_) | State::Failed { .. } | State::Canceled { .. } => Err(Refusal::Ended),
    }
}

fn deliver(job: &Job, claim: ClaimNo) -> Result<Vec<Entry>, Refusal> {
    holds(job, claim)?;
    match job.cancel.as_deref() {
        None => Err(Refusal::NotNow),
        Some(Receipt { delivered_at: None, .. }) => Ok(vec![Entry::CancelDelivered { claim }]),
        Some(Receipt { delivered_at: Some(_), .. }) => Ok(Vec::new()),
    }
}

/// A job whose time is over is cancelled, by nobody but the clock.
fn expire(job: &Job, now: Timestamp) -> Result<Vec<Entry>, Refusal> {
    let has_come = job.spec.expires_at.is_some_and(|expires_at| expires_at <= now);
    if has_come || job.status().is_terminal() {
        return cancel(job, &LONGHAUL.into(), TIMEOUT.into());
    }
    Err(Refusal::NotNow)
}

fn replay(job: &Job, as_job: JobId) -> Result<Entry, Refusal> {
    match job.state {
        State::Failed { replayed_as: None } => Ok(Entry::Replayed { as_job }),
        State::Failed { replayed_as: Some(_) } => Err(Refusal::AlreadyReplayed),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Completed(_)
        | State::Canceled { .. } => Err(Refusal::NotDeadLettered),
    }
}
