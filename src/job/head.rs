//! A job as it stands: the fold of its entries, and the trail of where they are.

use std::sync::Arc;

use super::{BodyRef, ClaimNo, Completion, Failure, JobId, Place, Position, Progress, Questions, Spec, Timestamp};

/// Where a job is in its life. Each paragraph of design 2 says how in and how out.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub enum State {
    /// Created, or waiting out a delay or a backoff. Out: claimed, canceled, expired.
    Pending,
    /// One attempt holds it, perhaps with open questions. Out: completed, failed, pending, input_required, canceled.
    InProgress {
        /// The only claim whose reports count.
        claim: ClaimNo,
        /// Who runs it.
        worker: Arc<str>,
    },
    /// Terminal.
    Completed(Arc<Completion>),
    /// Terminal: a dead letter until it is replayed.
    Failed {
        /// The new job made from it.
        replayed_as: Option<JobId>,
    },
    /// Terminal.
    Canceled {
        /// The principal, or `longhaul`.
        by: Arc<str>,
        /// `user`, `timeout`, `parent`, `shutdown` or the caller's text.
        reason: Arc<str>,
    },
    /// It asked, and no attempt holds it. Out: pending (all is answered), canceled, expired.
    InputRequired,
}

/// `State` without what belongs to it: the word of contract 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, bincode::Encode, bincode::Decode)]
pub enum Status {
    /// `pending`
    Pending,
    /// `in_progress`
    InProgress,
    /// `completed`
    Completed,
    /// `failed`
    Failed,
    /// `canceled`
    Canceled,
    /// `input_required`
    InputRequired,
}

impl Status {
    /// Every status, in the order of a job's life.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InProgress, Self::InputRequired, Self::Completed, Self::Failed, Self::Canceled];

    /// The word of contract 1.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// The status with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether nothing follows.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled => true,
            Self::Pending | Self::InProgress | Self::InputRequired => false,
        }
    }
}

/// What became of the wish to cancel (contract 1, `cancel`).
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub struct Receipt {
    /// When the wish was made durable.
    pub requested_at: Timestamp,
    /// Whose wish.
    pub requested_by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// When the attempt was told; never for a job that was not running.
    pub delivered_at: Option<Timestamp>,
    /// When the work had stopped.
    pub stopped_at: Option<Timestamp>,
}

/// A failure and the attempt it happened in.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub struct LastError {
    /// What went wrong.
    pub failure: Failure,
    /// `attempts` at that time.
    pub attempt: u32,
}

/// Logs of this many ended attempts are kept, the newest.
pub const LOGS_MAX: usize = 8;

/// A job's record: the fold of its entries (`machine::apply`).
#[derive(Clone, PartialEq, Debug, bincode::Encode, bincode::Decode)]
pub struct Job {
    /// What never changes.
    pub spec: Arc<Spec>,
    /// Where it is in its life.
    pub state: State,
    /// How many entries it has: what a precondition compares.
    pub revision: u32,
    /// Claims handed out so far; the next one has this plus one.
    pub claims: u64,
    /// Attempts that count against the limit, the running one included (contract 3).
    pub attempts: u32,
    /// Charged interruptions.
    pub interruptions: u32,
    /// Not before; the creation time unless delayed or retrying.
    pub run_at: Timestamp,
    /// Time of the last entry.
    pub updated_at: Timestamp,
    /// Start of the latest attempt.
    pub started_at: Option<Timestamp>,
    /// Time of the terminal entry.
    pub finished_at: Option<Timestamp>,
    /// The last progress logged, what it left out taken from before, within the same step.
    pub progress: Option<Arc<Progress>>,
    /// When it was logged.
    pub progress_at: Option<Timestamp>,
    /// The furthest place logged.
    pub reached: Option<Place>,
    /// The furthest that earlier attempts logged: what is not beyond it is not logged again.
    pub reached_before: Option<Place>,
    /// The last partial result.
    pub partial: Option<BodyRef>,
    /// The latest failure; absent once completed.
    pub error: Option<Arc<LastError>>,
    /// The cancel receipt.
    pub cancel: Option<Arc<Receipt>>,
    /// Logs of ended attempts, oldest first, at most `LOGS_MAX`.
    pub logs: Vec<BodyRef>,
    /// What its attempts asked.
    pub questions: Questions,
}

