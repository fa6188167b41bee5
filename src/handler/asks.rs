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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(key: &str) -> Answer {
        Answer { key: key.into(), action: Action::Decline, content: None }
    }

    #[test]
    fn only_the_time_in_which_a_question_is_open_is_free_and_each_moment_once() {
        let mut asks = Asks::default();
        let at = Timestamp;
        asks.answered(answer("earlier"), at(5));
        assert!(!asks.has_asked() && matches!(asks.ask("earlier", at(10)), Asked::Answered(_)));
        assert!(matches!(asks.ask("a", at(100)), Asked::New(1)));
        assert!(matches!(asks.ask("a", at(110)), Asked::Open));
        assert!(matches!(asks.ask("b", at(150)), Asked::New(2)));
        assert_eq!((asks.open_since(), asks.waited(at(160))), (Some(at(150)), Millis(60)));
        asks.answered(answer("a"), at(200));
        assert_eq!((asks.open_since(), asks.waited(at(250))), (Some(at(150)), Millis(150)));
        asks.answered(answer("b"), at(300));
        assert_eq!((asks.open_since(), asks.waited(at(900))), (None, Millis(200)));
        assert!(matches!(asks.ask("c", at(1_000)), Asked::New(3)));
        // A clock that was set back takes nothing away.
        assert_eq!(asks.waited(at(0)), Millis(200));
        let keys: Vec<String> = asks.take_fresh().iter().map(|answer| answer.key.clone()).collect();
        assert_eq!((keys, asks.take_fresh().len()), (vec!["earlier".into(), "a".into(), "b".into()], 0));
    }

    #[test]
    fn earlier_attempts_count_where_the_number_of_questions_is_limited() {
        let mut asks = Asks::default();
        (1..QUESTIONS_MAX).for_each(|n| asks.answered(answer(&n.to_string()), Timestamp(0)));
        assert!(matches!(asks.ask("last", Timestamp(0)), Asked::New(1)));
        assert!(matches!(asks.ask("one more", Timestamp(0)), Asked::TooMany));
        assert!(matches!(asks.ask("1", Timestamp(0)), Asked::Answered(_)));
    }
}
