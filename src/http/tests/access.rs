//! Whose jobs are whose, what a ticket opens, and what foreign pages may do.

use serde_json::json;

use super::{Settings, World, with_tokens};
use crate::http::{Options, ticket};
use crate::job::Millis;

fn bearer(name: &str) -> String {
    format!("Bearer {name}")
}

impl World {
    async fn as_principal(&self, name: &str, method: &str, path: &str, body: &str) -> super::Answer {
        let token = bearer(name);
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        self.ask(method, path, &headers, body).await
    }
}

const SUBMIT: &str = r#"{"type":"echo","payload":{}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_principals_job_looks_like_a_missing_one() {
    let world = World::with(Settings { http: with_tokens(), ..Settings::default() }).await;
    let made = world.as_principal("ann", "POST", "/api/jobs", SUBMIT).await.json();
    let (id, owner) = (made["id"].as_str().unwrap(), made["owner"].as_str());
    assert_eq!(owner, Some("ann"));
    let missing = world.as_principal("bob", "GET", "/api/jobs/0193a5d0-7c00-7000-8000-000000000001", "").await;
    for (method, part) in [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/result"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("POST", "/ticket"),
    ] {
        let answer = world.as_principal("bob", method, &format!("/api/jobs/{id}{part}"), "").await;
        assert_eq!((answer.status, answer.json()), (404, missing.json()), "{part}");
    }
    let count = |answer: super::Answer| answer.json()["jobs"].as_array().unwrap().len();
    assert_eq!(count(world.as_principal("bob", "GET", "/api/jobs", "").await), 0);
    assert_eq!(count(world.as_principal("ann", "GET", "/api/jobs", "").await), 1);
    assert_eq!(count(world.as_principal("root", "GET", "/api/jobs?owner=ann", "").await), 1);
    assert_eq!(world.as_principal("root", "GET", &format!("/api/jobs/{id}"), "").await.status, 200);
    let pages = world.ask("GET", "/api/events", &[("authorization", "Bearer bob"), ("accept", "application/json")], "");
    assert_eq!(pages.await.json()["events"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_reads_its_job_also_after_a_restart_and_nothing_else() {
    let settings = || Settings { http: with_tokens(), ..Settings::default() };
    let world = World::with(settings()).await;
    let id = world.as_principal("ann", "POST", "/api/jobs", SUBMIT).await.json()["id"].as_str().unwrap().to_string();
    let other = world.as_principal("ann", "POST", "/api/jobs", SUBMIT).await.json()["id"].as_str().unwrap().to_string();
    let made = world.as_principal("ann", "POST", &format!("/api/jobs/{id}/ticket"), "").await;
    assert_eq!(made.status, 200, "{made:?}");
    let ticket = made.json()["ticket"].as_str().unwrap().to_string();
    let events = made.json()["eventsUrl"].as_str().unwrap().to_string();
    let http = Options { ticket_seed: [1; 32], ..with_tokens() };
    let again = World::over(Settings { http, ..settings() }, world.store.clone(), world.clock.clone()).await;
    for world in [&world, &again] {
        assert_eq!(world.ask("GET", &format!("/api/jobs/{id}?ticket={ticket}"), &[], "").await.status, 200);
        assert_eq!(world.ask("GET", &events, &[("accept", "application/json")], "").await.status, 200);
        for (method, path, status) in [
            ("GET", format!("/api/jobs/{other}?ticket={ticket}"), 403),
            ("GET", format!("/api/jobs?ticket={ticket}"), 401),
            ("GET", format!("/api/events?ticket={ticket}"), 401),
            ("POST", format!("/api/jobs/{id}/cancel?ticket={ticket}"), 401),
            ("POST", format!("/api/jobs/{id}/ticket?ticket={ticket}"), 401),
            ("GET", format!("/api/jobs/{id}?ticket={}", &ticket[1..]), 401),
        ] {
            assert_eq!(world.ask(method, &path, &[], "").await.status, status, "{path}");
        }
    }
    world.clock.advance(ticket::LIFETIME);
    let late = world.ask("GET", &format!("/api/jobs/{id}?ticket={ticket}"), &[], "").await;
    assert_eq!((late.status, late.code()), (401, "unauthenticated".into()));
    world.clock.advance(Millis(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_17_pages_of_configured_origins_send_and_read_what_they_need() {
    let origin = "https://app.example.com";
    let http = Options { allowed_origins: vec![origin.into()], ..with_tokens() };
    let world = World::with(Settings { http, ..Settings::default() }).await;
    let wish = "last-event-id, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, authorization, content-type";
    let preflight = |origin| {
        [("origin", origin), ("access-control-request-method", "POST"), ("access-control-request-headers", wish)]
    };
    for path in ["/mcp", "/api/jobs", "/api/events"] {
        let granted = world.ask("OPTIONS", path, &preflight(origin), "").await;
        assert_eq!((granted.status, granted.header("access-control-allow-origin")), (204, Some(origin)), "{path}");
        let allowed = granted.header("access-control-allow-headers").unwrap();
        assert!(wish.split(", ").all(|name| allowed.contains(name)), "{allowed}");
        let refused = world.ask("OPTIONS", path, &preflight("https://evil.example"), "").await;
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None), "{path}");
    }
    let asked = world.ask("GET", "/api/jobs", &[("origin", origin), ("authorization", "Bearer ann")], "").await;
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (200, Some(origin)));
    assert!(asked.header("access-control-expose-headers").unwrap().contains("Mcp-Session-Id"));
    // A page can read why it was refused, so errors are exposed too.
    let refused = world.ask("GET", "/api/jobs", &[("origin", origin)], "").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some(origin)));
    let plain = world.ask("GET", "/healthz", &[], "").await;
    assert_eq!(plain.header("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_and_head_are_answered_like_the_rest() {
    let world = World::start().await;
    let options = world.ask("OPTIONS", "/api/jobs", &[], "").await;
    assert_eq!((options.status, options.header("allow")), (204, Some("GET, HEAD, POST, OPTIONS")));
    let refused = world.ask("PUT", "/api/jobs", &[], "").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, POST, OPTIONS")));
    let mut wire = world.connect().await;
    let head = wire.ask("HEAD", "/api/jobs", &[], "").await;
    let get = wire.ask("GET", "/api/jobs", &[], "").await;
    assert_eq!((head.status, head.header("content-length")), (200, get.header("content-length")));
    let missing = wire.ask("HEAD", "/nothing", &[], "").await;
    assert_eq!(missing.status, 404);
    assert_eq!(wire.ask("GET", "/healthz", &[], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_show_what_happened() {
    let world = World::start().await;
    world.completed("1").await;
    world.submit().await;
    let text = world.get("/metrics").await.body;
    for line in [
        r#"longhaul_jobs{type="echo",status="pending"} 1"#,
        r#"longhaul_jobs_total{type="echo",outcome="completed"} 1"#,
        r#"longhaul_attempts_total{type="echo",end="succeeded"} 1"#,
        "longhaul_events_total 4",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
}
