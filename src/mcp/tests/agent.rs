//! What following a long job costs an agent: turns of its model, and text that it pays for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::rig::{Rig, message, modern, modern_headers};
use crate::job::Millis;

/// After so long without an answer the client has given a call up.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent behind a client that neither asks for progress nor waits longer for it.
struct Agent<'a> {
    rig: &'a Rig,
    turns: usize,
    waits: usize,
    text: usize,
}

impl Agent<'_> {
    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let (began, is_wait) = (Instant::now(), name == "wait_for_jobs");
        let body = modern("tools/call", json!({"name": name, "arguments": arguments}), json!({}));
        let answer = self.rig.post(&modern_headers("tools/call", Some(name)), &body).await;
        let passed = began.elapsed();
        assert!(passed < PATIENCE, "{name} took {passed:?}");
        // The jobs' clock follows the runtime's, which moves by itself while everybody waits.
        self.rig.clock.advance(Millis(u64::try_from(passed.as_millis()).expect("fits")));
        let result = message(&answer)["result"].take();
        let texts = result["content"].as_array().expect("content").iter();
        self.text += texts.map(|block| block["text"].as_str().expect("a text").len()).sum::<usize>();
        self.turns += 1;
        self.waits += usize::from(is_wait);
        result
    }
}

#[tokio::test(start_paused = true)]
async fn case_29_an_hour_long_job_costs_an_agent_its_waits_and_two_turns_and_little_text() {
    let rig = Rig::new().await;
    let mut agent = Agent { rig: &rig, turns: 0, waits: 0, text: 0 };
    let handle = agent.call("start", json!({"hold": true})).await;
    let id = handle["structuredContent"]["jobId"].as_str().expect("a handle").to_owned();
    while rig.held.len() == 0 {
        tokio::task::yield_now().await;
    }
    let (began, mut arguments) = (Instant::now(), json!({"jobIds": [id]}));
    let result = loop {
        let answer = agent.call("wait_for_jobs", arguments.clone()).await["structuredContent"].take();
        if answer["done"] == true {
            break answer["jobs"][0]["result"].clone();
        }
        arguments["since"] = answer["cursor"].clone();
        if began.elapsed() >= Duration::from_secs(3_600) {
            rig.let_go(&json!({"imported": 120_000}));
        }
    };
    assert_eq!(result, json!({"imported": 120_000}));
    assert!((80..=82).contains(&agent.waits), "{} waits", agent.waits);
    assert!(agent.turns - agent.waits <= 2, "{} turns", agent.turns);
    assert!(agent.text < 1_500, "{} bytes of text", agent.text);
}

#[tokio::test]
async fn a_wait_tells_what_is_new_and_when_nothing_is() {
    let rig = Rig::new().await;
    let id = rig.start(json!({"hold": true})).await;
    while rig.held.len() == 0 {
        tokio::task::yield_now().await;
    }
    let wait = async |since: Option<&str>| {
        let arguments = json!({"jobIds": [id], "timeoutMs": 0, "since": since.unwrap_or_default()});
        rig.result("wait_for_jobs", arguments).await
    };
    let first = wait(None).await;
    let cursor = first["structuredContent"]["cursor"].as_str().expect("a cursor");
    let text = first["content"][0]["text"].as_str().expect("a text");
    assert_eq!(text, format!("{id} in_progress\n1 of 1 not ended; wait on with since {cursor}."));
    let next = wait(Some(cursor)).await;
    assert_eq!(next["content"][0]["text"], "Nothing new.");
    assert_eq!(next["structuredContent"]["jobs"], json!([]));
    rig.let_go(&json!({"n": 1}));
    rig.ended(&id).await;
    let last = wait(Some(cursor)).await;
    assert_eq!(last["content"][0]["text"], format!("{id} completed: {{\"n\":1}}\nAll have ended."));
    assert_eq!(last["structuredContent"]["jobs"], json!([{"id": id, "status": "completed", "result": {"n": 1}}]));
}
