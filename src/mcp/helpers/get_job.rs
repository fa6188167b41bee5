//! `get_job`: one job's state, or a range of its result or log.

use serde_json::{Value, json};

use super::{Context, Stop, structured};
use crate::job::{BodyRef, Head, State};
use crate::mcp::ranges::{self, Range, TEXT_DEFAULT, TEXT_MAX, TEXT_MIN};
use crate::mcp::reply::Members;
use crate::mcp::result::{why_canceled, why_failed};
use crate::mcp::rpc;

pub(super) const DESCRIPTION: &str = "Reads one job. part status (the default): its state, progress, error, and its result if that is \
short. part result or log: the text itself, in ranges; when it is cut, the answer names the offset to go on with.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "jobId": { "type": "string", "description": "The id that the call which started the job returned." },
            "part": { "enum": ["status", "result", "log"], "default": "status" },
            "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "Where the range begins, in bytes: 0, or a nextOffset." },
            "limit": { "type": "integer", "minimum": TEXT_MIN, "maximum": TEXT_MAX, "default": TEXT_DEFAULT, "description": "Length of the range in bytes." },
        },
        "required": ["jobId"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    let id = head.job.id();
    let offset = context.number("offset").unwrap_or(0);
    let limit = context.number("limit").unwrap_or(TEXT_DEFAULT);
    let service = &context.endpoint.service;
    let members = match context.text("part") {
        Some("result") => match result(&head)? {
            Some(body) => range("result", &head, &ranges::json(service, id, body, offset, limit).await?),
            None => range("result", &head, &Range { text: "null".into(), offset: 0, next: None, total: 4 }),
        },
        Some("log") => range("log", &head, &ranges::lines(service, id, &head.job.logs, offset, limit).await?),
        Some(_) | None => structured(&context.view(&head, &mut { TEXT_DEFAULT }).await?, None),
    };
    Ok(members.about(id))
}

/// What the result is read from; `None` is `null`.
fn result(head: &Head) -> Result<Option<BodyRef>, Stop> {
    let id = head.job.id();
    let told = |text: String| Err(Stop::Told(Members::complaint(&text).about(id)));
    match &head.job.state {
        State::Completed(completion) => Ok(completion.result.or(completion.content)),
        State::Failed { .. } => told(why_failed(head)),
        State::Canceled { .. } => told(why_canceled(head)),
        State::Pending | State::InProgress { .. } | State::InputRequired => {
            let status = head.job.status().name();
            told(format!(
                "The job {id} is {status} and has no result yet. Call wait_for_jobs with jobIds [{id}] first."
            ))
        }
    }
}

fn range(part: &str, head: &Head, range: &Range) -> Members {
    let mark = match range.next {
        Some(next) => format!("\n[cut at byte {next} of {}; go on with offset {next}]", range.total),
        None => String::new(),
    };
    let mut structured = json!({
        "jobId": head.job.id(), "part": part, "status": head.job.status().name(),
        "text": range.text, "offset": range.offset, "total": range.total, "truncated": range.next.is_some(),
    });
    if let (Some(next), Some(members)) = (range.next, structured.as_object_mut()) {
        members.insert("nextOffset".into(), next.into());
    }
    let mut tree = Vec::with_capacity(range.text.len() + 256);
    rpc::push_value(&mut tree, &structured);
    Members { structured: Some(tree), ..Members::text(&format!("{}{mark}", range.text)) }
}
