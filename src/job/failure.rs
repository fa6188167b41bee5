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

/// How a text begins that says how a program ended; its number or the rest of its signal's name follows, then, after `SAID`, what it wrote last.
pub const EXITED: &str = "the program exited with status ";
/// The same of a program that had reported a result before.
pub const EXITED_AFTER_RESULT: &str = "the program reported a result and then exited with status ";
/// The same of one that a signal ended.
pub const ENDED_BY: &str = "the program was ended by SIG";
/// Stands between how a program ended and what it wrote last to stderr.
const SAID: &str = ": ";

/// The latest failure of a job, as contract 1 shows it.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What can be done about it.
    pub class: Class,
    /// The handler's own message or a general one. Where a program ended without a word of its own, with the last that it wrote to stderr:
    /// for the job's owner; what goes further has `general`.
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

    /// The message without what a program wrote to stderr: for events, callbacks and read tickets (contract 2).
    pub fn general(&self) -> &str {
        let is_by_end = |code: &&str| code.starts_with("exit_") || code.starts_with("signal_") || *code == "expired";
        if self.code.as_deref().filter(is_by_end).is_none() {
            return &self.message;
        }
        ending(&self.message).unwrap_or(&self.message)
    }
}

/// How a program ended together with what it wrote last to stderr.
pub fn quoting(ended: &str, said: Option<&str>) -> String {
    said.map_or_else(|| ended.to_owned(), |said| format!("{ended}{SAID}{said}"))
}

/// The text as far as it says how a program ended; `None` if it does not.
pub fn ending(text: &str) -> Option<&str> {
    let ends = [EXITED, EXITED_AFTER_RESULT, ENDED_BY];
    let at = ends.iter().filter_map(|end| text.find(end).map(|at| at + end.len())).min()?;
    Some(text[at..].find(SAID).map_or(text, |said| &text[..at + said]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_wrote_is_told_from_how_it_ended() {
        let failed = |code, message: &str| Failure::new(Class::Fatal, code, message).general().to_owned();
        for (code, ended) in [
            ("exit_65", format!("{EXITED}65")),
            ("exit_1", format!("{EXITED_AFTER_RESULT}1")),
            ("signal_SIGSEGV", format!("{ENDED_BY}SEGV")),
            ("expired", format!("The job expires before it could be tried again. {EXITED}75")),
        ] {
            let quoted = quoting(&ended, Some("error: the program exited with status 3: a key"));
            assert!(quoted.ends_with("a key") && quoted.len() > ended.len());
            assert_eq!((failed(Some(code), &quoted), failed(Some(code), &ended)), (ended.clone(), ended));
        }
        // What a handler says itself stays whole.
        for code in [None, Some("bad_csv"), Some("exit_3")] {
            assert_eq!(failed(code, "line 3: no column"), "line 3: no column");
        }
        assert_eq!(failed(None, &quoting(EXITED, Some("x"))), quoting(EXITED, Some("x")));
    }
}
