//! How deeply a payload may be nested: what is accepted also runs, whoever brings it, and what is not is refused by all alike.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::server::binary;
use crate::support::{Answer, Client, Server};

/// A tool whose result is its payload.
const SAME: &str = r#"
[tools.same]
description = "gives back what it gets"
inline_wait = "1m"
run = { kind = "command", command = ["cat"], output = "json" }
"#;

/// An object in which values are nested so deeply, itself included.
fn nested(depth: usize) -> String {
    format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
}

fn post(client: &Client, payload: &str) -> Answer {
    let body = format!("{{\"type\":\"same\",\"payload\":{payload}}}");
    client.post_with("/api/jobs", &[("content-type", "application/json")], body.as_bytes()).expect("the server answers")
}

fn call(client: &Client, arguments: &str) -> Value {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!("{{\"name\":\"same\",\"arguments\":{arguments},\"_meta\":{meta}}}");
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}");
    let headers = [
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "same"),
    ];
    client.post_with("/mcp", &headers, body.as_bytes()).expect("the server answers").json()
}

/// Exit code, and what it said on either stream.
fn submit(client: &Client, payload: &str) -> (Option<i32>, String, String) {
    let words = ["submit", "same", payload, "--wait", "--server", &client.url("")];
    let output = Command::new(binary()).args(words).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Payloads of depth 121 to 127 were accepted, and then failed: handlers are given at most 120.
#[test]
fn a_payload_as_deep_as_is_accepted_runs_and_a_deeper_one_is_refused_everywhere() {
    let server = Server::start(SAME);
    let client = server.client();
    let deepest = nested(120);
    let id = post(&client, &deepest).json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(client.ended(&id)["result"].to_string(), deepest);
    assert_eq!(call(&client, &deepest)["result"]["structuredContent"].to_string(), deepest);
    let (code, said, _) = submit(&client, &deepest);
    assert_eq!((code, said.split_whitespace().collect::<String>()), (Some(0), deepest));
    for depth in [121, 126, 127, 5_000] {
        let deeper = nested(depth);
        let answer = post(&client, &deeper);
        let problem = answer.json();
        assert_eq!((answer.status, &problem["code"]), (400, &json!("bad_json")), "{problem}");
        let error = call(&client, &deeper)["error"].take();
        assert_eq!(error["code"], -32602, "{error}");
        let (code, _, said) = submit(&client, &deeper);
        assert_eq!(code, Some(5), "{said}");
        for told in [problem["detail"].to_string(), error["message"].to_string(), said] {
            assert!(told.contains("nested deeper than 120 levels"), "{depth}: {told}");
        }
    }
    assert_eq!(client.get("/api/jobs").json()["jobs"].as_array().map(Vec::len), Some(3), "nothing else was made");
}
