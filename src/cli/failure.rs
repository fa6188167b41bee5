//! How a command ends: what it says at the end, and with which exit code (contract 9).
//!
//! In: what went wrong, sorted by remedy. Out: a text that names the remedy, and a number for scripts.

use std::fmt;
use std::process::ExitCode;

use super::exit;
use crate::store;

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Done,
    /// A job that was followed failed.
    JobFailed,
    /// A job that was followed was canceled.
    JobCanceled,
}

impl Ending {
    /// Of several jobs: a failure counts more than a cancel, and that more than success.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::JobFailed, _) | (_, Self::JobFailed) => Self::JobFailed,
            (Self::JobCanceled, _) | (_, Self::JobCanceled) => Self::JobCanceled,
            (Self::Done, Self::Done) => Self::Done,
        }
    }

    /// The ending that a job's status means; `None` while it goes on.
    pub fn of_status(status: &str) -> Option<Self> {
        match status {
            "completed" => Some(Self::Done),
            "failed" => Some(Self::JobFailed),
            "canceled" => Some(Self::JobCanceled),
            _ => None,
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for makes no sense. Ask differently.
    Usage(String),
    /// Nobody answers. Start the server, or name another.
    Unreachable {
        /// Its URL.
        server: String,
        /// What the system says.
        why: String,
    },
    /// The server was there, and its answer did not arrive, or not all of it. What was asked for may have been done.
    BrokeOff {
        /// Its URL.
        server: String,
        /// What the system says.
        why: String,
    },
    /// The server said no, and why.
    Refused(String),
    /// The store does not hold together.
    Damaged(String),
    /// Another process holds the store.
    Locked(String),
    /// The disk has no room. Make some.
    DiskFull(String),
    /// Whoever read our output wants no more of it.
    Closed,
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Closed => exit::DONE,
            Self::Usage(_) => exit::USAGE,
            Self::Unreachable { .. } | Self::BrokeOff { .. } => exit::UNREACHABLE,
            Self::Refused(_) => exit::REFUSED,
            Self::Damaged(_) => exit::STORE_DAMAGED,
            Self::Locked(_) => exit::STORE_LOCKED,
            Self::DiskFull(_) => exit::DISK_REFUSES,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what)
            | Self::Refused(what)
            | Self::Damaged(what)
            | Self::Locked(what)
            | Self::DiskFull(what) => f.write_str(what),
            Self::Unreachable { server, why } => write!(
                f,
                "no server at {server} ({why})\nStart one with `longhaul serve`, or name another with --server or LONGHAUL_SERVER."
            ),
            Self::BrokeOff { server, why } => write!(
                f,
                "no whole answer from {server} ({why})\nThe connection was made, and broke: look whether it was done before you try again."
            ),
            Self::Closed => Ok(()),
        }
    }
}

/// What to do about a store that cannot be used, where its error does not say so itself.
pub fn remedy(error: &store::Error) -> &'static str {
    match error {
        store::Error::Unavailable(_) => {
            ". The server needs a data directory (server.data_dir, --data-dir) that it may write"
        }
        store::Error::Locked(_) => ". One server at a time: stop that one, or name another data directory (--data-dir)",
        store::Error::Corrupt { .. } | store::Error::Body { .. } | store::Error::Full(_) => "",
    }
}

/// The exit code of contract 9.
pub fn exit_code(result: &Result<Ending, Failure>) -> ExitCode {
    ExitCode::from(match result {
        Ok(Ending::Done) => exit::DONE,
        Ok(Ending::JobFailed) => exit::FAILED,
        Ok(Ending::JobCanceled) => exit::CANCELED,
        Err(failure) => failure.code(),
    })
}
