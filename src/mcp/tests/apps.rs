//! The MCP App: who is told of it, what it is, and the tools that it calls.

use serde_json::{Value, json};

use super::rig::{REVISIONS, Rig, message, modern, modern_headers, request};
use crate::mcp::Options;

const URI: &str = "ui://longhaul/job";

fn shows_apps() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

/// The tools that a client with these capabilities is told of.
async fn tools(rig: &Rig, revision: &str, capabilities: Value) -> Vec<Value> {
    let answer = if revision == "2026-07-28" {
        let mut body = modern("tools/list", json!({}), json!({}));
        body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        rig.post(&modern_headers("tools/list", None), &body).await
    } else {
        let hello = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {}});
        let opened = rig.post(&[], &request(0, "initialize", hello)).await;
        let session = super::rig::header(&opened, "mcp-session-id").expect("a session").to_owned();
        rig.post(&[("mcp-session-id", &session)], &request(1, "tools/list", json!({}))).await
    };
    message(&answer)["result"]["tools"].as_array().expect("a list").clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn only_clients_that_show_apps_are_told_of_ours() {
    let rig = Rig::new().await;
    for revision in REVISIONS {
        let plain = tools(&rig, revision, json!({})).await;
        assert!(plain.iter().all(|tool| tool.get("_meta").is_none()), "{revision}");
        let shown = tools(&rig, revision, shows_apps()).await;
        assert_eq!(names(&shown)[..plain.len()], names(&plain)[..]);
        assert_eq!(names(&shown)[plain.len()..], ["view_job", "answer_question", "retry_job"]);
        assert_eq!(shown[0]["_meta"], json!({"ui": {"resourceUri": URI}, "ui/resourceUri": URI}));
        let own = shown.last().expect("some");
        assert_eq!(own["_meta"], json!({"ui": {"visibility": ["app"]}}));
    }
}

#[tokio::test]
async fn the_app_s_page_is_read_and_is_not_listed() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let ask = async |method: &str, params: Value| {
        message(&rig.post(&[("mcp-session-id", &session)], &request(1, method, params)).await)["result"].take()
    };
    let contents = ask("resources/read", json!({"uri": URI})).await["contents"][0].take();
    assert_eq!((&contents["mimeType"], &contents["uri"]), (&json!("text/html;profile=mcp-app"), &json!(URI)));
    assert!(contents["text"].as_str().is_some_and(|page| page.contains("ui/initialize")));
    assert!(!ask("resources/list", json!({})).await.to_string().contains(URI));
}

#[tokio::test]
async fn without_helpers_there_is_no_app() {
    let rig = Rig::with(Options { helpers: false, ..Options::default() }).await;
    let shown = tools(&rig, "2025-11-25", shows_apps()).await;
    assert_eq!(names(&shown), ["start", "quick", "numbers", "derived", "plain", "must", "must_wait"]);
    assert!(shown.iter().all(|tool| tool.get("_meta").is_none()));
    let session = rig.open("2025-11-25").await;
    let read = request(1, "resources/read", json!({"uri": URI}));
    assert_eq!(message(&rig.post(&[("mcp-session-id", &session)], &read).await)["error"]["code"], -32002);
}

#[tokio::test]
async fn a_failed_job_is_retried_once_however_often_the_button_is_pressed() {
    let rig = Rig::new().await;
    let failed = rig.start(json!({"fail": "no luck"})).await;
    rig.ended(&failed).await;
    let viewed = rig.result("view_job", json!({"jobId": failed})).await;
    let job = &viewed["structuredContent"]["job"];
    assert_eq!((&job["status"], &job["deadLettered"]), (&json!("failed"), &json!(true)));
    assert!(viewed["structuredContent"]["now"].is_string());
    let retry = async || rig.result("retry_job", json!({"jobId": failed})).await;
    let next = retry().await["structuredContent"]["job"].take();
    assert_eq!(next["replayOf"], failed.as_str());
    assert_eq!(retry().await["structuredContent"]["job"]["id"], next["id"]);
    let done = rig.start(json!({"result": 1})).await;
    rig.ended(&done).await;
    let refused = rig.result("retry_job", json!({"jobId": done})).await;
    assert!(refused["isError"] == true && refused.to_string().contains("only a failed one"), "{refused}");
    let unknown = rig.result("view_job", json!({"jobId": "x"})).await;
    assert_eq!(unknown["isError"], true);
}
