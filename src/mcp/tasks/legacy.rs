//! The core tasks of 2025-11-25: the client asks for a task with its call, and for the outcome by `tasks/result`, which waits for it.
//!
//! In: `tasks/*` within a session. Out: tasks, results, waits. The `ttl` that a client asks for is overridden, as the revision allows: the answer
//! says how long the task really is kept.

use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Common, Status, find, kept_ms, members, poll_ms, refused_of};
use crate::job::{Head, JobId, State};
use crate::mcp::reply::Members;
use crate::mcp::result::why_canceled;
use crate::mcp::rpc::{self, Error, INTERNAL_ERROR, INVALID_PARAMS};
use crate::mcp::tools::{Call, next_step};
use crate::mcp::voice::Voice;
use crate::mcp::work::{Asker, Outcome, SILENT_MAX, Waits, Work, moved_on};
use crate::mcp::{Endpoint, elicit, log, refusal, result};
use crate::service::{Query, Viewer};

/// Most tasks on one page of `tasks/list`.
pub const TASKS_PAGE: usize = 100;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    #[serde(flatten)]
    common: Common,
    ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval: Option<u64>,
}

impl Task {
    fn new(endpoint: &Endpoint, head: &Head) -> Self {
        Self { common: Common::new(head, status(head)), ttl: kept_ms(endpoint, head), poll_interval: poll_ms(head) }
    }
}

fn status(head: &Head) -> Status {
    match &head.job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => Status::of_unfinished(head),
        State::Completed(completion) if completion.is_error => Status::Failed,
        State::Completed(_) => Status::Completed,
        State::Failed { .. } => Status::Failed,
        State::Canceled { .. } => Status::Cancelled,
    }
}

fn task(endpoint: &Endpoint, head: &Head) -> Members {
    Members { json: members(&Task::new(endpoint, head)), ..Members::default() }
}

/// Whether the call asks for a task.
///
/// # Errors
/// -32602 if what it asks for makes no sense.
pub(in crate::mcp) fn is_wanted(task: Option<&RawValue>) -> Result<bool, Error> {
    #[derive(serde::Deserialize)]
    struct Wanted {
        #[serde(default)]
        ttl: Value,
    }
    let Some(raw) = task.filter(|raw| raw.get() != "null") else { return Ok(false) };
    let invalid = || Error::answered(INVALID_PARAMS, "params.task must be an object such as {\"ttl\": 60000}");
    if !rpc::is_object(raw) {
        return Err(invalid());
    }
    let wanted: Wanted = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    match wanted.ttl {
        Value::Null => Ok(true),
        Value::Number(ttl) if ttl.as_f64().is_some_and(|ttl| ttl >= 0.0) => Ok(true),
        _ => Err(Error::answered(INVALID_PARAMS, "params.task.ttl must be a number of milliseconds")),
    }
}

/// What a call is answered whose job is a task. The job is durable.
pub(in crate::mcp) fn created(endpoint: &Endpoint, call: &Call<'_>, head: &Head) -> Members {
    let id = head.job.id();
    if let Some(session) = call.session {
        session.started.keep(id, call.token());
    }
    let mut json = b"\"task\":".to_vec();
    rpc::push_value(&mut json, &Task::new(endpoint, head));
    let mut meta = b"\"io.modelcontextprotocol/model-immediate-response\":".to_vec();
    rpc::push_string(&mut meta, &next_step(endpoint, head));
    Members { json, meta, ..Members::default() }.about(id)
}

/// `notifications/tasks/status`, if this is an event after which a task's status may be another.
pub(in crate::mcp) async fn status_of(
    endpoint: &Endpoint,
    viewer: &Viewer,
    id: JobId,
    event_type: &str,
) -> Option<Vec<u8>> {
    const TURNS: [&str; 5] =
        ["job.input_required", "job.input_received", "job.completed", "job.failed", "job.canceled"];
    if !TURNS.contains(&event_type) {
        return None;
    }
    // What is not kept any more has no status to be told.
    let head = endpoint.service.job(viewer, id).await.ok()?;
    let mut json = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks/status\",\"params\":".to_vec();
    rpc::push_value(&mut json, &Task::new(endpoint, &head));
    json.push(b'}');
    Some(json)
}

/// Answers `tasks/*`; `None` for a method that is none of them.
pub(in crate::mcp) async fn answer(
    endpoint: &Endpoint,
    call: &Call<'_>,
    method: &str,
) -> Option<Result<Outcome, Error>> {
    Some(match method {
        "tasks/get" => get(endpoint, call).await,
        "tasks/result" => result(endpoint, call).await,
        "tasks/list" => list(endpoint, call).await,
        "tasks/cancel" => cancel(endpoint, call).await,
        _ => return None,
    })
}

async fn get(endpoint: &Endpoint, call: &Call<'_>) -> Result<Outcome, Error> {
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    Ok(task(endpoint, &head).into())
}

async fn result(endpoint: &Endpoint, call: &Call<'_>) -> Result<Outcome, Error> {
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    let id = head.job.id();
    if head.job.status().is_terminal() {
        return outcome_of(endpoint, call.revision, &head).await.map(Outcome::Ready);
    }
    let token = call.session.and_then(|session| session.started.token_of(id));
    Ok(Outcome::Waiting(Work { token, ..Work::of(Waits::Result(id)) }))
}

