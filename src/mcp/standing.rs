//! The standing stream of a session: what concerns no request of the client's, told as it happens.
//!
//! In: what the session has subscribed to, and its tasks. Out: a stream of notifications whose ids are the log's, so that it is resumed where it broke off.
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
    /// The entry of the log.
    cursor: EventId,
}

/// What an event id of a standing stream says; `None` if it is not one.
pub(super) fn told(event_id: &str) -> Option<Told> {
    let (marks, cursor) = event_id.strip_prefix(PREFIX)?.split_once('.')?;
    Some(Told { marks: Marks::from_str(marks).ok()?, cursor: EventId::from_str(cursor).ok()? })
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}.{}", self.marks, self.cursor)
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
        let mut told =
            after.unwrap_or_else(|| Told { marks: *shown.borrow_and_update(), cursor: self.endpoint.service.last() });
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
                        if let Some(job) = job.filter(|job| self.session.started.has(*job)) {
                            self.status(*told, id, job, envelope).await;
                        }
                        self.updated(*told, id, job).await;
                        told.cursor = id;
                    }
                    // Whatever was missed, it may have concerned any of them.
                    Seen::Reset => self.updated(*told, tail.cursor(), None).await,
                    Seen::Cursor(id) => told.cursor = id,
                }
            }
        }
    }

    /// The status of a task after this event.
    async fn status(&self, told: Told, cursor: EventId, task: JobId, envelope: &str) {
        let Some(label) = events::label(envelope.as_bytes()) else { return };
        if let Some(message) = tasks::legacy::status_of(&self.endpoint, &self.viewer, task, label.event_type).await {
            // If more is told of this event, a stream that breaks off before that has not come past it.
            let is_last = self.session.subscriptions.of(task).is_empty();
            let told = if is_last { Told { cursor, ..told } } else { told };
            self.outlet.send(event(Some(&told.to_string()), &message)).await;
        }
    }

    /// News of this job; `None`: of any.
    async fn updated(&self, told: Told, cursor: EventId, job: Option<JobId>) {
        let subscriptions = &self.session.subscriptions;
        for uri in job.map_or_else(|| subscriptions.all(), |job| subscriptions.of(job)) {
            let message = serde_json::json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
            });
            let id = Told { cursor, ..told }.to_string();
            self.outlet.send(event(Some(&id), message.to_string().as_bytes())).await;
        }
    }

    /// Tells of each list that is another than the client has heard of.
    async fn lists(&self, told: &mut Told, now: Marks) {
        for method in told.marks.changed(now) {
            let message = serde_json::json!({ "jsonrpc": "2.0", "method": method });
            let id = Told { marks: now, ..*told }.to_string();
            self.outlet.send(event(Some(&id), message.to_string().as_bytes())).await;
        }
        told.marks = now;
    }
}

/// What the tail gives out next; `None` at its end.
pub(super) async fn next(tail: &mut Tail) -> Option<Result<bytes::Bytes, events::Error>> {
    poll_fn(|cx| tail.poll_next(cx)).await
}
