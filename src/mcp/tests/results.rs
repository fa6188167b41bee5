//! What an ended job answers, in each revision.

use serde_json::{Value, json};

use super::rig::{REVISIONS, Rig};
use crate::mcp::TEXT_DEFAULT;

impl Rig {
    async fn quick(&self, revision: &str, arguments: Value) -> Value {
        self.call(revision, "quick", arguments, json!({})).await["result"].take()
    }
}

#[tokio::test]
async fn a_finished_job_answers_its_result_in_place_of_the_handle() {
    let rig = Rig::new().await;
    for revision in REVISIONS {
        let result = rig.quick(revision, json!({"result": {"gifts": ["ä", "b"]}})).await;
        assert_eq!(result["structuredContent"], json!({"gifts": ["ä", "b"]}));
        assert_eq!(result["content"], json!([{"type": "text", "text": r#"{"gifts":["ä","b"]}"#}]));
        assert!(result["_meta"]["longhaul/jobId"].is_string());
        assert_eq!(result.get("isError"), None);
    }
}

#[tokio::test]
async fn values_that_are_no_objects_are_structured_only_where_that_is_legal_and_promised() {
    let rig = Rig::new().await;
    for (tool, revision, structured) in [
        ("quick", "2025-11-25", None),
        ("quick", "2026-07-28", None),
        ("numbers", "2025-11-25", None),
        ("numbers", "2026-07-28", Some(json!([1, 2]))),
    ] {
        let message = rig.call(revision, tool, json!({"result": [1, 2]}), json!({})).await;
        assert_eq!(message["result"].get("structuredContent"), structured.as_ref(), "{tool} {revision}");
        assert_eq!(message["result"]["content"][0]["text"], "[1,2]");
    }
    let text = rig.quick("2025-11-25", json!({"result": "line\n\"two\""})).await;
    assert_eq!(text["content"][0]["text"], "line\n\"two\"");
    let nothing = rig.quick("2025-11-25", json!({})).await;
    assert_eq!(nothing["content"][0]["text"], "null");
}

#[tokio::test]
async fn ready_content_is_handed_on_as_the_handler_made_it() {
    let rig = Rig::new().await;
    let content = json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "text", "text": "x"}]);
    for revision in REVISIONS {
        let result = rig.quick(revision, json!({"content": content, "result": {"a": 1}, "is_error": true})).await;
        assert_eq!(result["content"], content);
        assert_eq!((&result["structuredContent"], &result["isError"]), (&json!({"a": 1}), &json!(true)));
    }
}

#[tokio::test]
async fn a_failed_job_answers_its_error_to_the_model_and_a_protocol_error_to_the_client() {
    let rig = Rig::new().await;
    for revision in REVISIONS {
        let result = rig.quick(revision, json!({"fail": "no usable lines", "code": "bad_csv"})).await;
        assert_eq!(result["isError"], true);
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("permanent") && text.contains("bad_csv") && text.ends_with("no usable lines"), "{text}");

        let arguments = json!({"fail": "no", "code": "protocol_error", "rpc_code": -31_000});
        let message = rig.call(revision, "quick", arguments, json!({})).await;
        assert_eq!(message["error"], json!({"code": -31_000, "message": "no"}));
    }
}

