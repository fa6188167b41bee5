//! The standing stream of a session: what concerns no request of the client's, told as it happens.
//!
//! In: what the session has subscribed to, and its tasks. Out: a stream of notifications whose ids say how far the log was told, so that it is resumed where
//! it broke off: what is told again then may have been heard before, but nothing is passed over.
//! One for each session: a newer one ends the older, whose peer may have vanished without a word.

use std::fmt;
use std::future::poll_fn;
use std::str::FromStr;
use std::sync::Arc;

use super::session::Session;
use super::shown::Marks;
use super::stream::{Outlet, Stream};
use super::voice::event;
use super::{Endpoint, tasks};
use crate::events::{self, Filter, Scope, Seen, Start, Tail};
use crate::job::{EventId, JobId};
use crate::service::Viewer;

/// What event ids of standing streams begin with; no thread's do.
const PREFIX: &str = "g.";

/// How far a standing stream has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// The lists that the client has heard of.
    marks: Marks,
    /// The entry of the log of which everything was told.
    cursor: EventId,
    /// Makes ids that are equal otherwise differ: a time, or the next millisecond.
    stamp: i64,
}

/// What an event id of a standing stream says; `None` if it is not one.
pub(super) fn told(event_id: &str) -> Option<Told> {
    let (marks, rest) = event_id.strip_prefix(PREFIX)?.split_once('.')?;
    let (cursor, stamp) = rest.split_once('.').unwrap_or((rest, "0"));
    let stamp = stamp.parse().ok()?;
    Some(Told { marks: Marks::from_str(marks).ok()?, cursor: EventId::from_str(cursor).ok()?, stamp })
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}.{}.{}", self.marks, self.cursor, self.stamp)
    }
}

/// A standing stream, from now on or from what followed `after`.
pub(super) fn open(endpoint: &Arc<Endpoint>, session: Arc<Session>, viewer: Viewer, after: Option<Told>) -> Stream {
    let outlet = Outlet::default();
    let standing = Standing { endpoint: endpoint.clone(), session, viewer, outlet: outlet.clone() };
    Stream::new(outlet, async move { standing.run(after).await })
}

struct Standing {
    endpoint: Arc<Endpoint>,
    session: Arc<Session>,
    viewer: Viewer,
    outlet: Outlet,
}

impl Standing {
    async fn run(self, after: Option<Told>) {
        let mut shown = self.endpoint.marks.subscribe();
        let (marks, cursor) = (*shown.borrow_and_update(), self.endpoint.service.last());
        let mut told = self.stamped(after.unwrap_or(Told { marks, cursor, stamp: 0 }));
        // Something to see at once, so that the client knows that it is heard, and an id to come back with.
        self.outlet.send(format!("id: {told}\n: longhaul\n\n").into_bytes()).await;
        let replaced = self.session.stand();
        loop {
            let now = *shown.borrow_and_update();
            self.lists(&mut told, now).await;
            let (changed, started) = (self.session.subscriptions.changed(), self.session.started.changed());
            tokio::select! {
                () = replaced.notified() => return,
                () = self.session.over() => return,
                () = self.outlet.closing() => return,
                () = changed => {}
                () = started => {}
                Ok(()) = shown.changed() => {}
                () = self.tell(&mut told) => return,
            }
        }
    }

    /// Tells of what is subscribed to, and of tasks, until there is nothing more to be had.
    async fn tell(&self, told: &mut Told) {
        let mut jobs = self.session.subscriptions.jobs();
        jobs.extend(self.session.started.all());
        if jobs.is_empty() {
            return std::future::pending().await;
        }
        let filter = Filter { jobs, ..Filter::default() };
        let Ok(mut tail) =
            self.endpoint.service.tail(&self.viewer, Scope::Feed(filter), Start::After(told.cursor)).await
        else {
            return;
        };
        while let Some(Ok(frames)) = next(&mut tail).await {
            for seen in events::split(&frames) {
                match seen {
                    Seen::Event { id, envelope, .. } => {
                        let job = events::job_of(envelope);
                        let mut messages = self.status(job, envelope).await;
                        messages.extend(self.updated(job));
                        self.news(told, id, &messages).await;
                    }
                    // Whatever was missed, it may have concerned any of them.
                    Seen::Reset => self.news(told, tail.cursor(), &self.updated(None)).await,
                    Seen::Cursor(id) => told.cursor = id,
                }
            }
        }
    }

    /// Tells what this entry of the log is news for. Only with the last of the messages everything of it is told.
    async fn news(&self, told: &mut Told, cursor: EventId, messages: &[Vec<u8>]) {
        for (message, left) in messages.iter().zip((0..messages.len()).rev()) {
            let cursor = if left == 0 { cursor } else { told.cursor };
            self.say(told, Told { cursor, ..*told }, message).await;
        }
        told.cursor = cursor;
    }

    /// The status of the job after this event, if it is a task.
    async fn status(&self, job: Option<JobId>, envelope: &str) -> Vec<Vec<u8>> {
        let task = job.filter(|job| self.session.started.has(*job));
        let Some((task, label)) = task.zip(events::label(envelope.as_bytes())) else { return Vec::new() };
        tasks::legacy::status_of(&self.endpoint, &self.viewer, task, label.event_type).await.into_iter().collect()
    }

    /// News of this job; `None`: of any.
    fn updated(&self, job: Option<JobId>) -> Vec<Vec<u8>> {
        let subscriptions = &self.session.subscriptions;
        let uris = job.map_or_else(|| subscriptions.all(), |job| subscriptions.of(job));
        let updated = |uri| serde_json::json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri }});
        uris.into_iter().map(|uri| updated(uri).to_string().into_bytes()).collect()
    }

    /// Tells of each list that is another than the client has heard of.
    async fn lists(&self, told: &mut Told, now: Marks) {
        while let Some((method, marks)) = told.marks.next(now) {
            let message = serde_json::json!({ "jsonrpc": "2.0", "method": method }).to_string();
            self.say(told, Told { marks, ..*told }, message.as_bytes()).await;
        }
    }

    /// Sends a message with which `next` is told. If this is dropped before, it is not.
    async fn say(&self, told: &mut Told, next: Told, message: &[u8]) {
        let next = self.stamped(next);
        self.outlet.send(event(Some(&next.to_string()), message)).await;
        *told = next;
    }

    fn stamped(&self, told: Told) -> Told {
        Told { stamp: self.endpoint.clock.now().0.max(told.stamp.saturating_add(1)), ..told }
    }
}

/// What the tail gives out next; `None` at its end.
pub(super) async fn next(tail: &mut Tail) -> Option<Result<bytes::Bytes, events::Error>> {
    poll_fn(|cx| tail.poll_next(cx)).await
}
