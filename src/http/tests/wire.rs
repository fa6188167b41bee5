//! Heads and bodies that are broken, too long, too slow or made to smuggle: each is answered or cut, and costs nothing else.

use std::time::Duration;

use super::{Settings, World};
use crate::http::Options;

/// Sends bytes; the status of the answer, `None` if the connection just ends.
async fn status(world: &World, bytes: &str) -> Option<u16> {
    let mut wire = world.connect().await;
    wire.send(bytes.as_bytes()).await;
    wire.head().await.map(|(status, _)| status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_two_readers_could_read_differently_are_refused() {
    let world = World::start().await;
    let head = "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let body = "\r\n{}GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for broken in [
        format!("{head}content-length: 2\r\ncontent-length: 3\r\n{body}"),
        format!("{head}content-length: +2\r\n{body}"),
        format!("{head}content-length: 2, 3\r\n{body}"),
        format!("{head}transfer-encoding: xchunked\r\n{body}"),
        format!("{head}transfer-encoding: chunked, identity\r\n{body}"),
        format!("{head}content-length : 2\r\n{body}"),
        format!("{head} folded: x\r\n{body}"),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n".into(),
        "GET / x HTTP/1.1\r\nhost: localhost\r\n\r\n".into(),
        "GET /healthz HTTP/9.9\r\nhost: localhost\r\n\r\n".into(),
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".into(),
        "garbage\r\n\r\n".into(),
    ] {
        let mut wire = world.connect().await;
        wire.send(broken.as_bytes()).await;
        let said = wire.all().await;
        assert!(said.starts_with("HTTP/1.1 400") && said.matches("HTTP/1.1 ").count() == 1, "{broken:?}: {said:?}");
    }
    // Both framings at once: the length is ignored, as RFC 9112 has it, and the connection is not used again.
    let both = format!(
        "{head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    );
    let mut wire = world.connect().await;
    wire.send(both.as_bytes()).await;
    let said = wire.all().await;
    assert!(!said.contains("HTTP/1.1 200"), "{said}");
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_over_their_limits_are_refused() {
    let world = World::start().await;
    let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n";
    let many: String = (0..101).map(|n| format!("x{n}: 1\r\n")).collect();
    assert_eq!(status(&world, &format!("{head}{many}\r\n")).await, Some(431));
    assert_eq!(status(&world, &format!("{head}x: {}\r\n\r\n", "y".repeat(70_000))).await, Some(431));
    let path = "x".repeat(70_000);
    assert!(matches!(
        status(&world, &format!("GET /{path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await,
        Some(414 | 431)
    ));
    assert_eq!(status(&world, &format!("{head}\r\n")).await, Some(200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_finish_its_head_is_let_go() {
    let http = Options { header_timeout: Duration::from_millis(100), ..Options::default() };
    let world = World::with(Settings { http, ..Settings::default() }).await;
    for beginning in ["", "G", "PRI * HTTP/2.0\r\n", "GET /healthz HTTP/1.1\r\nhost: loc"] {
        let mut wire = world.connect().await;
        wire.send(beginning.as_bytes()).await;
        let said = wire.all().await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{beginning:?}: {said:?}");
    }
    let mut idle = world.connect().await;
    assert_eq!(idle.ask("GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(idle.all().await, "", "an idle connection ends too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_goes_on_after_an_error() {
    let world = World::start().await;
    let mut wire = world.connect().await;
    let json = ("content-type", "application/json");
    assert_eq!(wire.ask("GET", "/nothing", &[], "").await.status, 404);
    assert_eq!(wire.ask("POST", "/api/jobs", &[json], "{").await.status, 400);
    assert_eq!(wire.ask("POST", "/api/jobs", &[("content-type", "text/plain")], "hello").await.status, 415);
    assert_eq!(wire.ask("DELETE", "/api/jobs", &[], "").await.status, 405);
    assert_eq!(wire.ask("GET", "/api/jobs", &[("host", "evil.example")], "").await.status, 403);
    assert_eq!(wire.ask("POST", "/api/jobs", &[json], r#"{"type":"echo","payload":{}}"#).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_sent_without_waiting_are_answered_in_order() {
    let world = World::start().await;
    let mut wire = world.connect().await;
    for path in ["/healthz", "/nothing", "/readyz"] {
        wire.request("GET", path, &[], "").await;
    }
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(wire.answer("GET").await.unwrap().status);
    }
    assert_eq!(statuses, [200, 404, 200]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let world = World::start().await;
    let mut wire = world.connect().await;
    let head = "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    wire.send(format!("{head}content-length: 99999999999\r\n\r\n").as_bytes()).await;
    assert_eq!(wire.answer("POST").await.unwrap().code(), "too_large");
    let mut chunked = world.connect().await;
    chunked.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..17 {
        chunked.send(chunk.as_bytes()).await;
    }
    assert_eq!(chunked.answer("POST").await.unwrap().code(), "too_large");
    let mut waits = world.connect().await;
    waits.send(format!("{head}content-length: 99999999999\r\nexpect: 100-continue\r\n\r\n").as_bytes()).await;
    assert_eq!(waits.answer("POST").await.unwrap().status, 413, "no 100 Continue for what will not be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_off_makes_no_job() {
    let world = World::start().await;
    let body = r#"{"type":"echo","payload":{}}"#;
    let head = "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut wire = world.connect().await;
    wire.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len() + 1).as_bytes()).await;
    tokio::io::AsyncWriteExt::shutdown(&mut wire.socket).await.unwrap();
    wire.all().await;
    assert_eq!(world.get("/api/jobs").await.json()["jobs"].as_array().unwrap().len(), 0);
}
