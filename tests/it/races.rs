//! Two things at once: cancels and ends, equal keys, a server that stands still.
//!
//! `LONGHAUL_LONG=1` runs the rows in full.

use std::collections::HashMap;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Client, Server, TRIAL, is_long};

/// Whether the type of an event says that its job has ended.
fn is_end(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("job.completed" | "job.failed" | "job.canceled"))
}

/// The terminal events of the log, by job.
fn ends(client: &Client) -> HashMap<String, Vec<String>> {
    let mut ends: HashMap<String, Vec<String>> = HashMap::new();
    for event in client.pages("/api/events", None).iter().filter(|event| is_end(event)) {
        let text = |field: &str| event[field].as_str().expect("text").to_owned();
        ends.entry(text("job_id")).or_default().push(text("type"));
    }
    ends
}

/// Row 43: cancel raced start or finish: reported cancelled while the work went on, or a later success overwrote it.
#[test]
fn case_43_a_cancel_that_races_start_or_end_leaves_one_end_that_everybody_sees() {
    let jobs = if is_long() { 10_000 } else { 600 };
    let server = Server::start(TRIAL);
    let client = server.client();
    let (to_cancel, ids) = std::sync::mpsc::sync_channel::<String>(64);
    let canceler = client.clone();
    let cancels = std::thread::spawn(move || {
        // How often a job had not ended when its cancel came: else nothing raced.
        let mut in_time = 0;
        for id in ids {
            let answer = canceler.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
            assert!(matches!(answer.status, 200 | 202), "{answer:?}");
            in_time += usize::from(answer.status == 202 || answer.json()["status"] == "canceled");
        }
        in_time
    });
    let ids: Vec<String> = (0..jobs)
        .map(|n| {
            let id = client.submit(json!({"do": "sleep", "ms": n % 6}));
            to_cancel.send(id.clone()).expect("the canceler listens");
            id
        })
        .collect();
    drop(to_cancel);
    assert!(cancels.join().expect("a canceler") > 0);
    for id in &ids {
        client.ended(id);
    }
    let ends = ends(&client);
    for id in &ids {
        let job = client.job(id);
        let word = format!("job.{}", job["status"].as_str().expect("a status"));
        assert_eq!(ends[id], [word], "{job}");
        let receipt = &job["cancel"];
        assert_eq!(job["status"] == "canceled", receipt["stoppedAt"].is_string(), "{job}");
    }
}

/// Row 30: a call that timed out at the client had run; the retry ran it again.
#[test]
fn case_30_the_same_key_is_one_job_for_32_at_once_and_over_a_kill() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let submit = |client: &Client, payload: Value| {
        let body = json!({"type": "trial", "payload": payload}).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", "once")];
        client.post_with("/api/jobs", &headers, body.as_bytes()).expect("answered")
    };
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || submit(&client, json!({"do": "sleep", "ms": 30})))
        })
        .collect();
    let answers: Vec<_> = callers.into_iter().map(|caller| caller.join().expect("a caller")).collect();
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 31);
    let id = answers[0].json()["id"].clone();
    assert!(answers.iter().all(|answer| answer.json()["id"] == id));
    server.crash();
    let again = submit(&client, json!({"ms": 30, "do": "sleep"}));
    assert_eq!((again.status, &again.json()["id"]), (200, &id), "the spelling does not matter");
    let other = submit(&client, json!({"do": "noop"}));
    assert_eq!((other.status, &other.json()["code"]), (409, &json!("idempotency_conflict")));
    client.ended(id.as_str().expect("an id"));
    assert_eq!(ends(&client).len(), 1);
}

/// Row 38: a worker that could not renew its lock was taken for dead; the job ran twice.
#[test]
fn case_38_a_server_that_stood_still_completes_each_job_once() {
    let server = Server::start(TRIAL);
    let client = server.client();
    let ids: Vec<String> = (0..20).map(|_| client.submit(json!({"do": "sleep", "ms": 300}))).collect();
    let mut stream = client.stream(&format!("/api/jobs/{}/events", ids[19]), None);
    assert!(stream.any(|event| event.event == "job.started"));
    server.signal(Signal::STOP);
    while !server.is_stopped() {
        std::thread::yield_now();
    }
    if is_long() {
        Command::new("sleep").arg("60").status().expect("time passes");
    }
    server.signal(Signal::CONT);
    for id in &ids {
        let job = client.ended(id);
        assert_eq!((&job["status"], &job["attempts"]), (&json!("completed"), &json!(1)), "{job}");
    }
    let ends = ends(&client);
    assert!(ids.iter().all(|id| ends[id] == ["job.completed"]));
}
