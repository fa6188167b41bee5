//! What can be asked of a job that exists, and how asking can be refused.

use std::sync::Arc;

use super::{Answer, Asking, BodyRef, ClaimNo, Completion, Failing, Json, Progress};

/// A wish, from whoever has one.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Hand out the next claim.
    Start {
        /// Who will run it.
        worker: Arc<str>,
    },
    /// The attempt says how far it is.
    Report {
        /// Of this claim.
        claim: ClaimNo,
        /// As reported.
        progress: Progress,
    },
    /// The attempt has a partial result.
    Partial {
        /// Of this claim.
        claim: ClaimNo,
        /// Its name.
        body: BodyRef,
        /// The value itself when small.
        inline: Option<Json>,
    },
    /// The attempt asks a question.
    Ask {
        /// Of this claim.
        claim: ClaimNo,
        /// What it asks.
        asking: Arc<Asking>,
        /// Its name.
        body: BodyRef,
    },
    /// Somebody answers open questions, all of these or none.
    Answer {
        /// The principal.
        by: Arc<str>,
        /// Each with its body.
        answers: Vec<Answer>,
    },
    /// The attempt has a result.
    Complete {
        /// Of this claim.
        claim: ClaimNo,
        /// What came of it.
        completion: Arc<Completion>,
        /// The result itself when small.
        inline: Option<Json>,
        /// What it logged.
        log: Option<BodyRef>,
    },
    /// The attempt has no result.
    Fail {
        /// Of this claim.
        claim: ClaimNo,
        /// Why, and when to try again at the earliest.
        failing: Failing,
        /// What it logged.
        log: Option<BodyRef>,
    },
    /// A graceful shutdown gives the attempt back.
    Release {
        /// Of this claim.
        claim: ClaimNo,
        /// What it logged.
        log: Option<BodyRef>,
    },
    /// The server or worker died under the attempt.
    Interrupt {
        /// Counts against the job.
        charged: bool,
    },
    /// Stop it.
    Cancel {
        /// The principal.
        by: Arc<str>,
        /// `user` or the caller's text.
        reason: Arc<str>,
    },
    /// The attempt was told to stop.
    Delivered {
        /// Of this claim.
        claim: ClaimNo,
    },
    /// Its `expires_at` has come.
    Expire,
    /// A new job was made from this dead letter.
    Replay {
        /// The new job.
        as_job: super::JobId,
    },
}

/// Why a command changes nothing. Sorted by what the asker can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The claim is no longer the job's current one: the attempt must end.
    StaleClaim,
    /// The job has ended: read it instead.
    Ended,
    /// It waits, is held, or is in a state in which this means nothing.
    NotNow,
    /// One of the answers is to no open question, or another one was given before.
    NotWaiting,
    /// The job has as many questions as it may.
    TooManyQuestions,
    /// Only a failed job can be replayed.
    NotDeadLettered,
    /// A new job was already made from it.
    AlreadyReplayed,
}
