//! The table of `docs/mcp.md` against the endpoint: what it calls offered is, and nothing else.

use serde_json::{Value, json};

use super::rig::{Rig, message, modern, modern_headers, request};
use crate::service::Viewer;

const TABLE: &str = include_str!("../../../docs/mcp.md");

/// The method, and the four cells.
fn rows() -> Vec<(String, [String; 4])> {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let cells = |text: &str| -> Option<[String; 4]> {
        let cells: Vec<String> = text.trim_end_matches(" |").split(" | ").map(str::to_owned).collect();
        cells.try_into().ok()
    };
    rows.filter_map(|(method, text)| Some((method.to_owned(), cells(text)?))).collect()
}

fn params(method: &str) -> Value {
    match method {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
        _ => json!({"name": "n", "uri": "job://x", "taskId": "t"}),
    }
}

/// A request of a client that declares tasks.
fn declared(method: &str) -> Value {
    let mut message = modern(method, params(method), json!({}));
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    message
}

async fn code(rig: &Rig, revision: &str, session: Option<&str>, method: &str) -> (u16, i64) {
    let both = ("accept", "application/json, text/event-stream");
    let answer = match session {
        Some(_) if method == "initialize" => rig.post(&[both], &request(1, method, params(method))).await,
        Some(session) => rig.post(&[both, ("mcp-session-id", session)], &request(1, method, params(method))).await,
        None => {
            let name = match method {
                "tools/call" | "prompts/get" => Some("n"),
                "resources/read" => Some("job://x"),
                "tasks/get" | "tasks/update" | "tasks/cancel" => Some("t"),
                _ => None,
            };
            let mut headers = modern_headers(method, name);
            headers.push(both);
            rig.post(&headers, &declared(method)).await
        }
    };
    assert!(answer.stream.is_none() || answer.status == 200, "{revision} {method}");
    let code = if answer.stream.is_some() { 0 } else { message(&answer)["error"]["code"].as_i64().unwrap_or(0) };
    (answer.status, code)
}

#[tokio::test]
async fn the_document_s_table_is_what_the_endpoint_offers() {
    let rig = Rig::new().await;
    let rows = rows();
    assert!(rows.len() >= 28, "{} rows", rows.len());
    for (at, revision) in ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"].into_iter().enumerate() {
        let session = if at < 3 { Some(rig.open(revision).await) } else { None };
        for (method, cells) in &rows {
            let (status, code) = code(&rig, revision, session.as_deref(), method).await;
            match cells[at].split_once(": ") {
                None => assert!(cells[at] == "yes" && code != -32601, "{method} in {revision}: {status} {code}"),
                Some((no, why)) => {
                    assert!(no == "no" && !why.is_empty(), "{method}");
                    let refused = (if session.is_some() { 200 } else { 404 }, -32601);
                    assert_eq!((status, code), refused, "{method} in {revision}");
                }
            }
        }
    }
}

/// serde's own words named our types: `invalid type: map, expected struct Params`.
#[tokio::test]
async fn params_that_do_not_fit_are_named_as_clients_write_them() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let prompt = json!({"type": "ref/prompt", "name": "p"});
    for (method, params, told) in [
        ("logging/setLevel", json!({}), "params.level is missing"),
        ("completion/complete", json!({"argument": {}}), "params.argument.name is missing"),
        (
            "completion/complete",
            json!({"ref": prompt, "argument": 7}),
            "params.argument must be an object, not a whole number",
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/x"}}),
            "params.ref.type must be ref/prompt or ref/resource",
        ),
    ] {
        let answer = rig.post(&[("mcp-session-id", &session)], &request(1, method, params)).await;
        let error = &message(&answer)["error"];
        assert_eq!((error["code"].as_i64(), error["message"].as_str()), (Some(-32602), Some(told)));
    }
    for (method, params, told) in [
        (
            "subscriptions/listen",
            json!({"notifications": {"taskIds": {}}}),
            "params.notifications.taskIds must be an array, not an object",
        ),
        (
            "events/poll",
            json!({"name": "job.event", "arguments": {"job": 1}}),
            "params.arguments.job is not known; there is jobId or type",
        ),
        (
            "events/poll",
            json!({"name": "job.event", "maxEvents": "all"}),
            "params.maxEvents must be a whole number that is not negative, not a string",
        ),
    ] {
        let answer = rig.modern_as(Viewer::local(), method, params, &[]).await;
        assert_eq!(message(&answer)["error"]["message"].as_str(), Some(told));
    }
    let answer = rig
        .request("POST", &[("mcp-session-id", session.as_bytes()), ("content-type", b"application/json")], b"7")
        .await;
    let told = "the body is not a JSON-RPC message: it must be an object, not a whole number";
    assert_eq!(message(&answer)["error"]["message"].as_str(), Some(told));
}
