//! `longhaul mcp --stdio` as a desktop client starts it: on its own, beside another, and over the death of the server it has joined.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::schemas::Exchange;
use crate::support::server::{Server, binary};

const TOOLS: &str = r#"
[tools.trial]
description = "does what its payload says"
input_schema = { type = "object", properties = { text = { type = "string", x-mcp-header = "Text" } } }
run = { kind = "trial" }
inline_wait = "60s"
retry = { base_delay = "50ms", max_delay = "200ms" }
"#;

/// A client and the process that it started.
struct Desktop {
    child: Child,
    stdin: Option<ChildStdin>,
    /// `None`: nobody reads what it says.
    lines: Option<Lines<BufReader<ChildStdout>>>,
    exchange: Exchange,
}

impl Desktop {
    fn start(config: &Path, data_dir: &Path) -> Self {
        let mut child = Command::new(binary())
            .args(["mcp", "--stdio", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .arg("--data-dir")
            .arg(data_dir)
            .env_remove("LONGHAUL_SERVER")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let exchange = Exchange::pipe(&child.id().to_string());
        Self { stdin: child.stdin.take(), lines, child, exchange }
    }

    /// The same, and shakes hands.
    fn open(config: &Path, data_dir: &Path) -> Self {
        let mut desktop = Self::start(config, data_dir);
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = desktop.ask(json!("hello"), "initialize", hello);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        desktop.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        desktop
    }

    fn say(&mut self, line: &str) {
        self.exchange.asks(line.as_bytes());
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the process reads");
    }

    fn hear(&mut self) -> Value {
        let lines = self.lines.as_mut().expect("somebody reads");
        let line = lines.next().expect("the process goes on").expect("a line");
        self.exchange.hears(line.as_bytes());
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("nothing but JSON on stdout: {why}: {line}"))
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.request(&id, method, &params);
        self.answer(&id)
    }

    /// The answer to this request; everything else is passed over.
    fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.hear();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn call(&mut self, id: Value, arguments: &Value) -> Value {
        self.ask(id, "tools/call", json!({"name": "trial", "arguments": arguments}))
    }

    /// Ends its input; the exit code.
    fn close(&mut self) -> i32 {
        drop(self.stdin.take());
        self.child.wait().expect("it ends").code().expect("by itself")
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn room(config: &str) -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("longhaul.toml");
    std::fs::write(&file, config).expect("the configuration is written");
    let data = dir.path().join("data");
    (dir, file, data)
}

#[test]
fn a_client_that_starts_its_server_speaks_every_era_on_one_pipe() {
    let (_dir, config, data) = room(TOOLS);
    let mut desktop = Desktop::open(&config, &data);
    let called = desktop.call(json!(1), &json!({"do": "echo", "text": "abc"}));
    assert!(called["result"]["content"].is_array(), "{called}");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let modern = json!({"name": "trial", "arguments": {"do": "echo", "text": "grüße"}, "_meta": meta});
    let answer = desktop.ask(json!("m"), "tools/call", modern);
    // On a pipe nobody writes headers, although this tool wants one.
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "grüße");
    desktop.say("nonsense");
    assert_eq!(desktop.hear()["error"]["code"], -32700);
    desktop.say(&"x".repeat(17 << 20));
    assert_eq!(desktop.hear()["error"]["code"], -32700);
    assert_eq!(desktop.ask(json!(2), "ping", json!({}))["result"], json!({}));
    assert_eq!(desktop.close(), 0);
}

#[test]
fn a_server_that_refuses_a_message_is_quoted_in_words_and_no_job_is_hinted_at() {
    // The whole problem stood in the text as JSON, and that a job might have started, which a refused call cannot have done.
    let call = |text: &str| json!({"name": "trial", "arguments": {"do": "echo", "text": text}});
    let refused = |desktop: &mut Desktop, arguments: Value| {
        let answer = desktop.ask(json!(1), "tools/call", arguments);
        let text = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        assert!(!text.contains('{') && !text.contains("list_jobs"), "{text}");
        text
    };
    let (_, lines) = crate::tokens::token("ann");
    let server = Server::start(&format!("{TOOLS}\n{lines}"));
    let mut desktop = Desktop::start(&server.config(), &server.data_dir());
    let text = refused(&mut desktop, call("abc"));
    assert!(text.contains("401 unauthenticated") && text.contains("LONGHAUL_TOKEN"), "{text}");
    let server = Server::start(&format!("[server]\nmax_body = \"1KiB\"\n{TOOLS}"));
    let mut desktop = Desktop::open(&server.config(), &server.data_dir());
    let text = refused(&mut desktop, call(&"x".repeat(2_048)));
    assert!(text.contains("413 too_large"), "{text}");
}

#[test]
fn the_last_answers_come_although_the_input_has_ended() {
    let (_dir, config, data) = room(TOOLS);
    let mut desktop = Desktop::open(&config, &data);
    desktop.request(&json!(7), "tools/call", &json!({"name": "trial", "arguments": {"do": "sleep", "ms": 300}}));
    drop(desktop.stdin.take());
    assert!(desktop.answer(&json!(7))["result"]["content"].is_array());
    assert_eq!(desktop.close(), 0);
}

#[test]
fn a_second_client_joins_the_first_and_goes_on_when_that_one_ends() {
    let (_dir, config, data) = room(TOOLS);
    let mut first = Desktop::open(&config, &data);
    let made = first.call(json!(1), &json!({"do": "echo", "text": "abc"}));
    let id = made["result"]["_meta"]["longhaul/jobId"].as_str().expect("a job").to_owned();
    let mut second = Desktop::open(&config, &data);
    let get = json!({"name": "get_job", "arguments": {"jobId": id}});
    assert_eq!(second.ask(json!(1), "tools/call", get.clone())["result"]["structuredContent"]["status"], "completed");
    assert_eq!(first.close(), 0);
    assert_eq!(second.ask(json!(2), "tools/call", get)["result"]["structuredContent"]["status"], "completed");
    assert!(second.call(json!(3), &json!({"do": "echo", "text": "abc"}))["result"]["content"].is_array());
    assert_eq!(second.close(), 0);
}

#[test]
fn a_server_killed_in_the_middle_of_a_call_costs_the_client_nothing() {
    let mut server = Server::start(TOOLS);
    let mut desktop = Desktop::open(&server.config(), &server.data_dir());
    desktop.request(&json!("long"), "tools/call", &json!({"name": "trial", "arguments": {"do": "sleep", "ms": 1_500}}));
    let client = server.client();
    while client.get("/api/jobs?status=in_progress").json()["jobs"].as_array().is_none_or(Vec::is_empty) {
        std::thread::yield_now();
    }
    server.kill();
    server.start_again();
    let answer = desktop.answer(&json!("long"));
    assert!(answer["result"]["content"].is_array(), "{answer}");
    let jobs = server.client().get("/api/jobs").json();
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "the call ran once: {jobs}");
    assert_eq!(desktop.close(), 0);
}

