//! What jobs ask, and how each kind of client is asked and answers.

use serde_json::{Value, json};

use super::reader::{BOTH, Reader, answers};
use super::rig::{CAPABILITIES, Rig, header, message, modern, modern_headers, request};
use crate::job::Millis;
use crate::service::Viewer;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A question for a number.
fn number(key: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    json!({"key": key, "message": format!("Which {key}?"), "schema": schema})
}

fn accept(n: Value) -> Value {
    json!({"action": "accept", "content": {"n": n}})
}

impl Rig {
    /// Waits until so many questions of the job are open.
    async fn asks(&self, id: &str, count: usize) {
        let id = id.parse().expect("an id");
        while self.service.job(&Viewer::local(), id).await.expect("is there").job.questions.open().count() != count {
            tokio::task::yield_now().await;
        }
    }

    /// A call without a session, of a client that can do this; the message.
    async fn round(&self, viewer: Viewer, params: Value, can: Value) -> Value {
        let name = params["name"].as_str().expect("a name").to_owned();
        let headers = modern_headers("tools/call", Some(&name));
        let mut all: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        let body = modern("tools/call", params, json!({ CAPABILITIES: can })).to_string();
        message(&self.request_as(viewer, "POST", &all, body.as_bytes()).await)
    }

    /// `tasks/*` without a session; the result.
    async fn of_task(&self, method: &str, mut params: Value, id: &str) -> Value {
        params["taskId"] = id.into();
        let can = json!({ CAPABILITIES: {"elicitation": {}, "extensions": {TASKS: {}}} });
        let answer = self.post(&modern_headers(method, Some(id)), &modern(method, params, can)).await;
        message(&answer)["result"].clone()
    }

