//! What an attempt asks of people, and what they answer.
//!
//! A job's record says of each question only where it stands; its words and its answer are bodies, so that the record
//! stays small. Keys are unique for the job's life: asked again, in whatever attempt, it is the same question.

use std::sync::Arc;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{BodyRef, Json, Timestamp};

/// Most questions of one job, over all its attempts.
pub const QUESTIONS_MAX: usize = 32;
/// Longest key of a question: visible ASCII.
pub const QUESTION_KEY_MAX: usize = 128;
/// Longest message of a question, in bytes.
pub const QUESTION_MESSAGE_MAX: usize = 1_000;
/// Largest schema of an answer, in bytes of compact JSON. With the rest it fits an entry of the log.
pub const QUESTION_SCHEMA_MAX: usize = 3 * 1024;
/// Most answers that one entry tells, so that it fits its chunk of the log.
pub const ANSWERS_TOLD_MAX: usize = 16;
/// Largest content of an answer, in bytes of JSON.
pub const ANSWER_MAX: usize = 16 * 1024;

/// The words of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asking {
    /// 1 to `QUESTION_KEY_MAX` visible ASCII characters.
    pub key: Arc<str>,
    /// For people, at most `QUESTION_MESSAGE_MAX` bytes.
    pub message: Arc<str>,
    /// JSON Schema of the answer's content: of an object, at most `QUESTION_SCHEMA_MAX` bytes.
    pub schema: Json,
}

impl Asking {
    /// `{"key", "message", "schema"}`, as the body of an open question holds it.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Words<'a> {
            key: &'a str,
            message: &'a str,
            schema: &'a RawValue,
        }
        // A schema that is no JSON would be a fault of whoever made it; nothing fits `false`.
        let schema = serde_json::from_str(&self.schema.0).unwrap_or(RawValue::FALSE);
        serde_json::to_string(&Words { key: &self.key, message: &self.message, schema }).unwrap_or_default()
    }
}

/// What a person makes of a question.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Answers it.
    Accept,
    /// Says no.
    Decline,
    /// Puts it away without an answer.
    Cancel,
}

impl Action {
    /// The word of contract 4.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// One question's answer, as an entry names it.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Of this question.
    pub key: Arc<str>,
    /// What was made of it.
    pub action: Action,
    /// `{"key", "action", "content"?}`; its `seq` is the question's.
    pub body: BodyRef,
}

/// What a record keeps of a key: half of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, bincode::Encode, bincode::Decode)]
pub struct Mark([u8; 16]);

impl Mark {
    /// The mark of this key.
    pub fn of(key: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

/// Where a question stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub enum Standing {
    /// Nobody has answered it.
    Open {
        /// `{"key", "message", "schema"}`.
        body: BodyRef,
        /// When it was asked.
        asked_at: Timestamp,
    },
    /// It is answered for good.
    Answered {
        /// What was made of it.
        action: Action,
        /// See `Answer`.
        body: BodyRef,
    },
}

/// A question as the record keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub struct Question {
    /// Of its key.
    pub mark: Mark,
    /// Where it stands.
    pub standing: Standing,
}

/// A job's questions in the order in which they were asked, at most `QUESTIONS_MAX`. Ended jobs keep the answered ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Questions(Option<Arc<Vec<Question>>>);

impl Questions {
    /// Every one.
    pub fn all(&self) -> &[Question] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// The question with this key.
    pub fn keyed(&self, key: &str) -> Option<&Question> {
        let mark = Mark::of(key);
        self.all().iter().find(|question| question.mark == mark)
    }

    /// The words of the open ones, and when they were asked.
    pub fn open(&self) -> impl Iterator<Item = (BodyRef, Timestamp)> + '_ {
        self.all().iter().filter_map(|question| match question.standing {
            Standing::Open { body, asked_at } => Some((body, asked_at)),
            Standing::Answered { .. } => None,
        })
    }

    /// Whether one is open.
    pub fn are_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// The answers so far.
    pub fn answers(&self) -> impl Iterator<Item = BodyRef> + '_ {
        self.all().iter().filter_map(|question| match question.standing {
            Standing::Open { .. } => None,
            Standing::Answered { body, .. } => Some(body),
        })
    }

    /// Every body that they name.
    pub fn bodies(&self) -> impl Iterator<Item = BodyRef> + '_ {
        self.all().iter().map(|question| match question.standing {
            Standing::Open { body, .. } | Standing::Answered { body, .. } => body,
        })
    }

    /// Adds an open one; false, and nothing added, if there is one with its key or there are too many.
    pub(super) fn ask(&mut self, key: &str, body: BodyRef, asked_at: Timestamp) -> bool {
        let is_new = self.all().len() < QUESTIONS_MAX && self.keyed(key).is_none();
        if is_new {
            let question = Question { mark: Mark::of(key), standing: Standing::Open { body, asked_at } };
            Arc::make_mut(self.0.get_or_insert_default()).push(question);
        }
        is_new
    }

    /// Answers an open one; false, and nothing changed, if it is not.
    pub(super) fn answer(&mut self, answer: &Answer) -> bool {
        let Some(questions) = &mut self.0 else { return false };
        let mark = Mark::of(&answer.key);
        let open = Arc::make_mut(questions).iter_mut().find(|question| question.mark == mark);
        let Some(question) = open.filter(|question| matches!(question.standing, Standing::Open { .. })) else {
            return false;
        };
        question.standing = Standing::Answered { action: answer.action, body: answer.body };
        true
    }

    /// Nobody answers the open ones any more.
    pub(super) fn close(&mut self) {
        if self.are_open()
            && let Some(questions) = &mut self.0
        {
            let questions = Arc::make_mut(questions);
            questions.retain(|question| matches!(question.standing, Standing::Answered { .. }));
            if questions.is_empty() {
                self.0 = None;
            }
        }
    }
}

impl From<Vec<Question>> for Questions {
    fn from(questions: Vec<Question>) -> Self {
        Self(Some(questions).filter(|questions| !questions.is_empty()).map(Arc::new))
    }
}

/// Nothing: they stand behind the trail (`store::codec`), so that the records of jobs that never ask are what they were
/// before there were questions.
impl bincode::Encode for Questions {
    fn encode<E: Encoder>(&self, _: &mut E) -> Result<(), EncodeError> {
        Ok(())
    }
}

bincode::impl_borrow_decode!(Questions);

impl<Context> bincode::Decode<Context> for Questions {
    fn decode<D: Decoder<Context = Context>>(_: &mut D) -> Result<Self, DecodeError> {
        Ok(Self::default())
    }
}
