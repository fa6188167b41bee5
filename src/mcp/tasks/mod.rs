//! Jobs as MCP tasks: one store in two dialects, the core tasks of 2025-11-25 and the extension of 2026-07-28.
//!
//! In: task ids, which are job ids. Out: jobs in the words of a dialect. Any job that its caller may see is a task, however it came to be; what
//! cannot be seen, for whatever reason, is answered by one and the same error.

use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::result::{why_canceled, why_failed};
use super::rpc::{self, Error, INVALID_PARAMS};
use super::{Endpoint, refusal};
use crate::job::{Head, JobId, State, Timestamp};
use crate::service::{Refused, Viewer};

pub(super) mod legacy;
pub(super) mod modern;
mod started;

pub use legacy::TASKS_PAGE;
pub use started::STARTED_MAX;
pub(super) use started::Started;

/// How often a client that asks again and again should do so, in milliseconds.
pub const POLL_EVERY_MS: u64 = 1_000;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// Of a job that has not ended, or was canceled: the same in both dialects.
    fn of_unfinished(head: &Head) -> Self {
        if head.job.awaits_input() { Self::InputRequired } else { Self::Working }
    }
}

/// What both dialects say of a job.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Common {
    task_id: JobId,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    created_at: Timestamp,
    last_updated_at: Timestamp,
}

impl Common {
    fn new(head: &Head, status: Status) -> Self {
        let job = &head.job;
        let (created_at, last_updated_at) = (job.spec.created_at, job.updated_at);
        Self { task_id: job.id(), status, status_message: message(head), created_at, last_updated_at }
    }
}

/// How far the job is, or what came of it.
fn message(head: &Head) -> Option<String> {
    let job = &head.job;
    match &job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => match &job.cancel {
            Some(_) => Some("being canceled".into()),
            None if job.awaits_input() => Some("waits for an answer".into()),
            None => job.progress.as_ref()?.message.as_ref().map(|message| message.to_string()),
        },
        State::Completed(completion) => Some(completion.summary.to_string()).filter(|summary| !summary.is_empty()),
        State::Failed { .. } => Some(why_failed(head)),
        State::Canceled { .. } => Some(why_canceled(head)),
    }
}

/// How long the task is kept, in milliseconds from its creation: without end while it lives, then as its job is.
fn kept_ms(endpoint: &Endpoint, head: &Head) -> Option<u64> {
    let until = endpoint.service.kept_until(head)?;
    Some(until.since(head.job.spec.created_at).0.max(1))
}

fn poll_ms(head: &Head) -> Option<u64> {
    (!head.job.status().is_terminal()).then_some(POLL_EVERY_MS)
}

/// The job that `params.taskId` names.
///
/// # Errors
/// -32602 if there is none that the caller may see; -32603 for what the service cannot do now.
async fn find(endpoint: &Endpoint, viewer: &Viewer, task_id: Option<&RawValue>) -> Result<Arc<Head>, Error> {
    let Some(text) = task_id.and_then(rpc::text) else {
        return Err(Error::answered(INVALID_PARAMS, "params.taskId must be a string: the id of a task"));
    };
    let id = JobId::from_str(&text).map_err(|_| unknown())?;
    endpoint.service.job(viewer, id).await.map_err(|refused| refused_of(&refused))
}

/// The one answer for a task that never was, is another's, or is kept no longer.
fn unknown() -> Error {
    Error::answered(INVALID_PARAMS, "there is no such task: it never was, or it is not kept any more")
}

fn refused_of(refused: &Refused) -> Error {
    if matches!(refused, Refused::NoSuchJob) { unknown() } else { refusal::internal(refused) }
}

/// The members of an object, without its braces.
fn members(object: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    rpc::push_value(&mut json, object);
    let inside = json.strip_prefix(b"{").and_then(|json| json.strip_suffix(b"}"));
    inside.map(<[u8]>::to_vec).unwrap_or_default()
}
