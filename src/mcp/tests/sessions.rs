//! Sessions: whose they are, how long they live, and that a restart ends none of them.

use serde_json::{Value, json};

use super::rig::{Rig, message, request};
use crate::job::Millis;
use crate::mcp::SEEN_EVERY;
use crate::service::Viewer;
use crate::store::Store;

const DAY: Millis = Millis::seconds(24 * 3_600);

fn ping() -> Value {
    request(1, "ping", json!({}))
}

impl Rig {
    async fn ping(&self, session: &str) -> u16 {
        self.post(&[("mcp-session-id", session)], &ping()).await.status
    }
}

#[tokio::test]
async fn case_24_a_session_and_its_handles_outlive_the_server() {
    let rig = Rig::new().await;
    let session = rig.open("2025-06-18").await;
    let call = request(1, "tools/call", json!({"name": "start", "arguments": {"result": {"a": 1}}}));
    let handle = message(&rig.post(&[("mcp-session-id", &session)], &call).await);
    let id = handle["result"]["structuredContent"]["jobId"].clone();

    let rig = rig.restart().await;
    assert_eq!(rig.ping(&session).await, 200);
    let wait = json!({"name": "wait_for_jobs", "arguments": {"jobIds": [id], "timeoutMs": 60_000}});
    let waited = message(&rig.post(&[("mcp-session-id", &session)], &request(2, "tools/call", wait)).await);
    assert_eq!(waited["result"]["structuredContent"]["jobs"][0]["result"], json!({"a": 1}));
    // It still speaks the revision that was negotiated: bad arguments are an error there, not a result.
    let bad = request(3, "tools/call", json!({"name": "start", "arguments": {"budget": "many"}}));
    assert_eq!(message(&rig.post(&[("mcp-session-id", &session)], &bad).await)["error"]["code"], -32602);
}

#[tokio::test]
async fn case_24_a_session_lives_through_idle_days_and_ends_after_a_week() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    for _ in 0..10 {
        rig.clock.advance(DAY);
        assert_eq!(rig.ping(&session).await, 200);
    }
    rig.clock.advance(Millis(7 * DAY.0 + 1));
    assert_eq!(rig.ping(&session).await, 404);
    // The next client that opens one sweeps the dead one away, on disk too.
    rig.open("2025-11-25").await;
    loop {
        let cells = rig.store.cells("session/").expect("readable");
        if cells.iter().all(|(name, _)| !name.ends_with(&session)) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_disk_hears_rarely_that_a_session_is_used() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let stored = || rig.store.cells("session/").expect("readable");
    let at_first = stored();
    for _ in 0..10 {
        rig.clock.advance(Millis::seconds(60));
        assert_eq!(rig.ping(&session).await, 200);
    }
    assert_eq!(stored(), at_first);
    rig.clock.advance(SEEN_EVERY);
    assert_eq!(rig.ping(&session).await, 200);
    while stored() == at_first {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn case_25_an_unknown_session_is_404_on_every_verb_whatever_the_id_looks_like() {
    let rig = Rig::new().await;
    let long = vec![b'a'; 10_000];
    for id in [&b"unknown"[..], b"", &long, b"\xff\xfe", "größe".as_bytes(), b"a, b"] {
        for verb in ["POST", "GET", "DELETE"] {
            let headers: [(&str, &[u8]); 3] =
                [("mcp-session-id", id), ("content-type", b"application/json"), ("accept", b"text/event-stream")];
            let answer = rig.request(verb, &headers, ping().to_string().as_bytes()).await;
            assert_eq!(answer.status, 404, "{verb} {id:?}");
            assert_eq!(answer.content_type, Some("application/json"));
        }
    }
}

#[tokio::test]
async fn a_session_sent_twice_is_one_only_if_both_agree() {
    let rig = Rig::new().await;
    let (one, other) = (rig.open("2025-11-25").await, rig.open("2025-11-25").await);
    let twice = |a: &str, b: &str| [("mcp-session-id".to_owned(), a.to_owned()), ("mcp-session-id".into(), b.into())];
    for (headers, status) in [(twice(&one, &one), 200), (twice(&one, &other), 404)] {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(rig.post(&headers, &ping()).await.status, status);
    }
}

#[tokio::test]
async fn a_session_is_nobody_else_s() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let ann = Viewer { principal: "ann".into(), sees_all: false };
    for verb in ["POST", "GET", "DELETE"] {
        let headers: [(&str, &[u8]); 2] =
            [("mcp-session-id", session.as_bytes()), ("content-type", b"application/json")];
        let answer = rig.request_as(ann.clone(), verb, &headers, ping().to_string().as_bytes()).await;
        assert_eq!(answer.status, 404, "{verb}");
    }
    assert_eq!(rig.ping(&session).await, 200);
}

#[tokio::test]
async fn an_ended_session_stays_ended() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let header: (&str, &[u8]) = ("mcp-session-id", session.as_bytes());
    assert_eq!(rig.request("DELETE", &[header], b"").await.status, 204);
    assert_eq!(rig.request("DELETE", &[header], b"").await.status, 404);
    assert_eq!(rig.ping(&session).await, 404);
    let rig = rig.restart().await;
    assert_eq!(rig.ping(&session).await, 404);
}