#[test]
fn a_client_that_waits_for_much_is_refused_one_wait_more_and_is_heard_all_the_same() {
    let (_dir, config, data) = room(TOOLS);
    let mut desktop = Desktop::open(&config, &data);
    desktop.request(
        &json!("call"),
        "tools/call",
        &json!({"name": "trial", "arguments": {"do": "sleep", "ms": 600_000}}),
    );
    let id = loop {
        let list = desktop.ask(json!("list"), "tools/call", json!({"name": "list_jobs", "arguments": {}}));
        if let Some(id) = list["result"]["structuredContent"]["jobs"][0]["id"].as_str() {
            break id.to_owned();
        }
    };
    let wait = json!({"name": "wait_for_jobs", "arguments": {"jobIds": [id], "timeoutMs": 600_000}});
    // The call waits too; that the list has been answered may not be noticed yet.
    for number in 0..258 {
        desktop.request(&json!(number), "tools/call", &wait);
    }
    for one_more in ["more", "and more"] {
        let refused = desktop.ask(json!(one_more), "tools/call", wait.clone());
        assert_eq!(refused["error"]["data"]["code"], "too_many", "{refused}");
        assert!(refused["error"]["message"].to_string().contains("256 requests are under way"), "{refused}");
        assert_eq!(desktop.ask(json!("there?"), "ping", json!({}))["result"], json!({}));
    }
    desktop
        .say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}).to_string());
    // There is room when the cancel has come through.
    while desktop.ask(json!("tools"), "tools/list", json!({})).get("error").is_some() {}
}

#[test]
fn a_client_that_has_gone_without_a_word_is_not_waited_for() {
    // It serves by itself, or has joined another server; it says something, or nothing more.
    for (joins, asks) in [(false, false), (true, false), (true, true)] {
        let server = joins.then(|| Server::start(TOOLS));
        let (_dir, config, data) = room(TOOLS);
        let (config, data) = server.as_ref().map_or((config, data), |server| (server.config(), server.data_dir()));
        let mut desktop = Desktop::open(&config, &data);
        desktop.request(
            &json!(1),
            "tools/call",
            &json!({"name": "trial", "arguments": {"do": "sleep", "ms": 600_000}}),
        );
        desktop.lines = None;
        if asks {
            // It may have noticed already.
            let _ = writeln!(desktop.stdin.as_mut().expect("stdin is open"), "{{}}");
        }
        // Its input stays open: somebody else may hold it.
        assert_eq!(desktop.child.wait().expect("it ends").code(), Some(0), "{joins} {asks}");
    }
}
