//! The façade that `mcp` and `http` use: commands, reads, waits. All async, all owner-checked.
//!
//! In: a viewer and a wish. Out: a durable answer or a `Refused`. Another principal's job looks like a missing one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::clock::Clock;
use crate::core::{Busy, Handle, Room};
use crate::events::{self, Published};
use crate::job::{EventId, Head, JobId, Timestamp};
use crate::store::{self, Store};

mod act;
mod answer;
mod backup;
mod json;
mod log;
mod read;
mod submit;
mod tool;
mod view;
mod vitals;
mod wait;

pub use answer::{Answer, OpenQuestion};
pub use backup::Backup;
pub use json::read as read_json;
pub use log::{Level, LogCursor, LogLine, LogPage};
pub use submit::AHEAD_MAX;
pub use wait::WATCHED_MAX;

pub use crate::store::{Bounds, CellChange, Query};
pub use tool::{Catalogue, TaskSupport, Tool};
pub use view::{Bodies, Detail, ErrorView, JobView, Links, ProgressView, RESULT_INLINE_MAX, ReceiptView};

/// Who asks. Made by `http` from a token or ticket; `Viewer::local()` when no tokens are configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The authenticated principal: the owner of what it submits.
    pub principal: Arc<str>,
    /// Sees every principal's jobs (scope `admin`, and `local`).
    pub sees_all: bool,
}

impl Viewer {
    /// The one principal of a server without tokens.
    pub fn local() -> Self {
        Self { principal: "local".into(), sees_all: true }
    }

    /// Whether a job of this owner exists for the viewer.
    pub fn sees(&self, owner: &str) -> bool {
        self.sees_all || *self.principal == *owner
    }
}

/// A job to be.
#[derive(Debug, Clone, Default)]
pub struct Submit {
    /// Its type.
    pub job_type: String,
    /// Its arguments as JSON text; checked here to be an object that fits the tool's schema.
    pub payload: Bytes,
    /// Idempotency key.
    pub key: Option<String>,
    /// Not before this.
    pub run_at: Option<Timestamp>,
    /// Or: not before this long from now. Both set is `BadField`.
    pub delay: Option<Duration>,
    /// -100..100; out of range is `BadField`.
    pub priority: i64,
    /// Canceled with reason `timeout` after this long; the tool's `expires_in` if absent.
    pub expires_in: Option<Duration>,
    /// At most 16 of 64 characters.
    pub tags: Vec<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// A durable job.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The job.
    pub head: Arc<Head>,
    /// False: the idempotency key had already named it.
    pub is_new: bool,
}

/// One violation of a schema or of a field's rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer of what is wrong, such as `/budget`; empty for the whole.
    pub pointer: String,
    /// What is wrong and what would be right, for a person or a model.
    pub message: String,
}

impl Violation {
    /// The same of what stands there in something larger.
    #[must_use]
    pub fn below(self, place: &str) -> Self {
        Self { pointer: place.to_owned() + &self.pointer, ..self }
    }
}

/// The configured types, for a caller whose own is none of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// One that is near enough to be the one that was meant.
    pub meant: Option<String>,
    /// The nearest ones, a handful, the nearest first.
    pub nearest: Vec<String>,
    /// How many there are besides.
    pub others: usize,
}

/// Why the wish was not granted. Each variant is a code of contract 8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// 404 `no_such_type`; carries what there is instead.
    NoSuchType(Known),
    /// 400 `bad_json`: the payload is no JSON object.
    BadJson(String),
    /// 400 `bad_request`, each field named.
    BadField(Vec<Violation>),
    /// 422 `schema`: every violation.
    Schema(Vec<Violation>),
    /// 409 `idempotency_conflict`: the key names this job, which has another payload.
    IdempotencyConflict(JobId),
    /// 429 `too_many`: the named limit.
    TooMany(&'static str),
    /// 503 `busy`: the core's inbox is full right now.
    Busy,
    /// 503 `draining`: shutting down.
    Draining,
    /// 503 `unhealthy`.
    Unhealthy,
    /// 507 `disk_full`.
    DiskFull,
    /// 500 `damaged`: this body, and no other, cannot be read from the disk.
    Damaged(String),
    /// 404 `no_such_job`; also for another principal's.
    NoSuchJob,
    /// 409 `not_waiting`: what is answered is not asked, or another answer was given; says which.
    NotWaiting(String),
    /// 409 `not_dead_lettered`.
    NotDeadLettered,
    /// 409 `already_replayed`, as this job.
    AlreadyReplayed(JobId),
    /// A small named record did not hold what was expected: read it again.
    Conflict,
}

