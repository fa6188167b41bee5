//! Answers that come as streams: what is said before them, and that they come once, whatever breaks off.

use std::future::poll_fn;

use serde_json::{Value, json};

use super::reader::{BOTH, Event, Reader, answers};
use super::rig::{Rig, message, request};
use crate::mcp::Answer;

impl Rig {
    /// Calls `quick` with both forms accepted.
    async fn stream(&self, session: &str, id: Value, arguments: Value, meta: Value) -> Answer {
        let params = json!({"name": "quick", "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.post(&[BOTH, ("mcp-session-id", session)], &body).await
    }
}

#[tokio::test]
async fn case_21_the_answer_comes_exactly_once_whenever_the_client_comes_back() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let mut broken = Reader::of(rig.stream(&session, json!("a"), json!({"hold": true}), json!({})).await);
    let primed = broken.next().await.expect("a priming event");
    assert!(primed.data.is_none());
    let last = primed.id.expect("an id");
    drop(broken);
    rig.holds().await;

    // During the call, and after another one was made meanwhile.
    let during = Reader::of(rig.resume(&session, &last).await);
    let other = Reader::of(rig.stream(&session, json!("b"), json!({"result": {"n": 2}}), json!({})).await).rest().await;
    assert_eq!(answers(&other)[0]["result"]["structuredContent"], json!({"n": 2}));
    rig.let_go(&json!({"n": 1}));
    let during = during.rest().await;
    assert_eq!(answers(&during).len(), 1);
    assert_eq!(answers(&during)[0]["id"], "a");
    assert_eq!(answers(&during)[0]["result"]["structuredContent"], json!({"n": 1}));

    // After it has ended, and after a restart.
    let after = Reader::of(rig.resume(&session, &last).await).rest().await;
    assert_eq!(answers(&after), answers(&during));
    let rig = rig.restart().await;
    let restarted = Reader::of(rig.resume(&session, &last).await).rest().await;
    assert_eq!(answers(&restarted), answers(&during));

    // What was delivered is not delivered again, and the client is told so in a way that ends its asking (case 19).
    let end = restarted.last().and_then(|event| event.id.clone()).expect("an id");
    let answer = rig.resume(&session, &end).await;
    assert_eq!(answer.status, 400);
    assert!(answer.stream.is_none());
}

#[tokio::test]
async fn a_stream_that_is_taken_up_again_while_it_is_open_goes_on_once() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let mut posted = Reader::of(rig.stream(&session, json!("a"), json!({"hold": true}), json!({})).await);
    let last = posted.next().await.and_then(|event| event.id).expect("an id");
    rig.holds().await;
    let first = Reader::of(rig.resume(&session, &last).await);
    let second = Reader::of(rig.resume(&session, &last).await);
    assert!(answers(&posted.rest().await).is_empty(), "the call's own stream ends");
    assert!(answers(&first.rest().await).is_empty(), "and the first that took it up");
    rig.let_go(&json!({"n": 1}));
    assert_eq!(answers(&second.rest().await)[0]["result"]["structuredContent"], json!({"n": 1}));
}

#[tokio::test]
async fn case_19_ids_that_name_no_stream_of_the_session_are_refused() {
    let rig = Rig::new().await;
    let (session, other) = (rig.open("2025-11-25").await, rig.open("2025-11-25").await);
    let mut stream = Reader::of(rig.stream(&other, json!(1), json!({"hold": true}), json!({})).await);
    let foreign = stream.next().await.and_then(|event| event.id).expect("an id");
    for bad in [foreign.as_str(), "x", "eyJ.1", "a.b.c", &"x".repeat(100_000), "0000abcd-7"] {
        let answer = rig.resume(&session, bad).await;
        assert_eq!((answer.status, answer.stream.is_none()), (400, true), "{}", &bad[..bad.len().min(60)]);
    }
    assert_eq!(rig.resume("0123", "x").await.status, 404);
    let headers: [(&str, &[u8]); 2] = [("accept", b"application/json"), ("mcp-session-id", session.as_bytes())];
    assert_eq!(rig.request("GET", &headers, b"").await.status, 406);
    assert_eq!(rig.request("GET", &[("mcp-protocol-version", b"2026-07-28")], b"").await.status, 405);
}

