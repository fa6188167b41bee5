//! `subscriptions/listen` of 2026-07-28: one stream of what the client opted in to, for as long as it listens.
//!
//! In: a filter. Out: an acknowledgement that says what is honoured, then notifications marked with the request's id, and a result when the server
//! ends. State dies with the stream. Never progress, never log lines.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Endpoint;
use super::rpc::{Error, INVALID_PARAMS, Message};
use super::shown::{Marks, PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED};
use super::standing::next;
use super::stream::{Outlet, Stream};
use super::subscriptions::{SUBSCRIPTIONS_MAX, job_of};
use super::voice::event;
use super::work::Outcome;
use crate::events::{self, Filter, Scope, Seen, Start};
use crate::job::JobId;
use crate::service::Viewer;

/// What a client listens for, as it says it; other types are not honoured.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    #[serde(default)]
    tools_list_changed: bool,
    #[serde(default)]
    resources_list_changed: bool,
    #[serde(default)]
    prompts_list_changed: bool,
    #[serde(default)]
    resource_subscriptions: Vec<String>,
}

/// Answers `subscriptions/listen`.
///
/// # Errors
/// -32602 if the filter is missing, does not fit, or names more than `SUBSCRIPTIONS_MAX` resources.
pub(super) async fn listen(
    endpoint: &Arc<Endpoint>,
    viewer: &Viewer,
    id: &str,
    message: &Message<'_>,
) -> Result<Outcome, Error> {
    #[derive(Deserialize)]
    struct Params {
        notifications: Wanted,
    }
    let Params { notifications: wanted } = message.params()?;
    if wanted.resource_subscriptions.len() > SUBSCRIPTIONS_MAX {
        let text = format!("params.notifications.resourceSubscriptions holds more than {SUBSCRIPTIONS_MAX} resources");
        return Err(Error::answered(INVALID_PARAMS, text));
    }
    let lists = [
        (wanted.tools_list_changed, "toolsListChanged", TOOLS_CHANGED),
        (wanted.resources_list_changed, "resourcesListChanged", RESOURCES_CHANGED),
        (wanted.prompts_list_changed, "promptsListChanged", PROMPTS_CHANGED),
    ];
    let lists =
        lists.into_iter().filter(|(is_wanted, ..)| *is_wanted).map(|(_, name, method)| (name, method)).collect();
    let mut resources = Vec::new();
    for uri in wanted.resource_subscriptions {
        if let Some(job) = job_of(&uri)
            && endpoint.service.job(viewer, job).await.is_ok()
        {
            resources.push((job, uri));
        }
    }
    let Ok(id) = RawValue::from_string(id.to_owned()) else {
        return Err(Error::answered(INVALID_PARAMS, "the id cannot be repeated"));
    };
    let outlet = Outlet::default();
    let listening = Listening { endpoint: endpoint.clone(), viewer: viewer.clone(), id, lists, resources, outlet };
    Ok(Outcome::Stream(Stream::new(listening.outlet.clone(), listening.run())))
}

struct Listening {
    endpoint: Arc<Endpoint>,
    viewer: Viewer,
    /// The request's id as written: it marks every message.
    id: Box<RawValue>,
    /// The lists that it wants to hear of, by their names in the filter, and how it hears of them.
    lists: Vec<(&'static str, &'static str)>,
    resources: Vec<(JobId, String)>,
    outlet: Outlet,
}

impl Listening {
    async fn run(self) {
        let start = Start::After(self.endpoint.service.last());
        let shown = self.endpoint.marks.subscribe();
        self.acknowledge().await;
        if !self.resources.is_empty() || !self.lists.is_empty() {
            tokio::select! {
                () = self.outlet.closing() => {}
                () = self.tell(start) => {}
                () = self.changes(shown) => {}
            }
        }
        let result =
            json!({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "_meta": self.mark()}});
        self.send(&result).await;
    }

    async fn acknowledge(&self) {
        let mut honoured: Map<String, Value> =
            self.lists.iter().map(|(name, _)| ((*name).into(), true.into())).collect();
        if !self.resources.is_empty() {
            let uris: Vec<_> = self.resources.iter().map(|(_, uri)| uri).collect();
            honoured.insert("resourceSubscriptions".into(), json!(uris));
        }
        self.notify("notifications/subscriptions/acknowledged", json!({ "notifications": honoured })).await;
    }

    /// Tells of lists that become others.
    async fn changes(&self, mut shown: watch::Receiver<Marks>) {
        let mut told = *shown.borrow_and_update();
        while !self.lists.is_empty() && shown.changed().await.is_ok() {
            let now = *shown.borrow_and_update();
            for method in told.changed(now).filter(|method| self.lists.iter().any(|(_, wanted)| wanted == method)) {
                self.notify(method, json!({})).await;
            }
            told = now;
        }
        std::future::pending().await
    }

    /// Tells of news of the resources; returns only when nothing more can be had.
    async fn tell(&self, start: Start) {
        if self.resources.is_empty() {
            return std::future::pending().await;
        }
        let jobs = self.resources.iter().map(|(job, _)| *job).collect();
        let filter = Filter { jobs, ..Filter::default() };
        let Ok(mut tail) = self.endpoint.service.tail(&self.viewer, Scope::Feed(filter), start).await else { return };
        while let Some(Ok(frames)) = next(&mut tail).await {
            for seen in events::split(&frames) {
                let job = match seen {
                    Seen::Event { envelope, .. } => events::job_of(envelope),
                    Seen::Reset => None,
                    Seen::Cursor(_) => continue,
                };
                self.updated(job).await;
            }
        }
    }

    /// News of this job; `None`: of any.
    async fn updated(&self, of: Option<JobId>) {
        for (_, uri) in self.resources.iter().filter(|(job, _)| of.is_none_or(|of| of == *job)) {
            self.notify("notifications/resources/updated", json!({ "uri": uri })).await;
        }
    }

    async fn notify(&self, method: &str, mut params: Value) {
        params["_meta"] = self.mark();
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    fn mark(&self) -> Value {
        json!({ "io.modelcontextprotocol/subscriptionId": self.id })
    }

    async fn send(&self, message: &Value) {
        self.outlet.send(event(None, message.to_string().as_bytes())).await;
    }
}
