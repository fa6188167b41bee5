//! `POST /api/jobs/{id}/input`, and how questions show.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Settings, World, with_tokens};
use crate::job::{ANSWER_MAX, Asking, Json, Outcome, Output};
use crate::service::Viewer;
use crate::work::{Claim, Report, WorkSource};

const SIZES: &str =
    r#"{"type":"object","properties":{"size":{"enum":["S","M"]},"n":{"type":"integer"}},"required":["size"]}"#;

/// Asks on behalf of the attempt; the job shows it when this returns.
async fn ask(world: &World, claim: &Claim, key: &str, count: u32) {
    let before = world.service.job(&Viewer { sees_all: true, ..Viewer::local() }, claim.job).await.unwrap();
    let asking =
        Arc::new(Asking { key: key.into(), message: format!("Which {key}?").into(), schema: Json(SIZES.into()) });
    world.work.report(claim, Report::Ask { asking, count });
    let seen = [(claim.job, before.job.revision)];
    let news = world.service.wait_any(&Viewer { sees_all: true, ..Viewer::local() }, &seen, super::BYTES_MAX).await;
    assert_eq!(news.unwrap().len(), 1, "whoever waits for the job is woken by its question");
}

/// A job that asks these, and its attempt.
async fn asking(world: &World, keys: &[&str]) -> (String, Claim) {
    let id = world.submit().await;
    let claim = world.claim();
    for (n, key) in keys.iter().enumerate() {
        ask(world, &claim, key, n as u32 + 1).await;
    }
    (id, claim)
}

fn accept(key: &str, content: &Value) -> Value {
    json!({"answers": {key: {"action": "accept", "content": content}}})
}

