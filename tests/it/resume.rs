//! A client that is cut, whose server is killed, and that resumes, has seen the log: each event once, in order.

use serde_json::{Value, json};

use crate::support::{Server, TRIAL};

/// The ids of events, in order.
fn ids(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| event["event_id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_job_s_stream_goes_on_where_it_was_cut_over_a_killed_server() {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    // Steps far enough apart that the server dies in the middle of them.
    let id = client.submit(json!({"do": "progress", "steps": 20, "pause_ms": 50}));
    let path = format!("/api/jobs/{id}/events");
    let mut seen = Vec::new();
    let mut stream = client.stream(&path, None);
    assert_eq!(stream.status, 200);
    seen.extend(stream.by_ref().take(4));
    drop(stream);
    server.crash();
    let mut last = seen.last().and_then(|event| event.id.clone()).expect("an id");
    for _ in 0..3 {
        let mut stream = client.stream(&path, Some(&last));
        let more: Vec<_> = stream.by_ref().take(3).collect();
        last = more.last().and_then(|event| event.id.clone()).unwrap_or(last);
        seen.extend(more);
    }
    seen.extend(client.stream(&path, Some(&last)));
    assert_eq!(seen.last().expect("an end").event, "job.completed");
    let seen: Vec<Value> = seen.into_iter().map(|event| event.data).collect();
    assert_eq!(seen, client.pages(&path, None));
    assert_eq!(client.stream(&path, ids(&seen).last().map(String::as_str)).status, 204, "nothing will follow");
}

#[test]
fn the_feed_goes_on_over_kills_while_a_thousand_jobs_run_and_retry() {
    const JOBS: usize = 1_000;
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let mut seen: Vec<Value> = Vec::new();
    let mut last: Option<String> = None;
    let mut submitted = 0;
    let mut ended = 0;
    while ended < JOBS {
        let path = if last.is_some() { "/api/events" } else { "/api/events?last_event_id=earliest" };
        let mut stream = client.stream(path, last.as_deref());
        assert_eq!(stream.status, 200);
        let round = (submitted + 250).min(JOBS);
        while submitted < round {
            let payload = json!({"do": "fail", "times": submitted % 3});
            client.submit(payload);
            submitted += 1;
        }
        let wanted = if submitted < JOBS { 400 } else { usize::MAX };
        let mut came = 0;
        while came < wanted && ended < JOBS {
            let Some(event) = stream.next() else { break };
            assert_ne!(event.event, "stream.reset", "nothing was lost, so nothing is reset");
            ended += usize::from(matches!(&*event.event, "job.completed" | "job.failed" | "job.canceled"));
            last = event.id.clone();
            seen.push(event.data);
            came += 1;
        }
        drop(stream);
        if submitted < JOBS {
            server.crash();
        }
    }
    let log = client.pages("/api/events", None);
    assert_eq!(ids(&seen), ids(&log[..seen.len()]), "each once, in order");
    assert_eq!(seen, log[..seen.len()]);
    let failed = log.iter().filter(|event| event["type"] == "job.failed").count();
    assert_eq!(failed, 0, "interrupted attempts cost no job its life");
}