#[tokio::test]
async fn only_2025_11_25_begins_with_an_event_without_data() {
    let rig = Rig::new().await;
    for (revision, primes) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let session = rig.open(revision).await;
        let events = Reader::of(rig.stream(&session, json!(0), json!({}), json!({})).await).rest().await;
        assert_eq!(events.iter().any(|event| event.data.is_none()), primes, "{revision}");
        assert!(events.iter().all(|event| event.id.is_some()));
        assert_eq!(answers(&events)[0]["id"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn case_29_and_33_progress_comes_for_a_token_and_rises_and_ends_before_the_answer() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    for token in [json!(0), json!("p")] {
        let meta = json!({"progressToken": token});
        let mut stream = Reader::of(rig.stream(&session, json!(1), json!({"hold": true}), meta).await);
        let (mut told, mut beats) = (Vec::new(), 0);
        while let Some(event) = stream.next().await {
            let Some(data) = event.data else { continue };
            if data["method"] == "notifications/progress" {
                assert_eq!(data["params"]["progressToken"], token);
                told.push(data["params"]["progress"].as_f64().expect("a number"));
                beats += 1;
                // The clock of the jobs is moved by hand, the runtime's moves by itself while everybody waits.
                rig.clock.advance(crate::job::Millis::seconds(10));
                if beats == 4 {
                    rig.holds().await;
                    rig.let_go(&json!({}));
                }
            } else {
                assert_eq!(data["id"], 1);
                assert!(stream.next().await.is_none(), "nothing follows the answer");
                break;
            }
        }
        assert!(told.len() >= 4 && told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
    }
    let events = Reader::of(rig.stream(&session, json!(2), json!({}), json!({})).await).rest().await;
    assert!(events.iter().filter_map(|event| event.data.as_ref()).all(|data| data.get("id").is_some()));
}

#[tokio::test(start_paused = true)]
async fn the_last_step_is_told_before_the_answer_although_the_job_ended_with_it() {
    // A job that ended right after its fourth step told 1/4, 2/4, 3/4, and then its result.
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let meta = json!({"progressToken": "p"});
    let mut stream = Reader::of(rig.stream(&session, json!(1), json!({"hold": true}), meta).await);
    // The priming event, and where the job is so far.
    for _ in 0..2 {
        stream.next().await.expect("an event");
    }
    rig.holds().await;
    let message = Some("wrapping".into());
    rig.progress(crate::job::Progress { step: Some(4), total_steps: Some(4), percent: None, message });
    rig.let_go(&json!({"n": 1}));
    let rest = stream.rest().await;
    let told: Vec<_> = rest.iter().filter_map(|event| event.data.as_ref()).collect();
    let step = json!({"progressToken": "p", "progress": 4, "total": 4, "message": "wrapping"});
    assert_eq!((told.len(), &told[0]["params"], &told[1]["id"]), (2, &step, &json!(1)), "{told:?}");
}

#[tokio::test]
async fn a_canceled_request_ends_without_an_answer_and_its_job_with_it() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let mut stream = Reader::of(rig.stream(&session, json!("x"), json!({"hold": true}), json!({})).await);
    stream.next().await.expect("a priming event");
    rig.holds().await;
    let cancel =
        |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for unknown in [json!("y"), json!(7), json!(null)] {
        assert_eq!(rig.post(&[("mcp-session-id", &session)], &cancel(unknown)).await.status, 202);
    }
    assert!(!rig.held.is_stopped());
    let (headers, x) = ([("mcp-session-id", session.as_str())], cancel(json!("x")));
    let rest = tokio::join!(stream.rest(), rig.post(&headers, &x)).0;
    assert!(answers(&rest).is_empty(), "{rest:?}");
    rig.held.stopped().await;
}

#[tokio::test]
async fn log_lines_come_before_the_answer_from_the_level_that_was_set() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let log = json!({"log": "debug: a\nwarning: b\nc\n"});
    let lines = |events: &[Event]| -> Vec<(Value, Value)> {
        let params = events
            .iter()
            .filter_map(|event| event.data.as_ref())
            .filter(|data| data["method"] == "notifications/message");
        params.map(|data| (data["params"]["level"].clone(), data["params"]["data"].clone())).collect()
    };
    let events = Reader::of(rig.stream(&session, json!(1), log.clone(), json!({})).await).rest().await;
    assert!(lines(&events).is_empty(), "nobody asked for them");
    let set = |level: Value| request(2, "logging/setLevel", json!({"level": level}));
    let headers = [("mcp-session-id", session.as_str())];
    assert_eq!(message(&rig.post(&headers, &set(json!("loud"))).await)["error"]["code"], -32602);
    assert_eq!(message(&rig.post(&headers, &set(json!("info"))).await)["result"], json!({}));
    let rig = rig.restart().await;
    let events = Reader::of(rig.stream(&session, json!(3), log, json!({})).await).rest().await;
    assert_eq!(lines(&events), [(json!("warning"), json!("b")), (json!("info"), json!("c"))]);
    assert!(events.last().and_then(|event| event.data.as_ref()).is_some_and(|data| data["id"] == 3));
}

#[tokio::test]
async fn a_batch_of_2025_03_26_is_answered_in_its_order_and_of_others_refused() {
    let rig = Rig::new().await;
    let session = rig.open("2025-03-26").await;
    let headers = [("mcp-session-id", session.as_str())];
    let call = json!({"name": "quick", "arguments": {"result": "done"}});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let batch =
        json!([request(1, "tools/call", call), note, request(2, "ping", json!({})), {"jsonrpc": "2.0", "id": 3}]);
    let answer = message(&rig.post(&headers, &batch).await);
    let answer = answer.as_array().expect("an array");
    assert_eq!(answer.iter().map(|one| one["id"].clone()).collect::<Vec<_>>(), [json!(1), json!(2), json!(3)]);
    assert_eq!(answer[0]["result"]["content"][0]["text"], "done");
    assert!(answer[0]["result"].get("structuredContent").is_none());
    assert_eq!(answer[2]["error"]["code"], -32600);
    assert_eq!(rig.post(&headers, &json!([note, note])).await.status, 202);
    assert_eq!(rig.post(&headers, &json!([])).await.status, 400);
    let many: Vec<_> = (0..=crate::mcp::BATCH_MAX as u64).map(|id| request(id, "ping", json!({}))).collect();
    assert_eq!(rig.post(&headers, &json!(many)).await.status, 400);
    let handshake = json!([request(1, "initialize", json!({"protocolVersion": "2025-03-26"}))]);
    assert_eq!(message(&rig.post(&headers, &handshake).await)[0]["error"]["code"], -32600);

    let newer = rig.open("2025-06-18").await;
    for headers in [vec![("mcp-session-id", newer.as_str())], vec![]] {
        assert_eq!(rig.post(&headers, &json!([request(1, "ping", json!({}))])).await.status, 400);
    }
    assert_eq!(rig.post(&[("mcp-session-id", "nobody")], &json!([note])).await.status, 404);
}

#[tokio::test]
async fn a_session_hears_of_the_resources_it_subscribed_to_also_after_a_restart() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let headers = [("mcp-session-id", session.as_str())];
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    let subscribe = |uri: &str| request(1, "resources/subscribe", json!({"uri": uri}));
    let uri = format!("job://{id}");
    assert_eq!(message(&rig.post(&headers, &subscribe(&uri)).await)["result"], json!({}));
    for unknown in ["job://0190b5a0-0000-7000-8000-000000000000", "job://x", "file:///etc/passwd"] {
        assert_eq!(message(&rig.post(&headers, &subscribe(unknown)).await)["error"]["code"], -32002);
    }
    let listen = [("mcp-session-id", session.as_bytes()), ("accept", b"text/event-stream".as_slice())];
    let first = rig.request("GET", &listen, b"").await;
    let mut standing = Reader::of(first);
    let cursor = standing.next().await.and_then(|event| event.id).expect("a cursor");
    rig.let_go(&json!({}));
    let told = standing.next().await.and_then(|event| event.data).expect("news");
    assert_eq!((&told["method"], &told["params"]["uri"]), (&json!("notifications/resources/updated"), &json!(uri)));

    let rig = rig.restart().await;
    let mut again = Reader::of(rig.resume(&session, &cursor).await);
    again.next().await.expect("a cursor");
    assert_eq!(again.next().await.and_then(|event| event.data), Some(told));
    // A newer stream takes the place of an older one, and the end of the session ends it.
    let mut newer = Reader::of(rig.request("GET", &listen, b"").await);
    newer.next().await.expect("a cursor");
    let (older_is_over, newer_waits) = tokio::join!(again.next(), async {
        let mut newer = Box::pin(newer.next());
        let waits = poll_fn(|cx| std::task::Poll::Ready(newer.as_mut().poll(cx).is_pending())).await;
        drop(newer);
        waits
    });
    assert!(older_is_over.is_none() && newer_waits);
    let (ended, gone) = tokio::join!(newer.next(), rig.request("DELETE", &listen[..1], b""));
    assert!(ended.is_none() && gone.status == 204);
}

