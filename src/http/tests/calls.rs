//! A job's life through the API, over HTTP/1.1 and h2c.

use http_body_util::{BodyExt, Full};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_created_shown_and_completed() {
    let world = World::start().await;
    let made =
        world.post("/api/jobs", &json!({"type": "echo", "payload": {"n": 1}, "tags": ["t"], "priority": 5})).await;
    assert_eq!(made.status, 201);
    let job = made.json();
    let id = job["id"].as_str().unwrap();
    assert_eq!(made.header("location"), Some(format!("/api/jobs/{id}").as_str()));
    assert_eq!(
        (&job["status"], &job["owner"], &job["payload"]),
        (&json!("pending"), &json!("local"), &json!({"n": 1}))
    );
    assert_eq!(job["eventsUrl"], format!("/api/jobs/{id}/events"));
    let claim = world.claim();
    let data = Some(bytes::Bytes::from_static(b"{\"a\":[1,2,3]}"));
    world.finish(&claim, crate::job::Outcome::Done(crate::job::Output { data, ..Default::default() }));
    let shown = world.get(&format!("/api/jobs/{id}?wait=30s")).await;
    assert_eq!((shown.status, &shown.json()["status"]), (200, &json!("completed")));
    assert_eq!(shown.json()["result"], json!({"a": [1, 2, 3]}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_the_job() {
    let world = World::start().await;
    let id = world.submit().await;
    let mut wire = world.connect().await;
    wire.request("GET", &format!("/api/jobs/{id}?wait=60s"), &[], "").await;
    let claim = world.claim();
    world.finish(&claim, crate::job::Outcome::Done(crate::job::Output::default()));
    let answer = wire.answer("GET").await.unwrap();
    assert_eq!((&answer.json()["status"], &answer.json()["result"]), (&json!("completed"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_the_job_already_is_told_so_until_it_changes() {
    let world = World::start().await;
    let path = format!("/api/jobs/{}", world.submit().await);
    let tag = world.get(&path).await.header("etag").unwrap().to_string();
    let again = world.ask("GET", &path, &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())));
    world.claim();
    let changed = world.ask("GET", &path, &[("if-none-match", &tag)], "").await;
    assert_eq!((changed.status, &changed.json()["status"]), (200, &json!("in_progress")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_job_is_canceled_at_once_and_a_running_one_is_told() {
    let world = World::start().await;
    let id = world.submit().await;
    let canceled = world.post(&format!("/api/jobs/{id}/cancel"), &json!({"reason": "too slow"})).await;
    assert_eq!((canceled.status, &canceled.json()["status"]), (200, &json!("canceled")));
    assert_eq!(canceled.json()["cancel"]["reason"], "too slow");
    let running = world.submit().await;
    let claim = world.claim();
    let path = format!("/api/jobs/{running}/cancel");
    let asked = world.ask("POST", &path, &[], "").await;
    assert_eq!((asked.status, &asked.json()["status"]), (202, &json!("in_progress")));
    assert_eq!(claim.stop.get(), Some(crate::work::Stop::Cancel));
    world.finish(&claim, crate::job::Outcome::failed(crate::job::Class::Transient, None, "stopped"));
    assert_eq!(world.ask("POST", &path, &[], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_is_a_new_job_that_names_the_old_one() {
    let world = World::start().await;
    let dead = world.failed().await;
    let made = world.ask("POST", &format!("/api/jobs/{dead}/retry"), &[], "").await;
    let new = made.json()["id"].as_str().unwrap().to_string();
    assert_eq!((made.status, &made.json()["replayOf"]), (201, &json!(dead)));
    assert_eq!(made.header("location"), Some(format!("/api/jobs/{new}").as_str()));
    let old = world.get(&format!("/api/jobs/{dead}")).await.json();
    assert_eq!((&old["replayedAs"], &old["deadLettered"]), (&json!(new), &json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_stay_put_while_new_jobs_come() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.submit().await);
    }
    let mut seen = Vec::new();
    let mut path = "/api/jobs?limit=2".to_string();
    loop {
        let page = world.get(&path).await.json();
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_string()));
        world.submit().await;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/api/jobs?limit=2&cursor={cursor}");
    }
    ids.reverse();
    assert_eq!(seen, ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_and_carry_no_bodies() {
    let world = World::start().await;
    let done = world.completed("1").await;
    world.submit().await;
    let page = world.get("/api/jobs?status=completed&type=echo&deadLettered=false").await.json();
    let jobs = page["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), &jobs[0]["id"]), (1, &json!(done)));
    assert!(jobs[0].get("payload").is_none() && jobs[0].get("result").is_none());
    assert!(page.get("nextCursor").is_none());
    assert_eq!(world.get("/api/jobs?pendingLongerThan=5m").await.json()["jobs"], json!([]));
    world.clock.advance(crate::job::Millis::seconds(301));
    assert_eq!(world.get("/api/jobs?pendingLongerThan=5m").await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_had_whole_or_in_ranges() {
    let world = World::start().await;
    let text = format!("\"{}\"", "0123456789".repeat(60_000));
    let path = format!("/api/jobs/{}/result", world.completed(&text).await);
    let whole = world.get(&path).await;
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("application/json")));
    assert!(whole.body == text, "the whole result");
    let part = world.ask("GET", &path, &[("range", "bytes=1-10")], "").await;
    assert_eq!((part.status, part.body.as_str()), (206, "0123456789"));
    assert_eq!(part.header("content-range"), Some(format!("bytes 1-10/{}", text.len()).as_str()));
    let head = world.ask("HEAD", &path, &[], "").await;
    assert_eq!(head.header("content-length"), Some(text.len().to_string().as_str()));
    let tag = whole.header("etag").unwrap();
    assert_eq!(world.ask("GET", &path, &[("if-none-match", tag)], "").await.status, 304);
    let job = world.get(path.strip_suffix("/result").unwrap()).await.json();
    assert_eq!((job.get("result"), job["resultUrl"].as_str()), (None, Some(path.as_str())));
    let inline = world.get(&format!("{}?inline=true", path.strip_suffix("/result").unwrap())).await;
    assert_eq!(inline.json()["result"].as_str().map(str::len), Some(600_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_a_bulk_is_answered_in_order_with_its_own_status() {
    let world = World::start().await;
    let mut body = String::new();
    for n in 0..300 {
        body.push_str(&format!("{{\"type\":\"echo\",\"payload\":{{\"n\":{n}}}}}\n"));
    }
    body.push_str("\n{bad\n{\"type\":\"ecko\",\"payload\":{}}\n{\"type\":\"echo\",\"payload\":{\"n\":\"x\"}}\n");
    body.push_str("{\"type\":\"echo\",\"payload\":{},\"idempotencyKey\":\"last\"}");
    let answer = world.ask("POST", "/api/jobs", &[("content-type", "application/x-ndjson")], &body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    let lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=300).chain(302..=305).collect::<Vec<_>>());
    assert!(lines[..300].iter().all(|line| line["status"] == 201 && line["id"].is_string()));
    let rest: Vec<_> = lines[300..].iter().map(|line| (line["status"].as_u64(), line["code"].as_str())).collect();
    let expected = [(400, Some("bad_json")), (404, Some("no_such_type")), (422, Some("schema")), (201, None)];
    assert_eq!(rest, expected.map(|(status, code)| (Some(status), code)));
    assert_eq!(lines[302]["errors"][0]["pointer"], "/payload/n");
    let last = lines[303]["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("/api/jobs/{last}")).await.json()["idempotencyKey"], "last");
    let keyed: &[_] = &[("content-type", "application/x-ndjson"), ("idempotency-key", "k")];
    assert_eq!(world.ask("POST", "/api/jobs", keyed, "{}").await.code(), "bad_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_2_without_tls_is_served_on_the_same_port() {
    let world = World::start().await;
    let socket = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    let authority = format!("http://{}", world.address);
    let request = |method: &str, path: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(format!("{authority}{path}"));
        let request = request.header("content-type", "application/json").header("accept", "application/json");
        request.body(Full::new(bytes::Bytes::from_static(body.as_bytes()))).unwrap()
    };
    let made = client.send_request(request("POST", "/api/jobs", r#"{"type":"echo","payload":{}}"#)).await.unwrap();
    assert_eq!((made.status().as_u16(), made.version()), (201, Version::HTTP_2));
    let path = made.headers()["location"].to_str().unwrap().to_string();
    let shown = client.send_request(request("GET", &path, "")).await.unwrap();
    let body = shown.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["status"], "pending");
    let mut evil = request("GET", "/api/jobs", "");
    *evil.uri_mut() = "http://evil.example/api/jobs".parse().unwrap();
    assert_eq!(client.send_request(evil).await.unwrap().status(), 403);
    let head = client.send_request(request("HEAD", &path, "")).await.unwrap();
    assert!(head.headers().contains_key("content-length"));
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    let missing = client.send_request(request("GET", "/nothing", "")).await.unwrap();
    assert_eq!(missing.status(), 404);
}