    /// The same where it is refused: code and message.
    async fn refused_of_task(&self, method: &str, mut params: Value, id: &str) -> (i64, String) {
        params["taskId"] = id.into();
        let can = json!({ CAPABILITIES: {"elicitation": {}, "extensions": {TASKS: {}}} });
        let answer = self.post(&modern_headers(method, Some(id)), &modern(method, params, can)).await;
        let error = &message(&answer)["error"];
        (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a message").to_owned())
    }

    async fn job_count(&self) -> usize {
        let list = self.result("list_jobs", json!({})).await;
        list["structuredContent"]["jobs"].as_array().expect("jobs").len()
    }
}

#[tokio::test]
async fn a_task_asks_all_at_once_and_takes_answers_in_part_before_it_acknowledges_them() {
    let rig = Rig::new().await;
    let id = rig.start(json!({"ask": [[number("a"), number("b")]]})).await;
    rig.asks(&id, 2).await;
    let detail = rig.of_task("tasks/get", json!({}), &id).await;
    assert_eq!(detail["status"], "input_required");
    let form = json!({"mode": "form", "message": "Which a?", "requestedSchema": number("a")["schema"]});
    assert_eq!(detail["inputRequests"]["a"], json!({"method": "elicitation/create", "params": form}));
    assert!(detail["inputRequests"]["b"].is_object());
    // What does not fit is said, and changes nothing; what fits counts, whatever comes beside it; what was not asked is passed over.
    let responses = json!({"a": accept(json!("one")), "b": accept(json!(2)), "c": accept(json!(3)), "d": 7});
    let (code, told) = rig.refused_of_task("tasks/update", json!({"inputResponses": responses}), &id).await;
    assert!(code == -32602 && told.contains("\n- /a/content/n: ") && !told.contains("/d"), "{told}");
    for (unmeant, place) in
        [(json!(7), "\n- /a: must be {"), (json!({"action": "accept", "content": 1}), "\n- /a/content: ")]
    {
        let (code, told) =
            rig.refused_of_task("tasks/update", json!({"inputResponses": {"a": unmeant, "e": 1}}), &id).await;
        assert!(code == -32602 && told.contains(place) && !told.contains("/e"), "{told}");
    }
    let detail = rig.of_task("tasks/get", json!({}), &id).await;
    assert_eq!(detail["inputRequests"].as_object().expect("questions").keys().collect::<Vec<_>>(), ["a"]);
    let rig = rig.restart().await;
    for answer in [accept(json!(1)), accept(json!(9))] {
        let responses = json!({"a": answer, "b": accept(json!(8))});
        assert_eq!(
            rig.of_task("tasks/update", json!({"inputResponses": responses}), &id).await["resultType"],
            "complete"
        );
    }
    assert_eq!(rig.ended(&id).await, "completed");
    let result = &rig.of_task("tasks/get", json!({}), &id).await["result"]["structuredContent"];
    assert_eq!((&result["a"]["content"], &result["b"]["content"]), (&json!({"n": 1}), &json!({"n": 2})));
}

#[tokio::test]
async fn a_call_is_answered_by_questions_and_its_retry_goes_on_with_the_same_job_also_after_a_restart() {
    let rig = Rig::new().await;
    let can = || json!({"elicitation": {}});
    let call = json!({"name": "quick", "arguments": {"ask": [[number("a")], [number("b")]]}});
    let with = |more: &[(&str, Value)]| {
        let mut call = call.clone();
        more.iter().for_each(|(name, value)| call[*name] = value.clone());
        call
    };
    let first = rig.round(Viewer::local(), call.clone(), can()).await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    assert!(first["inputRequests"]["a"].is_object() && first.get("content").is_none());
    let state = first["requestState"].as_str().expect("a state").to_owned();
    let mut states = vec![state.clone()];
    // Wrong, missing and unusable answers ask again, each time under another state.
    for responses in [json!({"z": accept(json!(1))}), json!({"a": accept(json!("x"))}), json!({"a": 7}), Value::Null] {
        let retry = with(&[("requestState", json!(states[0])), ("inputResponses", responses)]);
        let again = rig.round(Viewer::local(), retry, can()).await["result"].clone();
        assert!(again["inputRequests"]["a"].is_object(), "{again}");
        states.push(again["requestState"].as_str().expect("a state").to_owned());
    }
    let count = states.len();
    states.sort_unstable();
    states.dedup();
    assert_eq!(states.len(), count);

    // A state is good for its call and its caller alone, and nobody makes one up.
    let answer = || ("inputResponses", json!({"a": accept(json!(1))}));
    let other = json!({"name": "quick", "arguments": {}, "requestState": state});
    let tampered = with(&[("requestState", json!(format!("{state}-TAMPERED"))), answer()]);
    let number_state = with(&[("requestState", json!(7)), answer()]);
    for bad in [other, tampered, number_state] {
        assert_eq!(rig.round(Viewer::local(), bad, can()).await["error"]["code"], -32602);
    }
    let mallory = Viewer { principal: "mallory".into(), sees_all: true };
    let stolen = with(&[("requestState", json!(state)), answer()]);
    assert_eq!(rig.round(mallory, stolen.clone(), can()).await["error"]["code"], -32602);
    assert_eq!(
        rig.round(Viewer::local(), with(&[("inputResponses", json!([]))]), can()).await["error"]["code"],
        -32602
    );

    let rig = rig.restart().await;
    let second = rig.round(Viewer::local(), stolen.clone(), can()).await["result"].clone();
    assert_eq!(second["inputRequests"].as_object().expect("questions").keys().collect::<Vec<_>>(), ["b"]);
    let retry =
        with(&[("requestState", second["requestState"].clone()), ("inputResponses", json!({"b": accept(json!(2))}))]);
    let done = rig.round(Viewer::local(), retry, can()).await["result"].clone();
    assert_eq!(done["resultType"], "complete");
    assert_eq!(done["structuredContent"]["b"]["content"], json!({"n": 2}));
    assert_eq!(rig.job_count().await, 1, "one job for all rounds");
    rig.clock.advance(crate::mcp::STATE_LIVES.max(Millis(1)));
    assert_eq!(rig.round(Viewer::local(), stolen, can()).await["error"]["code"], -32602);
}

#[tokio::test]
async fn answers_that_come_with_the_call_are_given_as_the_questions_come() {
    let rig = Rig::new().await;
    let responses = json!({"a": accept(json!(1)), "b": {"action": "decline"}, "unknown": accept(json!(3))});
    let arguments = json!({"ask": [[number("a")], [number("b")]]});
    let call = json!({"name": "quick", "arguments": arguments, "inputResponses": responses});
    let done = rig.round(Viewer::local(), call, json!({"elicitation": {}})).await["result"].clone();
    assert_eq!(done["resultType"], "complete");
    let result = &done["structuredContent"];
    assert_eq!((&result["a"]["action"], &result["b"]["action"]), (&json!("accept"), &json!("decline")));
}

#[tokio::test]
async fn who_cannot_be_asked_gets_a_handle_that_says_how_to_answer_and_answers_by_a_helper() {
    let rig = Rig::new().await;
    for revision in ["2025-03-26", "2025-11-25", "2026-07-28"] {
        let arguments = json!({"ask": [[number("a"), number("b")]]});
        let answer = rig.call(revision, "quick", arguments, json!({})).await;
        let result = &answer["result"];
        let id = result["_meta"]["longhaul/jobId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("input_required") && text.contains("answer_job"), "{text}");
        rig.asks(&id, 2).await;
        let reply = |answers: Value| rig.result("answer_job", json!({"jobId": id, "answers": answers}));
        // All or none, and each complaint says where.
        let wrong = reply(json!({"a": accept(json!(1)), "b": accept(json!("x"))})).await;
        assert_eq!(wrong["isError"], true);
        assert!(wrong["content"][0]["text"].as_str().is_some_and(|text| text.contains("/b/content/n")), "{wrong}");
        assert_eq!(reply(json!({"c": {"action": "cancel"}})).await["isError"], true);
        rig.asks(&id, 2).await;
        let half = reply(json!({"a": accept(json!(1))})).await["structuredContent"].clone();
        assert_eq!((&half["status"], &half["questions"][0]["key"]), (&json!("input_required"), &json!("b")));
        let whole = reply(json!({"b": {"action": "decline"}})).await;
        assert!(whole["structuredContent"].get("questions").is_none(), "{whole}");
        assert_eq!(rig.ended(&id).await, "completed");
    }
}

#[tokio::test]
async fn a_session_s_client_is_asked_once_on_the_stream_and_answers_by_a_post_also_after_a_restart() {
    for (revision, has_mode) in [("2025-06-18", false), ("2025-11-25", true)] {
        let rig = Rig::new().await;
        let session = rig.open_with(revision, json!({"elicitation": {}})).await;
        let headers = [BOTH, ("mcp-session-id", session.as_str())];
        let arguments = json!({"ask": [[number("a/\"b\"")], [number("c")]]});
        let params = json!({"name": "quick", "arguments": arguments, "_meta": {"progressToken": 1}});
        let mut stream = Reader::of(rig.post(&headers, &request(7, "tools/call", params)).await);
        let asked = loop {
            let event = stream.next().await.expect("a question");
            if event.data.as_ref().is_some_and(|data| data.get("id").is_some()) {
                break event;
            }
        };
        let (last, question) = (asked.id.expect("an id"), asked.data.expect("data"));
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "Which a/\"b\"?");
        assert_eq!(question["params"].get("mode").is_some(), has_mode, "{revision}");
        drop(stream);

        let rig = rig.restart().await;
        let respond = |with: Value| {
            let mut body = json!({"jsonrpc": "2.0", "id": question["id"]});
            body.as_object_mut().expect("an object").extend(with.as_object().expect("an object").clone());
            body
        };
        let misfit = rig.post(&headers[1..], &respond(json!({"result": accept(json!("x"))}))).await;
        assert_eq!((misfit.status, header(&misfit, "mcp-session-id")), (400, None));
        assert!(message(&misfit).get("id").is_none());
        // What was asked would be asked again before anything else is told.
        rig.clock.advance(Millis::seconds(10));
        let mut resumed = Reader::of(rig.resume(&session, &last).await);
        let first = resumed.next().await.and_then(|event| event.data).expect("goes on");
        assert_eq!(first["method"], "notifications/progress");
        let taken = rig.post(&headers[1..], &respond(json!({"result": accept(json!(1))}))).await;
        assert_eq!((taken.status, taken.body.len()), (202, 0));
        let next = loop {
            let data = resumed.next().await.and_then(|event| event.data).expect("the next question");
            if data.get("id").is_some() {
                break data;
            }
        };
        assert_eq!(next["params"]["message"], "Which c?", "what was asked is not asked again");
        let gone = json!({"jsonrpc": "2.0", "id": next["id"], "error": {"code": -32601, "message": "no"}});
        let (rest, answer) = tokio::join!(resumed.rest(), rig.post(&headers[1..], &gone));
        assert_eq!(answer.status, 202);
        let last = answers(&rest);
        assert_eq!((last.len(), &last[0]["id"]), (1, &json!(7)));
        let result = &last[0]["result"]["structuredContent"];
        assert_eq!(result["a/\"b\""]["content"], json!({"n": 1}));
        assert_eq!(result["c"]["action"], "cancel", "an error puts the question away");
        // Late, twice, or of nobody: taken and passed over.
        for id in [question["id"].clone(), json!("x/y"), json!(3), json!("0190b5a0-0000-7000-8000-000000000000/a")] {
            let late = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}});
            assert_eq!(rig.post(&headers[1..], &late).await.status, 202, "{id}");
        }
    }
}

