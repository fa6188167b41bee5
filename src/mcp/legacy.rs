//! The revisions with sessions, 2025-03-26 to 2025-11-25: handshake, requests in a session, its end.
//!
//! In: a message already told apart by its era. Out: a reply, after the status table of those revisions. JSON-RPC errors of requests
//! are answered as HTTP 200: older clients lose the code of anything else.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::era::{self, Presence, Revision};
use super::log::Level;
use super::reply::{Members, Reply, SERVER_INFO};
use super::rights::Need;
use super::rpc::{self, Error, INVALID_PARAMS, INVALID_REQUEST, Kind, METHOD_NOT_FOUND, Message};
use super::session::{Abilities, Lookup, Session};
use super::tools::{self, Call};
use super::work::Outcome;
use super::{Endpoint, capabilities, elicit, library, refusal, subscriptions, tasks};
use crate::service::Viewer;

/// What clients tell their model about this server.
pub(super) const INSTRUCTIONS: &str = "Calls of these tools start jobs that outlive the conversation. A call that cannot be \
answered at once returns a job id: call wait_for_jobs with it to learn how the job ended, get_job to read its state, result or log, \
cancel_job to stop it and list_jobs to find jobs of earlier conversations. A job that is input_required asks something: get_job shows its \
questions, answer_job answers them. To be safe against starting the same work twice, send an \
idempotency key in _meta[\"longhaul/idempotencyKey\"].";

/// `initialize`: opens a session, durable before its id is given out.
pub(super) async fn initialize(
    endpoint: &Endpoint,
    message: &Message<'_>,
    viewer: &Viewer,
    version: Option<&str>,
    session: Presence,
) -> Reply {
    let Kind::Request(id) = message.kind else {
        return Reply::error(None, &Error::refused(400, INVALID_REQUEST, "initialize must be a request with an id"));
    };
    let error = |error: Error| Reply::error(Some(id), &error);
    if era::is_past_sessions(version) {
        let text = "initialize belongs to revisions with sessions, but the MCP-Protocol-Version header names none of them; \
                    send server/discover with the envelope in params._meta, or leave the header out";
        return error(Error::refused(400, rpc::HEADER_MISMATCH, text));
    }
    if session == Presence::Known {
        let text = "this session is initialized already; leave out Mcp-Session-Id to open another";
        return error(Error::refused(400, INVALID_REQUEST, text));
    }
    let Some(asked) = message.params.protocol_version.and_then(rpc::text) else {
        return error(Error::answered(
            INVALID_PARAMS,
            "params.protocolVersion must be a string such as \"2025-11-25\"",
        ));
    };
    let revision = Revision::negotiate(&asked);
    match endpoint.sessions.open(viewer, revision, abilities(message)).await {
        Ok(session) => opened(endpoint, id, &session),
        Err(refused) => error(refusal::internal(&refused)),
    }
}

/// What the client says that it can do; nothing, if that cannot be read.
fn abilities(message: &Message<'_>) -> Abilities {
    #[derive(Deserialize)]
    struct Initialize {
        capabilities: Value,
    }
    let capabilities = message.params().map(|Initialize { capabilities }| capabilities).unwrap_or_default();
    Abilities::of(&capabilities)
}

fn opened(endpoint: &Endpoint, id: &str, session: &Session) -> Reply {
    let mut body = rpc::open_result(id, 1_024);
    body.extend_from_slice(b"{\"protocolVersion\":");
    rpc::push_string(&mut body, session.revision.name());
    body.extend_from_slice(b",\"capabilities\":");
    rpc::push_value(&mut body, &capabilities::offered(endpoint, session.revision));
    body.extend_from_slice(b",\"serverInfo\":");
    body.extend_from_slice(SERVER_INFO.as_bytes());
    if endpoint.helpers.is_some() {
        body.extend_from_slice(b",\"instructions\":");
        rpc::push_string(&mut body, INSTRUCTIONS);
    }
    body.extend_from_slice(b"}}");
    Reply::Message { status: 200, body, session: Some(session.id.clone()) }
}