async fn list(endpoint: &Endpoint, call: &Call<'_>) -> Result<Outcome, Error> {
    let cursor = call.params.cursor.filter(|cursor| cursor.get() != "null");
    let read = |cursor| rpc::text(cursor).and_then(|text| JobId::from_str(&text).ok());
    let before = match cursor.map(read) {
        None => None,
        Some(Some(id)) => Some(id),
        Some(None) => return Err(Error::answered(INVALID_PARAMS, "params.cursor is not the nextCursor of a page")),
    };
    let query = Query { before, limit: TASKS_PAGE, ..Query::default() };
    let listing = endpoint.service.jobs(call.viewer, query).await.map_err(|refused| refusal::internal(&refused))?;
    let mut json = b"\"tasks\":".to_vec();
    rpc::push_value(&mut json, &listing.jobs.iter().map(|head| Task::new(endpoint, head)).collect::<Vec<_>>());
    if let Some(next) = listing.next {
        json.extend_from_slice(b",\"nextCursor\":");
        rpc::push_value(&mut json, &next);
    }
    Ok(Members { json, ..Members::default() }.into())
}

async fn cancel(endpoint: &Endpoint, call: &Call<'_>) -> Result<Outcome, Error> {
    let head = find(endpoint, call.viewer, call.params.task_id).await?;
    if head.job.status().is_terminal() {
        return Err(ended(&head));
    }
    let id = head.job.id();
    let canceling = endpoint.service.cancel(call.viewer, id, None).await.map_err(|refused| refused_of(&refused))?;
    if canceling.under_way {
        return Ok(Outcome::Waiting(Work::of(Waits::Cancel(id))));
    }
    canceled_as(endpoint, &canceling.head).map(Outcome::Ready)
}

/// What `tasks/cancel` is answered once the job has ended.
fn canceled_as(endpoint: &Endpoint, head: &Head) -> Result<Members, Error> {
    if status(head) == Status::Cancelled { Ok(task(endpoint, head)) } else { Err(ended(head)) }
}

fn ended(head: &Head) -> Error {
    let status = head.job.status().name();
    Error::answered(INVALID_PARAMS, format!("the task cannot be canceled: it has ended as {status}"))
}

/// Waits until a job that is being canceled has ended.
///
/// # Errors
/// -32602 if it ended otherwise; as `until_ended`.
pub(in crate::mcp) async fn await_cancel(endpoint: &Endpoint, asker: &Asker, job: JobId) -> Result<Members, Error> {
    let head = until_ended(endpoint, asker, &mut Voice::mute(), job).await?;
    canceled_as(endpoint, &head)
}

/// Waits until the job has ended, however long that takes where somebody listens: what its call would have returned.
///
/// # Errors
/// The handler's own; -32603 for a canceled job; as `until_ended`.
pub(in crate::mcp) async fn await_result(
    endpoint: &Endpoint,
    asker: &Asker,
    voice: &mut Voice,
    job: JobId,
) -> Result<Members, Error> {
    let head = until_ended(endpoint, asker, voice, job).await?;
    voice.last(&head, endpoint.clock.now()).await;
    if let Some(level) = asker.level() {
        log::send(endpoint, &head, level, voice).await;
    }
    outcome_of(endpoint, asker.revision, &head).await
}

async fn outcome_of(
    endpoint: &Endpoint,
    revision: crate::mcp::era::Revision,
    head: &Arc<Head>,
) -> Result<Members, Error> {
    if status(head) == Status::Cancelled {
        return Err(Error::answered(INTERNAL_ERROR, why_canceled(head)));
    }
    Ok(result::of_job(endpoint, revision, head).await?.related())
}

/// What is answered to who has waited for a task's end as long as may be.
pub(in crate::mcp) fn still_works() -> Error {
    Error::answered(INTERNAL_ERROR, "the task still works; ask again")
}

/// Waits for the job's end, telling how far it is and whenever its status changes.
///
/// # Errors
/// -32602 if it is not kept any more; -32603 for what the service cannot do now, or if nobody listens and it takes longer than `SILENT_MAX`.
async fn until_ended(endpoint: &Endpoint, asker: &Asker, voice: &mut Voice, job: JobId) -> Result<Arc<Head>, Error> {
    let (service, viewer) = (&endpoint.service, &asker.viewer);
    let silent_until = Instant::now() + SILENT_MAX;
    let mut head = service.job(viewer, job).await.map_err(|refused| refused_of(&refused))?;
    let mut told = status(&head);
    while !head.job.status().is_terminal() {
        if !voice.is_heard() && Instant::now() >= silent_until {
            return Err(still_works());
        }
        if head.job.awaits_input() {
            elicit::ask(endpoint, asker, voice, &head).await?;
        }
        voice.progress(&head, endpoint.clock.now()).await;
        let newer = moved_on(endpoint, asker, &head, voice.patience().min(SILENT_MAX)).await;
        head = newer.map_err(|refused| refused_of(&refused))?.unwrap_or(head);
        if status(&head) != told {
            told = status(&head);
            let message = serde_json::json!({
                "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": Task::new(endpoint, &head),
            });
            voice.say(message.to_string().as_bytes(), endpoint.clock.now()).await;
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_asks_for_a_task_by_an_object() {
        let wanted = |json: &str| {
            let raw: &RawValue = serde_json::from_str(json).expect("is JSON");
            is_wanted(Some(raw)).map_err(|error| error.code)
        };
        assert_eq!(is_wanted(None).ok(), Some(false));
        for (json, expected) in [
            ("null", Ok(false)),
            ("{}", Ok(true)),
            (r#"{"ttl":null,"later":1}"#, Ok(true)),
            (r#"{"ttl":0}"#, Ok(true)),
            (r#"{"ttl":1e9}"#, Ok(true)),
            (r#"{"ttl":-1}"#, Err(INVALID_PARAMS)),
            (r#"{"ttl":"60"}"#, Err(INVALID_PARAMS)),
            ("[]", Err(INVALID_PARAMS)),
            ("true", Err(INVALID_PARAMS)),
        ] {
            assert_eq!(wanted(json), expected, "{json}");
        }
    }
}
