//! What a token may do by each method of each era: `read` reads, `submit` changes, and neither does the other's.

use serde_json::{Value, json};

use super::rig::{Rig, message, modern, modern_headers, request};
use crate::mcp::{Answer, Rights};
use crate::service::Viewer;

const READER: Rights = Rights { reads: true, submits: false };
const SUBMITTER: Rights = Rights { reads: false, submits: true };

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Needs {
    Either,
    Read,
    Submit,
    Both,
}

/// Methods that both eras have.
const BOTH_ERAS: &[(&str, Needs)] = &[
    ("tools/list", Needs::Either),
    ("prompts/list", Needs::Either),
    ("prompts/get", Needs::Either),
    ("resources/templates/list", Needs::Either),
    ("resources/list", Needs::Read),
    ("resources/read", Needs::Read),
    ("completion/complete", Needs::Read),
    ("tasks/get", Needs::Read),
    ("tasks/cancel", Needs::Submit),
    ("nonsense", Needs::Either),
];

const SESSIONS: &[(&str, Needs)] = &[
    ("ping", Needs::Either),
    ("logging/setLevel", Needs::Either),
    ("resources/subscribe", Needs::Read),
    ("resources/unsubscribe", Needs::Read),
    ("tasks/result", Needs::Read),
    ("tasks/list", Needs::Read),
];

const MODERN: &[(&str, Needs)] = &[
    ("server/discover", Needs::Either),
    ("subscriptions/listen", Needs::Read),
    ("tasks/update", Needs::Submit),
    ("events/list", Needs::Read),
    ("events/poll", Needs::Read),
    ("events/stream", Needs::Read),
    ("events/unsubscribe", Needs::Read),
    ("events/subscribe", Needs::Both),
];

const TOOLS: &[(&str, Needs)] = &[
    ("start", Needs::Submit),
    ("get_job", Needs::Read),
    ("list_jobs", Needs::Read),
    ("wait_for_jobs", Needs::Read),
    ("view_job", Needs::Read),
    ("cancel_job", Needs::Submit),
    ("answer_job", Needs::Submit),
    ("answer_question", Needs::Submit),
    ("retry_job", Needs::Submit),
    ("no_such_tool", Needs::Either),
];

fn parameters(method: &str, tool: &str, job: &str) -> Value {
    match method {
        "tools/call" => json!({"name": tool, "arguments": {}}),
        "logging/setLevel" => json!({"level": "info"}),
        _ => json!({"name": "n", "uri": "job://x", "taskId": job}),
    }
}

/// The status of an answer, and which scope it says is missing.
fn missing(answer: &Answer) -> (u16, Option<String>) {
    if answer.stream.is_some() {
        return (answer.status, None);
    }
    let error = message(answer)["error"].take();
    if error["data"]["code"] != "forbidden" {
        return (answer.status, None);
    }
    assert_eq!(error["code"], -32600, "{error}");
    let scope = error["data"]["scope"].as_str().expect("a scope").to_owned();
    assert_eq!(error["message"], format!("this needs a token with the scope {scope}"));
    (answer.status, Some(scope))
}