impl Job {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.spec.id
    }

    /// The word for its state.
    pub fn status(&self) -> Status {
        match self.state {
            State::Pending => Status::Pending,
            State::InProgress { .. } if self.awaits_input() => Status::InputRequired,
            State::InputRequired => Status::InputRequired,
            State::InProgress { .. } => Status::InProgress,
            State::Completed(_) => Status::Completed,
            State::Failed { .. } => Status::Failed,
            State::Canceled { .. } => Status::Canceled,
        }
    }

    /// Whether an answer is awaited: a question is open, and the job is not being canceled.
    pub fn awaits_input(&self) -> bool {
        self.cancel.is_none() && self.questions.are_open()
    }

    /// The claim that holds it, if an attempt runs.
    pub const fn claim(&self) -> Option<ClaimNo> {
        match self.state {
            State::InProgress { claim, .. } => Some(claim),
            State::Pending
            | State::InputRequired
            | State::Completed(_)
            | State::Failed { .. }
            | State::Canceled { .. } => None,
        }
    }

    /// Failed and not replayed.
    pub const fn is_dead_letter(&self) -> bool {
        matches!(self.state, State::Failed { replayed_as: None })
    }

    /// Every body that its record names.
    pub fn bodies(&self) -> impl Iterator<Item = BodyRef> + '_ {
        let completion = match &self.state {
            State::Completed(completion) => Some(completion),
            State::Pending
            | State::InProgress { .. }
            | State::InputRequired
            | State::Failed { .. }
            | State::Canceled { .. } => None,
        };
        let ended = completion.into_iter().flat_map(|c| c.result.into_iter().chain(c.content));
        let told = self.partial.into_iter().chain(ended).chain(self.logs.iter().copied());
        // The payload first: `bodies_beside` knows.
        std::iter::once(self.spec.payload).chain(told).chain(self.questions.bodies())
    }

    /// Those of them that are kept beside it: all but a payload that it carries.
    pub fn bodies_beside(&self) -> impl Iterator<Item = BodyRef> + '_ {
        self.bodies().skip(usize::from(self.spec.carried().is_some()))
    }

    /// What an ended job counts against `retention.max_bytes`: its bodies, and a flat part for record and events.
    pub fn kept_bytes(&self) -> u64 {
        self.bodies().fold(KEPT_FLAT, |sum, body| sum.saturating_add(body.len))
    }
}

/// Bytes that an ended job counts as beside its bodies: its record, index rows and share of the log.
pub const KEPT_FLAT: u64 = 1024;

/// Positions that the head keeps itself, and the size of a block of older ones (design 5.2).
pub const TRAIL_RECENT_MAX: usize = 64;

/// Where a job's entries stand, oldest first: blocks of 64 kept by the store, then the recent ones here.
#[derive(Clone, PartialEq, Eq, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Trail {
    /// How many full blocks the store keeps.
    pub blocks: u32,
    /// The positions after those, at most 64.
    pub recent: Vec<Position>,
}

impl Trail {
    /// Adds the position of the next entry. Returns the block that this made full: block number `blocks - 1`, for the
    /// store to write in the same commit.
    pub fn push(&mut self, position: Position) -> Option<Vec<Position>> {
        let full = (self.recent.len() == TRAIL_RECENT_MAX).then(|| std::mem::take(&mut self.recent));
        self.blocks += u32::from(full.is_some());
        self.recent.push(position);
        full
    }

    /// The position of the newest entry.
    pub fn last(&self) -> Position {
        self.recent.last().copied().unwrap_or(Position::ZERO)
    }
}

/// A job and its trail: what memory holds of unfinished jobs and the store of all.
#[derive(Clone, PartialEq, Debug)]
pub struct Head {
    /// The record.
    pub job: Job,
    /// Where its entries stand.
    pub trail: Trail,
}

impl Head {
    /// The same as whoever is not the owner may read it: without what its program wrote to stderr.
    #[must_use]
    pub fn without_stderr(&self) -> Self {
        let mut head = self.clone();
        if let Some(last) = &mut head.job.error {
            let general = last.failure.general().into();
            Arc::make_mut(last).failure.message = general;
        }
        head
    }
}