fn keys(job: &Value) -> Vec<&str> {
    let questions = job["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    questions.iter().map(|question| question["key"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_shows_with_its_job_and_in_lists_by_status() {
    let world = World::start().await;
    let (id, _claim) = asking(&world, &["a", "b"]).await;
    let job = world.get(&format!("/api/jobs/{id}")).await.json();
    assert_eq!((&job["status"], keys(&job)), (&json!("input_required"), vec!["a", "b"]));
    let question = &job["questions"][0];
    let schema: Value = serde_json::from_str(SIZES).unwrap();
    assert_eq!((&question["message"], &question["schema"]), (&json!("Which a?"), &schema));
    assert_eq!(question["askedAt"], job["updatedAt"]);
    let listed = world.get("/api/jobs?status=input_required").await.json();
    assert_eq!((listed["jobs"].as_array().unwrap().len(), &listed["jobs"][0]["id"]), (1, &json!(id)));
    assert_eq!(world.get("/api/jobs?status=in_progress").await.json()["jobs"], json!([]));
    let events = world.get(&format!("/api/jobs/{id}/events")).await.json();
    let asked = &events["events"][2];
    assert_eq!((&asked["type"], &asked["payload"]["questions"][0]["schema"]), (&json!("job.input_required"), &schema));
    let metrics = world.get("/metrics").await.body;
    assert!(metrics.contains(r#"longhaul_jobs{type="echo",status="input_required"} 1"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_a_question_and_goes_past_one_that_was_seen() {
    let world = World::start().await;
    let id = world.submit().await;
    let path = format!("/api/jobs/{id}?wait=60s");
    let mut wire = world.connect().await;
    wire.request("GET", &path, &[], "").await;
    let claim = world.claim();
    ask(&world, &claim, "a", 1).await;
    let asked = wire.answer("GET").await.unwrap();
    assert_eq!((&asked.json()["status"], keys(&asked.json())), (&json!("input_required"), vec!["a"]));
    // Who has not seen it is not kept waiting either.
    assert_eq!(keys(&world.get(&path).await.json()), ["a"]);
    let seen = [("if-none-match", asked.header("etag").unwrap())];
    wire.request("GET", &path, &seen, "").await;
    let other = world.ask("GET", &format!("/api/jobs/{id}?wait=1ms"), &seen, "").await;
    assert_eq!((other.status, other.body.as_str()), (304, ""));
    ask(&world, &claim, "b", 2).await;
    assert_eq!(keys(&wire.answer("GET").await.unwrap().json()), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_taken_in_part_and_several_at_once_and_the_last_sets_the_job_going() {
    let world = World::start().await;
    let (id, claim) = asking(&world, &["a", "b", "c"]).await;
    let path = format!("/api/jobs/{id}/input");
    let first = world.post(&path, &accept("b", &json!({"size": "S"}))).await;
    assert_eq!((first.status, &first.json()["status"]), (200, &json!("input_required")));
    assert_eq!(keys(&first.json()), ["a", "c"]);
    let both = json!({"answers": {"a": {"action": "decline"}, "c": {"action": "cancel", "content": [1]}}});
    let last = world.post(&path, &both).await;
    assert_eq!((last.status, &last.json()["status"]), (200, &json!("in_progress")));
    assert!(last.json().get("questions").is_none());
    let read = |name| world.work.body(&claim, name).unwrap();
    let told: Vec<Value> =
        claim.answers.take().into_iter().map(|name| serde_json::from_slice(&read(name)).unwrap()).collect();
    let expected = [
        json!({"key": "b", "action": "accept", "content": {"size": "S"}}),
        json!({"key": "a", "action": "decline"}),
        json!({"key": "c", "action": "cancel"}),
    ];
    assert_eq!(told, expected);
    let events = world.get(&format!("/api/jobs/{id}/events")).await.json();
    let received: Vec<&Value> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "job.input_received")
        .map(|event| &event["payload"])
        .collect();
    assert_eq!(received, [&json!({"keys": ["b"]}), &json!({"keys": ["a", "c"]})]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_given_again_is_the_same_answer_and_another_one_is_refused() {
    let world = World::start().await;
    let (id, claim) = asking(&world, &["a"]).await;
    let path = format!("/api/jobs/{id}/input");
    let answer = accept("a", &json!({"size": "S", "n": 1}));
    let again = json!({"answers": {"a": {"content": {"n": 1.0, "size": "S"}, "action": "accept"}}});
    assert_eq!(world.post(&path, &answer).await.status, 200);
    let revision = world.get(&format!("/api/jobs/{id}")).await.header("etag").map(str::to_owned);
    assert_eq!(world.post(&path, &again).await.status, 200);
    assert_eq!(world.get(&format!("/api/jobs/{id}")).await.header("etag").map(str::to_owned), revision);
    for other in [accept("a", &json!({"size": "M"})), json!({"answers": {"a": {"action": "decline"}}})] {
        let refused = world.post(&path, &other).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "not_waiting"), "{other}");
    }
    world.finish(&claim, Outcome::Done(Output::default()));
    assert_eq!(world.post(&path, &answer).await.status, 200, "also after the end");
    assert_eq!(world.post(&path, &accept("b", &json!({}))).await.code(), "not_waiting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_does_not_fit_is_refused_with_every_place_and_nothing_of_the_call_is_taken() {
    let world = World::start().await;
    let (id, _claim) = asking(&world, &["a/b", "c"]).await;
    let path = format!("/api/jobs/{id}/input");
    let pointers = |answer: &super::Answer| -> Vec<String> {
        let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    };
    let one_good = json!({"answers": {
        "c": {"action": "accept", "content": {"size": "S"}},
        "a/b": {"action": "accept", "content": {"size": "XL", "n": "x"}},
    }});
    let refused = world.post(&path, &one_good).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "schema"));
    let mut found = pointers(&refused);
    found.sort();
    assert_eq!(found, ["/answers/a~1b/content/n", "/answers/a~1b/content/size"]);
    assert_eq!(keys(&world.get(&format!("/api/jobs/{id}")).await.json()), ["a/b", "c"]);
    let missing = world.post(&path, &json!({"answers": {"c": {"action": "accept"}}})).await;
    assert_eq!((missing.status, pointers(&missing)), (422, vec!["/answers/c/content".to_owned()]));
    let large = accept("c", &json!({"size": "S", "x": "y".repeat(ANSWER_MAX)}));
    let many: Value = (0..33).map(|n| (n.to_string(), json!({"action": "cancel"}))).collect();
    for (body, pointer) in [
        (large, "/answers/c/content"),
        (accept("c", &json!([])), "/answers/c/content"),
        (json!({"answers": {}}), "/answers"),
        (json!({"answers": many}), "/answers"),
    ] {
        let refused = world.post(&path, &body).await;
        assert_eq!((refused.status, pointers(&refused)), (400, vec![pointer.to_owned()]));
    }
    for twice in [
        r#"{"answers":{"c":{"action":"cancel"},"c":{"action":"decline"}}}"#,
        r#"{"answers":{"c":{"action":"accept","content":{"size":"S","size":"M"}}}}"#,
    ] {
        let refused = world.ask("POST", &path, &[("content-type", "application/json")], twice).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_request"), "{twice}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_does_not_ask_is_waiting_for_nothing() {
    let world = World::start().await;
    let done = world.completed("1").await;
    let pending = world.submit().await;
    for id in [done, pending] {
        let refused = world.post(&format!("/api/jobs/{id}/input"), &accept("a", &json!({}))).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "not_waiting"));
    }
    let (id, _claim) = asking_after(&world).await;
    let unknown = world.post(&format!("/api/jobs/{id}/input"), &accept("other", &json!({}))).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (409, "not_waiting"));
    // Whoever mistook the key is told those that are open.
    assert_eq!(unknown.json()["detail"], "no question other was asked; open: a");
    world.post(&format!("/api/jobs/{id}/cancel"), &json!({})).await;
    let stopping = world.post(&format!("/api/jobs/{id}/input"), &accept("a", &json!({"size": "S"}))).await;
    assert_eq!((stopping.status, stopping.code().as_str()), (409, "not_waiting"));
}

/// The pending job that was there before runs first.
async fn asking_after(world: &World) -> (String, Claim) {
    let claim = world.claim();
    ask(world, &claim, "a", 1).await;
    (claim.job.to_string(), claim)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_sees_the_job_and_may_submit_answers_it() {
    let world = World::with(Settings { http: with_tokens(), ..Settings::default() }).await;
    let json_of =
        |who: &str| vec![("content-type", "application/json".to_owned()), ("authorization", format!("Bearer {who}"))];
    let post = async |who: &str, path: &str, body: &Value| {
        let headers = json_of(who);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        world.ask("POST", path, &headers, &body.to_string()).await
    };
    let made = post("ann", "/api/jobs", &json!({"type": "echo", "payload": {}})).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let claim = world.claim();
    ask(&world, &claim, "a", 1).await;
    let path = format!("/api/jobs/{id}/input");
    let answer = accept("a", &json!({"size": "M"}));
    assert_eq!(post("bob", &path, &answer).await.code(), "no_such_job");
    assert_eq!(post("eve", &path, &answer).await.status, 403);
    assert_eq!(post("nobody", &path, &answer).await.status, 401);
    assert_eq!(post("ann", &path, &answer).await.status, 200);
}
