//! `subscriptions/listen` of 2026-07-28: one stream of what the client opted in to, for as long as it listens.
//!
//! In: a filter. Out: an acknowledgement that says what is honoured, then notifications marked with the request's id, and a result when the server
//! ends. State dies with the stream. Never progress, never log lines.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::rpc::{Error, INVALID_PARAMS, Message};
use super::standing::next;
use super::stream::{Outlet, Stream};
use super::subscriptions::{SUBSCRIPTIONS_MAX, job_of};
use super::tools::Call;
use super::voice::event;
use super::work::Outcome;
use super::{Endpoint, tasks};
use crate::events::{self, Filter, Scope, Seen, Start};
use crate::job::JobId;
use crate::service::Viewer;

/// What a client listens for, as it says it; other types are not honoured.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    #[serde(default)]
    resource_subscriptions: Vec<String>,
    task_ids: Option<Vec<String>>,
}

/// Answers `subscriptions/listen`.
///
/// # Errors
/// -32602 if the filter is missing, does not fit, or names more than `SUBSCRIPTIONS_MAX` resources or tasks; -32021 for tasks if the extension is
/// not declared.
pub(super) async fn listen(
    endpoint: &Arc<Endpoint>,
    call: &Call<'_>,
    id: &str,
    message: &Message<'_>,
) -> Result<Outcome, Error> {
    #[derive(Deserialize)]
    struct Params {
        notifications: Wanted,
    }
    let Params { notifications: wanted } = message.params()?;
    if wanted.task_ids.is_some() {
        tasks::modern::declared(call)?;
    }
    let task_ids = wanted.task_ids.unwrap_or_default();
    for (name, len) in [("resourceSubscriptions", wanted.resource_subscriptions.len()), ("taskIds", task_ids.len())] {
        if len > SUBSCRIPTIONS_MAX {
            let text = format!("params.notifications.{name} holds more than {SUBSCRIPTIONS_MAX}");
            return Err(Error::answered(INVALID_PARAMS, text));
        }
    }
    let (viewer, mut resources, mut tasks) = (call.viewer, Vec::new(), BTreeMap::new());
    for task in task_ids.iter().filter_map(|id| JobId::from_str(id).ok()) {
        if endpoint.service.job(viewer, task).await.is_ok() {
            tasks.insert(task, None);
        }
    }
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
    let listening = Listening { endpoint: endpoint.clone(), viewer: viewer.clone(), id, resources, tasks, outlet };
    Ok(Outcome::Stream(Stream::new(listening.outlet.clone(), listening.run())))
}

struct Listening {
    endpoint: Arc<Endpoint>,
    viewer: Viewer,
    /// The request's id as written: it marks every message.
    id: Box<RawValue>,
    resources: Vec<(JobId, String)>,
    /// The tasks, and the revision of each that was told last.
    tasks: BTreeMap<JobId, Option<u32>>,
    outlet: Outlet,
}

impl Listening {
    async fn run(mut self) {
        let bounds = self.endpoint.service.bounds();
        let start = Start::After(crate::job::EventId { epoch: bounds.epoch, position: bounds.last });
        self.acknowledge().await;
        if !self.resources.is_empty() || !self.tasks.is_empty() {
            let outlet = self.outlet.clone();
            tokio::select! {
                () = outlet.closing() => {}
                () = self.tell(start) => {}
            }
        }
        let result =
            json!({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "_meta": self.mark()}});
        self.send(&result).await;
    }

    async fn acknowledge(&self) {
        let mut honoured = Map::new();
        if !self.resources.is_empty() {
            let uris: Vec<_> = self.resources.iter().map(|(_, uri)| uri).collect();
            honoured.insert("resourceSubscriptions".into(), json!(uris));
        }
        if !self.tasks.is_empty() {
            honoured.insert("taskIds".into(), json!(self.tasks.keys().collect::<Vec<_>>()));
        }
        self.notify("notifications/subscriptions/acknowledged", json!({ "notifications": honoured })).await;
    }

    /// Tells of what is listened for; returns only when nothing more can be had.
    async fn tell(&mut self, start: Start) {
        // A task may have ended before anybody listened.
        self.moved(None).await;
        let mut jobs: Vec<_> = self.resources.iter().map(|(job, _)| *job).chain(self.tasks.keys().copied()).collect();
        jobs.sort_unstable();
        jobs.dedup();
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
                self.moved(job).await;
            }
        }
    }

    /// News of this job; `None`: of any.
    async fn updated(&self, of: Option<JobId>) {
        for (_, uri) in self.resources.iter().filter(|(job, _)| of.is_none_or(|of| of == *job)) {
            self.notify("notifications/resources/updated", json!({ "uri": uri })).await;
        }
    }

    /// The tasks as they are, those that have moved on; `None`: any of them may have.
    async fn moved(&mut self, of: Option<JobId>) {
        let tasks: Vec<_> = self.tasks.keys().copied().filter(|task| of.is_none_or(|of| of == *task)).collect();
        for task in tasks {
            let Ok(head) = self.endpoint.service.job(&self.viewer, task).await else { continue };
            let told = self.tasks.insert(task, Some(head.job.revision)).flatten();
            if told == Some(head.job.revision) {
                continue;
            }
            // What cannot be read now is told with the next news of it, or by `tasks/get`.
            if let Ok(members) = tasks::modern::detailed(&self.endpoint, &head).await {
                self.task(&members).await;
            }
        }
    }

    /// A task whose members are these: results are handed on as they were written.
    async fn task(&self, members: &[u8]) {
        let mut json = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{".to_vec();
        json.extend_from_slice(members);
        json.extend_from_slice(format!(",\"_meta\":{}}}}}", self.mark()).as_bytes());
        self.outlet.send(event(None, &json)).await;
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
