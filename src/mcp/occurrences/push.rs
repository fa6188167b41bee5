//! `events/stream`: occurrences as they happen, on the answer to one POST.
//!
//! In: a subscription and a cursor. Out: `active`, then events, and in quiet times a heartbeat with the position that was looked at; a result
//! when the server ends. A slow reader costs nothing: the stream holds a cursor, and what was missed is read from the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use super::super::rpc::{self, Error, INTERNAL_ERROR, INVALID_PARAMS};
use super::super::standing::next;
use super::super::stream::{Outlet, Stream};
use super::super::voice::event;
use super::super::{Endpoint, refusal};
use super::kinds::Wanted;
use super::{Asked, is_older, push_occurrence};
use crate::events::{self, Scope, Seen, Start, Tail};
use crate::job::{EventId, Position, Timestamp};
use crate::service::Viewer;

/// A stream says something at least so often: what is silent for twice as long is taken for dead.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Answers `events/stream`.
///
/// # Errors
/// As `Wanted::of`; -32603 as `Service::tail`. Then no stream is opened.
pub(super) async fn stream(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    id: &str,
    asked: &Asked<'_>,
) -> Result<Stream, Error> {
    let wanted = Wanted::of(&endpoint.events.dialect, &asked.name, asked.arguments)?;
    let Ok(id) = RawValue::from_string(id.to_owned()) else {
        return Err(Error::answered(INVALID_PARAMS, "the id cannot be repeated"));
    };
    let (start, is_lost) = asked.start();
    let oldest = asked.oldest(endpoint.clock.now());
    let skips = skips(endpoint, viewer, &wanted, start, oldest).await?;
    let tail = endpoint.service.tail(viewer, Scope::Feed(wanted.filter()), start).await;
    let tail = tail.map_err(|refused| refusal::internal(&refused))?;
    let resets = !tail.connects();
    let outlet = Outlet::default();
    let push = Push { id, wanted, oldest, skips, resets, outlet };
    let truncated = is_lost || skips || resets;
    Ok(Stream::new(push.outlet.clone(), push.run(tail, truncated)))
}

/// Whether the age alone leaves out the first event that would follow.
pub(super) async fn skips(
    endpoint: &Endpoint,
    viewer: &Viewer,
    wanted: &Wanted,
    start: Start,
    oldest: Option<Timestamp>,
) -> Result<bool, Error> {
    if oldest.is_none() || start == Start::Now {
        return Ok(false);
    }
    let page = endpoint.service.page(viewer, Scope::Feed(wanted.filter()), start, 1).await;
    let page = page.map_err(|refused| refusal::internal(&refused))?;
    let mut labels = page.events.iter().filter_map(|envelope| events::label(envelope));
    Ok(labels.any(|label| wanted.admits(&label) && is_older(&label, oldest)))
}

struct Push {
    /// The request's id as written: it marks every message.
    id: Box<RawValue>,
    wanted: Wanted,
    oldest: Option<Timestamp>,
    /// It was said that the age leaves something out.
    skips: bool,
    /// The tail still has to say a reset that `active` has said.
    resets: bool,
    outlet: Outlet,
}

impl Push {
    async fn run(mut self, tail: Tail, truncated: bool) {
        self.active(tail.cursor(), truncated).await;
        let outlet = self.outlet.clone();
        tokio::select! {
            () = outlet.closing() => {}
            () = self.tell(tail) => {}
        }
        let mut json = rpc::open_result(self.id.get(), 128);
        json.extend_from_slice(b"{\"resultType\":\"complete\",");
        self.push_mark(&mut json);
        json.extend_from_slice(b"}}");
        self.outlet.send(event(None, &json)).await;
    }

    /// Tells what happens; returns only when nothing more can be had.
    async fn tell(&mut self, mut tail: Tail) {
        let mut due = Instant::now() + HEARTBEAT_EVERY;
        loop {
            tokio::select! {
                // In this order: a look at the log moves the cursor that the heartbeat tells.
                biased;
                frames = next(&mut tail) => match frames {
                    Some(Ok(frames)) => {
                        if self.frames(&frames).await {
                            due = Instant::now() + HEARTBEAT_EVERY;
                        }
                    }
                    Some(Err(_)) | None => return self.fail().await,
                },
                () = sleep_until(due) => {
                    self.notify("heartbeat", |out| push_cursor(out, tail.cursor())).await;
                    due = Instant::now() + HEARTBEAT_EVERY;
                }
            }
        }
    }

    /// Tells what passes; whether anything did.
    async fn frames(&mut self, frames: &[u8]) -> bool {
        let (mut has_told, mut is_gap) = (false, false);
        for seen in events::split(frames) {
            // What follows a gap says where it ends.
            let (after_gap, envelope) = match seen {
                Seen::Reset => {
                    is_gap = !std::mem::take(&mut self.resets);
                    continue;
                }
                Seen::Cursor(id) => (id, None),
                Seen::Event { id, envelope, .. } => {
                    (EventId { position: Position(id.position.0.saturating_sub(1)), ..id }, Some(envelope))
                }
            };
            if std::mem::take(&mut is_gap) {
                self.active(after_gap, true).await;
                has_told = true;
            }
            if let Some(envelope) = envelope {
                has_told |= self.event(envelope.as_bytes()).await;
            }
        }
        has_told
    }

    /// Tells an event, if it passes; whether it did.
    async fn event(&mut self, envelope: &[u8]) -> bool {
        let Some(label) = events::label(envelope).filter(|label| self.wanted.admits(label)) else { return false };
        if is_older(&label, self.oldest) {
            if !std::mem::replace(&mut self.skips, true) {
                self.active(label.id, true).await;
            }
            return false;
        }
        self.notify("event", |out| {
            push_occurrence(out, self.wanted.name, &label, envelope);
            out.push(b',');
            push_cursor(out, label.id);
        })
        .await;
        true
    }

    async fn active(&self, cursor: EventId, truncated: bool) {
        self.notify("active", |out| {
            push_cursor(out, cursor);
            out.extend_from_slice(format!(",\"truncated\":{truncated}").as_bytes());
        })
        .await;
    }

    /// The log cannot be read: the client comes back with its cursor.
    async fn fail(&self) {
        self.notify("error", |out| {
            let error = serde_json::json!({"code": INTERNAL_ERROR, "message": "the log cannot be read right now"});
            out.extend_from_slice(format!("\"error\":{error}").as_bytes());
        })
        .await;
    }

    async fn notify(&self, what: &str, params: impl FnOnce(&mut Vec<u8>)) {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/{what}\",\"params\":{{");
        let mut json = head.into_bytes();
        params(&mut json);
        json.push(b',');
        self.push_mark(&mut json);
        json.extend_from_slice(b"}}");
        self.outlet.send(event(None, &json)).await;
    }

    fn push_mark(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":");
        out.extend_from_slice(self.id.get().as_bytes());
        out.push(b'}');
    }
}

fn push_cursor(out: &mut Vec<u8>, cursor: EventId) {
    out.extend_from_slice(format!("\"cursor\":\"{cursor}\"").as_bytes());
}
