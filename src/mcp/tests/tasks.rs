//! Jobs as tasks in both dialects: what they are called, who sees them, and what waits for them.

use serde_json::{Value, json};

use super::reader::{BOTH, Reader, answers};
use super::rig::{CAPABILITIES, Rig, message, modern, modern_headers, request};
use crate::job::Millis;
use crate::service::Viewer;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

impl Rig {
    /// A request within a session; the whole answer.
    async fn ask(&self, session: &str, method: &str, params: Value) -> Value {
        message(&self.post(&[("mcp-session-id", session)], &request(1, method, params)).await)
    }

    /// A call that asks for a task; its id.
    async fn task(&self, session: &str, arguments: Value) -> String {
        let params = json!({"name": "start", "arguments": arguments, "task": {"ttl": 1_000}});
        let answer = self.ask(session, "tools/call", params).await;
        answer["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// A request without a session by a client that takes tasks: HTTP status and message.
    async fn tasked(&self, viewer: Viewer, method: &str, name: Option<&str>, params: Value) -> (u16, Value) {
        let declared = json!({ CAPABILITIES: {"extensions": {TASKS: {}}} });
        self.declaring(viewer, method, name, params, declared).await
    }

    async fn declaring(
        &self,
        viewer: Viewer,
        method: &str,
        name: Option<&str>,
        params: Value,
        meta: Value,
    ) -> (u16, Value) {
        let headers = modern_headers(method, name);
        let mut all: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        let body = modern(method, params, meta).to_string();
        let answer = self.request_as(viewer, "POST", &all, body.as_bytes()).await;
        (answer.status, message(&answer))
    }

    /// The task as `tasks/get` of 2026-07-28 shows it.
    async fn detail(&self, id: &str) -> Value {
        let (_, answer) = self.tasked(Viewer::local(), "tasks/get", Some(id), json!({"taskId": id})).await;
        answer["result"].clone()
    }
}

#[tokio::test]
async fn only_2025_11_25_has_core_tasks_and_says_of_each_tool_whether_it_can_be_one() {
    let rig = Rig::new().await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let has_tasks = revision == "2025-11-25";
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {}});
        let opened = message(&rig.post(&[], &request(0, "initialize", params)).await);
        let expected = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let tasks = opened["result"]["capabilities"].get("tasks");
        assert_eq!(tasks, has_tasks.then_some(&expected), "{revision}");
        let session = rig.open(revision).await;
        let list = rig.ask(&session, "tools/list", json!({})).await;
        let support = |name: &str| {
            let tools = list["result"]["tools"].as_array().expect("tools");
            tools.iter().find(|tool| tool["name"] == name).map(|tool| tool["execution"]["taskSupport"].clone())
        };
        if has_tasks {
            let said = ["start", "plain", "must", "get_job"].map(|name| support(name).expect("is listed"));
            assert_eq!(said, ["optional", "forbidden", "required", "forbidden"]);
        } else {
            assert_eq!(support("start"), Some(Value::Null));
            assert_eq!(support("must"), None, "it cannot be called here");
            for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
                assert_eq!(rig.ask(&session, method, json!({"taskId": "x"})).await["error"]["code"], -32601);
            }
            // What the revision does not know is not looked at.
            let params = json!({"name": "start", "arguments": {}, "task": "nonsense"});
            assert!(rig.ask(&session, "tools/call", params).await["result"].get("task").is_none());
        }
    }
}

