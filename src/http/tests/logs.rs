//! `/log`: a job's log line by line, for its owner and nobody else.

use serde_json::{Value, json};

use super::{Settings, World, with_tokens};
use crate::job::Outcome;
use crate::work::Leave;

fn messages(page: &Value) -> Vec<String> {
    let lines = page["lines"].as_array().unwrap();
    lines
        .iter()
        .map(|line| format!("{}:{}", line["level"].as_str().unwrap(), line["message"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_read_line_by_line_over_attempts_and_goes_on_from_its_cursor() {
    let world = World::start().await;
    let id = world.submit().await;
    let path = format!("/api/jobs/{id}/log");
    let empty = world.get(&path).await;
    assert_eq!((empty.status, empty.json()), (200, json!({"lines": [], "cursor": "0-0", "hasMore": false})));
    let first = world.claim();
    world.leave(&first, Leave::Released, "one\nwarning: two\n");
    let page = world.get(&path).await.json();
    assert_eq!(messages(&page), ["info:one", "warning:two"]);
    assert_eq!((&page["hasMore"], &page["lines"][0]["claim"]), (&json!(false), &json!(first.number.0)));
    // Where that ended the next attempt goes on, a line at a time.
    let second = world.claim();
    world.leave(
        &second,
        Leave::Over(Outcome::failed(crate::job::Class::Permanent, None, "no")),
        "three\n\nERROR: fünf\n",
    );
    let mut seen = Vec::new();
    let mut cursor = page["cursor"].as_str().unwrap().to_owned();
    for has_more in [true, true, false] {
        let page = world.get(&format!("{path}?limit=1&cursor={cursor}")).await.json();
        assert_eq!((page["lines"].as_array().unwrap().len(), &page["hasMore"]), (1, &json!(has_more)), "{page}");
        seen.extend(messages(&page));
        cursor = page["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen, ["info:three", "info:", "error:fünf"]);
    assert_eq!(messages(&world.get(&path).await.json()).len(), 5);
    assert_eq!(world.get(&format!("{path}?cursor={cursor}")).await.json()["cursor"], cursor);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_its_owners_and_no_tickets() {
    let world = World::with(Settings { http: with_tokens(), ..Settings::default() }).await;
    let ask = async |name: &str, method: &str, path: &str, body: &str| {
        let token = format!("Bearer {name}");
        world.ask(method, path, &[("authorization", &*token), ("content-type", "application/json")], body).await
    };
    let made = ask("ann", "POST", "/api/jobs", r#"{"type":"echo"}"#).await.json();
    let path = format!("/api/jobs/{}/log", made["id"].as_str().unwrap());
    let (ended, quoted) = ("the program exited with status 65", "the program exited with status 65: s3cret");
    let failed = Outcome::failed(crate::job::Class::Permanent, Some("exit_65"), quoted);
    world.leave(&world.claim(), Leave::Over(failed), "s3cret\n");
    assert_eq!(messages(&ask("ann", "GET", &path, "").await.json()), ["info:s3cret"]);
    assert_eq!(messages(&ask("root", "GET", &path, "").await.json()), ["info:s3cret"]);
    let hidden = ask("bob", "GET", &path, "").await;
    assert_eq!((hidden.status, hidden.code()), (404, "no_such_job".into()));
    let ticket =
        ask("ann", "POST", &path.replace("/log", "/ticket"), "").await.json()["ticket"].as_str().unwrap().to_owned();
    let with_ticket = world.ask("GET", &format!("{path}?ticket={ticket}"), &[], "").await;
    assert_eq!(with_ticket.status, 401, "{with_ticket:?}");
    // Nor is the line of it that the job's error quotes.
    let job = path.replace("/log", "");
    assert_eq!(ask("ann", "GET", &job, "").await.json()["error"]["message"], quoted);
    let shown = world.ask("GET", &format!("{job}?ticket={ticket}"), &[], "").await.json();
    assert_eq!(shown["error"]["message"], ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_log_that_makes_no_sense_is_refused() {
    let world = World::start().await;
    let path = format!("/api/jobs/{}/log", world.submit().await);
    for (query, code) in [
        ("limit=0", "bad_filter"),
        ("limit=1001", "bad_filter"),
        ("after=1-1", "bad_filter"),
        ("cursor=x", "bad_cursor"),
        ("cursor=1", "bad_cursor"),
    ] {
        let answer = world.get(&format!("{path}?{query}")).await;
        assert_eq!((answer.status, answer.code()), (400, code.into()), "{query}");
    }
    assert_eq!(world.get("/api/jobs/0193a5d0-7c00-7000-8000-000000000001/log").await.status, 404);
    assert_eq!(world.post(&path, &json!({})).await.status, 405);
}
