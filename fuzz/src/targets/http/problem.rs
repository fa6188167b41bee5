//! What an answer over HTTP must be, whatever was asked: contract 5 and 8, written down once more.

use serde_json::Value;

use super::wire::Reply;

/// Every code, with its status.
const CODES: [(&str, u16); 28] = [
    ("bad_json", 400),
    ("bad_request", 400),
    ("bad_cursor", 400),
    ("bad_filter", 400),
    ("conflicting_fields", 400),
    ("key_mismatch", 400),
    ("unauthenticated", 401),
    ("forbidden", 403),
    ("bad_origin", 403),
    ("bad_host", 403),
    ("no_such_job", 404),
    ("no_such_type", 404),
    ("no_such_path", 404),
    ("method", 405),
    ("not_acceptable", 406),
    ("too_large", 413),
    ("media_type", 415),
    ("range", 416),
    ("idempotency_conflict", 409),
    ("not_waiting", 409),
    ("already_replayed", 409),
    ("not_dead_lettered", 409),
    ("schema", 422),
    ("too_many", 429),
    ("busy", 503),
    ("draining", 503),
    ("unhealthy", 503),
    ("disk_full", 507),
];

/// # Panics
/// When the answer is not what the contract allows.
pub fn judge(method: &str, target: &str, reply: &Reply, sent: &[u8]) {
    if reply.header("x-content-type-options").is_none() {
        // What cannot be read as a request never reaches the router.
        assert!(matches!(reply.status, 400 | 414 | 431), "{reply:?}");
        return assert!(reply.body.is_empty(), "{reply:?}");
    }
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert!(reply.header("cache-control").is_some());
    let kind = reply.header("content-type").unwrap_or_default();
    match (reply.status, kind) {
        (status @ 400.., "application/problem+json") => problem_is_sound(status, method, reply),
        (400.., _) => assert!(target.contains("/mcp") && kind == "application/json", "{reply:?}"),
        (200 | 201 | 202 | 206, _) => body_is_sound(method, kind, reply, sent),
        (204 | 304, _) => assert!(reply.body.is_empty(), "{reply:?}"),
        (status, _) => panic!("status {status}: {reply:?}"),
    }
}

fn problem_is_sound(status: u16, method: &str, reply: &Reply) {
    let knows = |wanted: u16| CODES.iter().any(|(_, status)| *status == wanted);
    assert!(knows(status), "status {status}");
    assert_eq!(matches!(status, 429 | 503 | 507), reply.header("retry-after").is_some(), "{reply:?}");
    assert!(status != 405 || reply.header("allow").is_some_and(|allow| allow.split(", ").all(|other| other != method)));
    assert!(status != 401 || reply.header("www-authenticate").is_some());
    if method == "HEAD" {
        return;
    }
    let problem = json(reply);
    let code = problem["code"].as_str().unwrap_or_default();
    assert!(CODES.contains(&(code, status)), "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "{problem}");
    if let Some(errors) = problem.get("errors") {
        let errors = errors.as_array().unwrap_or_else(|| panic!("{problem}"));
        let is_sound = |error: &Value| error["pointer"].is_string() && error["message"].is_string();
        assert!(!errors.is_empty() && errors.iter().all(is_sound), "{problem}");
    }
}

fn json(reply: &Reply) -> Value {
    let text = || String::from_utf8_lossy(&reply.body).into_owned();
    serde_json::from_slice(&reply.body).unwrap_or_else(|why| panic!("{why}: {:?}", text()))
}

fn body_is_sound(method: &str, kind: &str, reply: &Reply, sent: &[u8]) {
    if method == "HEAD" {
        return assert!(reply.body.is_empty());
    }
    match kind {
        "application/json" if reply.status == 206 => {}
        "application/json" => drop(json(reply)),
        "application/x-ndjson" => lines_are_sound(reply, sent),
        "text/event-stream; charset=utf-8" | "text/event-stream" => stream_is_sound(reply),
        "" => assert!(reply.body.is_empty(), "{reply:?}"),
        other => {
            assert!(other.starts_with("text/plain") || other.starts_with("application/openmetrics-text"), "{other}")
        }
    }
}

/// An answer to each line that is not blank, in order.
fn lines_are_sound(reply: &Reply, sent: &[u8]) {
    let text = std::str::from_utf8(&reply.body).expect("text");
    let mut last = 0;
    for line in text.lines() {
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let number = answer["line"].as_u64().unwrap_or_else(|| panic!("{line}"));
        assert!(number > last, "{text}");
        last = number;
        let status = answer["status"].as_u64().unwrap_or_default();
        let is_known = CODES.iter().any(|(code, of)| answer["code"] == *code && u64::from(*of) == status);
        assert!(matches!(status, 200 | 201) && answer["id"].is_string() || is_known, "{line}");
    }
    assert!(last <= sent.split(|byte| *byte == b'\n').count() as u64 + 1, "{text}");
}

/// Events and comments; ids rise.
fn stream_is_sound(reply: &Reply) {
    let text = String::from_utf8_lossy(&reply.body);
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let mut last = 0;
    for frame in whole.split("\n\n") {
        let mut kind = "";
        for line in frame.lines() {
            match line.split_once(": ").unwrap_or((line, "")) {
                ("id", id) => {
                    let position = id.split_once('-').and_then(|(_, position)| position.parse::<u64>().ok());
                    let position = position.unwrap_or_else(|| panic!("{id}"));
                    assert!(position >= last && kind != "stream.reset", "{text}");
                    last = position;
                }
                ("event", event) => kind = event,
                ("data", data) => {
                    drop(serde_json::from_str::<Value>(data).unwrap_or_else(|why| panic!("{why}: {data}")))
                }
                ("retry", retry) => drop(retry.parse::<u64>().unwrap_or_else(|why| panic!("{why}: {retry}"))),
                (name, _) => assert!(name.is_empty() || name.starts_with(':'), "{line:?} in {text}"),
            }
        }
    }
}
