//! Full disks: what is refused, what goes on, and that it all comes back. Row 57, on a 64 MB tmpfs with the real binary.
//!
//! The client keeps a journal of what was acknowledged; at the end all of it is there and `verify` accepts the store.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::disk::{Disk, on_small_disk};
use crate::support::server::binary;
use crate::support::{Answer, Client, Server, TRIAL};

const MB: u64 = 1_000_000;
/// Below this new jobs are refused: a twentieth of the disk.
const RESERVE: u64 = 64 * MB / 20;
/// More jobs than the disk holds.
const JOBS_MAX: usize = 20_000;

/// The trial tool, and one that answers what comes out of a pipe: it runs until the test lets it end.
const TOOLS: &str = r#"
[tools.piped]
description = "answers what comes out of a pipe"
run = { kind = "command", command = ["cat", "--", "{payload.pipe}"], output = "text" }
"#;

fn config() -> String {
    format!("{TRIAL}{TOOLS}")
}

/// What was acknowledged: job ids by idempotency key.
type Journal = HashMap<String, String>;

/// Submits a job and notes it if it was acknowledged; the answer.
fn submit(client: &Client, journal: &mut Journal, key: &str, payload: &Value) -> Answer {
    let job = json!({"type": "trial", "payload": payload, "idempotencyKey": key});
    let answer = client.post("/api/jobs", &job);
    if answer.status == 201 {
        journal.insert(key.to_owned(), answer.json()["id"].as_str().expect("an id").to_owned());
    }
    answer
}

/// Jobs of every size of result, with and without events, and more of them than room.
fn payload(n: usize) -> Value {
    match n % 5 {
        0 => json!({"do": "echo", "text": "small", "bytes": 40_000}),
        1 => json!({"do": "echo", "text": "large", "bytes": 300_000}),
        2 => json!({"do": "progress", "steps": 20}),
        3 => json!({"do": "partial", "data": "p".repeat(20_000)}),
        _ => json!({"do": "fail", "times": 1}),
    }
}

/// Submits until the disk is said to be full; the refusal.
fn fill_with_jobs(client: &Client, journal: &mut Journal, name: &str) -> Answer {
    for n in 0..JOBS_MAX {
        let answer = submit(client, journal, &format!("{name}-{n}"), &payload(n));
        if answer.status != 201 {
            return answer;
        }
    }
    panic!("{JOBS_MAX} jobs did not fill the disk");
}

fn assert_disk_full(answer: &Answer) {
    assert_eq!(answer.status, 507, "{answer:?}");
    assert_eq!(answer.json()["code"], "disk_full");
    let seconds: u64 = answer.header("retry-after").expect("when to come again").parse().expect("seconds");
    assert!(seconds > 0);
}

/// A named pipe, and the job that waits for it.
struct Piped {
    path: std::path::PathBuf,
    id: String,
}

impl Piped {
    fn submit(client: &Client, dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        let id = client.submit_job(json!({"type": "piped", "payload": {"pipe": path}}));
        let mut stream = client.stream(&format!("/api/jobs/{id}/events"), None);
        assert!(stream.any(|event| event.event == "job.started"));
        Self { path, id }
    }

    /// Lets it end with so many bytes.
    fn end(&self, bytes: usize) {
        std::fs::write(&self.path, "r".repeat(bytes)).expect("the pipe is read");
    }
}