#[tokio::test]
async fn a_call_becomes_a_task_as_the_table_says() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    for (name, with_task, expected) in [
        ("start", true, "task"),
        ("quick", true, "task"),
        ("must", true, "task"),
        ("plain", true, "-32601"),
        ("list_jobs", true, "-32601"),
        ("start", false, "handle"),
        ("plain", false, "handle"),
        ("must", false, "-32601"),
        ("nothing", true, "-32602"),
    ] {
        let mut params = json!({"name": name, "arguments": {}});
        if with_task {
            params["task"] = json!({"ttl": 1});
        }
        let answer = rig.ask(&session, "tools/call", params).await;
        assert_eq!(form(&answer), expected, "{name} {with_task}: {answer}");
    }
    let bad = json!({"name": "start", "arguments": {"budget": "many"}, "task": {}});
    assert_eq!(rig.ask(&session, "tools/call", bad).await["error"]["code"], -32602);
    for (name, declares, expected) in [
        ("start", true, "task"),
        ("quick", true, "result"),
        ("must", true, "task"),
        ("must_wait", true, "task"),
        ("plain", true, "handle"),
        ("start", false, "handle"),
        ("quick", false, "result"),
        ("must", false, "-32021"),
    ] {
        let meta = if declares { json!({ CAPABILITIES: {"extensions": {TASKS: {}}} }) } else { json!({}) };
        let params = json!({"name": name, "arguments": {}, "task": {"ttl": "ignored"}});
        let (status, answer) = rig.declaring(Viewer::local(), "tools/call", Some(name), params, meta).await;
        assert_eq!(form(&answer), expected, "{name} {declares}: {answer}");
        assert_eq!(status, if expected == "-32021" { 400 } else { 200 });
    }
}

/// What a call was answered.
fn form(answer: &Value) -> String {
    let result = &answer["result"];
    if let Some(code) = answer["error"]["code"].as_i64() {
        return code.to_string();
    }
    let is_task = result["task"]["taskId"].is_string() || result["resultType"] == "task";
    let is_handle = result["structuredContent"]["jobId"].is_string();
    if is_task {
        "task"
    } else if is_handle {
        "handle"
    } else {
        "result"
    }
    .into()
}

#[tokio::test]
async fn a_task_is_what_its_job_is_in_the_words_of_its_dialect() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let protocol = json!({"fail": "no", "code": "protocol_error", "rpc_code": -32001});
    for (deed, core, modern, last) in [
        (json!({"result": {"n": 1}}), "completed", "completed", "content"),
        (json!({"content": [], "is_error": true}), "failed", "completed", "content"),
        (json!({"fail": "no"}), "failed", "completed", "content"),
        (protocol, "failed", "failed", "-32001"),
    ] {
        // Whoever started it and how: here without a session.
        let id = rig.start(deed.clone()).await;
        rig.ended(&id).await;
        let got = &rig.ask(&session, "tasks/get", json!({"taskId": id})).await["result"];
        assert_eq!((&got["taskId"], &got["status"]), (&json!(id), &json!(core)), "{deed}");
        assert!(got["createdAt"].is_string() && got["lastUpdatedAt"].is_string() && got["ttl"].is_u64(), "{got}");
        let detail = rig.detail(&id).await;
        assert_eq!((&detail["status"], &detail["resultType"]), (&json!(modern), &json!("complete")));
        assert!(detail["ttlMs"].is_u64() && detail.get("ttl").is_none() && detail.get("pollIntervalMs").is_none());
        let result = rig.ask(&session, "tasks/result", json!({"taskId": id})).await;
        if last == "content" {
            assert!(detail["result"]["content"].is_array() && detail.get("error").is_none());
            assert_eq!(result["result"]["content"], detail["result"]["content"]);
            assert_eq!(result["result"]["isError"], detail["result"]["isError"]);
            assert_eq!(result["result"]["_meta"][RELATED], json!({"taskId": id}));
            assert!(detail["result"].get("_meta").is_none(), "{detail}");
        } else {
            assert_eq!((&result["error"], detail.get("result")), (&detail["error"], None));
            assert_eq!(result["error"]["code"], -32001);
        }
    }
}

#[tokio::test]
async fn a_task_can_be_read_as_soon_as_it_is_answered_and_after_a_restart() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let params = json!({"name": "start", "arguments": {"hold": true}, "task": {}});
    let created = rig.ask(&session, "tools/call", params).await["result"].clone();
    let task = &created["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &Value::Null), "a living task has no end");
    let id = task["taskId"].as_str().expect("an id");
    assert_eq!(created["_meta"]["longhaul/jobId"], *id);
    let rig = rig.restart().await;
    assert_eq!(rig.ask(&session, "tasks/get", json!({"taskId": id})).await["result"]["status"], "working");
    let flat = rig.tasked(Viewer::local(), "tools/call", Some("start"), json!({"name": "start"})).await.1;
    let flat = &flat["result"];
    assert_eq!((&flat["resultType"], &flat["ttlMs"], flat.get("task")), (&json!("task"), &Value::Null, None));
    assert!(flat["pollIntervalMs"].is_u64());
    for absent in ["result", "error", "inputRequests", "requestState", "ttl", "pollInterval"] {
        assert!(flat.get(absent).is_none(), "{absent}");
    }
}

