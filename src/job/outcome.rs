//! How an attempt says that it is over. There is no second way out.

use bytes::Bytes;

use super::{Class, End, Failure, Millis};

/// The end of an attempt, as its handler tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has a result.
    Done(Output),
    /// It failed or ran into its deadline.
    Failed(Failing),
    /// It has asked and does not wait for the answer: the job runs again once all is answered.
    Asked,
}

/// What an attempt made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// One JSON value, compact, valid UTF-8; `None` for `null`.
    pub data: Option<Bytes>,
    /// One line for people, if the handler has one.
    pub summary: Option<String>,
    /// Ready MCP content blocks: a JSON array.
    pub content: Option<Bytes>,
    /// The handler calls its result an error (MCP's `isError`).
    pub is_error: bool,
    /// Bytes that were no UTF-8 became U+FFFD.
    pub lossy: bool,
}

/// Why an attempt has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failing {
    /// What went wrong.
    pub failure: Failure,
    /// `End::Failed` or `End::TimedOut`.
    pub end: End,
    /// Not to be tried before this has passed (a server's `Retry-After`).
    pub retry_after: Option<Millis>,
}

impl Outcome {
    /// A failure without more to say about when to try again.
    pub fn failed(class: Class, code: Option<&str>, message: &str) -> Self {
        Self::Failed(Failing { failure: Failure::new(class, code, message), end: End::Failed, retry_after: None })
    }

    /// The attempt ran into its deadline: transient, code `timeout`.
    pub fn timed_out(message: &str) -> Self {
        Self::Failed(Failing {
            failure: Failure::new(Class::Transient, Some("timeout"), message),
            end: End::TimedOut,
            retry_after: None,
        })
    }
}
