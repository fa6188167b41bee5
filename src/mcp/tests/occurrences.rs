//! The Events extension by polls and streams: the same log as everywhere, from one cursor.

use serde_json::{Value, json};

use super::reader::{BOTH, Reader};
use super::rig::{Rig, message, modern, modern_headers, request};
use crate::job::{EVENT_TYPES, Millis};
use crate::mcp::occurrences::{Codes, Dialect, HEARTBEAT_EVERY};
use crate::mcp::{Answer, Options, occurrences};
use crate::service::Viewer;

fn ann() -> Viewer {
    Viewer { principal: "ann".into(), sees_all: false }
}

impl Rig {
    /// Calls a method of 2026-07-28 as this viewer, with both forms accepted.
    pub async fn modern_as(&self, viewer: Viewer, method: &str, params: Value, more: &[(&str, &str)]) -> Answer {
        let body = modern(method, params, json!({}));
        let mut headers: Vec<(&str, &[u8])> = vec![("content-type", b"application/json"), (BOTH.0, BOTH.1.as_bytes())];
        let all = modern_headers(method, None);
        headers.extend(all.iter().chain(more).map(|(name, value)| (*name, value.as_bytes())));
        self.request_as(viewer, "POST", &headers, body.to_string().as_bytes()).await
    }

    /// The result of a poll.
    pub async fn poll(&self, params: Value) -> Value {
        let answer = message(&self.modern_as(Viewer::local(), "events/poll", params, &[]).await);
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        answer["result"].clone()
    }

    /// The cursor of now.
    pub async fn now_cursor(&self) -> String {
        let polled = self.poll(json!({"name": "job.event"})).await;
        assert_eq!((&polled["events"], &polled["truncated"]), (&json!([]), &json!(false)));
        polled["cursor"].as_str().expect("a cursor").to_owned()
    }

    /// The code of the error that a call is answered with.
    async fn code(&self, method: &str, params: Value) -> i64 {
        let answer = message(&self.modern_as(Viewer::local(), method, params, &[]).await);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
    }

    async fn follow(&self, params: Value) -> Reader {
        Reader::of(self.modern_as(Viewer::local(), "events/stream", params, &[]).await)
    }
}

impl Reader {
    /// The next message's last word of its method, and its params.
    pub async fn told(&mut self) -> (String, Value) {
        let message = self.next().await.and_then(|event| event.data).expect("a message");
        let method = message["method"].as_str().unwrap_or_default();
        (method.rsplit('/').next().unwrap_or_default().to_owned(), message["params"].clone())
    }
}