#[tokio::test]
async fn a_failed_job_that_logged_says_how_to_read_its_log() {
    let rig = Rig::new().await;
    let result = rig.quick("2025-11-25", json!({"fail": "no usable lines", "log": "a\nb\n"})).await;
    let text = result["content"][0]["text"].as_str().expect("a text");
    let id = result["_meta"]["longhaul/jobId"].as_str().expect("a job");
    assert!(
        text.contains("no usable lines\n") && text.contains(&format!("get_job with jobId {id} and part log")),
        "{text}"
    );
    let log = rig.result("get_job", json!({"jobId": id, "part": "log"})).await;
    assert!(log["structuredContent"]["text"].as_str().is_some_and(|log| log.contains("b")), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_job_answers_that_it_was() {
    let rig = std::sync::Arc::new(Rig::new().await);
    let caller = rig.clone();
    let call = tokio::spawn(async move { caller.quick("2025-11-25", json!({"hold": true})).await });
    while rig.held.len() == 0 {
        tokio::task::yield_now().await;
    }
    let id = rig.held.job().to_string();
    let canceling = rig.result("cancel_job", json!({"jobId": id, "reason": "no more"})).await;
    assert_eq!(canceling["structuredContent"]["cancel"]["reason"], "no more");
    rig.let_go(&json!(1));
    let result = call.await.expect("no panic");
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().is_some_and(|text| text.ends_with("no more")), "{result}");
}

#[tokio::test]
async fn case_36_a_large_result_is_cut_at_a_character_and_says_where_the_rest_is() {
    let rig = Rig::new().await;
    let text = "結果".repeat(20_000);
    for revision in REVISIONS {
        let result = rig.quick(revision, json!({"result": text})).await;
        let cut = result["content"][0]["text"].as_str().expect("a text");
        assert!(cut.len() < 2 * usize::try_from(TEXT_DEFAULT).expect("small"));
        let (shown, mark) = cut.split_once("\n[").expect("a mark");
        assert!(text.starts_with(shown) && mark.contains("get_job") && mark.contains("offset"), "{mark}");
        let handle = &result["structuredContent"];
        assert_eq!(handle["status"], "completed");
        assert!(handle["resultUrl"].as_str().is_some_and(|url| url.ends_with("/result")));
        assert_eq!(handle["jobId"], result["_meta"]["longhaul/jobId"]);
    }
}

#[tokio::test]
async fn case_36_the_whole_of_a_large_result_is_read_in_ranges() {
    let rig = Rig::new().await;
    for result in [json!("語\n\"\\😀".repeat(9_000)), json!({"list": vec!["語😀"; 9_000]})] {
        let id = rig.start(json!({"result": result})).await;
        assert_eq!(rig.ended(&id).await, "completed");
        let (mut all, mut offset) = (String::new(), 0);
        loop {
            let arguments = json!({"jobId": id, "part": "result", "offset": offset, "limit": 7_001});
            let range = rig.result("get_job", arguments).await["structuredContent"].take();
            let text = range["text"].as_str().expect("a text");
            assert!(text.len() <= 7_100);
            all.push_str(text);
            assert_eq!(range["truncated"], range.get("nextOffset").is_some());
            match range["nextOffset"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(all, result.as_str().map_or_else(|| result.to_string(), str::to_owned));
    }
}

#[tokio::test]
async fn case_36_a_result_that_is_cut_links_to_the_whole() {
    let rig = Rig::new().await;
    let long = "語".repeat(usize::try_from(TEXT_DEFAULT).expect("fits"));
    for (revision, links) in [("2025-03-26", false), ("2025-06-18", true), ("2026-07-28", true)] {
        let result = rig.quick(revision, json!({"result": long})).await;
        let id = result["_meta"]["longhaul/jobId"].as_str().expect("a job");
        let link = &result["content"][1];
        assert_eq!(link["type"] == "resource_link", links, "{revision}");
        assert_eq!(link.get("uri").and_then(Value::as_str), links.then_some(format!("job://{id}/result")).as_deref());
        assert_eq!(result["content"].as_array().map(Vec::len), Some(1 + usize::from(links)));
    }
}

#[tokio::test]
async fn links_of_a_handler_are_texts_where_there_are_no_links() {
    let rig = Rig::new().await;
    let link = json!({"type": "resource_link", "uri": "file:///report", "name": "report"});
    let text = json!({"type": "text", "text": "done"});
    for (revision, shown) in
        [("2025-06-18", &link), ("2025-03-26", &json!({"type": "text", "text": "report: file:///report"}))]
    {
        let called = rig.call(revision, "quick", json!({"content": [text, link]}), json!({})).await;
        assert_eq!(called["result"]["content"], json!([text, shown]), "{revision}");
    }
}
