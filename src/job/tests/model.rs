//! The naive model of one job's life: counts and flags, told command by command, knowing nothing of entries.

use super::*;
use std::collections::BTreeMap;

use crate::job::{OnInterrupt, QUESTIONS_MAX, Status};

/// What a command makes of a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is so already.
    Nothing,
    /// A report, which may be news or not.
    Heard,
    /// The job goes on like this.
    Now(Status),
}

/// A job, naively.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) status: Status,
    pub(super) claims: u64,
    pub(super) failed: u32,
    pub(super) charged: u32,
    canceling: bool,
    delivered: bool,
    replayed: bool,
    /// Whether an attempt holds the job.
    runs: bool,
    /// What was asked, and what was said to it.
    questions: BTreeMap<Arc<str>, Option<Action>>,
    spec: Spec,
    rules: Rules,
}

impl Model {
    pub(super) fn new(spec: Spec, rules: Rules) -> Self {
        Self {
            status: Status::Pending,
            claims: 0,
            failed: 0,
            charged: 0,
            canceling: false,
            delivered: false,
            replayed: false,
            runs: false,
            questions: BTreeMap::new(),
            spec,
            rules,
        }
    }

    /// Attempts that count, the running one included.
    pub(super) fn attempts(&self) -> u32 {
        self.failed + u32::from(self.runs)
    }

    /// What has to come of a command at `now`; `delay` is what a retry would wait.
    pub(super) fn tell(&mut self, command: &Command, now: Timestamp, delay: Millis) -> Result<Verdict, Refusal> {
        let claim = match command {
            Command::Report { claim, .. }
            | Command::Partial { claim, .. }
            | Command::Ask { claim, .. }
            | Command::Complete { claim, .. }
            | Command::Fail { claim, .. }
            | Command::Release { claim, .. }
            | Command::Delivered { claim } => Some(*claim),
            Command::Start { .. }
            | Command::Interrupt { .. }
            | Command::Cancel { .. }
            | Command::Expire
            | Command::Answer { .. }
            | Command::Replay { .. } => None,
        };
        let runs = self.runs;
        if claim.is_some_and(|claim| !runs || claim.0 != self.claims) {
            return Err(Refusal::StaleClaim);
        }
        match command {
            Command::Replay { .. } => self.replay(),
            _ if self.status.is_terminal() => Err(Refusal::Ended),
            Command::Start { .. } | Command::Interrupt { .. } if runs == matches!(command, Command::Start { .. }) => {
                Err(Refusal::NotNow)
            }
            Command::Expire if self.spec.expires_at.is_none_or(|expires_at| expires_at > now) => Err(Refusal::NotNow),
            Command::Delivered { .. } if !self.canceling => Err(Refusal::NotNow),
            Command::Report { .. } | Command::Partial { .. } => Ok(Verdict::Heard),
            Command::Ask { asking, .. } => self.ask(&asking.key),
            Command::Answer { answers, .. } => self.answer(answers),
            Command::Start { .. } if self.status == Status::InputRequired => Err(Refusal::NotNow),
            Command::Start { .. } => {
                self.claims += 1;
                self.runs = true;
                Ok(self.becomes(Status::InProgress))
            }
            Command::Cancel { .. } | Command::Expire if !runs => Ok(self.becomes(Status::Canceled)),
            Command::Cancel { .. } | Command::Expire => {
                let already = std::mem::replace(&mut self.canceling, true);
                Ok(if already { Verdict::Nothing } else { self.becomes(Status::InProgress) })
            }
            Command::Delivered { .. } => {
                let already = std::mem::replace(&mut self.delivered, true);
                Ok(if already { Verdict::Nothing } else { Verdict::Now(Status::InProgress) })
            }
            _ => Ok(self.leave(command, now, delay)),
        }
    }

    fn is_open(&self) -> bool {
        self.questions.values().any(Option::is_none)
    }

    fn ask(&mut self, key: &Arc<str>) -> Result<Verdict, Refusal> {
        if self.canceling || self.questions.contains_key(key) {
            return Ok(Verdict::Nothing);
        }
        if self.questions.len() == QUESTIONS_MAX {
            return Err(Refusal::TooManyQuestions);
        }
        self.questions.insert(key.clone(), None);
        Ok(self.becomes(Status::InputRequired))
    }

    fn answer(&mut self, answers: &[Answer]) -> Result<Verdict, Refusal> {
        let mut questions = self.questions.clone();
        for Answer { key, action, .. } in answers {
            match questions.get_mut(key) {
                Some(said @ None) if !self.canceling => *said = Some(*action),
                Some(Some(said)) if said == action && self.questions[key].is_some() => {}
                Some(_) | None => return Err(Refusal::NotWaiting),
            }
        }
        if questions == self.questions {
            return Ok(Verdict::Nothing);
        }
        self.questions = questions;
        Ok(match (self.is_open(), self.runs) {
            (true, _) => Verdict::Now(Status::InputRequired),
            (false, true) => self.becomes(Status::InProgress),
            (false, false) => self.becomes(Status::Pending),
        })
    }

    /// Back in the queue, or waiting for answers.
    fn waits(&mut self) -> Verdict {
        self.becomes(if self.is_open() { Status::InputRequired } else { Status::Pending })
    }

    fn leave(&mut self, command: &Command, now: Timestamp, delay: Millis) -> Verdict {
        self.runs = false;
        if self.canceling {
            return self.becomes(Status::Canceled);
        }
        match command {
            Command::Complete { .. } => {
                self.failed += 1;
                self.becomes(Status::Completed)
            }
            Command::Fail { failing, .. } => {
                self.failed += 1;
                let again = failing.failure.class == Class::Transient && self.failed < self.spec.max_attempts;
                let in_time = self.spec.expires_at.is_none_or(|expires_at| now.plus(delay) < expires_at);
                if again && in_time { self.waits() } else { self.becomes(Status::Failed) }
            }
            Command::Interrupt { charged } => {
                if self.rules.on_interrupt == OnInterrupt::Fail {
                    return self.becomes(Status::Failed);
                }
                self.charged += u32::from(*charged);
                let too_often = *charged && self.charged >= self.rules.retry.max_interruptions;
                if too_often { self.becomes(Status::Failed) } else { self.waits() }
            }
            _ => self.waits(),
        }
    }

    fn replay(&mut self) -> Result<Verdict, Refusal> {
        if self.status != Status::Failed {
            return Err(Refusal::NotDeadLettered);
        }
        if std::mem::replace(&mut self.replayed, true) {
            return Err(Refusal::AlreadyReplayed);
        }
        Ok(Verdict::Now(Status::Failed))
    }

    fn becomes(&mut self, status: Status) -> Verdict {
        self.status = status;
        Verdict::Now(status)
    }
}
