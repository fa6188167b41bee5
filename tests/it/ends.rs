//! How servers and jobs end: aborts, panics, shutdowns, restarts.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Server, TRIAL, is_long};

/// Row 39 in the real binary: a job that aborts the server fails as `worker_died`, its neighbours complete.
#[test]
fn case_39_a_job_that_aborts_the_server_among_twenty_innocents() {
    let mut server = Server::start(&format!("{TRIAL}concurrency = 4\n"));
    let client = server.client();
    let innocents: Vec<String> = (0..10).map(|_| client.submit(json!({"do": "sleep", "ms": 20}))).collect();
    let killer = client.submit_job(json!({"type": "trial", "payload": {"do": "abort"}, "delayMs": 50}));
    let more: Vec<String> = (0..10)
        .filter_map(|_| {
            client.try_post("/api/jobs", &json!({"type": "trial", "payload": {"do": "sleep", "ms": 20}})).ok()
        })
        .map(|answer| answer.json()["id"].as_str().expect("an id").to_owned())
        .collect();
    // A supervisor that always starts it again, within reason.
    for _ in 0..12 {
        let ended = client.get_with(&format!("/api/jobs/{killer}?wait=10s"), &[]);
        match ended {
            Ok(answer) if answer.status == 200 && answer.json()["status"] == "failed" => break,
            Ok(_) if !server.has_exited() => {}
            Ok(_) | Err(_) => {
                server.wait_exit();
                // The job may end it again before it serves.
                (0..5).find(|_| server.try_start_again().is_ok()).expect("a server that serves");
            }
        }
    }
    let job = client.ended(&killer);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("worker_died")), "{job}");
    assert_eq!(job["error"]["class"], "fatal");
    for id in innocents.iter().chain(&more) {
        assert_eq!(client.ended(id)["status"], "completed", "a neighbour must not pay");
    }
}

/// Row 50: a panic killed the worker silently until none was left.
#[test]
fn case_50_panics_cost_jobs_but_no_worker() {
    let server = Server::start_with(TRIAL, &["--workers", "2"]);
    let client = server.client();
    let panics: Vec<String> = (0..3).map(|_| client.submit(json!({"do": "panic", "message": "boom"}))).collect();
    for id in &panics {
        let job = client.ended(id);
        assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("panic")), "{job}");
    }
    let id = client.submit(json!({"do": "echo", "text": "alive"}));
    assert_eq!(client.ended(&id)["result"], "alive");
}

/// Row 46: shutdown left jobs locked for hours.
#[test]
fn case_46_a_graceful_shutdown_gives_running_jobs_back_uncounted_and_at_once() {
    let mut server = Server::start(&format!("[server]\nshutdown_grace = \"100ms\"\n{TRIAL}"));
    let client = server.client();
    let id = client.submit(json!({"do": "sleep", "ms": 1_500}));
    let mut stream = client.stream(&format!("/api/jobs/{id}/events"), None);
    assert!(stream.any(|event| event.event == "job.started"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let (is_whole, said) = server.verify();
    assert!(is_whole, "{said}");
    server.start_again();
    let job = client.ended(&id);
    assert_eq!((&job["status"], &job["attempts"], &job["interruptions"]), (&json!("completed"), &json!(1), &json!(0)));
}

#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    let mut server = Server::start(&format!("[server]\nshutdown_grace = \"60s\"\n{TRIAL}"));
    let client = server.client();
    let id = client.submit(json!({"do": "sleep", "ms": 1_000}));
    let mut stream = client.stream(&format!("/api/jobs/{id}/events"), None);
    assert!(stream.any(|event| event.event == "job.started"));
    server.signal(Signal::TERM);
    // Draining refuses new jobs, or has closed the port: either way it has heard the first signal.
    while client
        .try_post("/api/jobs", &json!({"type": "trial", "payload": {"do": "noop"}}))
        .is_ok_and(|a| a.status == 201)
    {}
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(128 + 15));
    server.start_again();
    assert_eq!(client.ended(&id)["status"], "completed");
}

