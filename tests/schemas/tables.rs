//! Which definition holds for which message: by the method that was asked, or that the server speaks.
//!
//! In: a revision and a message. Out: whether its definitions hold. Nothing here remembers anything.

use serde_json::{Value, json};

use super::holds;

/// The newest revision, which has no sessions.
pub const MODERN: &str = "2026-07-28";
/// The revision with tasks of its own.
pub const CORE: &str = "2025-11-25";

/// The files, by name; those of revisions have theirs.
pub const FILES: [(&str, &str); 6] = [
    ("2025-03-26", include_str!("2025-03-26.json")),
    ("2025-06-18", include_str!("2025-06-18.json")),
    (CORE, include_str!("2025-11-25.json")),
    (MODERN, include_str!("2026-07-28.json")),
    ("tasks", include_str!("tasks.json")),
    ("events", include_str!("events.json")),
];

/// A revision by its name.
pub fn revision(name: &str) -> Option<&'static str> {
    FILES[..4].iter().map(|(known, _)| *known).find(|known| *known == name)
}

/// What a method is answered with, in whichever revision has it.
const RESULTS: [(&str, &str); 19] = [
    ("initialize", "InitializeResult"),
    ("ping", "EmptyResult"),
    ("logging/setLevel", "EmptyResult"),
    ("resources/subscribe", "EmptyResult"),
    ("resources/unsubscribe", "EmptyResult"),
    ("tools/list", "ListToolsResult"),
    ("tools/call", "CallToolResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("resources/read", "ReadResourceResult"),
    ("prompts/list", "ListPromptsResult"),
    ("prompts/get", "GetPromptResult"),
    ("completion/complete", "CompleteResult"),
    ("server/discover", "DiscoverResult"),
    ("subscriptions/listen", "SubscriptionsListenResult"),
    ("tasks/get", "GetTaskResult"),
    ("tasks/list", "ListTasksResult"),
    ("tasks/cancel", "CancelTaskResult"),
    ("tasks/update", "UpdateTaskResult"),
];

/// The same of the Events extension.
const EVENTS: [(&str, &str); 5] = [
    ("events/list", "ListEventsResult"),
    ("events/poll", "PollEventsResult"),
    ("events/stream", "StreamEventsResult"),
    ("events/subscribe", "SubscribeEventsResult"),
    ("events/unsubscribe", "UnsubscribeEventsResult"),
];

/// Methods of 2026-07-28 that may ask first.
const MAY_ASK: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// What the server says by itself.
const NOTIFICATIONS: [(&str, &str); 10] = [
    ("notifications/cancelled", "CancelledNotification"),
    ("notifications/progress", "ProgressNotification"),
    ("notifications/message", "LoggingMessageNotification"),
    ("notifications/resources/updated", "ResourceUpdatedNotification"),
    ("notifications/resources/list_changed", "ResourceListChangedNotification"),
    ("notifications/tools/list_changed", "ToolListChangedNotification"),
    ("notifications/prompts/list_changed", "PromptListChangedNotification"),
    ("notifications/tasks/status", "TaskStatusNotification"),
    ("notifications/elicitation/complete", "ElicitationCompleteNotification"),
    ("notifications/subscriptions/acknowledged", "SubscriptionsAcknowledgedNotification"),
];

/// The same of the extensions of 2026-07-28, and where it is described.
const EXTENSIONS: [(&str, &str, &str); 7] = [
    ("notifications/tasks", "tasks", "TaskStatusNotification"),
    ("notifications/events/active", "events", "ActiveNotification"),
    ("notifications/events/event", "events", "EventNotification"),
    ("notifications/events/heartbeat", "events", "HeartbeatNotification"),
    ("notifications/events/error", "events", "TroubleNotification"),
    ("notifications/events/terminated", "events", "TroubleNotification"),
    ("notifications/events/list_changed", "events", "EventListChangedNotification"),
];

/// What the server asks.
const REQUESTS: [(&str, &str); 4] = [
    ("ping", "PingRequest"),
    ("elicitation/create", "ElicitRequest"),
    ("sampling/createMessage", "CreateMessageRequest"),
    ("roots/list", "ListRootsRequest"),
];

fn find(table: &[(&str, &'static str)], method: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == method).map(|(_, definition)| *definition)
}

/// A notification or a request of the server.
pub fn spoken(revision: &'static str, message: &Value) -> Result<(), String> {
    let method = message["method"].as_str().unwrap_or_default();
    let unknown = || format!("{revision} has no {method} of a server");
    if message.get("id").is_some() {
        if revision == MODERN {
            return Err(unknown());
        }
        holds(revision, "JSONRPCRequest", message)?;
        return holds(revision, find(&REQUESTS, method).ok_or_else(unknown)?, message);
    }
    holds(revision, "JSONRPCNotification", message)?;
    if let Some(definition) = find(&NOTIFICATIONS, method) {
        holds(revision, definition, message)?;
        let honoured = &message["params"]["notifications"];
        return match honoured.get("taskIds") {
            Some(_) => holds("tasks", "TaskSubscriptionAcknowledgedNotifications", honoured),
            None => Ok(()),
        };
    }
    let extension = EXTENSIONS.iter().find(|(known, ..)| *known == method && revision == MODERN);
    let (_, file, definition) = extension.ok_or_else(unknown)?;
    holds(file, definition, message)?;
    match *file {
        "tasks" => task(&message["params"]),
        _ => Ok(()),
    }
}

/// An error; of no revision where nobody could tell which.
pub fn error(revision: Option<&'static str>, message: &Value) -> Result<(), String> {
    let is_old = matches!(revision, Some("2025-03-26" | "2025-06-18"));
    match revision {
        // What could not be read has no id that could be repeated, whatever the old schemas say.
        Some(revision) if is_old && message.get("id").is_some() => holds(revision, "JSONRPCError", message)?,
        Some(MODERN) => holds(MODERN, "JSONRPCErrorResponse", message)?,
        _ => holds(CORE, "JSONRPCErrorResponse", message)?,
    }
    let code = message["error"]["code"].as_i64().unwrap_or_default();
    let is_modern = revision.is_none_or(|revision| revision == MODERN);
    match code {
        -32020 if is_modern => holds(MODERN, "HeaderMismatchError", message),
        -32021 if is_modern => holds(MODERN, "MissingRequiredClientCapabilityError", message),
        -32022 if is_modern => holds(MODERN, "UnsupportedProtocolVersionError", message),
        -32700 | -32603..=-32600 => Ok(()),
        -32002 if revision != Some(MODERN) => Ok(()),
        // The Events extension, as its draft has them; its sketch has others below.
        -32027..=-32023 if revision == Some(MODERN) => Ok(()),
        // What a server, or the tool that it runs, may have for itself.
        -32019..=-32000 if code != -32002 => Ok(()),
        -32768..=-32000 => Err(format!("{revision:?} has no error {code}")),
        _ => Ok(()),
    }
}

/// The answer to a method.
pub fn result(revision: &'static str, method: &str, is_task: bool, message: &Value) -> Result<(), String> {
    let response =
        if FILES[..2].iter().any(|(old, _)| *old == revision) { "JSONRPCResponse" } else { "JSONRPCResultResponse" };
    holds(revision, response, message)?;
    let result = &message["result"];
    if revision == MODERN {
        return modern(method, result);
    }
    if revision == CORE && method == "tasks/result" {
        holds(revision, "CallToolResult", result)?;
        return related(result);
    }
    if revision == CORE && is_task {
        return holds(revision, "CreateTaskResult", result);
    }
    let definition = find(&RESULTS, method).ok_or_else(|| format!("{revision} has no {method}"))?;
    holds(revision, definition, result)
}

fn modern(method: &str, result: &Value) -> Result<(), String> {
    match result["resultType"].as_str() {
        Some("task") if method == "tools/call" => holds("tasks", "CreateTaskResult", result),
        Some("input_required") if MAY_ASK.contains(&method) => {
            let asks = result.get("inputRequests").or(result.get("requestState")).is_some();
            if asks { holds(MODERN, "InputRequiredResult", result) } else { Err("it asks nothing".to_owned()) }
        }
        Some("complete") => complete(method, result),
        other => Err(format!("{method} has no result of the type {other:?}")),
    }
}

fn complete(method: &str, result: &Value) -> Result<(), String> {
    if let Some(definition) = find(&EVENTS, method) {
        return holds("events", definition, result);
    }
    let definition = find(&RESULTS, method).ok_or_else(|| format!("{MODERN} has no {method}"))?;
    match method {
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            holds("tasks", definition, result)?;
            if method == "tasks/get" { task(result) } else { Ok(()) }
        }
        _ => holds(MODERN, definition, result),
    }
}

/// What the open parts of a task hold.
fn task(task: &Value) -> Result<(), String> {
    let Some(result) = task.get("result") else { return Ok(()) };
    let mut result = result.clone();
    // A result inside of a task does not say of which type it is.
    result["resultType"] = json!("complete");
    holds(MODERN, "CallToolResult", &result)
}

/// The link that the result of a task of 2025-11-25 has to have.
fn related(result: &Value) -> Result<(), String> {
    match result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"].is_string() {
        true => Ok(()),
        false => Err("the result of a task does not name it".to_owned()),
    }
}
