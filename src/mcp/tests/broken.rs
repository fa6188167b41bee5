//! Streams that break off: what is canceled meanwhile, what is told again, and which of two goes on.

use serde_json::{Value, json};

use super::reader::{BOTH, Event, Reader, answers};
use super::rig::{Rig, message, request};

/// Calls `quick` in a session; its stream and the id of its priming event.
async fn call(rig: &Rig, session: &str, arguments: Value) -> (Reader, String) {
    let params = json!({"name": "quick", "arguments": arguments, "_meta": {"progressToken": "p"}});
    let mut stream =
        Reader::of(rig.post(&[BOTH, ("mcp-session-id", session)], &request(1, "tools/call", params)).await);
    let primed = stream.next().await.and_then(|event| event.id).expect("a priming event");
    (stream, primed)
}

async fn cancel(rig: &Rig, session: &str) {
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(rig.post(&[("mcp-session-id", session)], &cancel).await.status, 202);
}

#[tokio::test]
async fn a_cancel_finds_the_call_whose_stream_is_broken_and_a_canceled_call_is_never_answered() {
    // A cancel while the stream was broken was passed over; one with the stream open was followed by an answer on a resume.
    for is_broken in [true, false] {
        let rig = Rig::new().await;
        let session = rig.open("2025-11-25").await;
        let (stream, primed) = call(&rig, &session, json!({"hold": true})).await;
        rig.holds().await;
        if is_broken {
            drop(stream);
            cancel(&rig, &session).await;
        } else {
            let (rest, ()) = tokio::join!(stream.rest(), cancel(&rig, &session));
            assert!(answers(&rest).is_empty(), "{rest:?}");
        }
        rig.held.stopped().await;
        assert_eq!(rig.resume(&session, &primed).await.status, 400);
        rig.let_go(&json!({}));
        let rig = rig.restart().await;
        assert_eq!(rig.resume(&session, &primed).await.status, 400, "after a restart too");
    }
}

#[tokio::test]
async fn a_canceled_wait_for_jobs_has_no_answer_to_resume() {
    // No job says that it was canceled.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    let params = json!({"name": "wait_for_jobs", "arguments": {"jobIds": [id], "timeoutMs": 600_000}});
    let headers = [BOTH, ("mcp-session-id", session.as_str())];
    let mut stream = Reader::of(rig.post(&headers, &request(1, "tools/call", params)).await);
    let primed = stream.next().await.expect("the priming event").id.expect("an id");
    let (rest, ()) = tokio::join!(stream.rest(), cancel(&rig, &session));
    assert!(answers(&rest).is_empty(), "{rest:?}");
    assert_eq!(rig.resume(&session, &primed).await.status, 400);
    rig.let_go(&json!({}));
    assert_eq!(rig.ended(&id).await, "completed");
}

#[tokio::test]
async fn of_two_calls_with_one_id_each_has_its_own_stream() {
    // A resume of the first ended the stream of the second.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let (first, primed) = call(&rig, &session, json!({"hold": true})).await;
    let (second, _) = call(&rig, &session, json!({"hold": true})).await;
    drop(first);
    let resumed = Reader::of(rig.resume(&session, &primed).await);
    while rig.held.len() < 2 {
        tokio::task::yield_now().await;
    }
    rig.let_go(&json!({}));
    let (resumed, second) = tokio::join!(resumed.rest(), second.rest());
    assert_eq!((answers(&resumed).len(), answers(&second).len()), (1, 1));
}

#[tokio::test]
async fn a_log_line_that_was_told_is_not_told_again() {
    // Whoever's connection broke after every few lines never heard of the answer.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let set = request(2, "logging/setLevel", json!({"level": "info"}));
    rig.post(&[("mcp-session-id", &session)], &set).await;
    let (mut stream, mut last) = call(&rig, &session, json!({"log": "debug: no\na\nb\ndebug: no\nc\nd\n"})).await;
    let (mut lines, mut answered) = (Vec::new(), 0);
    while answered == 0 {
        // Two events, and then it breaks.
        for _ in 0..2 {
            let Some(Event { id, data: Some(data) }) = stream.next().await else { break };
            last = id.expect("an id");
            lines.extend((data["method"] == "notifications/message").then(|| data["params"]["data"].clone()));
            answered += usize::from(data.get("result").is_some());
        }
        if answered == 0 {
            stream = Reader::of(rig.resume(&session, &last).await);
        }
    }
    assert_eq!(lines, ["a", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn progress_comes_on_and_rises_when_a_job_counts_anew_over_a_resume_too() {
    // After 90 percent and then the first of four steps nothing more was told, and after a resume a lower number.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let task = json!({"name": "start", "arguments": {"hold": true}, "task": {}});
    rig.post(&[("mcp-session-id", &session)], &request(1, "tools/call", task)).await;
    rig.holds().await;
    let wait = json!({"taskId": rig.held.job(), "_meta": {"progressToken": "p"}});
    let wait = request(2, "tasks/result", wait);
    let mut stream = Reader::of(rig.post(&[BOTH, ("mcp-session-id", &session)], &wait).await);
    let mut last = stream.next().await.and_then(|event| event.id).expect("a priming event");
    let progress = |percent, step| crate::job::Progress { percent, step, total_steps: step.map(|_| 4), message: None };
    let viewer = crate::service::Viewer::local();
    let (job, second) = (rig.held.job(), crate::job::Millis::seconds(1));
    let mut told = vec![-1.0];
    for (percent, step) in [(Some(90.0), None), (None, Some(1))] {
        rig.progress(progress(percent, step));
        let is_known = async || {
            let head = rig.service.job(&viewer, job).await.expect("a job");
            head.job.progress.as_ref().is_some_and(|progress| progress.step == step)
        };
        while !is_known().await {
            rig.clock.advance(second);
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            let Event { id, data } = stream.next().await.expect("progress");
            last = id.expect("an id");
            told.push(data.expect("a message")["params"]["progress"].as_f64().expect("a number"));
            rig.clock.advance(crate::job::Millis::seconds(10));
        }
        stream = Reader::of(rig.resume(&session, &last).await);
    }
    let next = stream.next().await.and_then(|event| event.data).expect("progress");
    told.extend(next["params"]["progress"].as_f64());
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]) && told[4..].iter().all(|told| *told > 90.0), "{told:?}");
}

