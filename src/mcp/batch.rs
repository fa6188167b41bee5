//! JSON-RPC batches: of 2025-03-26 alone, and only within its sessions.
//!
//! In: an array of messages. Out: an array of the answers that are due, in their order, or 202 if none is. Answers that have to be waited for are
//! waited for together.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::accept::Accepts;
use super::era::{Meta, Revision};
use super::reply::Reply;
use super::rpc::{self, Error, INVALID_REQUEST, PARSE_ERROR};
use super::session::Lookup;
use super::{Answer, Endpoint, Request, headers, legacy};

/// Most messages of one batch.
pub const BATCH_MAX: usize = 100;

/// Answers a batch.
pub(super) async fn answer(endpoint: &Arc<Endpoint>, request: &Request<'_>, body: &str, accepts: Accepts) -> Answer {
    match messages(endpoint, request, body) {
        Ok(messages) => {
            let replies = replies(endpoint, request, &messages).await;
            let answers = waited_for(endpoint, replies).await;
            if answers.is_empty() {
                return Answer::empty(202);
            }
            let body = [b"[", &answers.join(&b","[..])[..], b"]"].concat();
            Reply::Message { status: 200, body, session: None }.into_answer(endpoint, accepts).await
        }
        Err(error) => Answer::error(None, &error),
    }
}

/// The messages of a batch that may be one.
fn messages<'a>(endpoint: &Endpoint, request: &Request<'_>, body: &'a str) -> Result<Vec<&'a RawValue>, Error> {
    let invalid = |text: &str| Error::refused(400, INVALID_REQUEST, text);
    let messages: Vec<&RawValue> = serde_json::from_str(body)
        .map_err(|why| Error::refused(400, PARSE_ERROR, format!("the body is not JSON: {why}")))?;
    let lookup = endpoint.session_of(request);
    if let Lookup::Known(session) = &lookup
        && session.revision != Revision::March2025
    {
        return Err(invalid("this session's revision has no batches: send one message per request"));
    }
    if matches!(lookup, Lookup::Absent) {
        return Err(invalid("batches belong to sessions of 2025-03-26: send one message per request"));
    }
    let version = headers::text(request.headers, "mcp-protocol-version");
    legacy::session(lookup, version.as_deref())?;
    match messages.len() {
        0 => Err(invalid("the batch is empty")),
        1..=BATCH_MAX => Ok(messages),
        _ => Err(invalid(&format!("the batch has more than {BATCH_MAX} messages"))),
    }
}

async fn replies(endpoint: &Arc<Endpoint>, request: &Request<'_>, messages: &[&RawValue]) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(messages.len());
    for message in messages {
        replies.push(match rpc::read(message.get()) {
            Ok(message) if message.method == "initialize" || is_enveloped(&message) => {
                let text = "initialize, and messages of revisions without sessions, cannot be part of a batch";
                let id = message.id();
                Reply::error(id, &Error::refused(400, INVALID_REQUEST, text))
            }
            Ok(message) => endpoint.message(request, &message).await,
            Err(unreadable) => Reply::error(unreadable.id, &unreadable.error),
        });
    }
    replies
}

fn is_enveloped(message: &rpc::Message<'_>) -> bool {
    Meta::read(message.params.meta).is_ok_and(|meta| meta.version.is_some())
}

/// The answers, in the order of their requests.
async fn waited_for(endpoint: &Arc<Endpoint>, replies: Vec<Reply>) -> Vec<Vec<u8>> {
    let mut waiting = JoinSet::new();
    let mut answers = Vec::with_capacity(replies.len());
    for (at, reply) in replies.into_iter().enumerate() {
        match reply {
            Reply::Message { body, .. } => answers.push((at, body)),
            Reply::Pending(pending) => {
                let endpoint = endpoint.clone();
                drop(waiting.spawn(async move { (at, pending.message(&endpoint).await) }));
            }
            // No method of a session answers by a stream alone.
            Reply::Accepted | Reply::Stream(..) => {}
        }
    }
    while let Some(waited) = waiting.join_next().await {
        if let Ok((at, Some(body))) = waited {
            answers.push((at, body));
        }
    }
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, body)| body).collect()
}
