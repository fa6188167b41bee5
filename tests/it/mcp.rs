//! MCP on real sockets: what only the whole server can break. The ladders, row by row, are tested in the library.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::schemas::Exchange;
use crate::support::{Answer, Client, Server, TRIAL};

const INLINE: &str = "\ninline_wait = \"10m\"\n";

/// A tool that writes more than it may.
const FLOOD: &str = r#"
[tools.flood]
description = "writes without end"
input_schema = { type = "object" }
run = { kind = "command", command = ["sh", "-c", "while :; do echo 0123456789; done"], output = "text" }
max_result = "1MiB"
"#;

/// The headers and the message of a call of 2026-07-28.
fn modern(tool: &str, arguments: &Value, meta: &Value) -> (Vec<(&'static str, String)>, Value) {
    let mut meta = meta.clone();
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let headers = vec![
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", "tools/call".to_owned()),
        ("mcp-name", tool.to_owned()),
    ];
    (headers, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

fn in_session(session: &str, tool: &str, arguments: &Value, meta: &Value) -> (Vec<(&'static str, String)>, Value) {
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    (vec![("mcp-session-id", session.to_owned())], message)
}

fn post(client: &Client, (headers, message): &(Vec<(&'static str, String)>, Value)) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    client.post_with("/mcp", &all, message.to_string().as_bytes()).expect("the server answers")
}

/// The result of a call of 2026-07-28.
fn call(client: &Client, tool: &str, arguments: &Value) -> Value {
    let answer = post(client, &modern(tool, arguments, &json!({})));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["result"].take()
}

fn open(client: &Client) -> String {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = post(client, &(Vec::new(), message));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("mcp-session-id").expect("a session").to_owned()
}

/// Sends a call and does not wait for its answer.
fn send(server: &Server, (headers, message): &(Vec<(&'static str, String)>, Value)) -> TcpStream {
    let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let body = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{fields}content-length: {}\r\n\r\n",
        server.address(),
        body.len()
    );
    let mut socket = TcpStream::connect(server.address()).expect("the server is there");
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("the call is sent");
    socket
}

/// The jobs that exist, once there is one.
fn jobs(client: &Client) -> Vec<Value> {
    loop {
        let jobs = client.get("/api/jobs").json()["jobs"].as_array().expect("jobs").clone();
        if !jobs.is_empty() {
            return jobs;
        }
    }
}

#[test]
fn case_24_an_old_session_and_its_handles_work_after_a_kill() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let session = open(&client);
    let start = in_session(&session, "trial", &json!({"do": "echo", "text": "still here"}), &json!({}));
    let handle = post(&client, &start).json()["result"]["structuredContent"]["jobId"].take();
    server.crash();
    let ping = (vec![("mcp-session-id", session.clone())], json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(post(&client, &ping).json(), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    let wait = in_session(&session, "wait_for_jobs", &json!({"jobIds": [handle], "timeoutMs": 60_000}), &json!({}));
    let report = post(&client, &wait).json()["result"]["structuredContent"].take();
    assert_eq!(report["jobs"][0]["result"], "still here", "{report}");
}

#[test]
fn case_30_a_call_whose_answer_was_lost_is_repeated_without_a_second_job() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let keyed = |arguments: Value| modern("trial", &arguments, &json!({"longhaul/idempotencyKey": "lost-1"}));
    let first = keyed(json!({"do": "sleep", "ms": 60_000}));
    // The connection is cut before the answer.
    drop(send(&server, &first));
    let id = jobs(&client)[0]["id"].clone();
    for _ in 0..2 {
        let again = post(&client, &first).json()["result"]["structuredContent"].take();
        assert_eq!(again["jobId"], id, "{again}");
        server.crash();
    }
    let other = post(&client, &keyed(json!({"do": "sleep", "ms": 1}))).json();
    assert_eq!(other["result"]["isError"], true, "{other}");
    assert!(other.to_string().contains(id.as_str().expect("an id")), "{other}");
    assert_eq!(jobs(&client).len(), 1);
}

#[test]
fn a_closed_request_cancels_its_call_in_the_newest_revision_and_never_in_a_session() {
    let server = Server::start(&format!("{TRIAL}{INLINE}"));
    let client = server.client();
    let arguments = json!({"do": "sleep", "ms": 600_000});
    let socket = send(&server, &modern("trial", &arguments, &json!({})));
    let id = jobs(&client)[0]["id"].as_str().expect("an id").to_owned();
    drop(socket);
    assert_eq!(client.ended(&id)["status"], "canceled");

    let socket = send(&server, &in_session(&open(&client), "trial", &arguments, &json!({})));
    let other = loop {
        if let Some(job) = jobs(&client).iter().find(|job| job["id"] != *id) {
            break job["id"].as_str().expect("an id").to_owned();
        }
    };
    drop(socket);
    // A wait of the newest revision that is closed cancels nothing either.
    drop(send(&server, &modern("wait_for_jobs", &json!({"jobIds": [other], "timeoutMs": 600_000}), &json!({}))));
    // The server has seen the ends of these sockets when it has seen that of a later call's.
    let socket = send(&server, &modern("trial", &arguments, &json!({})));
    let last = loop {
        let seen = jobs(&client);
        if let Some(job) = seen.iter().find(|job| job["id"] != *id && job["id"] != *other) {
            break job["id"].as_str().expect("an id").to_owned();
        }
    };
    drop(socket);
    assert_eq!(client.ended(&last)["status"], "canceled");
    assert_ne!(client.job(&other)["status"], "canceled");
    assert_eq!(client.job(&other).get("cancel"), None);
}

/// hyper looks for a peer's end only while it holds no bytes of a next request: a client that had sent some and went was waited for until
/// its wait was over, and its stream was kept.
#[test]
fn a_client_that_goes_away_behind_the_beginning_of_another_request_is_noticed() {
    let server = Server::start(&format!("{TRIAL}{INLINE}"));
    let client = server.client();
    let mut known = Vec::new();
    for more in ["GET /hea".to_owned(), format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(8_000))] {
        let mut socket = send(&server, &modern("trial", &json!({"do": "sleep", "ms": 20_000}), &json!({})));
        socket.write_all(more.as_bytes()).expect("sent");
        let id = loop {
            if let Some(job) = jobs(&client).iter().find(|job| !known.contains(&job["id"])) {
                break job["id"].as_str().expect("an id").to_owned();
            }
        };
        known.push(json!(id));
        drop(socket);
        assert_eq!(client.ended(&id)["status"], "canceled", "{}", &more[..8]);
    }
    let mut socket = TcpStream::connect(server.address()).expect("the server is there");
    let head =
        format!("GET /api/events HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\nGET", server.address());
    socket.write_all(head.as_bytes()).expect("sent");
    let streams = || {
        let text = client.get_with("/metrics", &[]).expect("metrics").text;
        let line = text.lines().find(|line| line.starts_with("longhaul_streams ")).expect("the gauge").to_owned();
        line.rsplit(' ').next().expect("a number").to_owned()
    };
    while streams() == "0" {}
    drop(socket);
    // A bound on the looks, no measure of time; its first heartbeat would be due in 15 s.
    assert!((0..2_000).any(|_| streams() == "0"), "the stream is let go");
}

#[test]
fn case_36_a_large_result_comes_in_ranges_and_one_over_the_limit_is_a_tool_error() {
    let server = Server::start(&format!("{TRIAL}{FLOOD}"));
    let client = server.client();
    for bytes in [100_000, 1_000_000, 30_000_000_u64] {
        let id = client.submit(json!({"do": "echo", "text": "語", "bytes": bytes}));
        assert_eq!(client.ended(&id)["status"], "completed");
        let first = call(&client, "get_job", &json!({"jobId": id, "part": "result"}));
        let range = &first["structuredContent"];
        assert_eq!((&range["truncated"], &range["total"]), (&json!(true), &json!(bytes / 3 * 3 + 2)));
        let text = first["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with("語語") && text.contains("go on with offset"), "{}", &text[..60]);
        let last = call(&client, "get_job", &json!({"jobId": id, "part": "result", "offset": bytes - 100}));
        let text = last["structuredContent"]["text"].as_str().expect("a text");
        assert!(text.chars().all(|c| c == '語') && (30..=34).contains(&text.chars().count()), "{text}");
        assert_eq!(last["structuredContent"].get("nextOffset"), None);
    }
    let handle = call(&client, "flood", &json!({}))["structuredContent"].take();
    let id = handle["jobId"].as_str().expect("an id");
    client.ended(id);
    let answer = call(&client, "get_job", &json!({"jobId": id, "part": "result"}));
    assert_eq!(answer["isError"], true);
    assert!(answer["content"][0]["text"].as_str().is_some_and(|text| text.contains("output_too_large")), "{answer}");
}

/// The header fields of a head.
fn fields(head: &str) -> Vec<(String, String)> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect()
}

/// Status line, head and body of a raw request.
fn exchange(server: &Server, sent: &[u8], body: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(server.address()).expect("the server is there");
    let end =
        format!("host: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", server.address(), body.len());
    socket.write_all(&[sent, end.as_bytes()].concat()).expect("the request is sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8(answer).expect("text");
    let (head, answer_body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (asked, answered) = (fields(&String::from_utf8_lossy(sent)), fields(head));
    let asked: Vec<_> = asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Answer { status, headers: answered, text: answer_body.to_owned() }.hold(&asked, body.as_bytes());
    (status, head.to_lowercase(), answer_body.to_owned())
}

#[test]
fn case_25_and_28_odd_headers_get_the_answers_of_the_tables() {
    let server = Server::start(TRIAL);
    let session = open(&server.client());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let typed = "content-type: application/json\r\n";
    let live = format!("{typed}mcp-session-id: {session}\r\n");
    let long = format!("{typed}mcp-session-id: {}\r\n", "x".repeat(10_000));
    for (verb, fields, status, part) in [
        ("POST", live.as_bytes().to_vec(), 200, "content-type: application/json"),
        ("POST", format!("{live}accept: text/event-stream\r\n").into(), 200, "content-type: text/event-stream"),
        (
            "POST",
            format!("{live}accept: text/html\r\naccept: APPLICATION/*; q=0.2\r\n").into(),
            200,
            "application/json",
        ),
        ("POST", format!("{live}accept: text/html\r\n").into(), 406, ""),
        ("POST", format!("mcp-session-id: {session}\r\n").into(), 415, ""),
        ("POST", [typed.as_bytes(), b"mcp-session-id: \xff\xfe\r\n"].concat(), 404, ""),
        ("POST", long.clone().into(), 404, ""),
        ("GET", long.clone().into(), 404, ""),
        ("DELETE", long.into(), 404, ""),
        ("POST", typed.into(), 400, ""),
        ("GET", format!("{live}accept: application/json\r\n").into(), 406, ""),
        ("PUT", live.clone().into(), 405, "allow: get, post, delete"),
        ("DELETE", live.clone().into(), 204, ""),
        ("POST", live.into(), 404, ""),
    ] {
        let line = format!("{verb} /mcp HTTP/1.1\r\n");
        let (got, head, body) = exchange(&server, &[line.as_bytes(), &fields].concat(), ping);
        assert_eq!(got, status, "{verb} {} {head} {body}", String::from_utf8_lossy(&fields[..fields.len().min(120)]));
        assert!(head.contains(part), "{head}");
    }
}

#[test]
fn an_answer_that_its_revision_does_not_have_fails_the_test_that_gets_it() {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"}).to_string();
    let opened =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    for (result, is_right) in [(json!({"tools": []}), true), (json!({"tools": {}}), false), (json!({}), false)] {
        let told = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let mut pipe = Exchange::pipe(&told.to_string());
        pipe.asks(hello.as_bytes());
        pipe.hears(json!({"jsonrpc": "2.0", "id": 0, "result": opened}).to_string().as_bytes());
        pipe.asks(list.as_bytes());
        assert_eq!(std::panic::catch_unwind(|| pipe.hears(told.to_string().as_bytes())).is_ok(), is_right, "{told}");
        let answer = |kind: &str, text: String| Answer {
            status: 200,
            headers: vec![("content-type".into(), kind.into()), ("mcp-session-id".into(), format!("pipe {told}"))],
            text,
        };
        for answer in [
            answer("application/json", told.to_string()),
            answer("text/event-stream", format!("id: 1\ndata: {told}\n\n")),
        ] {
            let held = std::panic::catch_unwind(|| answer.hold(&[], list.as_bytes()));
            assert_eq!(held.is_ok(), is_right, "{answer:?}");
        }
    }
}