#[tokio::test]
async fn a_person_who_thinks_is_not_cut_short_by_the_wait_of_the_call() {
    let rig = Rig::new().await;
    let session = rig.open_with("2025-11-25", json!({"elicitation": {}})).await;
    let headers = [BOTH, ("mcp-session-id", session.as_str())];
    let params = json!({"name": "quick", "arguments": {"ask": [[number("a")]]}, "_meta": {"progressToken": 1}});
    let mut stream = Reader::of(rig.post(&headers, &request(7, "tools/call", params)).await);
    let question = loop {
        let data = stream.next().await.expect("goes on").data.unwrap_or_default();
        if data["method"] == "elicitation/create" {
            break data;
        }
    };
    // Far more than the minute that the call may take: now the runtime's clock runs by itself.
    tokio::time::pause();
    for _ in 0..20 {
        rig.clock.advance(Millis::seconds(10));
        let data = stream.next().await.and_then(|event| event.data).expect("goes on");
        assert_eq!(data["method"], "notifications/progress", "{data}");
    }
    // From here on the job's threads need time that is not passed over.
    tokio::time::resume();
    let respond = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(json!(1))});
    let (rest, _) = tokio::join!(stream.rest(), rig.post(&headers[1..], &respond));
    assert_eq!(answers(&rest)[0]["result"]["structuredContent"]["a"]["content"], json!({"n": 1}));
}