#[tokio::test]
async fn case_34_an_unknown_an_expired_and_another_s_task_are_answered_alike_by_every_method() {
    let rig = Rig::new().await;
    let expired = rig.start(json!({})).await;
    rig.ended(&expired).await;
    let live = rig.start(json!({"hold": true})).await;
    // Longer than any ended job is kept; a living one is not hidden by any time.
    rig.clock.advance(Millis::seconds(31 * 24 * 3_600));
    while rig.service.job(&Viewer::local(), expired.parse().expect("an id")).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let rig = rig.restart().await;
    let session = rig.open("2025-11-25").await;
    assert_eq!(rig.ask(&session, "tasks/get", json!({"taskId": live})).await["result"]["status"], "working");
    let mallory = Viewer { principal: "mallory".into(), sees_all: false };
    let unknown = "0190b5a0-0000-7000-8000-000000000000";
    let mut seen = Vec::new();
    for (viewer, id) in [
        (Viewer::local(), unknown),
        (Viewer::local(), "nonsense"),
        (Viewer::local(), expired.as_str()),
        (mallory, live.as_str()),
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let (status, answer) = rig.tasked(viewer.clone(), method, Some(id), params).await;
            assert_eq!(status, 200);
            seen.push(answer["error"].clone());
        }
        if viewer == Viewer::local() {
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                seen.push(rig.ask(&session, method, json!({"taskId": id})).await["error"].clone());
            }
        }
    }
    assert_eq!(seen[0]["code"], -32602);
    assert!(seen.iter().all(|error| *error == seen[0]), "{seen:?}");
    assert_eq!(rig.ask(&session, "tasks/get", json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn requests_that_do_not_declare_the_extension_are_told_what_to_declare_before_anything_is_looked_up() {
    let rig = Rig::new().await;
    for (method, name) in [("tasks/get", "x"), ("tasks/update", "x"), ("tasks/cancel", "x"), ("tools/call", "must")] {
        let params = json!({"taskId": "x", "name": "must"});
        // What older revisions call tasks counts for nothing.
        let meta = json!({ CAPABILITIES: {"tasks": {"requests": {"tools": {"call": {}}}}} });
        let (status, answer) = rig.declaring(Viewer::local(), method, Some(name), params, meta).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32021)), "{method}");
        let needed = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
        assert_eq!(answer["error"]["data"], needed);
    }
    for method in ["tasks/result", "tasks/list"] {
        let (status, answer) = rig.tasked(Viewer::local(), method, None, json!({"taskId": "x"})).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
    let discovered = rig.tasked(Viewer::local(), "server/discover", None, json!({})).await.1;
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!((&capabilities["extensions"][TASKS], capabilities.get("tasks")), (&json!({}), None));
}

