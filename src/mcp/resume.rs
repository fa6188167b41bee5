//! GET: a session's client takes a stream up again, or listens to what concerns no request of its.
//!
//! In: the session and `Last-Event-ID`. Out: what is still to come on that one stream; or a clear refusal, never an empty stream, which clients
//! take for a reason to come back at once.

use std::sync::Arc;

use super::accept;
use super::legacy;
use super::pending::Pending;
use super::rights::Need;
use super::rpc::{Error, INVALID_REQUEST};
use super::session::Lookup;
use super::thread::{Resumed, Thread};
use super::{Answer, Endpoint, Request, era, headers, standing};

/// Answers a GET.
pub(super) async fn answer(endpoint: &Arc<Endpoint>, request: &Request<'_>) -> Answer {
    let version = headers::text(request.headers, "mcp-protocol-version");
    let lookup = endpoint.session_of(request);
    if matches!(lookup, Lookup::Absent) && era::is_past_sessions(version.as_deref()) {
        return endpoint.no_such_verb(request);
    }
    let refuse = |status, text: &str| Answer::error(None, &Error::refused(status, INVALID_REQUEST, text));
    let session = match legacy::session(lookup, version.as_deref()) {
        Ok(session) => session,
        Err(error) => return Answer::error(None, &error),
    };
    if !accept::accepts(request.headers).is_some_and(|accepts| accepts.takes_streams) {
        return refuse(406, "a GET is answered by a stream: accept text/event-stream");
    }
    match headers::text(request.headers, "last-event-id").filter(|id| !id.is_empty()) {
        None => Answer::streaming(standing::open(endpoint, session, request.viewer.clone(), None)),
        Some(id) if standing::told(&id).is_some() => {
            Answer::streaming(standing::open(endpoint, session, request.viewer.clone(), standing::told(&id)))
        }
        Some(id) => match Thread::read(&session, &id) {
            Resumed::Pending(thread) => {
                if let Err(error) = request.rights.check(Need::of_wait(&thread.waits), 403) {
                    return Answer::error(None, &error);
                }
                let Thread { id, waits, .. } = &thread;
                if session.calls.is_canceled(id.get(), waits) || waits.is_given_up(endpoint, &request.viewer).await {
                    return refuse(400, "that request was canceled: it has no answer");
                }
                let pending = Pending::resumed(thread, session, request.viewer.clone());
                Answer::streaming(pending.stream(endpoint))
            }
            Resumed::Delivered => refuse(400, "that stream has ended: its answer was the event with this id"),
            Resumed::Foreign => refuse(400, "Last-Event-ID is not the id of an event of this session's streams"),
        },
    }
}