/// What became of a cancel.
#[derive(Debug, Clone)]
pub struct Canceling {
    /// The job now.
    pub head: Arc<Head>,
    /// True: a running attempt is being stopped (HTTP 202). False: it has ended, by this or before.
    pub under_way: bool,
}

/// What the façade stands in front of.
pub struct Parts {
    /// What the tools are.
    pub catalogue: Arc<Catalogue>,
    /// Where commands go.
    pub core: Handle,
    /// What is visible.
    pub published: Arc<Published>,
    /// When it is.
    pub clock: Arc<dyn Clock>,
}

/// The façade. One for the process, shared.
pub struct Service {
    catalogue: ArcSwap<Catalogue>,
    core: Handle,
    published: Arc<Published>,
    clock: Arc<dyn Clock>,
    is_unhealthy: AtomicBool,
}

impl Service {
    /// The façade of these parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { catalogue, core, published, clock } = parts;
        Self { catalogue: ArcSwap::new(catalogue), core, published, clock, is_unhealthy: AtomicBool::new(false) }
    }

    /// What the tools are.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.load_full()
    }

    /// What the tools are from now on.
    pub fn set_catalogue(&self, catalogue: Arc<Catalogue>) {
        self.catalogue.store(catalogue);
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The log as far as it is durable.
    pub fn bounds(&self) -> Bounds {
        self.published.bounds()
    }

    /// The cursor of now: everything durable lies at or before it.
    pub fn last(&self) -> EventId {
        let bounds = self.bounds();
        EventId { epoch: bounds.epoch, position: bounds.last }
    }

    /// Recent frames, published heads and those who wait: for `http` and its metrics.
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Whether the store has failed or the core has ended: the process is about to end.
    pub fn is_unhealthy(&self) -> bool {
        self.is_unhealthy.load(Ordering::Relaxed)
    }

    /// Marks the process as about to end.
    pub fn set_unhealthy(&self) {
        self.is_unhealthy.store(true, Ordering::Relaxed);
    }

    /// Whether a new job would be taken right now. Looks at the disk.
    ///
    /// # Errors
    /// `Draining`, `Unhealthy`, `DiskFull`; `Busy` if the disk cannot be looked at for now.
    pub async fn ready(&self) -> Result<(), Refused> {
        match (self.is_unhealthy(), self.core.is_draining()) {
            (true, _) => return Err(Refused::Unhealthy),
            (_, true) => return Err(Refused::Draining),
            (false, false) => {}
        }
        let core = self.core.clone();
        let room = self.ask(move |store| store.health().map(|disk| core.room(&disk))).await?;
        match room.map_err(|error| self.failed(&error))? {
            Room::Ample => Ok(()),
            Room::Low | Room::Tight | Room::None => Err(Refused::DiskFull),
        }
    }

    /// Asks one of the reader threads: the only way from here to the store.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Store) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        self.published.readers.ask(question).await.map_err(|_| Refused::Busy)
    }

    /// A store that has failed makes the process unhealthy; one damaged body does not.
    fn failed(&self, error: &store::Error) -> Refused {
        tracing::error!(%error, "the store failed a read");
        if matches!(error, store::Error::Body { .. }) {
            return Refused::Damaged(error.to_string());
        }
        self.set_unhealthy();
        Refused::Unhealthy
    }
}

impl From<events::Error> for Refused {
    fn from(error: events::Error) -> Self {
        match error {
            events::Error::Busy => Self::Busy,
            events::Error::Forgotten => Self::NoSuchJob,
            events::Error::Unreadable(error) => {
                tracing::error!(%error, "the store failed a read");
                Self::Unhealthy
            }
        }
    }
}

impl From<Busy> for Refused {
    fn from(busy: Busy) -> Self {
        match busy {
            Busy::Full => Self::Busy,
            Busy::Gone => Self::Draining,
        }
    }
}