#[tokio::test]
async fn a_session_hears_what_becomes_of_its_tasks_and_of_no_other_jobs() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let listen = [("mcp-session-id", session.as_bytes()), ("accept", b"text/event-stream".as_slice())];
    let mut standing = Reader::of(rig.request("GET", &listen, b"").await);
    let before = standing.next().await.and_then(|event| event.id).expect("a cursor");
    rig.start(json!({"hold": true})).await;
    let call = async |arguments: Value| {
        let params = json!({"name": "start", "arguments": arguments, "task": {}});
        let called = message(&rig.post(&[("mcp-session-id", &session)], &request(1, "tools/call", params)).await);
        called["result"]["task"]["taskId"].clone()
    };
    let (held, failed) = (call(json!({"hold": true})).await, call(json!({"fail": "no"})).await);
    let told = async |standing: &mut Reader| {
        let event = standing.next().await.expect("news");
        let data = event.data.expect("a message");
        assert_eq!(data["method"], "notifications/tasks/status");
        (data["params"]["taskId"].clone(), data["params"]["status"].clone(), event.id.expect("an id"))
    };
    let (task, status, cursor) = told(&mut standing).await;
    assert_eq!((&task, &status), (&failed, &json!("failed")));
    while rig.held.len() < 2 {
        tokio::task::yield_now().await;
    }
    rig.let_go(&json!({}));
    let (task, status, _) = told(&mut standing).await;
    assert_eq!((&task, &status), (&held, &json!("completed")));
    // Who comes back hears what followed, once.
    for (after, expected) in [(cursor, vec![&held]), (before, vec![&failed, &held])] {
        let mut again = Reader::of(rig.resume(&session, &after).await);
        again.next().await.expect("a cursor");
        for expected in expected {
            assert_eq!(told(&mut again).await.0, *expected);
        }
    }
}

