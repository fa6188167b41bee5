//! SIGHUP: other tools without a restart, or everything as it was.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::server::{Server, TRIAL};

const OTHER: &str = r#"
[tools.other]
description = "does the same under another name"
run = { kind = "trial" }
"#;

/// The names of the tools.
fn tools(client: &Client) -> Vec<String> {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}});
    let headers = [("content-type", "application/json")];
    let opened = client.post_with("/mcp", &headers, hello.to_string().as_bytes()).expect("an answer");
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let headers = [("content-type", "application/json"), ("mcp-session-id", &*session)];
    let answer = client.post_with("/mcp", &headers, list.as_bytes()).expect("an answer").json();
    let tools = answer["result"]["tools"].as_array().expect("tools").clone();
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until the log holds this so many times.
fn logged(server: &Server, text: &str, times: usize) {
    while server.log().matches(text).count() < times {
        std::thread::yield_now();
    }
}

fn status(client: &Client, id: &str) -> Value {
    client.job(id)["status"].clone()
}

#[test]
fn tools_come_and_go_without_a_restart_and_their_jobs_wait_for_them() {
    let server = Server::start(TRIAL);
    let client = server.client();
    assert!(!tools(&client).contains(&"other".to_owned()));
    let refused = client.post("/api/jobs", &json!({"type": "other", "payload": {"do": "noop"}}));
    assert_eq!(refused.status, 404);

    server.reconfigure(&format!("{TRIAL}{OTHER}"));
    server.signal(Signal::HUP);
    logged(&server, "are now those of the configuration", 1);
    assert!(tools(&client).contains(&"other".to_owned()));
    let id = client.submit_job(json!({"type": "other", "payload": {"do": "noop"}}));
    assert_eq!(client.ended(&id)["status"], "completed");

    // A job that waits when its tool goes waits on until it is back.
    let later = client.submit_job(json!({"type": "other", "payload": {"do": "noop"}, "delayMs": 300}));
    server.reconfigure(TRIAL);
    server.signal(Signal::HUP);
    logged(&server, "are now those of the configuration", 2);
    assert!(!tools(&client).contains(&"other".to_owned()));
    assert_eq!(client.get(&format!("/api/jobs/{later}?wait=1s")).json()["status"], "pending");

    // What is wrong changes nothing.
    server.reconfigure("tools = 3");
    server.signal(Signal::HUP);
    logged(&server, "the configuration is not taken", 1);
    assert_eq!(status(&client, &later), "pending");
    assert_eq!(client.ended(&client.submit(json!({"do": "noop"})))["status"], "completed");

    server.reconfigure(&format!("{TRIAL}{OTHER}"));
    server.signal(Signal::HUP);
    assert_eq!(client.ended(&later)["status"], "completed");
}

#[test]
fn a_configuration_that_is_empty_or_gone_does_not_put_the_demo_in_the_place_of_the_tools() {
    // A file that was being written, or was moved away, turned the server into a demo without a word.
    let server = Server::start(TRIAL);
    let client = server.client();
    for (round, text) in ["", "# nothing\n", "[server]\nmax_body = \"2MiB\"\n", "[tools]\n"].into_iter().enumerate() {
        server.reconfigure(text);
        server.signal(Signal::HUP);
        logged(&server, "is missing, empty or has no [tools.NAME]", round + 1);
        assert!(tools(&client).contains(&"trial".to_owned()), "{text:?}");
    }
    std::fs::remove_file(server.config()).expect("removed");
    server.signal(Signal::HUP);
    logged(&server, "the configuration is not taken", 5);
    assert_eq!(client.ended(&client.submit(json!({"do": "noop"})))["status"], "completed");
    assert!(!tools(&client).contains(&"start_deep_analysis".to_owned()));
}
