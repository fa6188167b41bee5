//! The Events extension (SEP-3415) of 2026-07-28: clients hear of jobs by asking, by a stream, or by a callback.
//!
//! In: `events/*`. Out: occurrences of the one log, in its order and with its ids and cursor, the same as over every other way out.
//! Only what is durable is told, and another principal's jobs are never heard of.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Endpoint;
use super::era::Meta;
use super::headers::Headers;
use super::legacy::unknown_method;
use super::reply::Members;
use super::rpc::{self, Error, INVALID_PARAMS, Message};
use super::work::Outcome;
use crate::events::{Label, Start};
use crate::job::{EventId, Timestamp};
use crate::service::Viewer;

mod dialect;
mod kinds;
mod poll;
mod push;
mod webhook;

pub use dialect::{Codes, Dialect, WebhookId};
pub use kinds::JOB_ID_MAX;
pub use poll::{EVENTS_DEFAULT, EVENTS_MAX};
pub use push::HEARTBEAT_EVERY;
pub use webhook::Options as WebhookOptions;
pub use webhook::{
    ATTEMPTS_MAX, HANDSHAKES_MAX, HOST_ATTEMPTS_MAX, QUIET_SAVE_EVERY, RETRY_AFTER, RETRYING_MAX, SAVE_EVERY,
    SECRET_GRACE, SECRET_MAX, SECRET_MIN, SUSPEND_AFTER, SUSPEND_FAILURES, TTL_DEFAULT, TTL_MAX, TTL_MIN,
    WEBHOOKS_ALL_MAX, WEBHOOKS_MAX,
};

pub(super) use webhook::Webhooks;

/// What the extension is told by the configuration, `mcp.events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `enabled`: whether there is any of it.
    pub enabled: bool,
    /// How what is not settled is spoken.
    pub dialect: Dialect,
    /// Callbacks.
    pub webhooks: WebhookOptions,
}

impl Default for Options {
    /// The defaults of `docs/mcp-events.md`.
    fn default() -> Self {
        let dialect = Dialect { advertise_legacy_capability: true, ..Dialect::default() };
        Self { enabled: true, dialect, webhooks: WebhookOptions::default() }
    }
}

/// What the methods are asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "rpc::present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cursor: Option<Cow<'a, str>>,
    #[serde(default)]
    max_age_ms: Option<u64>,
    #[serde(default)]
    max_events: Option<usize>,
    #[serde(borrow, default)]
    delivery: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "rpc::present")]
    ttl_ms: Option<&'a RawValue>,
}

impl Asked<'_> {
    /// Where to start; and whether what the cursor named is lost. A cursor that is none is taken for one whose log is gone.
    fn start(&self) -> (Start, bool) {
        match &self.cursor {
            None => (Start::Now, false),
            Some(text) => text.parse::<EventId>().map_or((Start::Earliest, true), |id| (Start::After(id), false)),
        }
    }

    /// What is older is passed over.
    fn oldest(&self, now: Timestamp) -> Option<Timestamp> {
        self.max_age_ms.map(|age| Timestamp(now.0.saturating_sub(i64::try_from(age).unwrap_or(i64::MAX))))
    }
}

/// Answers a method of the extension.
///
/// # Errors
/// 404 and -32601 if there is no such method or the extension is off; what the dialect and the method refuse.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    message: &Message<'_>,
    headers: &dyn Headers,
    meta: &Meta<'_>,
) -> Result<Outcome, Error> {
    let Options { enabled, dialect, webhooks: _ } = &endpoint.events;
    let method = &*message.method;
    const METHODS: [&str; 5] =
        ["events/list", "events/poll", "events/stream", "events/subscribe", "events/unsubscribe"];
    if !enabled || !METHODS.contains(&method) {
        return Err(unknown_method(404, method));
    }
    dialect.gate(meta)?;
    if method == "events/list" {
        return list(endpoint, message).map(Outcome::Ready);
    }
    dialect.check_name(headers, message.params.name)?;
    let asked: Asked<'_> = message.params().map_err(|error| explained(error, method))?;
    match method {
        "events/poll" => poll::poll(endpoint, viewer, &asked).await.map(Outcome::Ready),
        "events/subscribe" => webhook::subscribe(endpoint, viewer, &asked).await.map(Outcome::Ready),
        "events/unsubscribe" => webhook::unsubscribe(endpoint, viewer, &asked).await.map(Outcome::Ready),
        _ => push::stream(endpoint, viewer, message.id().unwrap_or_default(), &asked).await.map(Outcome::Stream),
    }
}

/// The same, and what a method takes that is easily called with something else.
fn explained(error: Error, method: &str) -> Error {
    if method != "events/unsubscribe" {
        return error;
    }
    let takes = "events/unsubscribe takes name, arguments and delivery.url as they were subscribed with, and no id";
    Error { message: format!("{}; {takes}", error.message), ..error }
}

/// There is only one page, so no cursor was ever given out.
fn list(endpoint: &Endpoint, message: &Message<'_>) -> Result<Members, Error> {
    if message.params.cursor.is_some_and(|cursor| cursor.get() != "null") {
        let text = "params.cursor is not one of this server's: the list has one page";
        return Err(Error::answered(INVALID_PARAMS, text));
    }
    let delivery: &[&str] =
        if endpoint.webhooks.are_offered() { &["poll", "push", "webhook"] } else { &["poll", "push"] };
    let mut json = b"\"events\":".to_vec();
    rpc::push_value(&mut json, &kinds::list(delivery));
    json.extend_from_slice(b",\"ttlMs\":0,\"cacheScope\":\"private\"");
    Ok(Members { json, ..Members::default() })
}

/// Adds the members of an occurrence, without braces: the envelope is its `data`.
fn push_occurrence(out: &mut Vec<u8>, name: &str, label: &Label<'_>, envelope: &[u8]) {
    // Neither holds anything that JSON escapes: they are ours.
    out.extend_from_slice(
        format!("\"eventId\":\"{}\",\"name\":\"{name}\",\"timestamp\":\"{}\",\"data\":", label.id, label.timestamp)
            .as_bytes(),
    );
    out.extend_from_slice(envelope);
}

/// Whether it happened before that.
fn is_older(label: &Label<'_>, oldest: Option<Timestamp>) -> bool {
    oldest.is_some_and(|oldest| Timestamp::parse(label.timestamp).is_some_and(|at| at < oldest))
}
