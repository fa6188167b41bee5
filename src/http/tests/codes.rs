//! Every code of contract 8 that a client can bring about.

use serde_json::json;

use super::{Settings, World, with_tokens};
use crate::http::Options;

const JSON: (&str, &str) = ("content-type", "application/json");

type Headers<'a> = &'a [(&'a str, &'a str)];
type Sent<'a> = (&'a str, &'a str, Headers<'a>, &'a str);

async fn check(world: &World, request: Sent<'_>, status: u16, code: &str) {
    let (method, path, headers, body) = request;
    let answer = world.ask(method, path, headers, body).await;
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{request:?}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.json()["status"], status);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let passes = matches!(status, 429 | 503 | 507);
    assert_eq!(answer.header("retry-after").is_some(), passes, "{code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_that_makes_no_sense_is_answered_by_its_code() {
    let world = World::start().await;
    fn post<'a>(headers: Headers<'a>, body: &'a str) -> Sent<'a> {
        ("POST", "/api/jobs", headers, body)
    }
    let keyed: &[_] = &[JSON, ("idempotency-key", "other")];
    let ok = r#"{"type":"echo","payload":{},"idempotencyKey":"k"}"#;
    let cases: &[(Sent<'_>, u16, &str)] = &[
        (post(&[JSON], "{"), 400, "bad_json"),
        (post(&[JSON], r#"{"type":"echo","payload":[]}"#), 400, "bad_json"),
        (post(&[JSON], "[]"), 400, "bad_request"),
        (post(&[JSON], ""), 400, "bad_json"),
        (post(&[JSON], r#"{"type":"echo","payload":{},"priority":101}"#), 400, "bad_request"),
        (post(&[JSON], r#"{"type":"echo","payload":{},"tags":["a\nb"]}"#), 400, "bad_request"),
        (post(&[JSON], r#"{"type":"echo","payload":{},"idempotencyKey":"a b"}"#), 400, "bad_request"),
        (
            post(&[JSON], r#"{"type":"echo","payload":{},"delayMs":1,"runAt":"2030-01-01T00:00:00Z"}"#),
            400,
            "conflicting_fields",
        ),
        (post(keyed, ok), 400, "key_mismatch"),
        (post(&[JSON], r#"{"type":"ecko","payload":{}}"#), 404, "no_such_type"),
        (post(&[JSON], r#"{"type":"echo","payload":{"n":"x"}}"#), 422, "schema"),
        (post(&[("content-type", "text/plain")], "x"), 415, "media_type"),
        (post(&[], "{}"), 415, "media_type"),
        (("GET", "/api/jobs?status=done", &[], ""), 400, "bad_filter"),
        (("GET", "/api/jobs?cursor=x", &[], ""), 400, "bad_cursor"),
        (("GET", "/api/jobs?a=%zz", &[], ""), 400, "bad_request"),
        (("GET", "/api/events?last_event_id=x", &[], ""), 400, "bad_cursor"),
        (("GET", "/api/events", &[("accept", "text/html")], ""), 406, "not_acceptable"),
        (("GET", "/nothing", &[], ""), 404, "no_such_path"),
        (("GET", "/api/jobs/x", &[], ""), 404, "no_such_job"),
        (("DELETE", "/api/jobs", &[], ""), 405, "method"),
        (("GET", "/api/jobs", &[("host", "evil.example")], ""), 403, "bad_host"),
        (("GET", "/api/jobs", &[("origin", "null")], ""), 403, "bad_origin"),
    ];
    for (request, status, code) in cases {
        check(&world, *request, *status, code).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_wrong_with_a_body_is_pointed_at_from_its_root() {
    // What did not fit the schema was pointed at from the payload, everything else from the body.
    let world = World::start().await;
    for (body, pointer) in [
        (r#"{"type":"echo","payload":{"n":"x"}}"#, "/payload/n"),
        (r#"{"type":"echo","payload":[]}"#, "/payload"),
        (r#"{"type":"echo","payload":{},"priority":101}"#, "/priority"),
    ] {
        let refused = world.ask("POST", "/api/jobs", &[JSON], body).await.json();
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
        assert!(
            refused["detail"].as_str().is_some_and(|detail| detail.starts_with(&format!("{pointer}: "))),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_does_not_allow_is_answered_by_its_code() {
    let world = World::start().await;
    let waiting = world.submit().await;
    let dead = {
        world.claim();
        world.failed().await
    };
    let done = world.completed("{\"a\":1}").await;
    let unknown = "0193a5d0-7c00-7000-8000-000000000001";
    check(&world, ("GET", &format!("/api/jobs/{unknown}"), &[], ""), 404, "no_such_job").await;
    check(&world, ("POST", &format!("/api/jobs/{unknown}/cancel"), &[], ""), 404, "no_such_job").await;
    check(&world, ("GET", &format!("/api/jobs/{waiting}/result"), &[], ""), 404, "no_such_path").await;
    check(&world, ("GET", &format!("/api/jobs/{done}/partial"), &[], ""), 404, "no_such_path").await;
    let beyond: &[_] = &[("range", "bytes=99-")];
    check(&world, ("GET", &format!("/api/jobs/{done}/result"), beyond, ""), 416, "range").await;
    check(&world, ("POST", &format!("/api/jobs/{done}/retry"), &[], ""), 409, "not_dead_lettered").await;
    assert_eq!(world.ask("POST", &format!("/api/jobs/{dead}/retry"), &[], "").await.status, 201);
    check(&world, ("POST", &format!("/api/jobs/{dead}/retry"), &[], ""), 409, "already_replayed").await;
    let keyed = |n: u32| json!({"type": "echo", "payload": {"n": n}, "idempotencyKey": "k"}).to_string();
    assert_eq!(world.ask("POST", "/api/jobs", &[JSON], &keyed(1)).await.status, 201);
    assert_eq!(world.ask("POST", "/api/jobs", &[JSON], &keyed(1)).await.status, 200);
    check(&world, ("POST", "/api/jobs", &[JSON], &keyed(2)), 409, "idempotency_conflict").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_reached_is_named_and_says_when_to_come_back() {
    let submit = r#"{"type":"echo","payload":{}}"#;
    let small = Settings { http: Options { max_body: 40, ..Options::default() }, max_pending: Some(1) };
    let world = World::with(small).await;
    assert_eq!(world.ask("POST", "/api/jobs", &[JSON], submit).await.status, 201);
    check(&world, ("POST", "/api/jobs", &[JSON], submit), 429, "too_many").await;
    check(&world, ("POST", "/api/jobs", &[JSON], &submit.replace("{}", "{\"n\":1234567890}")), 413, "too_large").await;
    check(&world, ("POST", "/mcp", &[JSON], &" ".repeat(41)), 413, "too_large").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_says_so() {
    let world = World::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
    world.core.drain();
    check(&world, ("GET", "/readyz", &[], ""), 503, "draining").await;
    check(&world, ("POST", "/api/jobs", &[JSON], r#"{"type":"echo","payload":{}}"#), 503, "draining").await;
    assert_eq!(world.get("/healthz").await.status, 200);
    world.service.set_unhealthy();
    for path in ["/healthz", "/readyz"] {
        check(&world, ("GET", path, &[], ""), 503, "unhealthy").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_asked_for_by_code() {
    let world = World::with(Settings { http: with_tokens(), ..Settings::default() }).await;
    for path in ["/api/jobs", "/metrics", "/mcp", "/api/events"] {
        check(&world, ("GET", path, &[], ""), 401, "unauthenticated").await;
    }
    let answer = world.get("/api/jobs").await;
    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"longhaul\""));
    let eve: &[_] = &[("authorization", "Bearer eve"), JSON];
    check(&world, ("POST", "/api/jobs", eve, "{}"), 403, "forbidden").await;
    let worker: &[_] = &[("authorization", "Bearer wim"), JSON];
    check(&world, ("POST", "/mcp", worker, "{}"), 403, "forbidden").await;
    // Whoever reads comes in: what may be called there, each method says.
    assert_eq!(world.ask("POST", "/mcp", eve, "{}").await.status, 400);
    check(&world, ("GET", "/api/jobs?owner=ann", eve, ""), 403, "forbidden").await;
}
