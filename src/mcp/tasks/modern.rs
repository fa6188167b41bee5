//! The tasks extension of 2026-07-28: the server decides that a call becomes a task, and `tasks/get` says everything about it.
//!
//! In: `tasks/*` of requests that declare the extension. Out: tasks with their questions, results or errors inside, and bare acknowledgements.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Common, Status, find, kept_ms, members, poll_ms, refused_of};
use crate::job::{Head, State};
use crate::mcp::era::Revision;
use crate::mcp::reply::Members;
use crate::mcp::rpc::{self, Error, INVALID_PARAMS, MISSING_CAPABILITY};
use crate::mcp::tools::Call;
use crate::mcp::work::Outcome;
use crate::mcp::{Endpoint, questions, refusal, result};

/// The extension's name.
pub(in crate::mcp) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    #[serde(flatten)]
    common: Common,
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval_ms: Option<u64>,
}

impl Task {
    fn new(endpoint: &Endpoint, head: &Head) -> Self {
        let common = Common::new(head, status(head));
        Self { common, ttl_ms: kept_ms(endpoint, head), poll_interval_ms: poll_ms(head) }
    }
}

/// What a tool could not do is its result: only a JSON-RPC error makes a task fail.
fn status(head: &Head) -> Status {
    match &head.job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => Status::of_unfinished(head),
        State::Completed(_) => Status::Completed,
        State::Failed { .. } if result::error_of(head).is_some() => Status::Failed,
        State::Failed { .. } => Status::Completed,
        State::Canceled { .. } => Status::Cancelled,
    }
}

/// What a call is answered whose job is a task. The job is durable.
pub(in crate::mcp) fn created(endpoint: &Endpoint, head: &Head) -> Members {
    let mut json = b"\"resultType\":\"task\",".to_vec();
    json.extend(members(&Task::new(endpoint, head)));
    Members { json, ..Members::default() }.about(head.job.id())
}

/// The task and all that there is to know about it: the members of a DetailedTask.
///
/// # Errors
/// -32602 if it is not kept any more; -32603 for what the service cannot do now.
pub(in crate::mcp) async fn detailed(endpoint: &Endpoint, head: &Arc<Head>) -> Result<Vec<u8>, Error> {
    let mut json = members(&Task::new(endpoint, head));
    match status(head) {
        Status::Working | Status::Cancelled => {}
        Status::InputRequired => {
            let open = endpoint.service.questions(head).await.map_err(|refused| refused_of(&refused))?;
            json.extend_from_slice(b",\"inputRequests\":");
            rpc::push_value(&mut json, &questions::requests(&open));
        }
        Status::Completed => {
            json.extend_from_slice(b",\"result\":{");
            result::of_job(endpoint, Revision::July2026, head).await?.push(&mut json, Revision::July2026);
            json.push(b'}');
        }
        Status::Failed => {
            let error = result::error_of(head).map(|error| json!({ "code": error.code, "message": error.message }));
            json.extend_from_slice(b",\"error\":");
            rpc::push_value(&mut json, &error);
        }
    }
    Ok(json)
}

/// The request has to declare the extension.
///
/// # Errors
/// -32021 if it does not.
pub(in crate::mcp) fn declared(call: &Call<'_>) -> Result<(), Error> {
    if call.abilities.tasks {
        return Ok(());
    }
    let needed: Value = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    let text = format!("this needs a client that declares the extension {EXTENSION} in its capabilities");
    Err(Error { data: Some(Box::new(needed)), ..Error::refused(400, MISSING_CAPABILITY, text) })
}

/// Answers `tasks/*`; `None` for a method that is none of them.
pub(in crate::mcp) async fn answer(
    endpoint: &Endpoint,
    call: &Call<'_>,
    method: &str,
) -> Option<Result<Outcome, Error>> {
    let answer = match method {
        "tasks/get" => get(endpoint, call).await,
        "tasks/update" => update(endpoint, call).await,
        "tasks/cancel" => cancel(endpoint, call).await,
        _ => return None,
    };
    Some(answer.map(Outcome::Ready))
}

async fn get(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    declared(call)?;
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    Ok(Members { json: detailed(endpoint, &head).await?, ..Members::default() })
}

/// What is answered to a question that is open, and fits it, is durable before this returns. What does not fit is refused, and leaves its
/// question open; keys that name no open question are passed over.
async fn update(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    declared(call)?;
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    let Some(answers) = questions::answers(call.params.input_responses)? else {
        return Err(Error::answered(INVALID_PARAMS, "params.inputResponses must be an object: an answer per key"));
    };
    let (_, unfit) =
        questions::apply(endpoint, call.viewer, head, &answers).await.map_err(|refused| refused_of(&refused))?;
    match unfit.is_empty() {
        true => Ok(Members::default()),
        false => Err(Error::answered(INVALID_PARAMS, refusal::unfit_answers(&unfit))),
    }
}

async fn cancel(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    declared(call)?;
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    let canceled = endpoint.service.cancel(call.viewer, head.job.id(), None).await;
    canceled.map(|_| Members::default()).map_err(|refused| refused_of(&refused))
}