fn names(polled: &Value) -> Vec<&str> {
    polled["events"].as_array().expect("a list").iter().map(|event| event["data"]["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_extension_is_announced_only_where_it_is_on() {
    for (enabled, legacy) in [(true, true), (true, false), (false, true)] {
        let dialect = Dialect { advertise_legacy_capability: legacy, ..Dialect::default() };
        let events = occurrences::Options { enabled, dialect, ..occurrences::Options::default() };
        let rig = Rig::with(Options { events, ..Options::default() }).await;
        let answer = message(&rig.modern_as(Viewer::local(), "server/discover", json!({}), &[]).await);
        let told = &answer["result"]["capabilities"];
        assert_eq!(told["extensions"].get("io.modelcontextprotocol/events").is_some(), enabled);
        assert_eq!(told.get("events").is_some(), enabled && legacy);
        let answer = rig.modern_as(Viewer::local(), "events/list", json!({}), &[]).await;
        assert_eq!(answer.status, if enabled { 200 } else { 404 });
    }
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let answer = rig.post(&[("mcp-session-id", &session)], &request(1, "events/list", json!({}))).await;
    assert_eq!(message(&answer)["error"]["code"], -32601, "sessions have no events");
}

#[tokio::test]
async fn every_type_is_listed_and_its_occurrences_fit_the_schema_that_is_told() {
    let rig = Rig::new().await;
    let answer = message(&rig.modern_as(Viewer::local(), "events/list", json!({}), &[]).await);
    let kinds = answer["result"]["events"].as_array().expect("a list");
    let listed: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().expect("a name")).collect();
    assert_eq!(listed, EVENT_TYPES.into_iter().chain(["job.event"]).collect::<Vec<_>>());
    assert_eq!(rig.code("events/list", json!({"cursor": "x"})).await, -32602);

    let cursor = rig.now_cursor().await;
    let id = rig.start(json!({"result": 7})).await;
    rig.ended(&id).await;
    let all = rig.poll(json!({"name": "job.event", "cursor": cursor})).await;
    assert_eq!(names(&all), ["job.created", "job.started", "job.completed"]);
    for event in all["events"].as_array().expect("a list") {
        assert_eq!((&event["name"], &event["eventId"]), (&json!("job.event"), &event["data"]["event_id"]));
        assert_eq!((&event["timestamp"], event.get("cursor")), (&event["data"]["timestamp"], None));
        for name in [event["data"]["type"].as_str().expect("a type"), "job.event"] {
            let kind = kinds.iter().find(|kind| kind["name"] == name).expect("is listed");
            assert!(jsonschema::is_valid(&kind["payloadSchema"], &event["data"]), "{event}");
            let arguments = json!({"jobId": id, "type": event["data"]["type"]});
            assert!(jsonschema::is_valid(&kind["inputSchema"], &arguments));
            let one = rig.poll(json!({"name": name, "arguments": arguments, "cursor": cursor})).await;
            assert_eq!(one["events"][0]["eventId"], event["eventId"], "the same id under every name");
            assert_eq!(names(&one).len(), 1);
        }
    }
}

#[tokio::test]
async fn a_poll_goes_on_where_the_last_one_ended_also_without_a_match_and_in_parts() {
    let rig = Rig::new().await;
    let cursor = rig.now_cursor().await;
    let first = rig.start(json!({"result": 1})).await;
    rig.ended(&first).await;
    let other = rig.start(json!({"result": 2})).await;
    rig.ended(&other).await;
    let none = rig.poll(json!({"name": "job.failed", "cursor": cursor})).await;
    assert_eq!((names(&none).len(), &none["hasMore"]), (0, &json!(false)));
    assert_ne!(none["cursor"], json!(cursor), "what was looked at need not be looked at again");

    let (mut seen, mut from) = (Vec::new(), json!(cursor));
    loop {
        let part = rig.poll(json!({"name": "job.event", "cursor": from, "maxEvents": 2})).await;
        assert!(names(&part).len() <= 2 && part["truncated"] == false);
        seen.extend(names(&part).iter().map(|name| (*name).to_owned()));
        from = part["cursor"].clone();
        if part["hasMore"] == false {
            break;
        }
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
    let quiet = rig.poll(json!({"name": "job.event", "cursor": from})).await;
    assert_eq!((names(&quiet).len(), &quiet["nextPollMs"]), (0, &json!(5_000)));
    assert_eq!(rig.code("events/poll", json!({"name": "job.event", "maxEvents": 0})).await, -32602);
    assert_eq!(rig.code("events/poll", json!({"name": "job.event", "cursor": 7})).await, -32602);
    assert_eq!(rig.code("events/poll", json!({"name": "job.unheard", "cursor": from})).await, -32023);
}

#[tokio::test]
async fn a_cursor_that_leads_nowhere_starts_again_and_says_so() {
    let rig = Rig::new().await;
    let cursor = rig.now_cursor().await;
    let id = rig.start(json!({"result": 1})).await;
    rig.ended(&id).await;
    let epoch = cursor.split('-').next().expect("an epoch");
    for lost in ["", "nonsense", "00000000-1", &format!("{epoch}-999999"), &format!("{epoch}-01")] {
        let again = rig.poll(json!({"name": "job.event", "cursor": lost})).await;
        assert_eq!((names(&again).len(), &again["truncated"]), (3, &json!(true)), "{lost}");
        let mut stream = rig.follow(json!({"name": "job.event", "cursor": lost})).await;
        let (what, params) = stream.told().await;
        assert_eq!((what.as_str(), &params["truncated"]), ("active", &json!(true)), "{lost}");
        assert_eq!(stream.told().await.1["eventId"], again["events"][0]["eventId"]);
    }
}

#[tokio::test]
async fn what_is_older_than_asked_for_is_passed_over_and_that_is_said() {
    let rig = Rig::new().await;
    let cursor = rig.now_cursor().await;
    let old = rig.start(json!({"result": 1})).await;
    rig.ended(&old).await;
    rig.clock.advance(Millis::seconds(3_600));
    let new = rig.start(json!({"result": 1})).await;
    rig.ended(&new).await;
    let params = json!({"name": "job.created", "cursor": cursor, "maxAgeMs": 60_000});
    let polled = rig.poll(params.clone()).await;
    assert_eq!((&polled["truncated"], &polled["events"][0]["data"]["job_id"]), (&json!(true), &json!(new)));
    let mut stream = rig.follow(params).await;
    assert_eq!(stream.told().await.1["truncated"], true);
    assert_eq!(stream.told().await.1["data"]["job_id"], json!(new));
    let whole = rig.poll(json!({"name": "job.created", "cursor": cursor, "maxAgeMs": 7_200_000})).await;
    assert_eq!((names(&whole).len(), &whole["truncated"]), (2, &json!(false)));
}

#[tokio::test]
async fn another_principals_jobs_are_as_quiet_as_unknown_ones() {
    let rig = Rig::new().await;
    let cursor = rig.now_cursor().await;
    let id = rig.start(json!({"result": 1})).await;
    rig.ended(&id).await;
    for job in [id.as_str(), "0190b5a0-0000-7000-8000-000000000000", "nonsense"] {
        let params = json!({"name": "job.event", "arguments": {"jobId": job}, "cursor": cursor});
        let hers = message(&rig.modern_as(ann(), "events/poll", params, &[]).await)["result"].take();
        assert_eq!((names(&hers).len(), &hers["truncated"], &hers["nextPollMs"]), (0, &json!(false), &json!(30_000)));
    }
    let hers = rig.modern_as(ann(), "events/poll", json!({"name": "job.event", "cursor": cursor}), &[]).await;
    assert_eq!(message(&hers)["result"]["events"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_that_it_is_open_then_what_happens_then_that_it_lives_and_at_last_its_result() {
    let rig = Rig::new().await;
    let params = json!({"name": "job.completed"});
    let mut stream = rig.follow(params).await;
    let (what, opened) = stream.told().await;
    assert_eq!((what.as_str(), &opened["truncated"]), ("active", &json!(false)));
    let id = rig.start(json!({"result": 1})).await;
    // The runtime's clock moves by itself while everybody waits for a thread.
    let (what, event) = loop {
        let told = stream.told().await;
        if told.0 != "heartbeat" {
            break told;
        }
    };
    assert_eq!(
        (what.as_str(), &event["name"], &event["data"]["job_id"]),
        ("event", &json!("job.completed"), &json!(id))
    );
    assert_eq!(event["cursor"], event["eventId"]);

    let failing = rig.start(json!({"fail": "no"})).await;
    rig.ended(&failing).await;
    assert_eq!(stream.told().await.0, "heartbeat");
    let before = tokio::time::Instant::now();
    let (what, beat) = stream.told().await;
    assert_eq!(what, "heartbeat");
    // The runtime's timers are a millisecond coarse.
    assert!(before.elapsed() <= HEARTBEAT_EVERY + std::time::Duration::from_millis(1));
    assert_eq!(beat["cursor"].as_str(), Some(rig.now_cursor().await.as_str()), "it tells how far was looked");
    stream.0.close();
    let end = stream.rest().await.pop().and_then(|event| event.data).expect("a result");
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(1), &json!("complete")));
    for params in [opened, event, beat, end["result"].clone()] {
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "a number stays a number");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_stream_is_said_before_there_is_one() {
    let rig = Rig::new().await;
    for (params, code) in [
        (json!({"name": "job.unheard"}), -32023),
        (json!({"name": "job.event", "arguments": {"jobId": 1}}), -32602),
        (json!({}), -32602),
    ] {
        assert_eq!(rig.code("events/stream", params).await, code);
    }
    let mut headers = modern_headers("events/stream", None);
    headers.push(("accept", "application/json"));
    let answer = rig.post(&headers, &modern("events/stream", json!({"name": "job.event"}), json!({}))).await;
    assert_eq!(answer.status, 406, "a stream has no other form");
}

#[tokio::test]
async fn thousands_of_streams_are_thousands_of_cursors_and_no_tasks() {
    let rig = Rig::new().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (mut streams, before) = (Vec::new(), tasks());
    for _ in 0..2_000 {
        let mut stream = rig.follow(json!({"name": "job.completed"})).await;
        stream.told().await;
        streams.push(stream);
    }
    assert_eq!(tasks(), before, "none has a task of its own");
    let id = rig.start(json!({"result": 1})).await;
    for stream in &mut streams {
        assert_eq!(stream.told().await.1["data"]["job_id"], json!(id));
    }
}

#[tokio::test]
async fn the_dialect_decides_about_codes_names_and_who_is_served() {
    let dialect =
        Dialect { codes: Codes::Sketch, require_mcp_name: true, require_client_capability: true, ..Dialect::default() };
    let strict = Rig::with(Options {
        events: occurrences::Options { dialect, ..occurrences::Options::default() },
        ..Options::default()
    })
    .await;
    let undeclared = strict.modern_as(Viewer::local(), "events/list", json!({}), &[]).await;
    assert_eq!((undeclared.status, &message(&undeclared)["error"]["code"]), (400, &json!(-32021)));
    let mut body = modern("events/poll", json!({"name": "job.nothing"}), json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/events": {}}});
    let headers = modern_headers("events/poll", None);
    let nameless = strict.post(&headers, &body).await;
    assert_eq!((nameless.status, &message(&nameless)["error"]["code"]), (400, &json!(-32020)));
    let named = strict.post(&modern_headers("events/poll", Some("job.nothing")), &body).await;
    let data = json!({"kind": "event", "name": "job.nothing"});
    assert_eq!(message(&named)["error"], json!({"code": -32011, "message": "NotFound", "data": data}));

    let lax = Rig::new().await;
    for (name, status) in [("job.event", 200), ("=?base64?am9iLmV2ZW50?=", 200), ("job.failed", 400)] {
        let answer =
            lax.modern_as(Viewer::local(), "events/poll", json!({"name": "job.event"}), &[("mcp-name", name)]).await;
        assert_eq!(answer.status, status, "{name}");
    }
}
