//! Why an attempt ended badly, sorted by remedy: try again, ask the user, mend the program.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cut;

/// What can be done about a failure (design 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Tried again within the job's limit.
    Transient,
    /// The input is at fault: never tried again.
    Permanent,
    /// A bug: never tried again.
    Fatal,
}

impl Class {
    /// The word of contract 1.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Fatal => "fatal",
        }
    }
}

/// Longest message kept with a failure, in bytes: it must fit the record and the event.
pub const MESSAGE_MAX: usize = 1_000;

/// Longest code kept with a failure, in bytes.
pub const CODE_MAX: usize = 64;

/// The latest failure of a job, as contract 1 shows it.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What can be done about it.
    pub class: Class,
    /// For users: the handler's own message or a general one, never raw stderr.
    pub message: Arc<str>,
    /// `timeout`, `worker_died`, `exit_<n>` and so on (contract 1), or the handler's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    /// The JSON-RPC code that MCP clients get when `code` is `protocol_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_code: Option<i64>,
}

impl Failure {
    /// A failure whose message and code are cut to what is kept, at a character.
    pub fn new(class: Class, code: Option<&str>, message: &str) -> Self {
        Self {
            class,
            message: cut(message, MESSAGE_MAX).into(),
            code: code.map(|c| cut(c, CODE_MAX).into()),
            rpc_code: None,
        }
    }
}

/// How an attempt that holds no more ended (contract 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The job is completed.
    Succeeded,
    /// It reported a failure; counts.
    Failed,
    /// It ran into its deadline; counts.
    TimedOut,
    /// It was stopped by a cancel.
    Canceled,
    /// Given back by a graceful shutdown; does not count.
    Released,
    /// Its server or worker died; counted apart.
    Interrupted,
}

impl End {
    /// The word of contract 3.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Canceled => "canceled",
            Self::Released => "released",
            Self::Interrupted => "interrupted",
        }
    }
}
