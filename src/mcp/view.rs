//! A job as JSON for MCP clients: as contract 1 has it, without the payload, and with no more of its bodies than a model can take.
//!
//! In: a head. Out: its view. Reads bodies, changes nothing.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Endpoint;
use crate::job::{BodyRef, Head, State};
use crate::service::{Bodies, JobView, Refused};

/// The job without the payload; its result and partial as far as `budget` bytes go.
///
/// # Errors
/// `Busy`, `Unhealthy`, `Damaged`.
pub(super) async fn of(endpoint: &Endpoint, head: &Arc<Head>, budget: &mut u64) -> Result<JobView, Refused> {
    let result = match &head.job.state {
        State::Completed(completion) => completion.result,
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Failed { .. }
        | State::Canceled { .. } => None,
    };
    let bodies = Bodies {
        payload: None,
        result: body(endpoint, head, result, budget).await?,
        partial: body(endpoint, head, head.job.partial, budget).await?,
        questions: endpoint.service.questions(head).await?,
    };
    Ok(JobView::new(head, bodies, &endpoint.links))
}

/// What a completed job's result is read from: the value, else its ready content; `None` is `null`, or no result yet.
pub(super) fn result(head: &Head) -> Option<BodyRef> {
    match &head.job.state {
        State::Completed(completion) => completion.result.or(completion.content),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Failed { .. }
        | State::Canceled { .. } => None,
    }
}

async fn body(
    endpoint: &Endpoint,
    head: &Head,
    name: Option<BodyRef>,
    budget: &mut u64,
) -> Result<Option<Box<RawValue>>, Refused> {
    let Some(name) = name.filter(|name| name.len <= *budget) else { return Ok(None) };
    *budget -= name.len;
    let bytes = match endpoint.service.body(head.job.id(), name, 0, usize::MAX).await {
        // A newer partial has taken its place.
        Err(Refused::NoSuchJob) => return Ok(None),
        other => other?,
    };
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_default();
    Ok(RawValue::from_string(text).ok())
}