#[tokio::test]
async fn a_list_of_tasks_shows_in_pages_what_its_caller_may_get() {
    let rig = Rig::new().await;
    let mut started = Vec::new();
    for _ in 0..=crate::mcp::TASKS_PAGE {
        started.push(rig.start(json!({})).await);
    }
    let session = rig.open("2025-11-25").await;
    let first = rig.ask(&session, "tasks/list", json!({})).await["result"].clone();
    let second = rig.ask(&session, "tasks/list", json!({"cursor": first["nextCursor"]})).await["result"].clone();
    let pages = [&first, &second].map(|page| page["tasks"].as_array().expect("tasks").clone());
    assert_eq!((pages[0].len(), second.get("nextCursor")), (crate::mcp::TASKS_PAGE, None));
    let mut ids: Vec<_> = pages.iter().flatten().map(|task| task["taskId"].as_str().expect("an id")).collect();
    ids.sort_unstable();
    started.sort_unstable();
    assert_eq!(ids, started);
    for bad in [json!("nonsense"), json!(7)] {
        assert_eq!(rig.ask(&session, "tasks/list", json!({"cursor": bad})).await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn case_21_the_outcome_of_a_task_comes_exactly_once_on_each_stream_that_waits_for_it() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.task(&session, json!({"hold": true})).await;
    rig.holds().await;
    let (headers, params) = ([BOTH, ("mcp-session-id", session.as_str())], json!({"taskId": id}));
    let wait = |id: &str| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/result", "params": params});
        let (rig, headers) = (&rig, &headers);
        async move { Reader::of(rig.post(headers, &body).await) }
    };
    let (mut broken, other) = (wait("a").await, wait("b").await);
    let last = broken.next().await.and_then(|event| event.id).expect("a priming event");
    drop(broken);
    let during = Reader::of(rig.resume(&session, &last).await);
    let ended = async {
        rig.let_go(&json!({"n": 1}));
    };
    let (during, other, ()) = tokio::join!(during.rest(), other.rest(), ended);
    for (events, request) in [(&during, "a"), (&other, "b")] {
        let answers = answers(events);
        assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(request)), "{events:?}");
        assert_eq!(answers[0]["result"]["structuredContent"], json!({"n": 1}));
        assert_eq!(answers[0]["result"]["_meta"][RELATED], json!({"taskId": id}));
        let told = events.iter().filter_map(|event| event.data.as_ref());
        let told: Vec<_> = told.filter(|data| data["method"] == "notifications/tasks/status").collect();
        assert_eq!(told.len(), 1);
        assert_eq!((&told[0]["params"]["taskId"], &told[0]["params"]["status"]), (&json!(id), &json!("completed")));
        assert!(told[0]["params"].get("_meta").is_none());
    }
    let rig = rig.restart().await;
    let after = Reader::of(rig.resume(&session, &last).await).rest().await;
    assert_eq!(answers(&after), answers(&during));
}

#[tokio::test(start_paused = true)]
async fn the_progress_token_of_a_task_s_call_is_good_where_its_outcome_is_awaited_also_after_a_restart() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let params = json!({"name": "start", "arguments": {"hold": true}, "task": {}, "_meta": {"progressToken": "p"}});
    let created = rig.ask(&session, "tools/call", params).await;
    let id = created["result"]["task"]["taskId"].clone();
    rig.holds().await;
    let headers = [BOTH, ("mcp-session-id", session.as_str())];
    let mut stream = Reader::of(rig.post(&headers, &request(2, "tasks/result", json!({"taskId": id}))).await);
    let last = stream.next().await.and_then(|event| event.id).expect("a priming event");
    let progress = |data: Value| {
        let params = &data["params"];
        assert_eq!((&data["method"], &params["progressToken"]), (&json!("notifications/progress"), &json!("p")));
        assert_eq!(params["_meta"][RELATED], json!({"taskId": id}));
        params["progress"].as_f64().expect("a number")
    };
    let first = progress(stream.next().await.and_then(|event| event.data).expect("progress"));
    drop(stream);
    let rig = rig.restart().await;
    rig.holds().await;
    rig.clock.advance(Millis::seconds(10));
    let mut stream = Reader::of(rig.resume(&session, &last).await);
    assert!(progress(stream.next().await.and_then(|event| event.data).expect("progress")) > first);
}

