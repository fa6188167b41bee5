//! A job as a resource: `job://{id}` and `job://{id}/result`.
//!
//! In: an id that a URI named. Out: contents, bounded; a cut one says so, and how to read on. Reads, and changes nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::uri::Part;
use super::{CHANGING_TTL_MS, not_found};
use crate::job::{Head, JobId, State};
use crate::mcp::helpers::note;
use crate::mcp::modern::LIST_TTL_MS;
use crate::mcp::ranges::{self, TEXT_DEFAULT, TEXT_MAX};
use crate::mcp::result::{more, why_canceled, why_failed};
use crate::mcp::rpc::Error;
use crate::mcp::tools::Call;
use crate::mcp::{Endpoint, refusal, view};
use crate::service::{Query, Refused, Viewer};

/// The caller's newest jobs that `resources/list` shows; `list_jobs` has all.
pub const JOBS_LISTED_MAX: usize = 100;
/// Most bytes of a result that `resources/read` answers: a read has no ranges. A longer one is cut, and says how to read on.
pub const RESULT_MAX: u64 = TEXT_MAX;

/// The line of one of the templates.
pub(super) fn template(part: Part) -> Value {
    let (name, title, description, mime_type) = match part {
        Part::Job => (
            "job",
            "Job",
            "One of your jobs: its state, progress, error, and its result if that is short.",
            "application/json",
        ),
        Part::Result => (
            "job result",
            "Result of a job",
            "What a completed job has found. A long one is cut and says how to read on.",
            "text/plain",
        ),
    };
    let mut entry = json!({ "uriTemplate": part.template(), "name": name, "title": title, "description": description });
    // A result may be of either type, so its template promises none.
    if part == Part::Job {
        entry["mimeType"] = mime_type.into();
    }
    entry
}

/// The caller's newest jobs, as lines of the list.
pub(super) async fn entries(endpoint: &Endpoint, viewer: &Viewer) -> Result<Vec<Value>, Error> {
    let query = Query { owner: Some(viewer.principal.clone()), limit: JOBS_LISTED_MAX, ..Query::default() };
    let listing = endpoint.service.jobs(viewer, query).await.map_err(|refused| refusal::internal(&refused))?;
    Ok(listing.jobs.iter().map(|head| entry(head)).collect())
}

fn entry(head: &Head) -> Value {
    let (id, status, job_type) = (head.job.id(), head.job.status().name(), &head.job.spec.job_type);
    let mut entry = json!({
        "uri": Part::Job.template().replace("{id}", &id.to_string()),
        "name": format!("job {id}"),
        "title": format!("{job_type}, {status}"),
        "mimeType": "application/json",
        "annotations": { "lastModified": head.job.updated_at },
    });
    if let Some(note) = note(head) {
        entry["description"] = note.into();
    }
    entry
}

/// The contents, and how long a client may keep them in milliseconds.
///
/// # Errors
/// Not found, if the caller has no such job or it has no result; -32603 if it cannot be read.
pub(super) async fn read(
    endpoint: &Endpoint,
    call: &Call<'_>,
    uri: &str,
    id: JobId,
    part: Part,
) -> Result<(Value, u64), Error> {
    let failed = |refused: Refused| match refused {
        Refused::NoSuchJob => not_found(call.revision, uri, None),
        other => refusal::internal(&other),
    };
    let head = endpoint.service.job(call.viewer, id).await.map_err(failed)?;
    match part {
        Part::Job => {
            let view = view::of(endpoint, &head, &mut { TEXT_DEFAULT }).await.map_err(failed)?;
            let text = serde_json::to_string(&view).unwrap_or_default();
            Ok((json!({ "uri": uri, "mimeType": "application/json", "text": text }), CHANGING_TTL_MS))
        }
        Part::Result => {
            if let Some(why) = why_none(&head) {
                return Err(not_found(call.revision, uri, Some(&why)));
            }
            let contents = result(endpoint, uri, &head).await.map_err(failed)?;
            Ok((contents, LIST_TTL_MS))
        }
    }
}

/// Why the job has no result; `None` if it has.
fn why_none(head: &Head) -> Option<String> {
    match &head.job.state {
        State::Completed(_) => None,
        State::Failed { .. } => Some(why_failed(head)),
        State::Canceled { .. } => Some(why_canceled(head)),
        State::Pending | State::InProgress { .. } | State::InputRequired => {
            Some(format!("The job {} is {} and has no result yet.", head.job.id(), head.job.status().name()))
        }
    }
}

async fn result(endpoint: &Endpoint, uri: &str, head: &Arc<Head>) -> Result<Value, Refused> {
    let (service, id) = (&endpoint.service, head.job.id());
    let Some(body) = view::result(head) else {
        return Ok(json!({ "uri": uri, "mimeType": "application/json", "text": "null" }));
    };
    let is_string = service.body(id, body, 0, 1).await?.first() == Some(&b'"');
    let range = ranges::json(service, id, body, 0, RESULT_MAX).await?;
    let Some(next) = range.next else {
        let mime_type = if is_string { "text/plain" } else { "application/json" };
        return Ok(json!({ "uri": uri, "mimeType": mime_type, "text": range.text }));
    };
    let url = endpoint.links.result_url(id);
    // What is cut is no JSON any more.
    let text = format!("{}\n[{}]", range.text, more(endpoint, &range, id, &url));
    let cut = json!({ "nextOffset": next, "total": range.total, "resultUrl": url });
    Ok(json!({ "uri": uri, "mimeType": "text/plain", "text": text, "_meta": { "longhaul/cut": cut } }))
}