#[tokio::test]
async fn what_is_told_of_one_event_on_a_standing_stream_has_ids_of_its_own_and_none_of_it_is_lost() {
    // Two resources of one job, and three lists after one reload, had one id each: a resume between them lost the rest.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    for uri in [format!("job://{id}"), format!("job://{id}/result")] {
        let subscribe = request(1, "resources/subscribe", json!({"uri": uri}));
        assert_eq!(rig.post(&[("mcp-session-id", &session)], &subscribe).await.status, 200);
    }
    let listen = [("mcp-session-id", session.as_bytes()), ("accept", b"text/event-stream".as_slice())];
    let mut standing = Reader::of(rig.request("GET", &listen, b"").await);
    let opened = standing.next().await.and_then(|event| event.id).expect("an id");
    rig.let_go(&json!({}));
    let first = standing.next().await.expect("news");
    let second = standing.next().await.expect("news");
    let id_of = |event: &Event| event.id.clone().expect("an id");
    assert!(id_of(&first) != id_of(&second) && id_of(&first) != opened);
    let mut again = Reader::of(rig.resume(&session, &id_of(&first)).await);
    again.next().await.expect("an id");
    let both = [again.next().await.expect("news").data, again.next().await.expect("news").data];
    assert!(both.contains(&second.data), "{both:?}");

    let fewer = vec![super::rig::tool("start", crate::job::Millis(0))];
    rig.service.set_catalogue(std::sync::Arc::new(crate::service::Catalogue::new(fewer).expect("schemas")));
    let prompt = crate::mcp::prompts::Prompt {
        name: "q".into(),
        title: None,
        description: "q".into(),
        arguments: Vec::new(),
        messages: Vec::new(),
    };
    rig.endpoint.reload(Default::default(), vec![prompt]);
    let tools = again.next().await.expect("news");
    let mut after = Reader::of(rig.resume(&session, &id_of(&tools)).await);
    after.next().await.expect("an id");
    let prompts = after.next().await.expect("news");
    let method = |event: &Event| event.data.as_ref().expect("a message")["method"].clone();
    assert_eq!(
        (method(&tools), method(&prompts)),
        (json!("notifications/tools/list_changed"), json!("notifications/prompts/list_changed"))
    );
}

#[tokio::test]
async fn who_waits_for_json_is_answered_at_once_when_the_server_ends() {
    // It was cut off without a response.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let headers = [("mcp-session-id", session.as_str())];
    let quick = json!({"name": "quick", "arguments": {"hold": true}});
    let call = request(1, "tools/call", quick.clone());
    let modern = super::rig::modern("tools/call", quick, json!({}));
    let modern_headers = super::rig::modern_headers("tools/call", Some("quick"));
    let ids = [rig.start(json!({"hold": true})).await];
    let wait = json!({"name": "wait_for_jobs", "arguments": {"jobIds": ids, "timeoutMs": 600_000}});
    let wait = request(2, "tools/call", wait);
    let drain = async {
        while rig.held.len() < 3 {
            tokio::task::yield_now().await;
        }
        rig.endpoint.end_waits();
    };
    let (called, newest, waited, ()) =
        tokio::join!(rig.post(&headers, &call), rig.post(&modern_headers, &modern), rig.post(&headers, &wait), drain);
    for called in [called, newest] {
        assert_eq!(message(&called)["result"]["structuredContent"]["status"], "in_progress");
    }
    assert_eq!(message(&waited)["result"]["structuredContent"]["pending"], json!(ids));
    assert!(!rig.held.is_stopped(), "nothing was given up");
}
