//! One attempt, from its claim to its end.
//!
//! In: a claim. Out: exactly one `finish`, also when the payload is missing, the type unknown, or the handler panics. Never
//! waits for the end to be durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::clock::Clock;
use crate::fault::{self, Point};
use crate::handler::{Roster, RunContext};
use crate::job::{Class, Outcome};
use crate::work::{Leave, Stop, WorkSource};

use super::dispatcher::Assignment;

/// What an attempt needs besides its claim.
pub struct Worker {
    /// Where claims come from and ends go.
    pub source: Arc<dyn WorkSource>,
    /// Who does the work.
    pub handlers: Arc<Roster>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Worker {
    /// Runs one attempt; `left` is called when its handler is done, before the end is handed over.
    pub fn attempt(&self, assignment: Assignment, left: impl FnOnce()) {
        let Assignment { claim, slot } = assignment;
        let context = RunContext::new(&*self.source, &claim, &self.clock);
        let outcome = match context.stop() {
            Some(_) => Outcome::failed(Class::Transient, None, "the attempt was stopped before it began"),
            None => self.run(&context),
        };
        let leave = leave(outcome, claim.stop.get());
        let log = context.into_log();
        left();
        fault::point(Point::OutcomeKnown);
        self.source.finish(&claim, leave, log, Box::new(move || drop(slot)));
    }

    fn run(&self, context: &RunContext<'_>) -> Outcome {
        let claim = context.claim();
        let Some(handler) = self.handlers.load().of_type(&claim.job_type) else {
            let message = format!("no tool is configured for jobs of type {}", claim.job_type);
            return Outcome::failed(Class::Fatal, None, &message);
        };
        let payload = match self.source.body(claim, claim.payload) {
            Ok(payload) => payload,
            Err(why) => {
                context.log(&format!("payload: {}", why.0));
                return Outcome::failed(Class::Fatal, None, "the job's payload could not be read");
            }
        };
        let run = AssertUnwindSafe(|| handler.run(claim, &payload, context));
        catch_unwind(run).unwrap_or_else(|panic| {
            let text = crate::panic_text(&*panic);
            tracing::error!(job = %claim.job, job_type = %claim.job_type, "handler panicked: {text}");
            context.log(&format!("panic: {text}"));
            Outcome::failed(Class::Fatal, Some("panic"), "the handler panicked")
        })
    }
}

/// A result is a result, whenever it comes; what failed while the server was going down is given back and runs again. A
/// panic would only come again.
fn leave(outcome: Outcome, stop: Option<Stop>) -> Leave {
    let panicked = |failing: &crate::job::Failing| failing.failure.code.as_deref() == Some("panic");
    match (&outcome, stop) {
        (Outcome::Failed(failing), Some(Stop::Shutdown)) if !panicked(failing) => Leave::Released,
        (Outcome::Asked, _) => Leave::Released,
        (Outcome::Failed(_) | Outcome::Done(_), Some(Stop::Shutdown | Stop::Cancel | Stop::Stale) | None) => {
            Leave::Over(outcome)
        }
    }
}
