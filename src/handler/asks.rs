//! The questions of one attempt: what it asked, what was answered, and how long it has waited for people.
//!
//! In: questions and answers as they come. Out: what is still open, and since when. Thinking is free: the time in which a
//! question is open does not count against the attempt's deadline.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::{Action, Millis, QUESTIONS_MAX, Timestamp};

/// What was answered to a question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The question's.
    pub key: String,
    /// What was made of it.
    pub action: Action,
    /// An object, with `Action::Accept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<RawValue>>,
}

/// What became of a question.
#[derive(Debug)]
pub enum Asked {
    /// It was answered before, perhaps in an earlier attempt.
    Answered(Arc<Answer>),
    /// It is open, as it was before.
    Open,
    /// It is new: the attempt's so many-th.
    New(u32),
    /// It is one too many.
    TooMany,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Asks {
    answers: HashMap<String, Arc<Answer>>,
    /// Answers that nobody has taken yet.
    fresh: Vec<Arc<Answer>>,
    open: HashSet<String>,
    asked: u32,
    last_asked_at: Timestamp,
    waits_since: Timestamp,
    waited: Millis,
}

impl Asks {
    /// Asks a question.
    pub fn ask(&mut self, key: &str, now: Timestamp) -> Asked {
        if let Some(answer) = self.answers.get(key) {
            return Asked::Answered(answer.clone());
        }
        if self.open.contains(key) {
            return Asked::Open;
        }
        if self.answers.len() + self.open.len() >= QUESTIONS_MAX {
            return Asked::TooMany;
        }
        if self.open.is_empty() {
            self.waits_since = now;
        }
        self.last_asked_at = now;
        self.open.insert(key.to_owned());
        self.asked += 1;
        Asked::New(self.asked)
    }

    /// Takes an answer, of this attempt's question or an earlier one's.
    pub fn answered(&mut self, answer: Answer, now: Timestamp) {
        let waited = self.waited(now);
        if self.open.remove(&answer.key) && self.open.is_empty() {
            self.waited = waited;
        }
        let answer = Arc::new(answer);
        self.answers.insert(answer.key.clone(), answer.clone());
        self.fresh.push(answer);
    }

    /// Answers that were not taken before.
    pub fn take_fresh(&mut self) -> Vec<Arc<Answer>> {
        std::mem::take(&mut self.fresh)
    }

    /// When the last question was asked, if any is open.
    pub fn open_since(&self) -> Option<Timestamp> {
        (!self.open.is_empty()).then_some(self.last_asked_at)
    }

    /// Whether anything was asked that was not answered before.
    pub fn has_asked(&self) -> bool {
        self.asked > 0
    }

    /// How long questions have been open.
    pub fn waited(&self, now: Timestamp) -> Millis {
        let waits = if self.open.is_empty() { Millis(0) } else { now.since(self.waits_since) };
        Millis(self.waited.0.saturating_add(waits.0))
    }
}
