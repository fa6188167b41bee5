//! Whatever a test of this endpoint is answered, it is held against the schema of its revision.

use serde_json::{Value, json};

use super::rig::{header, modern, request};
use crate::mcp::{Answer, Request, headers};
use crate::schemas::{Exchange, delivery};

/// Looks at an answer, and at all that comes on its stream.
///
/// # Panics
/// A message is not as its revision has it.
pub fn held(request: &Request<'_>, answer: Answer) -> Answer {
    let session = headers::value(request.headers, "mcp-session-id");
    let session = session.map(|id| of_this_test(&String::from_utf8_lossy(&id)));
    let version = headers::text(request.headers, "mcp-protocol-version");
    let mut exchange = Exchange::of(session.as_deref(), version.as_deref(), &request.body);
    if let Some(opened) = header(&answer, "mcp-session-id") {
        exchange.opens(&of_this_test(opened));
    }
    if !answer.body.is_empty() {
        match answer.content_type {
            Some("text/event-stream") => exchange.hears_events(&answer.body),
            _ => exchange.hears(&answer.body),
        }
    }
    let stream = answer.stream.map(|stream| stream.watched(move |piece| exchange.hears_events(piece)));
    Answer { stream, ..answer }
}

/// A session by its id and its test: under a clock that is moved by hand, ids are the same in each.
fn of_this_test(session: &str) -> String {
    format!("{session} of {}", std::thread::current().name().unwrap_or_default())
}

/// What a rig in a session of this revision was told, when `wrong` is what it is told for `asked`.
fn told(revision: &str, asked: &Value, wrong: &Value) -> bool {
    let session = format!("of {revision} that hears {wrong} for {asked}");
    let hello = request(0, "initialize", json!({}));
    let mut opening = Exchange::of(None, None, hello.to_string().as_bytes());
    opening.opens(&session);
    let result = json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    opening.hears(json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string().as_bytes());
    let exchange = Exchange::of(Some(&session), None, asked.to_string().as_bytes());
    std::panic::catch_unwind(|| exchange.hears_events(format!("id: 1\ndata: {wrong}\n\n").as_bytes())).is_ok()
}

fn result(of: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": of})
}

fn error(code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", "data": data}})
}

fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[test]
fn a_message_that_its_revision_does_not_have_fails_the_test_that_hears_it() {
    let call = request(1, "tools/call", json!({"name": "a"}));
    let task = request(1, "tools/call", json!({"name": "a", "task": {}}));
    let ping = request(1, "ping", json!({}));
    let link = json!({"content": [{"type": "resource_link", "uri": "job://1", "name": "j"}]});
    let made = json!({"taskId": "t", "status": "working", "createdAt": "n", "lastUpdatedAt": "n", "ttl": null});
    let stamped = json!({"content": [], "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}});
    let of_task = request(1, "tasks/result", json!({"taskId": "t"}));
    let progress = note("notifications/progress", json!({"progressToken": 1, "progress": 1}));
    for (revision, asked, heard, is_right) in [
        ("2025-11-25", &call, result(json!({"content": []})), true),
        ("2025-11-25", &call, result(json!({"content": [{"type": "text"}]})), false),
        ("2025-11-25", &call, json!({"jsonrpc": "2.0", "id": 2, "result": {"content": []}}), false),
        ("2025-11-25", &call, json!({"id": 1, "result": {"content": []}}), false),
        ("2025-11-25", &ping, error(-32603, json!({})), true),
        ("2025-11-25", &ping, json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no"}}), false),
        ("2025-11-25", &ping, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": "no"}}), false),
        ("2025-11-25", &ping, error(-32020, json!({})), false),
        ("2025-11-25", &call, result(link.clone()), true),
        ("2025-03-26", &call, result(link), false),
        ("2025-11-25", &task, result(json!({"task": made})), true),
        ("2025-11-25", &task, result(made.clone()), false),
        ("2025-06-18", &request(1, "tasks/get", json!({})), result(made), false),
        ("2025-11-25", &of_task, result(stamped), true),
        ("2025-11-25", &of_task, result(json!({"content": []})), false),
        ("2025-06-18", &call, progress.clone(), true),
        ("2025-06-18", &call, note("notifications/progress", json!({"progress": 1})), false),
        ("2025-06-18", &call, note("notifications/tasks/status", json!({})), false),
        ("2025-06-18", &call, json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}), true),
        ("2025-03-26", &call, json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create"}), false),
    ] {
        assert_eq!(told(revision, asked, &heard), is_right, "{revision} {asked} {heard}");
    }
}

/// The same of 2026-07-28, which has no sessions.
fn told_now(method: &str, heard: &Value) -> bool {
    let asked = modern(method, json!({"name": "a"}), json!({}));
    let exchange = Exchange::of(None, None, asked.to_string().as_bytes());
    std::panic::catch_unwind(|| exchange.hears(heard.to_string().as_bytes())).is_ok()
}

#[test]
fn the_newest_revision_and_its_extensions_are_held_to_theirs() {
    let task = |more: Value| {
        let mut task = json!({"resultType": "complete", "taskId": "t", "status": "working", "createdAt": "n", "lastUpdatedAt": "n", "ttlMs": null});
        task.as_object_mut().expect("is one").extend(more.as_object().expect("is one").clone());
        result(task)
    };
    let mark = json!({"io.modelcontextprotocol/subscriptionId": 1});
    let active = json!({"cursor": "c", "truncated": false, "_meta": mark});
    let required = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let listed = json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "public"});
    for (method, heard, is_right) in [
        ("tools/call", result(json!({"resultType": "complete", "content": []})), true),
        ("tools/call", result(json!({"content": []})), false),
        ("tools/call", result(json!({"resultType": "input_required", "inputRequests": {}})), true),
        ("tools/list", result(json!({"resultType": "input_required", "inputRequests": {}})), false),
        ("tools/call", result(json!({"resultType": "input_required"})), false),
        ("tools/call", task(json!({"resultType": "task"})), true),
        ("tools/call", task(json!({"resultType": "task", "ttlMs": "60"})), false),
        ("tools/list", result(listed), true),
        ("tools/list", result(json!({"resultType": "complete", "tools": []})), false),
        ("tasks/get", task(json!({})), true),
        ("tasks/get", task(json!({"status": "completed"})), false),
        ("tasks/get", task(json!({"status": "completed", "result": {"content": []}})), true),
        ("tasks/get", task(json!({"status": "completed", "result": {"text": "a"}})), false),
        ("tasks/get", error(-32021, required), true),
        ("tasks/get", error(-32021, json!(["tasks"])), false),
        ("resources/read", error(-32002, json!({})), false),
        ("events/stream", note("notifications/events/active", active), true),
        ("events/stream", note("notifications/events/active", json!({"cursor": "c", "truncated": false})), false),
        ("events/poll", result(json!({"resultType": "complete", "events": [], "cursor": "c"})), false),
        ("tools/call", json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}), false),
        ("tools/call", note("notifications/tasks/status", json!({})), false),
    ] {
        assert_eq!(told_now(method, &heard), is_right, "{method} {heard}");
    }
    let wrong = json!({"type": "job.created", "eventId": "e"});
    assert!(std::panic::catch_unwind(|| delivery(&wrong)).is_err());
}