#[tokio::test]
async fn a_canceled_task_is_answered_once_it_has_ended_and_one_that_ended_otherwise_is_an_error() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.task(&session, json!({"hold": true})).await;
    rig.holds().await;
    let cancel = json!({"taskId": id});
    let (canceled, ()) = tokio::join!(rig.ask(&session, "tasks/cancel", cancel.clone()), async {
        rig.held.stopped().await;
        rig.let_go(&json!({}));
    });
    assert_eq!((&canceled["result"]["status"], &canceled["result"]["taskId"]), (&json!("cancelled"), &json!(id)));
    assert_eq!(rig.ask(&session, "tasks/cancel", cancel.clone()).await["error"]["code"], -32602);
    assert_eq!(rig.ask(&session, "tasks/result", cancel).await["error"]["code"], -32603);
    // The extension acknowledges at once, and again.
    for _ in 0..2 {
        let (status, ack) = rig.tasked(Viewer::local(), "tasks/cancel", Some(&id), json!({"taskId": id})).await;
        assert_eq!((status, &ack["result"]["resultType"]), (200, &json!("complete")));
        assert!(ack["result"].get("taskId").is_none() && ack["result"].get("status").is_none());
    }
    assert_eq!(rig.detail(&id).await["status"], "cancelled");
    let done = rig.task(&session, json!({})).await;
    rig.ended(&done).await;
    assert_eq!(rig.ask(&session, "tasks/cancel", json!({"taskId": done})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn case_31_a_task_goes_on_when_whoever_waits_for_it_goes_away_or_gives_its_request_up() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let id = rig.task(&session, json!({"hold": true})).await;
    rig.holds().await;
    let headers = [BOTH, ("mcp-session-id", session.as_str())];
    let ask = request(5, "tasks/result", json!({"taskId": id}));
    let mut gone = Reader::of(rig.post(&headers, &ask).await);
    gone.next().await.expect("a priming event");
    drop(gone);
    let mut stream = Reader::of(rig.post(&headers, &ask).await);
    stream.next().await.expect("a priming event");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    let (rest, _) = tokio::join!(stream.rest(), rig.post(&headers[1..], &cancel));
    assert!(answers(&rest).is_empty(), "{rest:?}");
    // A task that was handed out without a session is not held to its request either.
    let flat = rig.tasked(Viewer::local(), "tools/call", Some("start"), json!({"name": "start"})).await.1;
    let other = flat["result"]["taskId"].as_str().expect("an id").to_owned();
    assert_eq!(rig.ended(&other).await, "completed");
    assert!(!rig.held.is_stopped());
    assert_eq!(rig.detail(&id).await["status"], "working");
}

#[tokio::test]
async fn a_listener_is_told_of_tasks_as_they_are_and_then_as_they_move() {
    let rig = Rig::new().await;
    let (done, live) = (rig.start(json!({"result": {"n": 1}})).await, rig.start(json!({"hold": true})).await);
    rig.ended(&done).await;
    rig.holds().await;
    let wanted = json!({"notifications": {"taskIds": [live, "0190b5a0-0000-7000-8000-000000000000", "x", done]}});
    let mut headers = modern_headers("subscriptions/listen", None);
    headers.push(BOTH);
    let undeclared = modern("subscriptions/listen", wanted.clone(), json!({}));
    let refused = rig.post(&headers, &undeclared).await;
    assert_eq!((refused.status, &message(&refused)["error"]["code"]), (400, &json!(-32021)));
    let meta = || json!({ CAPABILITIES: {"extensions": {TASKS: {}}} });
    let many: Vec<_> = (0..=crate::mcp::SUBSCRIPTIONS_MAX).map(|n| n.to_string()).collect();
    let many = modern("subscriptions/listen", json!({"notifications": {"taskIds": many}}), meta());
    assert_eq!(message(&rig.post(&headers[..3], &many).await)["error"]["code"], -32602);

    let mut stream = Reader::of(rig.post(&headers, &modern("subscriptions/listen", wanted, meta())).await);
    let ack = stream.next().await.and_then(|event| event.data).expect("an acknowledgement");
    let mut honoured: Vec<_> = ack["params"]["notifications"]["taskIds"].as_array().expect("ids").clone();
    honoured.sort_unstable_by_key(Value::to_string);
    assert_eq!(honoured, [json!(done), json!(live)], "ids rise with time");
    let mut first = Vec::new();
    for _ in 0..2 {
        let told = stream.next().await.and_then(|event| event.data).expect("a task");
        assert_eq!(told["method"], "notifications/tasks");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
        first.push([&told["params"]["status"], &told["params"]["result"]["structuredContent"]].map(Value::clone));
    }
    first.sort_unstable_by_key(|told| told[0].to_string());
    assert_eq!(first, [[json!("completed"), json!({"n": 1})], [json!("working"), Value::Null]]);
    rig.let_go(&json!({"n": 2}));
    let told = stream.next().await.and_then(|event| event.data).expect("news");
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!(live), &json!("completed")));
    assert_eq!(told["params"]["result"]["structuredContent"], json!({"n": 2}));
}
