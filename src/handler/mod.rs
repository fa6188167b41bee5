//! The Handler port: one kind of work, run for one claim.
//!
//! In: a claim, its payload and a context. Out: an `Outcome`; there is no second way out. Handlers block: each runs on a
//! pool thread. Child processes live only here.

mod asks;
pub mod command;
pub mod demo;
#[cfg(test)]
mod testing;
#[cfg(any(debug_assertions, feature = "trial"))]
pub mod trial;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;

pub use asks::{Answer, Asked};

use asks::Asks;

use crate::clock::Clock;
use crate::job::{Asking, Class, Millis, Outcome, Progress, Timestamp};
use crate::work::{Claim, Report, Stop, WorkSource};

/// One kind of work.
pub trait Handler: Send + Sync {
    /// Does the work of one claim. Blocks until it is over, at most until the deadline plus the grace. A panic fails
    /// the job as fatal, code `panic`, and costs no thread.
    fn run(&self, claim: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Outcome;
}

/// Who does the work, by job type.
#[derive(Default)]
pub struct Handlers {
    by_type: HashMap<Arc<str>, Arc<dyn Handler>>,
}

impl Handlers {
    /// Jobs of this type are run by `handler`; the one before, if any, is forgotten.
    pub fn insert(&mut self, job_type: Arc<str>, handler: Arc<dyn Handler>) {
        self.by_type.insert(job_type, handler);
    }

    /// Who runs jobs of this type.
    pub fn of_type(&self, job_type: &str) -> Option<Arc<dyn Handler>> {
        self.by_type.get(job_type).cloned()
    }
}

/// The handlers as they are now: replaced as a whole when the configuration is read again, while attempts go on with theirs.
pub type Roster = ArcSwap<Handlers>;

/// What an attempt logs is kept up to this many bytes, the newest (contract 4).
pub const LOG_MAX: usize = 64 * 1024;

/// What a handler may say and ask while it runs. Belongs to one attempt and one thread.
pub struct RunContext<'a> {
    source: &'a dyn WorkSource,
    claim: &'a Claim,
    /// The time, for deadlines.
    pub clock: &'a Arc<dyn Clock>,
    log: RefCell<std::collections::VecDeque<u8>>,
    partials: Cell<u32>,
    delivered: Cell<bool>,
    asks: RefCell<Asks>,
}

impl<'a> RunContext<'a> {
    /// For the worker that runs the attempt.
    pub fn new(source: &'a dyn WorkSource, claim: &'a Claim, clock: &'a Arc<dyn Clock>) -> Self {
        Self {
            source,
            claim,
            clock,
            log: RefCell::default(),
            partials: Cell::new(0),
            delivered: Cell::new(false),
            asks: RefCell::default(),
        }
    }

    /// What is being run.
    pub fn claim(&self) -> &'a Claim {
        self.claim
    }

    /// Reports progress. Neither blocks nor waits for the disk; the core merges what comes too often.
    pub fn progress(&self, progress: Progress) {
        self.source.report(self.claim, Report::Progress(progress));
    }

    /// Reports a partial result: one JSON value, compact, on one line.
    pub fn partial(&self, data: Bytes) {
        let count = self.partials.get().saturating_add(1);
        self.partials.set(count);
        self.source.report(self.claim, Report::Partial { data, count });
    }

    /// Asks people a question. Does not wait for the answer, nor for the disk. A key that was asked before, in whatever
    /// attempt of the job, is the same question.
    ///
    /// # Errors
    /// The outcome with which the handler then has to end: the answers of earlier attempts cannot be read.
    pub fn ask(&self, asking: Asking) -> Result<Asked, Outcome> {
        self.hear()?;
        let asked = self.asks.borrow_mut().ask(&asking.key, self.clock.now());
        if let Asked::New(count) = asked {
            self.source.report(self.claim, Report::Ask { asking: Arc::new(asking), count });
        }
        Ok(asked)
    }

    /// Answers that have come since the last call; at the first, those of earlier attempts as well. Who waits for them
    /// asks `Claim::answers` to be woken.
    ///
    /// # Errors
    /// As for `ask`.
    pub fn answers(&self) -> Result<Vec<Arc<Answer>>, Outcome> {
        self.hear()?;
        Ok(self.asks.borrow_mut().take_fresh())
    }

    /// When the last question was asked, if any is open.
    pub fn asks_since(&self) -> Option<Timestamp> {
        self.asks.borrow().open_since()
    }

    /// Whether the attempt has asked anything that was not answered before it.
    pub fn has_asked(&self) -> bool {
        self.asks.borrow().has_asked()
    }

    fn hear(&self) -> Result<(), Outcome> {
        for name in self.claim.answers.take() {
            let read = self.source.body(self.claim, name).map_err(|why| why.0);
            let answer = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|why| why.to_string()));
            match answer {
                Ok(answer) => self.asks.borrow_mut().answered(answer, self.clock.now()),
                Err(why) => {
                    self.log(&format!("answer: {why}"));
                    return Err(Outcome::failed(Class::Transient, None, "an answer could not be read"));
                }
            }
        }
        Ok(())
    }

    /// Keeps one line with the attempt, for its owner. Beyond `LOG_MAX` the oldest lines go.
    pub fn log(&self, line: &str) {
        let mut log = self.log.borrow_mut();
        log.extend(line.as_bytes());
        log.push_back(b'\n');
        while log.len() > LOG_MAX {
            let line = log.iter().position(|byte| *byte == b'\n').map_or(log.len(), |at| at + 1);
            log.drain(..line);
        }
    }

    /// Whether to stop, and why. The first `Some` is reported as the delivery of the cancel.
    pub fn stop(&self) -> Option<Stop> {
        let stop = self.claim.stop.get();
        if stop == Some(Stop::Cancel) && !self.delivered.replace(true) {
            self.source.report(self.claim, Report::Delivered);
        }
        stop
    }

    /// Waits, unless the attempt is to stop or its deadline comes first. Blocks; wakes at once for either.
    ///
    /// # Errors
    /// The outcome with which the handler then has to end.
    pub fn pause(&self, length: Millis) -> Result<(), Outcome> {
        let until = self.clock.now().plus(length);
        let (tell, told) = crossbeam_channel::bounded(1);
        self.claim.stop.on_stop(move |reason| {
            // Told once, and there is room for one.
            let _ = tell.try_send(reason);
        });
        loop {
            if self.stop().is_some() {
                return Err(stopped());
            }
            if self.is_late() {
                return Err(Outcome::timed_out("the attempt did not end in time"));
            }
            if self.clock.now() >= until {
                return Ok(());
            }
            let due = self.clock.at(until.min(self.deadline()));
            crossbeam_channel::select! {
                recv(told) -> _ => {}
                recv(due) -> _ => {}
            }
        }
    }

    /// Whether the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.clock.now() >= self.deadline()
    }

    /// When the attempt must be over: later by the time in which people were asked, and moving on while they are.
    pub fn deadline(&self) -> Timestamp {
        self.claim.deadline.plus(self.asks.borrow().waited(self.clock.now()))
    }

    /// What was logged, for the worker to hand over at the end.
    pub fn into_log(self) -> Bytes {
        Vec::from(self.log.into_inner()).into()
    }
}

/// The outcome of an attempt that was told to stop and did.
pub fn stopped() -> Outcome {
    Outcome::failed(Class::Transient, None, "the attempt was stopped")
}
