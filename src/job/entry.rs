//! What the log says about a job. A job's record is the fold of its entries, and nothing else.
//!
//! Some entries are events that clients see (contract 2); the quiet ones are numbered and stored, never served.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Answer, BodyRef, ClaimNo, End, Failure, JobId, Millis, Position, Spec, Timestamp};

/// One JSON value as compact text on one line.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
pub struct Json(pub Arc<str>);

/// Largest partial or result that an event carries itself, in bytes of JSON (contract 2).
pub const INLINE_MAX: usize = 3 * 1024;
/// Longest progress message, in bytes.
pub const PROGRESS_MESSAGE_MAX: usize = 256;
/// Longest reason of a cancel, in bytes.
pub const REASON_MAX: usize = 256;
/// Longest result summary, in characters (contract 1).
pub const SUMMARY_CHARS_MAX: usize = 200;

/// How far an attempt says it is: as reported, but for what makes no sense (`job::progress`).
#[derive(Clone, PartialEq, Debug, Default, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Of `total_steps`, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// How many steps there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u32>,
    /// 0 to 100.
    #[serde(with = "super::written::exact_if", default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

/// A successful end.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// One line for people: the handler's, else the first 200 characters of the result's text.
    pub summary: Arc<str>,
    /// The result; absent when it is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BodyRef>,
    /// Ready MCP content blocks, if the handler made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<BodyRef>,
    /// The handler calls its result an error (MCP's `isError`).
    pub is_error: bool,
    /// Bytes that were no UTF-8 became U+FFFD.
    pub lossy: bool,
}

/// One step in a job's life.
#[derive(Clone, PartialEq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// `job.created`. `run_at` only if the job was delayed.
    Created {
        /// Everything that never changes.
        spec: Arc<Spec>,
        /// Not before.
        #[serde(with = "super::written::stamp_if", default, skip_serializing_if = "Option::is_none")]
        run_at: Option<Timestamp>,
    },
    /// `job.started`: a claim was handed out.
    Started {
        /// The fencing token.
        claim: ClaimNo,
        /// Which attempt of those that count, from 1.
        attempt: u32,
        /// The job's limit, so that the event needs no other entry to be told.
        max_attempts: u32,
        /// Who runs it.
        worker: Arc<str>,
    },
    /// `job.progress`.
    Progress(Progress),
    /// `job.partial`.
    Partial {
        /// Kept with the job until the next one.
        body: BodyRef,
        /// The value itself when it is at most `INLINE_MAX`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inline: Option<Json>,
    },
    /// `job.progress` in its retry form: the attempt failed or timed out and the job waits for the next.
    Retrying {
        /// The attempt that ended.
        claim: ClaimNo,
        /// `End::Failed` or `End::TimedOut`.
        end: End,
        /// Why.
        failure: Failure,
        /// Attempts that failed so far.
        retry: u32,
        /// The job's limit.
        max_attempts: u32,
        /// When the next may start.
        #[serde(with = "super::written::stamp")]
        next_at: Timestamp,
        /// What the attempt logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<BodyRef>,
    },
    /// Quiet: a graceful shutdown gave the attempt back, uncounted.
    Released {
        /// The attempt that ended.
        claim: ClaimNo,
        /// What it logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<BodyRef>,
    },
    /// Quiet: server or worker died under the attempt.
    Interrupted {
        /// The attempt that ended.
        claim: ClaimNo,
        /// Counted as one of the job's interruptions: false when a suspect was running (contract 3).
        charged: bool,
    },
    /// Quiet: a running job is to be stopped.
    CancelRequested {
        /// The principal, or `longhaul`.
        by: Arc<str>,
        /// `user`, `timeout`, `parent`, `shutdown` or the caller's text.
        reason: Arc<str>,
    },
    /// Quiet: the attempt was told.
    CancelDelivered {
        /// Which attempt.
        claim: ClaimNo,
    },
    /// `job.completed`.
    Completed {
        /// The attempt that ended.
        claim: ClaimNo,
        /// What came of it.
        completion: Arc<Completion>,
        /// Attempts that counted, this one included.
        attempts: u32,
        /// From the start of this attempt to its end.
        duration: Millis,
        /// The result itself when it is at most `INLINE_MAX`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inline: Option<Json>,
        /// What the attempt logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<BodyRef>,
    },
    /// `job.failed`.
    Failed {
        /// The attempt that ended, if one ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<ClaimNo>,
        /// How that attempt ended, if one ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<End>,
        /// Why.
        failure: Failure,
        /// Attempts that counted.
        attempts: u32,
        /// What the attempt logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<BodyRef>,
    },
    /// `job.canceled`.
    Canceled {
        /// The attempt that was stopped, if one ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<ClaimNo>,
        /// The principal, or `longhaul`.
        by: Arc<str>,
        /// `user`, `timeout`, `parent`, `shutdown` or the caller's text.
        reason: Arc<str>,
        /// What the attempt logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<BodyRef>,
    },
    /// Quiet, on a dead letter: a new job was made from it.
    Replayed {
        /// The new job.
        as_job: JobId,
    },
    /// `job.input_required`: the attempt asks.
    Asked {
        /// Which attempt.
        claim: ClaimNo,
        /// Names the question for the job's life.
        key: Arc<str>,
        /// For people.
        message: Arc<str>,
        /// JSON Schema of the answer's content.
        schema: Json,
        /// The same words, kept until they are answered.
        body: BodyRef,
    },
    /// `job.input_received`.
    Answered {
        /// The principal.
        by: Arc<str>,
        /// Each with its question's key.
        answers: Vec<Answer>,
    },
}

