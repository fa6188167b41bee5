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
use tokio::sync::watch;

use super::rpc::{Error, INVALID_PARAMS, Message};
use super::shown::{Marks, PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED};
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
    tools_list_changed: bool,
    #[serde(default)]
    resources_list_changed: bool,
    #[serde(default)]
    prompts_list_changed: bool,
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
    let (viewer, mut resources, mut tasks) = (call.viewer, Vec::new(), Vec::new());
    for task in task_ids.iter().filter_map(|id| JobId::from_str(id).ok()) {
        if !tasks.contains(&task) && endpoint.service.job(viewer, task).await.is_ok() {
            tasks.push(task);
        }
    }
    let lists = [
        (wanted.tools_list_changed, "toolsListChanged", TOOLS_CHANGED),
        (wanted.resources_list_changed, "resourcesListChanged", RESOURCES_CHANGED),
        (wanted.prompts_list_changed, "promptsListChanged", PROMPTS_CHANGED),
    ];
    let lists =
        lists.into_iter().filter(|(is_wanted, ..)| *is_wanted).map(|(_, name, method)| (name, method)).collect();
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
    let listening =
        Listening { endpoint: endpoint.clone(), viewer: viewer.clone(), id, lists, resources, tasks, outlet };
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
    tasks: Vec<JobId>,
    outlet: Outlet,
}

impl Listening {
    async fn run(self) {
        let start = Start::After(self.endpoint.service.last());
        let shown = self.endpoint.marks.subscribe();
        self.acknowledge().await;
        if !(self.resources.is_empty() && self.lists.is_empty() && self.tasks.is_empty()) {
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
        if !self.tasks.is_empty() {
            honoured.insert("taskIds".into(), json!(self.tasks));
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

    /// Tells of news of the resources and the tasks; returns only when nothing more can be had.
    async fn tell(&self, start: Start) {
        let (mut told, mut jobs) = (BTreeMap::new(), self.tasks.clone());
        // A task may have ended before anybody listened.
        self.moved(None, &mut told).await;
        jobs.extend(self.resources.iter().map(|(job, _)| *job));
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.is_empty() {
            return std::future::pending().await;
        }
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
                self.moved(job, &mut told).await;
            }
        }
    }

    /// News of this job; `None`: of any.
    async fn updated(&self, of: Option<JobId>) {
        for (_, uri) in self.resources.iter().filter(|(job, _)| of.is_none_or(|of| of == *job)) {
            self.notify("notifications/resources/updated", json!({ "uri": uri })).await;
        }
    }

    /// The tasks that have moved on since the revisions that were told, as they are; only this one, or any of them.
    async fn moved(&self, of: Option<JobId>, told: &mut BTreeMap<JobId, u32>) {
        for task in self.tasks.iter().filter(|task| of.is_none_or(|of| of == **task)) {
            let Ok(head) = self.endpoint.service.job(&self.viewer, *task).await else { continue };
            if told.insert(*task, head.job.revision) == Some(head.job.revision) {
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
