//! `tools/call`: what starts a job, what does not, and who may give it up.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rig::{REVISIONS, Rig, header, message, modern, modern_headers, request};
use crate::job::Status;
use crate::mcp::Options;
use crate::service::{Query, Viewer};

impl Rig {
    /// The statuses of all jobs, newest first.
    async fn jobs(&self) -> Vec<Status> {
        let listing = self.service.jobs(&Viewer::local(), Query { limit: 1_000, ..Query::default() }).await;
        listing.expect("readable").jobs.iter().map(|head| head.job.status()).collect()
    }

    async fn keyed(&self, revision: &str, key: &str, arguments: Value) -> Value {
        self.call(revision, "start", arguments, json!({"longhaul/idempotencyKey": key})).await
    }
}

#[tokio::test]
async fn a_handle_tells_the_model_what_to_do_next_in_every_revision() {
    let rig = Rig::with(Options { base: "https://jobs.example".into(), ..Options::default() }).await;
    for revision in REVISIONS {
        let result = rig.call(revision, "start", json!({"hold": true}), json!({})).await["result"].take();
        let handle = &result["structuredContent"];
        let id = handle["jobId"].as_str().expect("an id");
        assert_eq!(result["_meta"]["longhaul/jobId"], id);
        assert_eq!(handle["statusUrl"], format!("https://jobs.example/api/jobs/{id}"));
        assert_eq!(handle["eventsUrl"], format!("https://jobs.example/api/jobs/{id}/events"));
        assert!(matches!(handle["status"].as_str(), Some("pending" | "in_progress")));
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("wait_for_jobs") && text.contains(id), "{text}");
        assert_eq!(handle["message"], text);
        assert_eq!(result.get("isError"), None);
        assert_eq!(result.get("resultType").is_some(), revision == "2026-07-28");
    }
}

#[tokio::test]
async fn hidden_helpers_are_neither_listed_nor_callable_nor_recommended() {
    let rig = Rig::with(Options { helpers: false, ..Options::default() }).await;
    let result = rig.result("start", json!({})).await;
    assert!(!result.to_string().contains("wait_for_jobs"), "{result}");
    let message = rig.call("2025-11-25", "get_job", json!({"jobId": "x"}), json!({})).await;
    assert_eq!(message["error"]["code"], -32602);
    let session = rig.open("2025-11-25").await;
    let list = rig.post(&[("mcp-session-id", &session)], &request(1, "tools/list", json!({}))).await;
    assert!(!String::from_utf8_lossy(&list.body).contains("get_job"));
}

