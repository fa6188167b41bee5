//! The façade that `mcp` and `http` use: commands, reads, waits. All async, all owner-checked.
//!
//! In: a viewer and a wish. Out: a durable answer or a `Refused`. Another principal's job looks like a missing one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::events::{Page, Published, Scope, Start, Tail};
use crate::job::{BodyRef, Head, JobId, Timestamp};
use crate::metrics::Vitals;
use crate::store::{Bounds, Listing, Query};

mod tool;
mod view;

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

/// Why the wish was not granted. Each variant is a code of contract 8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// 404 `no_such_type`; carries the nearest configured type, if one is near.
    NoSuchType(Option<String>),
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
    /// 404 `no_such_job`; also for another principal's.
    NoSuchJob,
    /// 409 `not_dead_lettered`.
    NotDeadLettered,
    /// 409 `already_replayed`, as this job.
    AlreadyReplayed(JobId),
}

/// What became of a cancel.
#[derive(Debug, Clone)]
pub struct Canceling {
    /// The job now.
    pub head: Arc<Head>,
    /// True: a running attempt is being stopped (HTTP 202). False: it has ended, by this or before.
    pub under_way: bool,
}

/// The façade. One for the process, shared.
pub struct Service {
    /// What the tools are.
    pub catalogue: Arc<Catalogue>,
    published: Arc<Published>,
}

impl Service {
    /// Creates a job, or finds the one that its key names. Durable when it returns.
    ///
    /// # Errors
    /// Any `Refused` but the last three.
    pub async fn submit(&self, viewer: &Viewer, submit: Submit) -> Result<Submitted, Refused> {
        todo!()
    }

    /// The job, as last synced.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Unhealthy`.
    pub async fn job(&self, viewer: &Viewer, id: JobId) -> Result<Arc<Head>, Refused> {
        todo!()
    }

    /// Jobs newest first, unfinished and ended merged, restricted to what the viewer sees. Stable under inserts.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn jobs(&self, viewer: &Viewer, query: Query) -> Result<Listing, Refused> {
        todo!()
    }

    /// Ends a pending job at once; tells a running one to stop and returns when that wish is durable.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Draining`, `Unhealthy`.
    pub async fn cancel(&self, viewer: &Viewer, id: JobId, reason: Option<String>) -> Result<Canceling, Refused> {
        todo!()
    }

    /// Makes a new job from a dead letter; both are durable when it returns.
    ///
    /// # Errors
    /// `NoSuchJob`, `NotDeadLettered`, `AlreadyReplayed`, and what `submit` refuses.
    pub async fn retry(&self, viewer: &Viewer, id: JobId) -> Result<Arc<Head>, Refused> {
        todo!()
    }

    /// The job once it has ended, or as it is when `at_most` has passed. Holds no thread.
    ///
    /// # Errors
    /// As `job`.
    pub async fn wait(&self, viewer: &Viewer, id: JobId, at_most: Duration) -> Result<Arc<Head>, Refused> {
        todo!()
    }

    /// Returns as soon as one of the jobs has an entry after the revision given beside it, or `at_most` has passed:
    /// the jobs that changed. Unknown ids are passed over. Holds no thread.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn wait_any(
        &self,
        viewer: &Viewer,
        seen: &[(JobId, u32)],
        at_most: Duration,
    ) -> Result<Vec<Arc<Head>>, Refused> {
        todo!()
    }

    /// Bytes `offset..offset + limit` of a body that the job's record names.
    ///
    /// # Errors
    /// `NoSuchJob` if it has been forgotten meanwhile; `Busy`, `Unhealthy`.
    pub async fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Bytes, Refused> {
        todo!()
    }

    /// A reader of the feed or of one job's stream.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Unhealthy`.
    pub async fn tail(&self, viewer: &Viewer, scope: Scope, start: Start) -> Result<Tail, Refused> {
        todo!()
    }

    /// The log in pages.
    ///
    /// # Errors
    /// As `tail`.
    pub async fn page(&self, viewer: &Viewer, scope: Scope, start: Start, limit: usize) -> Result<Page, Refused> {
        todo!()
    }

    /// The job as JSON (contract 1), bodies included as far as they are asked for and small enough.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn view(&self, head: &Head, links: &Links) -> Result<JobView, Refused> {
        todo!()
    }

    /// Reads the small named records whose names start with `prefix`.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn cells(&self, prefix: &'static str) -> Result<Vec<(String, Bytes)>, Refused> {
        todo!()
    }

    /// Writes or removes small named records. Durable when it returns.
    ///
    /// # Errors
    /// `Busy`, `Draining`, `Unhealthy`.
    pub async fn put_cells(&self, cells: Vec<crate::store::CellChange>) -> Result<(), Refused> {
        todo!()
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        todo!()
    }

    /// The log as far as it is durable.
    pub fn bounds(&self) -> Bounds {
        todo!()
    }

    /// Up to three of the viewer's own jobs whose ids look like `text`.
    pub async fn near_misses(&self, viewer: &Viewer, text: &str) -> Vec<JobId> {
        todo!()
    }

    /// Whether a new job would be taken right now.
    ///
    /// # Errors
    /// `Draining`, `Unhealthy`, `DiskFull`.
    pub fn ready(&self) -> Result<(), Refused> {
        todo!()
    }

    /// How the server is, for `/metrics`. May look at every unfinished job and at the disk: not for a hot path.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn vitals(&self) -> Result<Vitals, Refused> {
        todo!()
    }
}