/// Asks as a reader and as a submitter; in a session, or without one in the newest revision.
async fn check(rig: &Rig, session: Option<&str>, (method, tool): (&str, &str), job: &str, needs: Needs) {
    for (rights, has, lacks) in [(READER, "read", "submit"), (SUBMITTER, "submit", "read")] {
        let params = parameters(method, tool, job);
        let (headers, body) = match session {
            Some(session) => (vec![("mcp-session-id", session)], request(1, method, params)),
            None => {
                let name = match method {
                    "tools/call" => Some(tool),
                    "prompts/get" => Some("n"),
                    "resources/read" => Some("job://x"),
                    _ => None,
                };
                (modern_headers(method, name), modern(method, params, json!({})))
            }
        };
        let mut all: Vec<(&str, &[u8])> =
            vec![("content-type", b"application/json"), ("accept", b"application/json, text/event-stream")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        let answer = rig.request_by(Viewer::local(), rights, "POST", &all, body.to_string().as_bytes()).await;
        let is_refused = match needs {
            Needs::Either => false,
            Needs::Read => has != "read",
            Needs::Submit => has != "submit",
            Needs::Both => true,
        };
        let (status, scope) = missing(&answer);
        let what = format!("{method} {tool} with {has}, session {}: {status}", session.is_some());
        assert_eq!(scope.as_deref(), is_refused.then_some(lacks), "{what}");
        let refused = if session.is_some() { 200 } else { 403 };
        assert!(!is_refused || status == refused, "{what}");
    }
}

#[tokio::test]
async fn each_method_needs_its_scope_and_no_other() {
    let rig = Rig::new().await;
    let job = rig.start(json!({})).await;
    let session = rig.open("2025-11-25").await;
    for (session, own) in [(Some(session.as_str()), SESSIONS), (None, MODERN)] {
        for (method, needs) in BOTH_ERAS.iter().chain(own) {
            check(&rig, session, (method, ""), &job, *needs).await;
        }
        for (tool, needs) in TOOLS {
            check(&rig, session, ("tools/call", tool), &job, *needs).await;
        }
    }
}

#[tokio::test]
async fn a_reader_sees_what_a_submitter_made_and_starts_nothing() {
    let rig = Rig::new().await;
    let ask = async |rights, tool: &str, arguments: Value| {
        let body = modern("tools/call", json!({"name": tool, "arguments": arguments}), json!({}));
        let headers = modern_headers("tools/call", Some(tool));
        let mut all: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        rig.request_by(Viewer::local(), rights, "POST", &all, body.to_string().as_bytes()).await
    };
    let made = message(&ask(SUBMITTER, "start", json!({"result": 7})).await);
    let id = made["result"]["structuredContent"]["jobId"].as_str().expect("a handle").to_owned();
    assert_eq!(ask(READER, "start", json!({})).await.status, 403);
    let listed = message(&ask(READER, "list_jobs", json!({})).await);
    let jobs = listed["result"]["structuredContent"]["jobs"].as_array().expect("jobs").clone();
    assert_eq!((jobs.len(), &jobs[0]["id"]), (1, &json!(id)), "{listed}");
    assert_eq!(ask(SUBMITTER, "get_job", json!({"jobId": id})).await.status, 403);
    assert_eq!(ask(READER, "get_job", json!({"jobId": id})).await.status, 200);
}

#[tokio::test]
async fn an_answer_to_a_question_and_a_stream_that_is_taken_up_again_need_their_scopes() {
    let rig = Rig::new().await;
    let session = rig.open("2025-11-25").await;
    let response = json!({"jsonrpc": "2.0", "id": "x/y", "result": {"action": "accept"}}).to_string();
    let headers: [(&str, &[u8]); 2] = [("content-type", b"application/json"), ("mcp-session-id", session.as_bytes())];
    let respond = async |rights| rig.request_by(Viewer::local(), rights, "POST", &headers, response.as_bytes()).await;
    assert_eq!(missing(&respond(READER).await), (403, Some("submit".into())));
    assert_eq!(respond(SUBMITTER).await.status, 202);

    let body = request(1, "tools/call", json!({"name": "quick", "arguments": {"hold": true}})).to_string();
    let accept = ("accept", &b"application/json, text/event-stream"[..]);
    let call = [headers[0], headers[1], accept];
    let answer = rig.request_by(Viewer::local(), SUBMITTER, "POST", &call, body.as_bytes()).await;
    let mut stream = super::reader::Reader::of(answer);
    let id = stream.next().await.and_then(|event| event.id).expect("an id");
    let resume: [(&str, &[u8]); 3] = [accept, headers[1], ("last-event-id", id.as_bytes())];
    let refused = rig.request_by(Viewer::local(), READER, "GET", &resume, b"").await;
    assert_eq!(missing(&refused), (403, Some("submit".into())));
    assert_eq!(rig.request_by(Viewer::local(), SUBMITTER, "GET", &resume, b"").await.status, 200);
}