#[tokio::test]
async fn tools_are_listed_in_one_order_with_the_dress_of_their_revision() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let list = |answer: crate::mcp::Answer| message(&answer)["result"].clone();
    let old = list(rig.post(&[("mcp-session-id", &session)], &request(1, "tools/list", json!({}))).await);
    let headers = modern_headers("tools/list", None);
    let new = list(rig.post(&headers, &modern("tools/list", json!({}), json!({}))).await);
    let names = |list: &Value| -> Vec<String> {
        let tools = list["tools"].as_array().expect("tools");
        assert!(tools.iter().all(|tool| tool["description"].is_string() && tool["inputSchema"]["type"] == "object"));
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let configured = ["start", "quick", "numbers", "derived", "plain", "must", "must_wait"];
    let helpers = ["get_job", "wait_for_jobs", "cancel_job", "list_jobs", "answer_job"];
    let expected: Vec<_> = configured.into_iter().chain(helpers).map(str::to_owned).collect();
    assert_eq!((names(&old), names(&new)), (expected.clone(), expected));
    assert_eq!((old.get("ttlMs"), old.get("nextCursor"), new.get("nextCursor")), (None, None, None));
    assert_eq!((&new["resultType"], &new["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(old["tools"][2].get("outputSchema"), None);
    assert!(new["tools"][2]["outputSchema"]["oneOf"].is_array());
}

#[tokio::test]
async fn bad_arguments_start_nothing_and_say_what_would_be_right() {
    let rig = Rig::new().await;
    for revision in REVISIONS {
        let answer = rig.call(revision, "start", json!({"budget": "many"}), json!({})).await;
        let text = match revision {
            "2025-06-18" => {
                assert_eq!(answer["error"]["code"], -32602);
                answer["error"]["message"].clone()
            }
            _ => {
                assert_eq!(answer["result"]["isError"], true);
                answer["result"]["content"][0]["text"].clone()
            }
        };
        let text = text.as_str().expect("a text");
        assert!(text.contains("/budget") && text.contains("\"many\"") && text.contains("number"), "{text}");
    }
    let unknown = rig.call("2025-11-25", "strat", json!({}), json!({})).await;
    let text = unknown["error"]["message"].as_str().expect("a text");
    assert!(text.contains("did you mean start?"), "{text}");
    for meta in [json!({"longhaul/idempotencyKey": 7}), json!({"longhaul/idempotencyKey": ""})] {
        assert_eq!(rig.call("2025-11-25", "start", json!({}), meta).await["error"]["code"], -32602);
    }
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"start","arguments":{{"a":{deep}}}}}}}"#
    );
    let session = rig.open("2025-11-25").await;
    let headers: [(&str, &[u8]); 2] = [("mcp-session-id", session.as_bytes()), ("content-type", b"application/json")];
    let answer = message(&rig.request("POST", &headers, body.as_bytes()).await);
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32602), &json!(1)));
    assert!(rig.jobs().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_30_a_call_repeated_with_its_key_is_one_job() {
    let rig = Arc::new(Rig::new().await);
    let calls: Vec<_> = (0..32)
        .map(|n| {
            let rig = rig.clone();
            // The client spells the same arguments differently, and changes its revision between tries.
            let arguments = if n % 2 == 0 { json!({"a": 1, "b": 2.0}) } else { json!({"b": 2, "a": 1}) };
            tokio::spawn(async move { rig.keyed(REVISIONS[n % 3], "order-7", arguments).await })
        })
        .collect();
    let mut ids = std::collections::HashSet::new();
    for call in calls {
        let message = call.await.expect("no panic");
        ids.insert(message["result"]["structuredContent"]["jobId"].as_str().expect("a handle").to_owned());
    }
    assert_eq!((ids.len(), rig.jobs().await.len()), (1, 1));
    let id = ids.into_iter().next().expect("one");

    let rig = Arc::into_inner(rig).expect("every call is over").restart().await;
    let again = rig.keyed("2025-11-25", "order-7", json!({"a": 1, "b": 2})).await;
    assert_eq!(again["result"]["structuredContent"]["jobId"], id);

    let other = rig.keyed("2025-11-25", "order-7", json!({"a": 2})).await;
    assert_eq!(other["result"]["isError"], true);
    assert!(other["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains(&id)), "{other}");
    let other = rig.keyed("2025-06-18", "order-7", json!({"a": 2})).await;
    assert_eq!(other["error"]["code"], -32602);
    assert_eq!(rig.jobs().await.len(), 1);
}

/// Drops a call when its job exists and waits for its result.
async fn hang_up(rig: &Arc<Rig>, headers: Vec<(String, String)>, body: Value) {
    let caller = rig.clone();
    let call = tokio::spawn(async move {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        caller.post(&headers, &body).await
    });
    while rig.held.len() == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.expect_err("it was waiting").is_cancelled());
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_request_gives_the_call_up_only_without_session_and_key() {
    let arguments = json!({"name": "quick", "arguments": {"hold": true}});
    for (with_session, meta, is_canceled) in
        [(false, json!({}), true), (false, json!({"longhaul/idempotencyKey": "k"}), false), (true, json!({}), false)]
    {
        let rig = Arc::new(Rig::new().await);
        let (headers, body) = if with_session {
            let session = rig.open("2025-11-25").await;
            (owned(&[("mcp-session-id", &session)]), request(1, "tools/call", arguments.clone()))
        } else {
            (owned(&modern_headers("tools/call", Some("quick"))), modern("tools/call", arguments.clone(), meta))
        };
        hang_up(&rig, headers, body).await;
        if is_canceled {
            rig.held.stopped().await;
        } else {
            // Whatever would cancel it was sent before this answer.
            rig.start(json!({})).await;
            assert!(!rig.held.is_stopped());
        }
        rig.let_go(&json!({}));
    }
}

#[tokio::test]
async fn a_task_wish_is_ignored_in_a_revision_without_tasks() {
    let rig = Rig::new().await;
    let session = rig.open("2025-06-18").await;
    let params = json!({"name": "quick", "arguments": {"result": {"a": 1}}, "task": {"ttl": 60_000}});
    let answer = rig.post(&[("mcp-session-id", &session)], &request(1, "tools/call", params)).await;
    assert_eq!(message(&answer)["result"]["structuredContent"], json!({"a": 1}));
    assert_eq!(header(&answer, "mcp-session-id"), None);
}

#[tokio::test]
async fn case_30_a_call_that_is_sent_again_finds_its_job_where_the_tool_derives_its_key() {
    let rig = Rig::new().await;
    let id = |message: Value| message["result"]["structuredContent"]["jobId"].as_str().expect("a handle").to_owned();
    for revision in REVISIONS {
        let call = async |arguments: Value, meta: Value| id(rig.call(revision, "derived", arguments, meta).await);
        let first = call(json!({"budget": 1, "of": revision}), json!({})).await;
        assert_eq!(call(json!({"of": revision, "budget": 1.0}), json!({})).await, first);
        assert_ne!(call(json!({"of": revision, "budget": 2}), json!({})).await, first);
        // A key of the caller's own asks for a job of its own.
        let own = json!({"longhaul/idempotencyKey": format!("mine-{revision}")});
        assert_ne!(call(json!({"budget": 1, "of": revision}), own).await, first);
    }
}
