//! What is durable and visible: recent frames, published heads, and those who wait for more.
//!
//! In: what the core has committed. Out: slices of frames to readers that hold a cursor. Live and replay are one loop;
//! nothing is queued per reader. Never shows anything that is not synced.

use std::sync::Arc;

use crate::job::{EventId, Head, JobId, Logged};

/// What a reader follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every visible entry that passes.
    Feed(Filter),
    /// One job's visible entries.
    Job(JobId),
}

/// Which entries of the feed pass: all that is set must match; a list matches by any of its members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this principal's; `None` for one who sees all.
    pub owner: Option<Arc<str>>,
    /// `type=`: job types... see contract 5.
    pub types: Vec<Arc<str>>,
    /// `job=`, repeatable.
    pub jobs: Vec<JobId>,
    /// `tag=`.
    pub tags: Vec<Arc<str>>,
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

/// `stream.reset`: what follows does not connect to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
    /// The first id that follows.
    #[serde(rename = "firstEventId")]
    pub first_event_id: EventId,
}

/// Stub: built by the events work.
pub struct Published;

impl Published {
    /// Stub.
    pub fn publish(&self, _heads: Vec<Arc<Head>>, _entries: &[Logged]) {}
}

/// Stub: built by the events work.
pub struct Tail;
#[allow(missing_docs)]
mod stub {
    use super::*;
    pub struct Heads;
    pub struct Registry;
    pub struct Wait;
    pub struct Readers;
    impl Heads {
        pub fn get(&self, _: JobId) -> Option<Arc<Head>> {
            None
        }
        pub fn live(&self, _: impl FnMut(&Head) -> bool) -> Vec<Arc<Head>> {
            vec![]
        }
        pub fn visit_live(&self, _: impl FnMut(&Arc<Head>)) {}
    }
    impl Registry {
        pub fn job(&self, _: JobId) -> Wait {
            Wait
        }
    }
    impl Wait {
        pub fn poll_changed(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            std::task::Poll::Pending
        }
    }
    impl Readers {
        pub async fn ask<T: Send + 'static>(
            &self,
            _: impl FnOnce(&dyn crate::store::Store) -> T + Send + 'static,
        ) -> Result<T, ()> {
            Err(())
        }
    }
    impl Published {
        pub fn heads(&self) -> &Heads {
            &Heads
        }
        pub fn registry(&self) -> &Registry {
            &Registry
        }
        pub fn readers(&self) -> &Readers {
            &Readers
        }
        pub fn bounds(&self) -> crate::store::Bounds {
            unimplemented!()
        }
        pub fn raise_floor(&self, _: crate::job::Position) {}
        pub fn forget_heads(&self, _: &[JobId]) {}
    }
    impl Tail {
        pub fn new(_: Arc<Published>, _: Scope, _: Start) -> Self {
            Tail
        }
    }
    pub async fn page(_: Arc<Published>, _: Scope, _: Start, _: usize) -> Result<crate::service::Page, ()> {
        Err(())
    }
}
pub use stub::*;