/// Row 14: graceful shutdown waited for ever while an event stream was open.
#[test]
fn case_14_open_streams_end_with_a_hint_and_do_not_hold_the_shutdown() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let mut idle = client.stream("/api/events", None);
    let id = client.submit(json!({"do": "progress", "steps": 3}));
    let mut busy = client.stream("/api/events?last_event_id=earliest", None);
    assert!(busy.any(|event| event.event == "job.completed"));
    let stalled = client.stream("/api/events?last_event_id=earliest", None);
    client.ended(&id);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let mut last_lines = Vec::new();
    while let Some(line) = idle.line() {
        last_lines.push(line);
    }
    assert!(last_lines.iter().rev().take(4).any(|line| line.starts_with("retry:")), "{last_lines:?}");
    drop(stalled);
}

/// Row 54: reopening right after a kill failed because the lock was still held.
#[test]
fn case_54_a_second_server_on_the_directory_is_told_so_and_the_first_is_unharmed() {
    let server = Server::start(TRIAL);
    let client = server.client();
    let output = std::process::Command::new(crate::support::server::binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(server.data_dir())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&server.pid().as_raw_nonzero().to_string()), "names who holds it: {said}");
    let id = client.submit(json!({"do": "noop"}));
    assert_eq!(client.ended(&id)["status"], "completed");
}

#[test]
fn case_54_a_server_started_right_after_a_kill_opens_its_store() {
    let mut server = Server::start(TRIAL);
    for _ in 0..if is_long() { 200 } else { 15 } {
        server.crash();
    }
    let id = server.client().submit(json!({"do": "noop"}));
    assert_eq!(server.client().ended(&id)["status"], "completed");
}

/// A `kill -9` left the programs of running attempts behind, so that two attempts of one job ran at once.
#[test]
fn the_programs_of_a_killed_server_are_gone_before_the_next_one_serves() {
    let mut server = Server::start(
        r#"
[tools.slow]
description = "tells its number, then waits with a child in a session of its own"
run = { kind = "command", command = ["sh", "-c", "setsid sleep 1000 & echo $$ $! > started; wait"], output = "text" }
"#,
    );
    let client = server.client();
    let id = client.submit_job(json!({"type": "slow", "payload": {}}));
    let started = server.data_dir().with_file_name("started");
    let mut pids = String::new();
    while !pids.ends_with('\n') {
        pids = std::fs::read_to_string(&started).unwrap_or_default();
    }
    // What has ended and waits for its reaper has no environment any more.
    let lives = |pid: &str| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| !bytes.is_empty());
    // One that is just becoming another program has no environment for a moment.
    while !pids.split_whitespace().all(lives) {
        std::thread::yield_now();
    }
    server.kill();
    assert!(pids.split_whitespace().any(lives), "a kill leaves them: that is what this is about");
    server.start_again();
    assert!(!pids.split_whitespace().any(lives));
    client.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
    assert_eq!(client.ended(&id)["status"], "canceled");
}

/// Row 40 in the real binary: a retry whose server was killed runs after the restart, without anything else waking it.
#[test]
fn case_40_a_retry_that_came_due_while_the_server_was_dead_runs_after_the_start() {
    let mut server = Server::start(&TRIAL.replace("base_delay = \"50ms\"", "base_delay = \"150ms\""));
    let client = server.client();
    let id = client.submit(json!({"do": "fail", "times": 1}));
    let mut stream = client.stream(&format!("/api/jobs/{id}/events"), None);
    assert!(stream.any(|event| event.data["payload"]["retry"] == 1));
    server.crash();
    let mut stream = client.stream(&format!("/api/jobs/{id}/events"), None);
    assert!(stream.any(|event| event.event == "job.completed"));
    assert_eq!(client.job(&id)["attempts"], 2);
}

/// Row 51: a kill while the start-up snapshot was written made the database unopenable for ever.
#[test]
fn case_51_left_over_snapshots_do_not_keep_the_store_shut() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let id = client.submit(json!({"do": "echo", "text": "kept"}));
    client.ended(&id);
    for bytes in [vec![], (0..4096u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect()] {
        server.kill();
        let file = server.data_dir().join("store").join("snap.ffffffffffffffff.generating");
        std::fs::write(&file, bytes).expect("planted");
        server.start_again();
        assert!(!file.exists());
        assert_eq!(client.job(&id)["result"], "kept");
    }
    assert!(server.log().contains("snap.ffffffffffffffff.generating"), "{}", server.log());
}
