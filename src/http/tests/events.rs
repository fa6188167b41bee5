//! Streams and pages over the wire. What they hold is proved beside `events`; here, how they come and go.

use serde_json::{Value, json};

use super::{ROUND_TRIPS_MAX, Settings, Wire, World, with_tokens};
use crate::http::Options;
use crate::shutdown::Phase;

const STREAM: (&str, &str) = ("accept", "text/event-stream");

async fn opened(world: &World, path: &str, headers: &[(&str, &str)]) -> (Wire, u16, String) {
    let mut wire = world.connect().await;
    let mut all = vec![STREAM];
    all.extend(headers);
    wire.request("GET", path, &all, "").await;
    let (status, head) = wire.head().await.unwrap();
    (wire, status, head.to_lowercase())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobs_stream_tells_its_story_and_ends_with_it() {
    let world = World::start().await;
    let id = world.completed("1").await;
    let path = format!("/api/jobs/{id}/events");
    let answer = world.ask("GET", &path, &[STREAM], "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let types: Vec<_> = answer.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(types, ["job.created", "job.started", "job.completed"]);
    let last = answer.body.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let over = world.ask("GET", &path, &[STREAM, ("last-event-id", last)], "").await;
    assert_eq!((over.status, over.body.as_str()), (204, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_hold_what_the_stream_held() {
    let world = World::start().await;
    let id = world.completed("1").await;
    let stream = world.ask("GET", &format!("/api/jobs/{id}/events"), &[STREAM], "").await.body;
    let streamed: Vec<Value> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let mut paged = Vec::new();
    let mut path = "/api/events?limit=2".to_string();
    loop {
        let page = world.get(&path).await.json();
        paged.extend(page["events"].as_array().unwrap().clone());
        path = format!("/api/events?limit=2&last_event_id={}", page["cursor"].as_str().unwrap());
        if page["hasMore"] == json!(false) {
            break;
        }
    }
    assert_eq!(paged, streamed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_with_too_many_streams_is_told_and_gets_room_back() {
    let http = Options { max_streams: 1, ..with_tokens() };
    let world = World::with(Settings { http, ..Settings::default() }).await;
    let ann: &[_] = &[("authorization", "Bearer ann")];
    let (first, status, _) = opened(&world, "/api/events", ann).await;
    assert_eq!(status, 200);
    let (mut second, status, head) = opened(&world, "/api/events", ann).await;
    assert_eq!(status, 429);
    assert!(head.contains("retry-after"));
    assert!(second.exactly(2).await.starts_with('{'));
    let (_bob, status, _) = opened(&world, "/api/events", &[("authorization", "Bearer bob")]).await;
    assert_eq!(status, 200);
    drop(first);
    // The server hears of the lost peer when it hears of it; each refusal is a round trip.
    for _ in 0..ROUND_TRIPS_MAX {
        if opened(&world, "/api/events", ann).await.1 == 200 {
            return;
        }
    }
    panic!("there is no room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_18_only_the_documented_names_are_cursors_and_the_header_wins() {
    let world = World::start().await;
    let id = world.completed("1").await;
    let path = format!("/api/jobs/{id}/events");
    let all = world.ask("GET", &path, &[STREAM], "").await.body;
    let ids: Vec<_> = all.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let ids_after = async |query: &str, header: &[(&str, &str)]| {
        let mut headers = vec![STREAM];
        headers.extend(header);
        let body = world.ask("GET", &format!("{path}{query}"), &headers, "").await.body;
        body.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(ids_after("", &[("last-event-id", ids[0])]).await, ids[1..]);
    assert_eq!(ids_after(&format!("?last_event_id={}", ids[1]), &[]).await, ids[2..]);
    assert_eq!(ids_after(&format!("?last_event_id={}", ids[1]), &[("last-event-id", ids[0])]).await, ids[1..]);
    assert_eq!(ids_after("?last_event_id=", &[("last-event-id", "")]).await, ids);
    for query in ["?lastEventId=1", "?cursor=1", "?since=1"] {
        assert_eq!(world.ask("GET", &format!("{path}{query}"), &[STREAM], "").await.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_14_streams_end_with_a_hint_when_the_server_ends() {
    let world = World::start().await;
    let id = world.submit().await;
    let (mut feed, _, _) = opened(&world, "/api/events", &[]).await;
    let (mut of_job, _, _) = opened(&world, &format!("/api/jobs/{id}/events"), &[]).await;
    let (_stalled, _, _) = opened(&world, "/api/events", &[]).await;
    world.shutdown.advance(Phase::Draining);
    world.shutdown.advance(Phase::Closing);
    for stream in [&mut feed, &mut of_job] {
        let rest = stream.all().await;
        assert!(rest.matches("retry: ").count() == 2 && rest.ends_with("0\r\n\r\n"), "{rest}");
    }
    world.served.await.unwrap();
}
