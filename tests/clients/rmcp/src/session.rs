//! A connected client, and calls with what was told of their progress.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, GetTaskParams, Implementation, MetaObject,
    ProgressNotificationParam, ProtocolVersion, RequestMetaObject, ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext, RequestHandle,
    RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::promises::{restart, server};

/// What somebody does with the next form.
#[derive(Clone, Copy, Default)]
pub enum Mood {
    #[default]
    Names,
    Declines,
    NamesAfterAKill,
}

/// Hears of progress, and answers questions.
#[derive(Clone, Default)]
pub struct Person {
    has_tasks: bool,
    heard: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    step: Arc<Notify>,
    mood: Arc<Mutex<Mood>>,
}

impl ClientHandler for Person {
    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if told.progress == 2.0 {
            self.step.notify_one();
        }
        self.heard.lock().expect("nobody panics with it").push(told);
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let mood = std::mem::take(&mut *self.mood.lock().expect("nobody panics with it"));
        let names = ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"}));
        match (asked, mood) {
            (ElicitRequestParams::FormElicitationParams { message, .. }, Mood::Names)
                if message == "Who is to be greeted?" =>
            {
                Ok(names)
            }
            (_, Mood::NamesAfterAKill) => match restart().await {
                Ok(()) => Ok(names),
                Err(why) => Err(ErrorData::internal_error(why.to_string(), None)),
            },
            (_, Mood::Names | Mood::Declines) => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation();
        let capabilities = if self.has_tasks { capabilities.enable_tasks() } else { capabilities };
        ClientConfig::new(capabilities.build(), Implementation::new("longhaul-client-check", "1.0.0"))
    }
}

pub struct Session {
    pub revision: &'static str,
    pub client: RunningService<RoleClient, Person>,
}

impl Session {
    pub async fn open(revision: &'static str, has_tasks: bool) -> Result<Self> {
        let lifecycle = match revision {
            "2026-07-28" => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
            _ => ClientLifecycleMode::Initialize,
        };
        let transport = StreamableHttpClientTransport::from_uri(server()? + "/mcp");
        let client = Person { has_tasks, ..Person::default() }.serve_with_lifecycle(transport, lifecycle).await?;
        Ok(Self { revision, client })
    }

    /// Sends a call of a tool.
    pub async fn send(&self, tool: &'static str, arguments: Value, meta: Value) -> Result<RequestHandle<RoleClient>> {
        self.client.service().heard.lock().expect("nobody panics with it").clear();
        let mut params = CallToolRequestParams::new(tool);
        params.arguments = arguments.as_object().cloned();
        params.meta = meta.as_object().cloned().map(|meta| RequestMetaObject(MetaObject(meta)));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        Ok(self.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?)
    }

    /// Calls a tool; its result, an `isError` one as well.
    pub async fn call(&self, tool: &'static str, arguments: Value, meta: Value) -> Result<Value> {
        result(self.send(tool, arguments, meta).await?).await
    }

    /// A call that has to succeed; what it answers for programs.
    pub async fn structured(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let result = self.call(tool, arguments, Value::Null).await?;
        ensure!(result["isError"] != true, "{result}");
        Ok(result["structuredContent"].clone())
    }

    /// Calls the tool that asks, with somebody in this mood.
    pub async fn ask(&self, mood: Mood) -> Result<Value> {
        *self.client.service().mood.lock().expect("nobody panics with it") = mood;
        Ok(serde_json::to_value(self.client.call_tool(CallToolRequestParams::new("ask")).await?)?)
    }

    /// A call that becomes a task; its id.
    pub async fn create(&self, tool: &'static str, arguments: &Value) -> Result<String> {
        let mut params = CallToolRequestParams::new(tool);
        params.arguments = arguments.as_object().cloned();
        match self.client.call_tool_once(params).await? {
            CallToolResponse::Task(created) => Ok(created.task.task_id),
            other => anyhow::bail!("no task: {other:?}"),
        }
    }

    /// The task, polled until it no longer works.
    pub async fn settled(&self, id: &str) -> Result<Value> {
        for _ in 0..240 {
            let task = serde_json::to_value(self.client.get_task(GetTaskParams::new(id)).await?)?;
            if task["status"] != "working" {
                return Ok(task);
            }
            sleep(Duration::from_millis(task["pollIntervalMs"].as_u64().unwrap_or(250))).await;
        }
        anyhow::bail!("{id} works for ever")
    }

    /// Returns when a call is at its second step.
    pub async fn at_two(&self) {
        self.client.service().step.notified().await;
    }

    /// Progress as MCP wants it: rising, and here of so many steps, each in its turn. What came while nobody listened may be left out.
    pub fn has_risen(&self, steps: usize, may_leave_out: bool) -> Result<()> {
        let heard = self.client.service().heard.lock().expect("nobody panics with it").clone();
        ensure!(heard.is_sorted_by(|before, after| before.progress < after.progress), "{heard:?}");
        let of_all = heard.into_iter().filter(|told| told.total == Some(steps as f64));
        let mut messages: Vec<_> = of_all.filter_map(|told| told.message).collect();
        messages.dedup();
        let every: Vec<_> = (1..=steps).map(|step| format!("step {step} of {steps}")).collect();
        ensure!(messages.last() == every.last(), "{messages:?}");
        let expected = every.into_iter().filter(|message| !may_leave_out || messages.contains(message));
        ensure!(expected.eq(messages.iter().cloned()), "{messages:?}");
        Ok(())
    }
}

pub async fn result(handle: RequestHandle<RoleClient>) -> Result<Value> {
    match handle.await_response().await? {
        ServerResult::CallToolResult(result) => Ok(serde_json::to_value(result)?),
        other => anyhow::bail!("no result of a tool: {other:?}"),
    }
}

/// The result of a program, as the model sees it.
pub fn told(result: &Value) -> Result<Value> {
    let text = result["content"][0]["text"].as_str().with_context(|| result.to_string())?;
    Ok(serde_json::from_str(text)?)
}
