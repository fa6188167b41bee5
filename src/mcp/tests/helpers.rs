//! The helper tools.

use serde_json::{Value, json};

use super::rig::Rig;
use crate::service::Viewer;

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

#[tokio::test]
async fn get_job_shows_the_job_without_its_payload() {
    let rig = Rig::new().await;
    let id = rig.start(json!({"secret": "s3cret", "result": {"a": 1}, "log": "one\ntwo\n"})).await;
    rig.ended(&id).await;
    let result = rig.result("get_job", json!({"jobId": id})).await;
    let job = &result["structuredContent"];
    assert_eq!((&job["id"], &job["status"], &job["type"]), (&json!(id), &json!("completed"), &json!("start_type")));
    assert_eq!((&job["result"], job.get("payload")), (&json!({"a": 1}), None));
    assert!(!result.to_string().contains("s3cret"));
    assert_eq!(serde_json::from_str::<Value>(text(&result)).expect("JSON"), *job);

    let log = rig.result("get_job", json!({"jobId": id, "part": "log"})).await;
    assert_eq!(text(&log), "one\ntwo\n");
    let part = rig.result("get_job", json!({"jobId": id, "part": "result"})).await;
    assert_eq!((text(&part), &part["structuredContent"]["total"]), (r#"{"a":1}"#, &json!(7)));
    let beyond = rig.result("get_job", json!({"jobId": id, "part": "result", "offset": 1_000_000_000})).await;
    assert_eq!((text(&beyond), beyond["structuredContent"].get("nextOffset")), ("", None));
}

#[tokio::test]
async fn get_job_says_why_there_is_no_result() {
    let rig = Rig::new().await;
    let running = rig.start(json!({"hold": true})).await;
    let result = rig.result("get_job", json!({"jobId": running, "part": "result"})).await;
    assert!(result["isError"] == true && text(&result).contains("wait_for_jobs"), "{result}");
    let failed = rig.start(json!({"fail": "no luck"})).await;
    rig.ended(&failed).await;
    let result = rig.result("get_job", json!({"jobId": failed, "part": "result"})).await;
    assert!(result["isError"] == true && text(&result).contains("no luck"), "{result}");
    let status = rig.result("get_job", json!({"jobId": failed})).await;
    assert_eq!(status["structuredContent"]["error"]["message"], "no luck");
    assert_eq!(status.get("isError"), None);
}

#[tokio::test]
async fn an_unknown_id_names_jobs_with_ids_like_it_and_nobody_else_s() {
    let rig = Rig::new().await;
    let id = rig.start(json!({"hold": true})).await;
    let typo = format!("{}f", &id[..35]);
    for (tool, arguments) in [
        ("get_job", json!({"jobId": typo})),
        ("cancel_job", json!({"jobId": typo})),
        ("wait_for_jobs", json!({"jobIds": [id, typo], "timeoutMs": 600_000})),
        ("get_job", json!({"jobId": id.to_uppercase()})),
    ] {
        for revision in super::rig::REVISIONS {
            let result = rig.call(revision, tool, arguments.clone(), json!({})).await["result"].take();
            assert_eq!(result["isError"], true, "{tool}");
            assert!(text(&result).contains(&format!("Ids like it: {id}")), "{result}");
        }
    }
    let hostile = rig.result("get_job", json!({"jobId": "x\n\u{0}".repeat(100_000)})).await;
    assert!(hostile["isError"] == true && text(&hostile).len() < 400);

    let ann = Viewer { principal: "ann".into(), sees_all: false };
    let body = super::rig::modern("tools/call", json!({"name": "get_job", "arguments": {"jobId": id}}), json!({}));
    let headers: [(&str, &[u8]); 4] = [
        ("content-type", b"application/json"),
        ("mcp-protocol-version", b"2026-07-28"),
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"get_job"),
    ];
    let answer = rig.request_as(ann, "POST", &headers, body.to_string().as_bytes()).await;
    let result = super::rig::message(&answer)["result"].take();
    assert!(result["isError"] == true && !text(&result).contains("Ids like it"), "{result}");
}

#[tokio::test]
async fn arguments_of_helpers_are_checked_like_any_other() {
    let rig = Rig::new().await;
    let result = rig.result("wait_for_jobs", json!({"jobIds": [], "mode": "some"})).await;
    assert!(
        result["isError"] == true && text(&result).contains("/mode") && text(&result).contains("\"all\""),
        "{result}"
    );
    let old = rig.call("2025-06-18", "wait_for_jobs", json!({"jobIds": "x"}), json!({})).await;
    assert_eq!(old["error"]["code"], -32602);
}

#[tokio::test]
async fn waiting_tells_only_what_changed_since_the_cursor() {
    let rig = Rig::new().await;
    let (one, two) = (rig.start(json!({"hold": true})).await, rig.start(json!({"result": 2})).await);
    let wait = |more: Value| {
        let mut arguments = json!({"jobIds": [one, two, one]});
        more.as_object().expect("an object").iter().for_each(|(name, value)| arguments[name] = value.clone());
        rig.result("wait_for_jobs", arguments)
    };
    // Any: the one that ends. Its short result comes along.
    let first = wait(json!({"timeoutMs": 60_000})).await["structuredContent"].take();
    assert_eq!((&first["done"], &first["pending"]), (&json!(false), &json!([one])));
    let jobs = first["jobs"].as_array().expect("jobs");
    let ended = jobs.iter().find(|job| job["id"] == *two).expect("is told");
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!(2)));

    // Nothing more has happened: nothing is told when the time is up.
    let second = wait(json!({"timeoutMs": 1, "since": first["cursor"]})).await;
    assert_eq!(second["structuredContent"]["jobs"], json!([]));
    assert_eq!(second["content"][0]["text"], "Nothing new.");

    rig.let_go(&json!(1));
    let third = wait(json!({"mode": "all", "timeoutMs": 60_000, "since": second["structuredContent"]["cursor"]})).await;
    let third = &third["structuredContent"];
    assert_eq!((&third["done"], &third["pending"]), (&json!(true), &json!([])));
    assert_eq!(third["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(third["jobs"][0]["id"], *one);

    // A cursor of another log knows nothing; one that is none is refused.
    let foreign = wait(json!({"since": "00000000-7"})).await;
    assert_eq!(foreign["structuredContent"]["jobs"].as_array().map(Vec::len), Some(2));
    assert_eq!(wait(json!({"since": "yesterday"})).await["isError"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_all_outlasts_the_first_end_and_a_dropped_wait_cancels_nothing() {
    let rig = std::sync::Arc::new(Rig::new().await);
    let (one, two) = (rig.start(json!({"hold": true})).await, rig.start(json!({"result": 2})).await);
    let arguments = json!({"jobIds": [one, two], "mode": "all", "timeoutMs": 600_000});
    let wait = |rig: &std::sync::Arc<Rig>| {
        let (rig, arguments) = (rig.clone(), arguments.clone());
        tokio::spawn(async move { rig.call("2026-07-28", "wait_for_jobs", arguments, json!({})).await })
    };
    let dropped = wait(&rig);
    rig.ended(&two).await;
    dropped.abort();
    assert!(dropped.await.expect_err("one still runs").is_cancelled());
    assert!(!rig.held.is_stopped());
    let kept = wait(&rig);
    rig.let_go(&json!(1));
    let report = kept.await.expect("no panic")["result"]["structuredContent"].take();
    assert_eq!((&report["done"], report["jobs"].as_array().map(Vec::len)), (&json!(true), Some(2)));
}

#[tokio::test]
async fn results_in_a_report_are_bounded_together() {
    let rig = Rig::new().await;
    let big = "x".repeat(15_000);
    let ids = [rig.start(json!({"result": big})).await, rig.start(json!({"result": big})).await];
    let report = rig.result("wait_for_jobs", json!({"jobIds": ids, "mode": "all", "timeoutMs": 60_000})).await;
    let jobs = &report["structuredContent"]["jobs"];
    assert_eq!((&jobs[0]["result"], jobs[1].get("result")), (&json!(big), None));
    assert!(jobs[1]["resultUrl"].is_string());
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages_and_only_one_s_own() {
    let rig = Rig::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let id = rig.start(json!({"result": format!("number\n{n}")})).await;
        rig.ended(&id).await;
        ids.insert(0, id);
    }
    let first = rig.result("list_jobs", json!({"limit": 3})).await;
    let second = rig.result("list_jobs", json!({"cursor": first["structuredContent"]["nextCursor"]})).await;
    let listed: Vec<_> = [&first, &second]
        .iter()
        .flat_map(|page| page["structuredContent"]["jobs"].as_array().expect("jobs"))
        .map(|job| job["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(listed, ids);
    assert_eq!(text(&second).lines().count(), 2);
    assert!(text(&second).contains("number 0"), "{second}");
    assert_eq!(text(&rig.result("list_jobs", json!({"status": "failed"})).await), "No jobs.");
    assert_eq!(rig.result("list_jobs", json!({"cursor": "x"})).await["isError"], true);

    let other = Viewer { principal: "admin".into(), sees_all: true };
    let body = super::rig::modern("tools/call", json!({"name": "list_jobs"}), json!({}));
    let headers: [(&str, &[u8]); 4] = [
        ("content-type", b"application/json"),
        ("mcp-protocol-version", b"2026-07-28"),
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"list_jobs"),
    ];
    let answer = rig.request_as(other, "POST", &headers, body.to_string().as_bytes()).await;
    assert_eq!(super::rig::message(&answer)["result"]["structuredContent"]["jobs"], json!([]));
}

#[tokio::test]
async fn canceling_answers_the_receipt_and_leaves_an_ended_job_as_it_is() {
    let rig = Rig::new().await;
    let done = rig.start(json!({"result": 1})).await;
    rig.ended(&done).await;
    let result = rig.result("cancel_job", json!({"jobId": done})).await;
    assert_eq!(result["structuredContent"]["status"], "completed");
    assert_eq!(result["structuredContent"].get("cancel"), None);
    let long = rig.result("cancel_job", json!({"jobId": done, "reason": "x".repeat(1_000)})).await;
    assert!(long["isError"] == true && text(&long).contains("/reason"), "{long}");
}