/// The session that a message needs.
///
/// # Errors
/// 400 without a session id or with a version that nobody speaks, 404 for a session that is not open or not the caller's.
pub(super) fn session(lookup: Lookup, version: Option<&str>) -> Result<Arc<Session>, Error> {
    let session = match lookup {
        Lookup::Known(session) => session,
        Lookup::Unknown => {
            let text = "there is no such session: it has ended or never was; send initialize without Mcp-Session-Id to open one";
            return Err(Error::refused(404, INVALID_REQUEST, text));
        }
        Lookup::Absent => {
            let text = "the Mcp-Session-Id header is missing; send initialize first, or the envelope of 2026-07-28 in params._meta";
            return Err(Error::refused(400, INVALID_REQUEST, text));
        }
    };
    match version {
        Some(version) if !era::is_spoken_in_sessions(version) => {
            let shown = crate::job::cut(version, 40);
            let text = format!(
                "MCP-Protocol-Version {shown} is not supported; this session speaks {}",
                session.revision.name()
            );
            Err(Error::refused(400, INVALID_REQUEST, text))
        }
        Some(_) | None => Ok(session),
    }
}

/// A request or notification within a session. Behaves by the session's revision, whatever the header says.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    message: &Message<'_>,
    lookup: Lookup,
    version: Option<&str>,
    call: Call<'_>,
) -> Reply {
    let session = match session(lookup, version) {
        Ok(session) => session,
        Err(error) => return Reply::error(message.id(), &error),
    };
    let Some(id) = message.id() else {
        if message.kind == Kind::Response {
            let taken = match call.rights.check(Need::of(endpoint, message), 403) {
                Ok(()) => elicit::answered(endpoint, call.viewer, message).await,
                Err(error) => Err(error),
            };
            return taken.map_or_else(|error| Reply::error(None, &error), |()| Reply::Accepted);
        }
        note(endpoint, call.viewer, message, &session).await;
        return Reply::Accepted;
    };
    let (revision, abilities) = (session.revision, session.abilities);
    let call = Call { revision, abilities, session: Some(&session), ..call };
    // Before anything is started: a cancel may come right behind its request.
    let mark = session.call(id);
    let outcome = dispatch(endpoint, message, &session, &call).await;
    let asker = call.asker(Some(session.clone()));
    Reply::of(id, asker, call.token(), outcome, Some(mark))
}

async fn dispatch(
    endpoint: &Arc<Endpoint>,
    message: &Message<'_>,
    session: &Session,
    call: &Call<'_>,
) -> Result<Outcome, Error> {
    call.rights.check(Need::of(endpoint, message), 200)?;
    match &*message.method {
        "ping" => Ok(Members::default().into()),
        "logging/setLevel" => set_level(endpoint, message, session).await.map(Outcome::Ready),
        "resources/subscribe" | "resources/unsubscribe" => {
            subscriptions::answer(endpoint, call.viewer, session, message).await.map(Outcome::Ready)
        }
        "tools/list" => {
            endpoint.shown().lists.page(session.revision, session.abilities, message.params.cursor).map(Outcome::Ready)
        }
        "tools/call" => tools::call(endpoint, call).await,
        task if session.revision.has_tasks() && task.starts_with("tasks/") => {
            tasks::legacy::answer(endpoint, call, task).await.unwrap_or_else(|| Err(unknown_method(200, task)))
        }
        other => match library::answer(endpoint, message, call).await {
            Some(answer) => answer.map(Outcome::Ready),
            None => Err(unknown_method(200, other)),
        },
    }
}

/// A notification: only a cancel asks for anything. What it names may be over, or never have been: then it is passed over.
async fn note(endpoint: &Endpoint, viewer: &Viewer, message: &Message<'_>, session: &Session) {
    #[derive(Deserialize)]
    struct Canceled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    if message.method == "notifications/cancelled"
        && let Ok(Canceled { id }) = message.params()
    {
        // Its stream, if it has one, hears of it as well; but that may be gone before it has done anything.
        if let Some(waits) = session.calls.cancel(id.get()) {
            waits.give_up(endpoint, viewer).await;
        }
    }
}

async fn set_level(endpoint: &Endpoint, message: &Message<'_>, session: &Session) -> Result<Members, Error> {
    #[derive(Deserialize)]
    struct SetLevel<'a> {
        #[serde(borrow)]
        level: &'a RawValue,
    }
    let Some(level) = Level::of_json(message.params::<SetLevel<'_>>()?.level.get()) else {
        return Err(Error::answered(
            INVALID_PARAMS,
            "params.level must be one of debug, info, notice, warning, error, critical, alert, emergency",
        ));
    };
    session.set_level(level);
    let done = endpoint.sessions.save(session).await;
    done.map(|()| Members::default()).map_err(|refused| refusal::internal(&refused))
}

/// The answer for a method that is not offered.
pub(super) fn unknown_method(status: u16, method: &str) -> Error {
    let shown = crate::job::cut(method, 64);
    Error::refused(status, METHOD_NOT_FOUND, format!("the method {shown} is not offered"))
}
