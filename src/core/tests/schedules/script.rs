//! Attempts that do what they are told, one step at a time, on the pool's own threads.
//!
//! In: steps. Out: mail: that an attempt waits for its next step, what it reports, how it ends. Only one attempt runs at a
//! time, or several that were just handed out, whose mail is then put in order; so one seed gives one story.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender};

use crate::core::LocalWork;
use crate::handler::{Handler, RunContext, stopped};
use crate::job::{Asking, ClaimNo, Class, End, Failing, Failure, JobId, Json, Millis, Outcome, Output, Progress};
use crate::work::{Claim, Closed, Leave, NoBody, Report, WorkSource};

/// An attempt: its job and its claim number.
pub type Attempt = (JobId, ClaimNo);

/// What an attempt does next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Says how far it is.
    Progress(u32),
    /// Brings a partial result.
    Partial(u32),
    /// Asks the question of this number.
    Ask(usize),
    /// Ends if an answer is still awaited.
    Leave,
    /// Looks whether it is to stop or is late, and ends if so.
    Look,
    /// Has a result.
    Done,
    /// Fails; with a wait that a server asked for, perhaps.
    Fail(Class, Option<Millis>),
    /// Panics.
    Panic,
}

/// What comes from the pool.
pub enum Mail {
    /// The attempt waits for its next step.
    Waits(Claim, Sender<Step>),
    /// It has something to say.
    Says(Claim, Report),
    /// It is over.
    Ends { claim: Claim, leave: Leave, log: Bytes, freed: Box<dyn FnOnce() + Send> },
}

impl Mail {
    pub fn attempt(&self) -> Attempt {
        match self {
            Self::Waits(claim, _) | Self::Says(claim, _) | Self::Ends { claim, .. } => (claim.job, claim.number),
        }
    }
}

/// The handler of every type.
pub struct Scripted(pub Sender<Mail>);

impl Handler for Scripted {
    fn run(&self, claim: &Claim, _: &Bytes, context: &RunContext<'_>) -> Outcome {
        loop {
            let (tell, next) = crossbeam_channel::bounded(1);
            // Nobody reads it once the process of this attempt has died; then there is no next step either.
            let _ = self.0.send(Mail::Waits(claim.clone(), tell));
            match next.recv() {
                Ok(step) => {
                    if let Some(outcome) = take(&step, context) {
                        return outcome;
                    }
                }
                Err(_) => return Outcome::failed(Class::Transient, None, "its process died"),
            }
        }
    }
}

fn take(step: &Step, context: &RunContext<'_>) -> Option<Outcome> {
    match step {
        Step::Progress(step) => context.progress(Progress { step: Some(*step), ..Progress::default() }),
        Step::Partial(number) => context.partial(Bytes::from(number.to_string())),
        Step::Ask(number) => return context.ask(asking(*number)).err(),
        Step::Leave => {
            let heard = context.answers();
            return heard.err().or_else(|| context.asks_since().map(|_| Outcome::Asked));
        }
        Step::Look if context.stop().is_some() => return Some(stopped()),
        Step::Look if context.is_late() => return Some(Outcome::timed_out("too long")),
        Step::Look => {}
        Step::Done => return Some(Outcome::Done(Output { data: Some("1".into()), ..Output::default() })),
        Step::Fail(class, retry_after) => {
            let failure = Failure::new(*class, None, "as it was told");
            return Some(Outcome::Failed(Failing { failure, end: End::Failed, retry_after: *retry_after }));
        }
        // Without the hook that prints: ten thousand of them are expected.
        Step::Panic => std::panic::resume_unwind(Box::new("as it was told")),
    }
    None
}

/// A question, by its number.
pub fn asking(number: usize) -> Asking {
    let schema = Json("{\"type\":\"object\"}".into());
    Asking { key: format!("k{number}").into(), message: "Which?".into(), schema }
}

/// The source as the pool knows it: whatever is said goes to the schedule, which decides when the core hears of it.
pub struct Post {
    pub mail: Sender<Mail>,
    pub work: Arc<LocalWork>,
}

impl WorkSource for Post {
    fn claim(&self, _: usize) -> Result<Vec<Claim>, Closed> {
        // The schedule is the dispatcher.
        Err(Closed)
    }

    fn body(&self, claim: &Claim, name: crate::job::BodyRef) -> Result<Bytes, NoBody> {
        self.work.body(claim, name)
    }

    fn report(&self, claim: &Claim, report: Report) {
        let _ = self.mail.send(Mail::Says(claim.clone(), report));
    }

    fn finish(&self, claim: &Claim, leave: Leave, log: Bytes, freed: Box<dyn FnOnce() + Send>) {
        let _ = self.mail.send(Mail::Ends { claim: claim.clone(), leave, log, freed });
    }
}

/// Everything that comes until each of these attempts waits or is over, attempt by attempt.
pub fn settle(mail: &Receiver<Mail>, mut moving: std::collections::BTreeSet<Attempt>) -> Vec<Mail> {
    let mut came = Vec::new();
    while !moving.is_empty() {
        let next = mail.recv().expect("the pool lives");
        if !matches!(next, Mail::Says(..)) {
            moving.remove(&next.attempt());
        }
        came.push(next);
    }
    came.sort_by_key(Mail::attempt);
    came
}