#[tokio::test]
async fn a_listener_hears_what_it_opted_in_to_under_its_own_id_and_the_end() {
    let rig = Rig::new().await;
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    let uri = format!("job://{id}");
    let wanted = json!({"tasksOfOthers": true, "toolsListChanged": false, "resourceSubscriptions": [uri, "job://x", "test://y"]});
    let mut message = super::rig::modern("subscriptions/listen", json!({"notifications": wanted}), json!({}));
    message["id"] = json!("nine");
    let mut headers = super::rig::modern_headers("subscriptions/listen", None);
    headers.push(("accept", "application/json"));
    assert_eq!(rig.post(&headers, &message).await.status, 406, "a stream has no other form");
    headers.pop();
    headers.push(BOTH);
    let mut stream = Reader::of(rig.post(&headers, &message).await);
    let ack = stream.next().await.and_then(|event| event.data).expect("an acknowledgement");
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(ack["params"]["notifications"], json!({"resourceSubscriptions": [uri]}));
    rig.let_go(&json!({}));
    let news = stream.next().await.and_then(|event| event.data).expect("news");
    assert_eq!((&news["method"], &news["params"]["uri"]), (&json!("notifications/resources/updated"), &json!(uri)));
    stream.0.close();
    let end = stream.rest().await.pop().and_then(|event| event.data).expect("a result");
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("nine"), &json!("complete")));
    for message in [ack, news] {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "nine");
    }
}

#[tokio::test]
async fn who_listens_hears_of_a_list_that_is_another_and_of_no_other() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let listen = [("mcp-session-id", session.as_bytes()), ("accept", b"text/event-stream".as_slice())];
    let mut standing = Reader::of(rig.request("GET", &listen, b"").await);
    let before = standing.next().await.and_then(|event| event.id).expect("an id");
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true});
    let message = super::rig::modern("subscriptions/listen", json!({"notifications": wanted}), json!({}));
    let mut headers = super::rig::modern_headers("subscriptions/listen", None);
    headers.push(BOTH);
    let mut listener = Reader::of(rig.post(&headers, &message).await);
    let ack = listener.next().await.and_then(|event| event.data).expect("an acknowledgement");
    assert_eq!(ack["params"]["notifications"], wanted);

    // The same again is no news; one tool less is.
    rig.endpoint.reload(Default::default(), Vec::new());
    let fewer = vec![super::rig::tool("start", crate::job::Millis(0))];
    rig.service.set_catalogue(std::sync::Arc::new(crate::service::Catalogue::new(fewer).expect("schemas")));
    rig.endpoint.reload(Default::default(), Vec::new());
    for stream in [&mut standing, &mut listener] {
        let told = stream.next().await.and_then(|event| event.data).expect("news");
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
    // Who was away meanwhile hears of it on coming back.
    let mut again = Reader::of(rig.resume(&session, &before).await);
    again.next().await.expect("an id");
    let told = again.next().await.and_then(|event| event.data).expect("news");
    assert_eq!(told["method"], "notifications/tools/list_changed");
    let list = message_of(&rig, &session, "tools/list").await;
    assert_eq!(list["result"]["tools"][0]["name"], "start");
    assert!(list["result"]["tools"].as_array().is_some_and(|tools| tools.iter().all(|tool| tool["name"] != "quick")));
}