/// All that was acknowledged is there and ends, each with one terminal event; `verify` accepts the store.
fn check(server: &mut Server, journal: &Journal) {
    let client = server.client();
    for (key, id) in journal {
        let job = client.ended(id);
        assert_eq!(job["status"], "completed", "{key}: {job}");
        let answer = client.get(&format!("/api/jobs/{id}/result"));
        assert_eq!(answer.status, 200, "{key}: its result");
    }
    let mut ends: HashMap<String, usize> = HashMap::new();
    for event in client.pages("/api/events", None) {
        if matches!(event["type"].as_str(), Some("job.completed" | "job.failed" | "job.canceled")) {
            *ends.entry(event["job_id"].as_str().expect("a job").to_owned()).or_default() += 1;
        }
    }
    assert!(journal.values().all(|id| ends.get(id) == Some(&1)), "one end each");
    assert_eq!(client.get("/readyz").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let (is_whole, said) = server.verify();
    assert!(is_whole, "{said}");
}

/// Row 57: after a full disk the store stayed in error although space was freed; sometimes it could not be opened again.
#[test]
fn case_57_a_server_whose_disk_is_full_keeps_what_it_accepted_and_goes_on_when_it_is_freed() {
    on_small_disk(
        "full::case_57_a_server_whose_disk_is_full_keeps_what_it_accepted_and_goes_on_when_it_is_freed",
        64 * MB,
        fill_and_free,
    );
}

fn fill_and_free(disk: &Disk) {
    let mut server = Server::start_in(disk.path(), &config(), &[]);
    let client = server.client();
    let pipes = tempfile::tempdir().expect("a directory on another disk");
    let small = Piped::submit(&client, pipes.path(), "small");
    let large = Piped::submit(&client, pipes.path(), "large");
    // What is freed in the end is what somebody else has taken from the start.
    disk.fill_to(40 * MB);
    let mut journal = Journal::new();
    let refused = fill_with_jobs(&client, &mut journal, "first");
    assert_disk_full(&refused);
    println!("{} jobs filled the disk; {} bytes are free", journal.len(), disk.free());
    // Somebody else takes the rest.
    disk.fill_to(0);
    assert_disk_full(&client.get("/readyz"));
    assert_eq!(client.get("/healthz").status, 200);
    refuses_and_reads(&client, &mut journal);
    // What runs ends: a small result goes to the log, whose room was taken ahead, a large one waits for the disk.
    small.end(30_000);
    assert_eq!(client.ended(&small.id)["status"], "completed");
    large.end(2_000_000);
    assert_eq!(client.job(&large.id)["status"], "in_progress");
    disk.relieve();
    let job = client.ended(&large.id);
    assert_eq!((job["status"].as_str(), job["attempts"].as_u64()), (Some("completed"), Some(1)), "{job}");
    assert_eq!(client.get(&format!("/api/jobs/{}/result", large.id)).text.len(), 2_000_002);
    check(&mut server, &journal);
}

/// On the full disk: every way to a new job is refused at once, every read works.
fn refuses_and_reads(client: &Client, journal: &mut Journal) {
    for n in 0..10 {
        assert_disk_full(&submit(client, journal, &format!("refused-{n}"), &payload(n)));
    }
    let large = json!({"do": "echo", "text": "x".repeat(300_000)});
    assert_disk_full(&submit(client, journal, "refused-large", &large));
    let (key, id) = journal.iter().next().expect("acknowledged jobs");
    let n: usize = key.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
    let known = json!({"type": "trial", "payload": payload(n), "idempotencyKey": key});
    let known = client.post("/api/jobs", &known);
    assert_eq!((known.status, known.json()["id"].as_str()), (200, Some(&**id)), "the same job again");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let accept = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let answer = client.post_with("/mcp", &accept, initialize.to_string().as_bytes()).expect("an answer");
    assert!(answer.header("mcp-session-id").is_none() && answer.text.contains("disk_full"), "{answer:?}");
    assert_eq!(client.job(id)["id"], **id);
    assert_eq!(client.get("/api/jobs?limit=10").json()["jobs"].as_array().expect("jobs").len(), 10);
    assert!(client.stream(&format!("/api/jobs/{id}/events"), None).any(|event| event.event == "job.created"));
    assert!(client.pages("/api/events", None).len() > journal.len());
    assert_eq!(client.get("/metrics").status, 200);
}

/// Row 57, the other half: the disk is full when the server starts, with anything from nothing to a little left.
#[test]
fn case_57_a_server_that_starts_on_a_full_disk_serves_or_says_so_and_starts_clean_when_it_is_freed() {
    on_small_disk(
        "full::case_57_a_server_that_starts_on_a_full_disk_serves_or_says_so_and_starts_clean_when_it_is_freed",
        64 * MB,
        start_full,
    );
}

fn start_full(disk: &Disk) {
    let mut server = Server::start_in(disk.path(), &config(), &[]);
    let mut journal = Journal::new();
    let mut served = Vec::new();
    for (round, free) in [0, 4_096, 64_000, 600_000, 2 * MB, 5 * MB, 0].into_iter().enumerate() {
        let client = server.client();
        for n in 0..40 {
            let answer = submit(&client, &mut journal, &format!("{round}-{n}"), &payload(n));
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        // Some have ended, some run, some wait.
        server.kill();
        disk.fill_to(free);
        let started = server.try_start_again();
        served.push(started.is_ok());
        match started {
            Ok(()) if free < RESERVE => {
                let client = server.client();
                assert_disk_full(&client.get("/readyz"));
                assert_disk_full(&submit(&client, &mut journal, "refused", &payload(0)));
                let id = journal.values().next().expect("acknowledged jobs");
                assert_eq!(client.job(id)["id"], **id);
                disk.relieve();
            }
            Ok(()) => disk.relieve(),
            Err(said) => {
                assert!(said.starts_with("exit status: 8\n"), "{free} bytes free: {said}");
                assert!(said.contains("the disk is full") && !said.contains("panicked"), "{free} bytes free: {said}");
                disk.relieve();
                server.start_again();
            }
        }
    }
    println!("served at once on the full disk: {served:?}");
    check(&mut server, &journal);
}

#[test]
fn the_very_first_start_on_a_full_disk_says_so_and_leaves_nothing_in_the_way() {
    on_small_disk("full::the_very_first_start_on_a_full_disk_says_so_and_leaves_nothing_in_the_way", 64 * MB, |disk| {
        for free in [0, 4_096, 40_000, 300_000, 700_000, 2 * MB] {
            let mut server = Server::start_in(disk.path(), &config(), &[]);
            server.kill();
            // As if it had never been there.
            std::fs::remove_dir_all(server.data_dir()).expect("the store goes");
            disk.fill_to(free);
            let started = server.try_start_again();
            disk.relieve();
            if let Err(said) = started {
                assert!(said.starts_with("exit status: 8\n"), "{free} bytes free: {said}");
                assert!(said.contains("the disk is full") && !said.contains("panicked"), "{free} bytes: {said}");
                server.start_again();
            }
            let mut journal = Journal::new();
            let client = server.client();
            // A server that was started full looks again within a second.
            while client.get("/readyz").status != 200 {}
            assert_eq!(submit(&client, &mut journal, "first", &payload(0)).status, 201);
            check(&mut server, &journal);
        }
    });
}

/// What the server logs goes to a disk as well, and that may be the full one.
#[test]
fn a_log_that_cannot_be_written_harms_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("longhaul.toml"), config()).expect("the configuration is written");
    let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut child = Command::new(binary())
        .args(["serve", "--config", "longhaul.toml", "--data-dir", "data", "--listen", "127.0.0.1:0"])
        .current_dir(dir.path())
        .env("LONGHAUL_LOG", "debug")
        .stdout(Stdio::piped())
        .stderr(full())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("it serves");
    let client = Client::new(line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address"));
    let fine = client.submit(json!({"do": "fail", "times": 1}));
    let panics = client.submit(json!({"do": "panic"}));
    assert_eq!(client.ended(&fine)["status"], "completed");
    assert_eq!(client.ended(&panics)["error"]["code"], "panic");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the server is there");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