#[tokio::test]
async fn whoever_awaits_a_task_is_asked_there_and_told_which_task_asks() {
    let rig = Rig::new().await;
    let session = rig.open_with("2025-11-25", json!({"elicitation": {}})).await;
    let headers = [BOTH, ("mcp-session-id", session.as_str())];
    let id = rig.start(json!({"ask": [[number("a")]]})).await;
    rig.asks(&id, 1).await;
    let mut stream = Reader::of(rig.post(&headers, &request(1, "tasks/result", json!({"taskId": id}))).await);
    stream.next().await.expect("a priming event");
    let question = stream.next().await.and_then(|event| event.data).expect("a question");
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!((&question["method"], related), (&json!("elicitation/create"), &json!({"taskId": id})));
    let respond = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(json!(1))});
    let (rest, _) = tokio::join!(stream.rest(), rig.post(&headers[1..], &respond));
    let told: Vec<_> = rest.iter().filter_map(|event| event.data.as_ref()).collect();
    let status: Vec<_> = told.iter().filter(|data| data["method"] == "notifications/tasks/status").collect();
    assert_eq!(status.last().map(|data| &data["params"]["status"]), Some(&json!("completed")));
    assert_eq!(answers(&rest)[0]["result"]["structuredContent"]["a"]["content"], json!({"n": 1}));
}

#[tokio::test]
async fn a_tool_that_is_always_a_task_asks_in_rounds_first_and_its_state_does_not_leak() {
    let rig = Rig::new().await;
    let can = || json!({"elicitation": {}, "extensions": {TASKS: {}}});
    let call = json!({"name": "must_wait", "arguments": {"ask": [[number("a")]]}});
    let first = rig.round(Viewer::local(), call.clone(), can()).await["result"].clone();
    assert_eq!((&first["resultType"], first.get("taskId")), (&json!("input_required"), None));
    let mut retry = call.clone();
    retry["requestState"] = first["requestState"].clone();
    retry["inputResponses"] = json!({"a": accept(json!(1))});
    let task = rig.round(Viewer::local(), retry, can()).await["result"].clone();
    assert_eq!(task["resultType"], "task");
    assert!(task.get("requestState").is_none() && task.get("inputRequests").is_none());
    let id = task["taskId"].as_str().expect("an id");
    assert_eq!(rig.ended(id).await, "completed");
    // A tool that may be a task is one as soon as it asks.
    let asks = json!({"name": "quick", "arguments": {"ask": [[number("a")]]}});
    let task = rig.round(Viewer::local(), asks, can()).await["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("input_required")));
}
