//! What is durable and visible: recent frames, published heads, and those who wait for more.
//!
//! In: what the core has committed. Out: slices of frames to readers that hold a cursor. Live and replay are one loop;
//! nothing is queued per reader. Never shows anything that is not synced.

use std::sync::Arc;

use crate::job::{EventId, JobId, Logged};
use crate::store;

mod frame;
mod heads;
mod page;
mod published;
mod readers;
mod registry;
mod replay;
mod ring;
mod seen;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

pub use frame::{Writer, Written, cursor, reset};
pub use heads::{ENDED_MAX, Heads};
pub use page::{PAGE_BYTES_MAX, PAGE_MAX, PAGE_SCAN_MAX, Page};
pub use published::{Counters, PAUSE_PER_1000, PRELOAD_MAX, Published, Sizes};
pub use readers::{Answer, Busy, QUESTIONS_MAX, READERS, Readers};
pub use registry::{Registry, Wait};
pub use ring::{RING_BYTES_MAX, RING_ENTRIES_MAX, SLICE_MAX};
pub use seen::{Label, Seen, job_of, label, split};
pub use tail::Tail;

/// What a reader follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every visible entry that passes.
    Feed(Filter),
    /// One job's visible entries.
    Job(JobId),
}

/// Which entries of the feed pass: all that is set must match; a list matches by any of its members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Only this principal's; `None` for one who sees all.
    pub owner: Option<Arc<str>>,
    /// `type=`: the job's type, or the event's.
    pub types: Vec<Arc<str>>,
    /// `job=`, repeatable.
    pub jobs: Vec<JobId>,
    /// `tag=`.
    pub tags: Vec<Arc<str>>,
}

impl Filter {
    /// Whether it is no filter at all.
    pub fn admits_all(&self) -> bool {
        self.owner.is_none() && self.types.is_empty() && self.jobs.is_empty() && self.tags.is_empty()
    }

    /// Whether the entry passes.
    pub fn admits(&self, entry: &impl Described) -> bool {
        let is_type = |wanted: &Arc<str>| **wanted == *entry.job_type() || Some(&**wanted) == entry.event_type();
        self.owner.as_ref().is_none_or(|owner| **owner == *entry.owner())
            && (self.types.is_empty() || self.types.iter().any(is_type))
            && (self.jobs.is_empty() || self.jobs.contains(&entry.job()))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| entry.tags().contains(tag)))
    }
}

/// What a filter asks an entry for.
pub trait Described {
    /// Whose entry it is.
    fn job(&self) -> JobId;
    /// The job's type.
    fn job_type(&self) -> &str;
    /// The job's owner.
    fn owner(&self) -> &str;
    /// The job's tags.
    fn tags(&self) -> &[Arc<str>];
    /// The event's type; `None` for a quiet entry.
    fn event_type(&self) -> Option<&str>;
}

impl Described for Logged {
    fn job(&self) -> JobId {
        self.job
    }
    fn job_type(&self) -> &str {
        &self.job_type
    }
    fn owner(&self) -> &str {
        &self.owner
    }
    fn tags(&self) -> &[Arc<str>] {
        &self.tags
    }
    fn event_type(&self) -> Option<&str> {
        self.entry.event_type()
    }
}

impl Described for ring::Slot {
    fn job(&self) -> JobId {
        self.job
    }
    fn job_type(&self) -> &str {
        &self.job_type
    }
    fn owner(&self) -> &str {
        &self.owner
    }
    fn tags(&self) -> &[Arc<str>] {
        &self.tags
    }
    fn event_type(&self) -> Option<&str> {
        Some(self.event_type)
    }
}

/// Where a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From now on (the feed's default).
    Now,
    /// From the earliest kept entry (a job stream's default, and the cursor `earliest`).
    Earliest,
    /// After this event.
    After(EventId),
}

/// Why a cursor does not connect to what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// Below the floor.
    Trimmed,
    /// Of another epoch.
    OtherLog,
    /// Ahead of the log.
    Ahead,
}

impl ResetReason {
    /// The word of contract 2.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trimmed => "trimmed",
            Self::OtherLog => "other_log",
            Self::Ahead => "ahead",
        }
    }
}

/// `stream.reset`: what follows does not connect to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
    /// The first id that follows.
    #[serde(rename = "firstEventId")]
    pub first_event_id: EventId,
}

/// Why there is nothing to read, sorted by remedy.
#[derive(Debug)]
pub enum Error {
    /// Too many ask the store: come back later.
    Busy,
    /// The job is not kept any more.
    Forgotten,
    /// The store failed, which is final for the process.
    Unreadable(store::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Busy> for Error {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}
