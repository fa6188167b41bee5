//! `list_jobs`: the caller's own jobs, newest first, one line each.

use std::fmt::Write as _;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{Context, Stop};
use crate::job::{Head, JobId, State, Status};
use crate::mcp::reply::Members;
use crate::mcp::result::{why_canceled, why_failed};
use crate::mcp::rpc;
use crate::service::Query;

/// Most jobs on one page.
pub const LIST_MAX: usize = 100;
/// Jobs on a page when nobody says how many.
const LIST_DEFAULT: u64 = 20;

pub(super) const DESCRIPTION: &str = "Lists your jobs, newest first, also those of earlier conversations. Filters: status, type. Pages: pass nextCursor as cursor.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": { "enum": Status::ALL.map(Status::name) },
            "type": { "type": "string", "description": "The job type: the tool's name unless its configuration says otherwise." },
            "limit": { "type": "integer", "minimum": 1, "maximum": LIST_MAX, "default": LIST_DEFAULT },
            "cursor": { "type": "string", "description": "The nextCursor of the page before." },
        },
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let before = match context.text("cursor").map(JobId::from_str) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            let text = "cursor is not the nextCursor of a page; leave it out to begin with the newest jobs";
            return Err(Stop::Told(Members::complaint(text)));
        }
    };
    let limit = context.number("limit").unwrap_or(LIST_DEFAULT);
    let query = Query {
        before,
        owner: Some(context.viewer.principal.clone()),
        job_type: context.text("type").map(Into::into),
        status: context.text("status").and_then(Status::named),
        limit: usize::try_from(limit).unwrap_or(LIST_MAX),
        ..Query::default()
    };
    let listing = context.endpoint.service.jobs(context.viewer, query).await?;
    let mut lines = String::new();
    for head in &listing.jobs {
        let note = note(head).map(|note| format!("  {note}")).unwrap_or_default();
        let job = &head.job;
        let _ = writeln!(
            lines,
            "{}  {}  {}  {}{note}",
            job.id(),
            job.spec.job_type,
            job.status().name(),
            job.spec.created_at
        );
    }
    match listing.next {
        Some(next) => drop(write!(lines, "[more: call list_jobs with cursor {next}]")),
        None if lines.is_empty() => lines.push_str("No jobs."),
        None => {}
    }
    let mut structured = json!({ "jobs": listing.jobs.iter().map(|head| line(head)).collect::<Vec<_>>() });
    if let (Some(next), Some(members)) = (listing.next, structured.as_object_mut()) {
        members.insert("nextCursor".into(), next.to_string().into());
    }
    let mut tree = Vec::new();
    rpc::push_value(&mut tree, &structured);
    Ok(Members { structured: Some(tree), ..Members::text(lines.trim_end()) })
}

fn line(head: &Head) -> Value {
    let job = &head.job;
    let mut line = json!({
        "id": job.id(), "type": job.spec.job_type, "status": job.status().name(),
        "createdAt": job.spec.created_at, "updatedAt": job.updated_at,
    });
    if let (Some(note), Some(members)) = (note(head), line.as_object_mut()) {
        members.insert("message".into(), note.into());
    }
    line
}

/// How far a job is, or what came of it, in a few words on one line.
pub(in crate::mcp) fn note(head: &Head) -> Option<String> {
    let progress = head.job.progress.as_ref();
    let note = match &head.job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => progress?.message.as_ref()?.to_string(),
        State::Completed(completion) => completion.summary.to_string(),
        State::Failed { .. } => why_failed(head),
        State::Canceled { .. } => why_canceled(head),
    };
    Some(note.replace(['\n', '\r'], " "))
}
