//! The standing stream of a session: what concerns no request of the client's, told as it happens.
//!
//! In: what the session has subscribed to. Out: a stream of notifications whose ids are the log's, so that it is resumed where it broke off. One for
//! each session: a newer one ends the older, whose peer may have vanished without a word.

use std::future::poll_fn;
use std::str::FromStr;
use std::sync::Arc;

use super::Endpoint;
use super::session::Session;
use super::stream::{Outlet, Stream};
use super::voice::event;
use crate::events::{self, Filter, Scope, Seen, Start, Tail};
use crate::job::{EventId, JobId};
use crate::service::Viewer;

/// What event ids of standing streams begin with; no thread's do.
const PREFIX: &str = "g.";

/// The cursor that an event id of a standing stream is; `None` if it is not one.
pub(super) fn cursor(event_id: &str) -> Option<EventId> {
    EventId::from_str(event_id.strip_prefix(PREFIX)?).ok()
}

/// A standing stream, from now on or from what followed `after`.
pub(super) fn open(endpoint: &Arc<Endpoint>, session: Arc<Session>, viewer: Viewer, after: Option<EventId>) -> Stream {
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
    async fn run(self, after: Option<EventId>) {
        let mut cursor = after.unwrap_or_else(|| self.endpoint.service.last());
        // Something to see at once, so that the client knows that it is heard, and an id to come back with.
        self.outlet.send(format!("id: {PREFIX}{cursor}\n: longhaul\n\n").into_bytes()).await;
        let replaced = self.session.stand();
        loop {
            let changed = self.session.subscriptions.changed();
            tokio::select! {
                () = replaced.notified() => return,
                () = self.session.over() => return,
                () = self.outlet.closing() => return,
                () = changed => {}
                () = self.tell(&mut cursor) => return,
            }
        }
    }

    /// Tells of what is subscribed to, until there is nothing more to be had.
    async fn tell(&self, cursor: &mut EventId) {
        let jobs = self.session.subscriptions.jobs();
        if jobs.is_empty() {
            return std::future::pending().await;
        }
        let filter = Filter { jobs, ..Filter::default() };
        let Ok(mut tail) = self.endpoint.service.tail(&self.viewer, Scope::Feed(filter), Start::After(*cursor)).await
        else {
            return;
        };
        while let Some(Ok(frames)) = next(&mut tail).await {
            for seen in events::split(&frames) {
                match seen {
                    Seen::Event { id, envelope, .. } => {
                        self.updated(id, events::job_of(envelope)).await;
                        *cursor = id;
                    }
                    // Whatever was missed, it may have concerned any of them.
                    Seen::Reset => self.updated(tail.cursor(), None).await,
                    Seen::Cursor(id) => *cursor = id,
                }
            }
        }
    }

    /// News of this job; `None`: of any.
    async fn updated(&self, id: EventId, job: Option<JobId>) {
        let subscriptions = &self.session.subscriptions;
        for uri in job.map_or_else(|| subscriptions.all(), |job| subscriptions.of(job)) {
            let message = serde_json::json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
            });
            self.outlet.send(event(Some(&format!("{PREFIX}{id}")), message.to_string().as_bytes())).await;
        }
    }
}

/// What the tail gives out next; `None` at its end.
pub(super) async fn next(tail: &mut Tail) -> Option<Result<bytes::Bytes, events::Error>> {
    poll_fn(|cx| tail.poll_next(cx)).await
}