async fn message_of(rig: &Rig, session: &str, method: &str) -> Value {
    message(&rig.post(&[("mcp-session-id", session)], &request(9, method, json!({}))).await)
}

#[tokio::test(start_paused = true)]
async fn progress_rises_over_a_stream_that_broke_off_whatever_is_waited_for() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    for name in ["wait_for_jobs", "quick"] {
        let arguments =
            if name == "quick" { json!({"hold": true}) } else { json!({"jobIds": [id], "timeoutMs": 600_000}) };
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}});
        let headers = [BOTH, ("mcp-session-id", session.as_str())];
        let mut stream = Reader::of(rig.post(&headers, &request(1, "tools/call", params)).await);
        let mut last = stream.next().await.and_then(|event| event.id).expect("a priming event");
        let mut told = Vec::new();
        for _ in 0..2 {
            for _ in 0..2 {
                let event = stream.next().await.expect("progress");
                told.push(event.data.expect("a message")["params"]["progress"].as_f64().expect("a number"));
                last = event.id.expect("an id");
                rig.clock.advance(crate::job::Millis::seconds(10));
            }
            stream = Reader::of(rig.resume(&session, &last).await);
        }
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_one_job_tells_in_its_own_words_how_far_it_is() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.start(json!({"hold": true})).await;
    rig.holds().await;
    let other = rig.start(json!({"hold": true, "budget": 1})).await;
    let wait = async |ids: Value| {
        let params = json!({"name": "wait_for_jobs", "arguments": {"jobIds": ids, "timeoutMs": 600_000}, "_meta": {"progressToken": "p"}});
        let headers = [BOTH, ("mcp-session-id", session.as_str())];
        Reader::of(rig.post(&headers, &request(1, "tools/call", params)).await)
    };
    let said = async |stream: &mut Reader, expected: &str| loop {
        let event = stream.next().await.expect("progress");
        if event.data.is_some_and(|data| data["params"]["message"] == expected) {
            return;
        }
        rig.clock.advance(crate::job::Millis::seconds(10));
    };
    let mut one = wait(json!([id])).await;
    said(&mut one, "in_progress, attempt 1 of 5").await;
    rig.clock.advance(crate::job::Millis::seconds(10));
    let message = Some(format!("ranking {}", "é".repeat(200)).into());
    rig.progress(crate::job::Progress { step: Some(2), total_steps: Some(4), percent: Some(50.0), message });
    // Timers do not wait here for what other threads do: the wait would be over.
    while rig.result("get_job", json!({"jobId": id})).await["structuredContent"]["progress"]["step"] != 2 {
        tokio::task::yield_now().await;
    }
    said(&mut one, &format!("2/4 50% ranking {}", "é".repeat(56))).await;
    said(&mut wait(json!([id, other])).await, "0 of 2 jobs have ended").await;
}

#[tokio::test]
async fn case_28_a_stream_is_given_to_whoever_would_take_one() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    for (accept, status) in [(Some("*/*"), 200), (Some("text/*"), 200), (None, 200), (Some("application/json"), 406)] {
        let mut headers = vec![("mcp-session-id", session.as_bytes())];
        headers.extend(accept.map(|accept| ("accept", accept.as_bytes())));
        assert_eq!(rig.request("GET", &headers, b"").await.status, status, "{accept:?}");
    }
}

#[tokio::test]
async fn a_cancel_that_comes_before_the_answer_is_looked_for_is_heard_and_spares_the_job_of_a_key() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
    for (key, spared) in [(json!(null), false), (json!("mine"), true)] {
        let meta = if key.is_null() { json!({}) } else { json!({"longhaul/idempotencyKey": key}) };
        let stream = rig.stream(&session, json!("x"), json!({"hold": true, "budget": 1}), meta).await;
        // Nobody has polled the stream yet.
        assert_eq!(rig.post(&[("mcp-session-id", &session)], &cancel).await.status, 202);
        assert!(answers(&Reader::of(stream).rest().await).is_empty());
        // What became of the job was decided before the stream ended.
        let jobs = rig.service.jobs(&crate::service::Viewer::local(), Default::default()).await.expect("jobs").jobs;
        assert_eq!(jobs[0].job.cancel.is_none(), spared, "{key}");
    }
}