/// Every type of event that `Entry::event_type` tells: for those who list them.
pub const EVENT_TYPES: [&str; 9] = [
    "job.created",
    "job.started",
    "job.progress",
    "job.partial",
    "job.input_required",
    "job.input_received",
    "job.completed",
    "job.failed",
    "job.canceled",
];

impl Entry {
    /// The event's type, or `None` for a quiet entry.
    pub const fn event_type(&self) -> Option<&'static str> {
        match self {
            Self::Created { .. } => Some("job.created"),
            Self::Started { .. } => Some("job.started"),
            Self::Progress(_) | Self::Retrying { .. } => Some("job.progress"),
            Self::Partial { .. } => Some("job.partial"),
            Self::Asked { .. } => Some("job.input_required"),
            Self::Answered { .. } => Some("job.input_received"),
            Self::Completed { .. } => Some("job.completed"),
            Self::Failed { .. } => Some("job.failed"),
            Self::Canceled { .. } => Some("job.canceled"),
            Self::Released { .. }
            | Self::Interrupted { .. }
            | Self::CancelRequested { .. }
            | Self::CancelDelivered { .. }
            | Self::Replayed { .. } => None,
        }
    }

    /// Whether the job has ended with this entry.
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::Completed { .. } | Self::Failed { .. } | Self::Canceled { .. } => true,
            Self::Created { .. }
            | Self::Started { .. }
            | Self::Progress(_)
            | Self::Partial { .. }
            | Self::Retrying { .. }
            | Self::Released { .. }
            | Self::Interrupted { .. }
            | Self::CancelRequested { .. }
            | Self::CancelDelivered { .. }
            | Self::Replayed { .. }
            | Self::Asked { .. }
            | Self::Answered { .. } => false,
        }
    }
}

/// An entry in its place. Carries what a filtered replay asks for, so that nothing else is looked up.
#[derive(Clone, PartialEq, Debug)]
pub struct Logged {
    /// Where it stands.
    pub position: Position,
    /// When it was decided.
    pub at: Timestamp,
    /// Whose it is.
    pub job: JobId,
    /// The job's type.
    pub job_type: Arc<str>,
    /// The job's owner.
    pub owner: Arc<str>,
    /// The job's tags.
    pub tags: Arc<[Arc<str>]>,
    /// What happened.
    pub entry: Entry,
}
