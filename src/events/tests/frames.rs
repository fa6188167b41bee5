//! The bytes of a frame: contract 2, field by field, and nothing that a payload could forge.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::events::Writer;
use crate::job::*;

const JOB: JobId = JobId::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);
const PATH: &str = "/api/jobs/01980000-0000-7000-8000-000000000001";

fn logged(entry: Entry) -> Logged {
    Logged {
        position: Position(42),
        at: Timestamp(1_800_000_000_123),
        job: JOB,
        job_type: "t".into(),
        owner: "o".into(),
        tags: Arc::from([]),
        entry,
    }
}

/// The frame as text, and its payload.
fn written(entry: Entry) -> (String, Value) {
    let logged = logged(entry);
    let mut out = Vec::new();
    let written = Writer::new(Epoch(0x0a1b_2c3d), "").write(&logged, &mut out).expect("visible");
    assert_eq!(written.frame, 0..out.len());
    let frame = String::from_utf8(out).expect("UTF-8");
    let envelope: Value = serde_json::from_str(&frame[written.envelope]).expect("JSON");
    assert_eq!(envelope["event_id"], "0a1b2c3d-42");
    assert_eq!(envelope["type"], logged.entry.event_type().expect("visible"));
    assert_eq!(envelope["job_id"], JOB.to_string());
    assert_eq!(envelope["timestamp"], "2027-01-15T08:00:00.123Z");
    assert_eq!(envelope.as_object().map(serde_json::Map::len), Some(5));
    (frame, envelope["payload"].clone())
}

fn payload(entry: Entry) -> Value {
    written(entry).1
}

fn spec() -> Spec {
    Spec {
        id: JOB,
        job_type: "t\n".into(),
        owner: "secret owner".into(),
        payload: BodyRef::of(Part::Payload, 0, b"{}"),
        carried: Carried::default(),
        priority: -5,
        max_attempts: 5,
        created_at: Timestamp(0),
        expires_at: None,
        key: Some(Arc::new(Key { text: "secret key".into(), digest: [0; 32] })),
        tags: Arc::from([]),
        traceparent: None,
        replay_of: None,
    }
}

fn completed(result: Option<BodyRef>, inline: Option<Json>) -> Entry {
    let completion = Completion { summary: "3 gifts".into(), result, content: None, is_error: false, lossy: false };
    let (claim, attempts, duration) = (ClaimNo(7), 2, Millis(1_234));
    Entry::Completed { claim, completion: Arc::new(completion), attempts, duration, inline, log: None }
}

#[test]
fn created_tells_type_and_priority_and_what_else_was_given_but_no_payload_and_no_key() {
    let spec = spec();
    let (frame, plain) = written(Entry::Created { spec: Arc::new(spec.clone()), run_at: None });
    assert_eq!(plain, json!({"type": "t\n", "priority": -5}));
    assert!(!frame.contains("secret"));
    let spec = Spec { tags: Arc::from(["a".into(), "b\"".into()]), replay_of: Some(JOB), ..spec };
    let full = payload(Entry::Created { spec: Arc::new(spec), run_at: Some(Timestamp(1_000)) });
    let at = "1970-01-01T00:00:01.000Z";
    let wanted = json!({"type": "t\n", "priority": -5, "runAt": at, "tags": ["a", "b\""], "replayOf": JOB.to_string()});
    assert_eq!(full, wanted);
}

#[test]
fn an_attempt_tells_its_number_the_limit_and_its_worker() {
    let started = Entry::Started { claim: ClaimNo(9), attempt: 2, max_attempts: 5, worker: "w1".into() };
    assert_eq!(payload(started), json!({"attempt": 2, "maxAttempts": 5, "worker": "w1"}));
}

#[test]
fn progress_has_the_fields_that_were_reported_or_those_of_a_retry() {
    let made = Progress { step: Some(1), total_steps: Some(4), percent: Some(25.0), message: Some("a".into()) };
    let (frame, fields) = written(Entry::Progress(made));
    assert_eq!(fields, json!({"step": 1, "totalSteps": 4, "percent": 25, "message": "a"}));
    assert!(frame.contains("\"percent\":25,"), "as people write it");
    assert_eq!(payload(Entry::Progress(Progress::default())), json!({}));
    let odd = Progress { percent: Some(f64::NAN), ..Progress::default() };
    assert_eq!(payload(Entry::Progress(odd)), json!({}));
    let retrying = Entry::Retrying {
        claim: ClaimNo(1),
        end: End::Failed,
        failure: Failure::new(Class::Transient, None, "connection refused"),
        retry: 1,
        max_attempts: 5,
        next_at: Timestamp(1_800_000_001_323),
        log: None,
    };
    let wanted = json!({"retry": 1, "maxAttempts": 5, "nextAttemptInMs": 1_200, "error": "connection refused"});
    assert_eq!(payload(retrying), wanted);
}

#[test]
fn what_a_program_wrote_to_stderr_is_in_no_event() {
    let ended = format!("{EXITED}75");
    let failure = Failure::new(Class::Transient, Some("exit_75"), &quoting(&ended, Some("s3cret")));
    let (claim, end, max_attempts) = (ClaimNo(1), End::Failed, 5);
    let retrying = Entry::Retrying {
        claim,
        end,
        failure: failure.clone(),
        retry: 1,
        max_attempts,
        next_at: Timestamp(1_800_000_001_323),
        log: None,
    };
    let failed = Entry::Failed { claim: Some(claim), end: Some(end), failure, attempts: 5, log: None };
    for entry in [retrying, failed] {
        let (frame, fields) = written(entry);
        assert_eq!(fields["error"], ended);
        assert!(!frame.contains("s3cret"), "{frame}");
    }
}

#[test]
fn a_partial_is_what_was_sent_or_where_it_is() {
    let body = BodyRef::of(Part::Partial, 1, b"[1]");
    assert_eq!(payload(Entry::Partial { body, inline: Some(Json("[1]".into())) }), json!([1]));
    let wanted = json!({"truncated": true, "url": format!("{PATH}/partial")});
    assert_eq!(payload(Entry::Partial { body, inline: None }), wanted);
}

#[test]
fn the_end_tells_the_result_or_where_it_is() {
    let body = BodyRef::of(Part::Result, 1, b"{}");
    let rest = json!({"resultSummary": "3 gifts", "attempts": 2, "durationMs": 1_234});
    let with = |name: &str, value: Value| {
        let mut wanted = rest.clone();
        wanted[name] = value;
        wanted
    };
    assert_eq!(payload(completed(Some(body), Some(Json("{\"a\":1}".into())))), with("result", json!({"a": 1})));
    assert_eq!(payload(completed(Some(body), None)), with("resultUrl", json!(format!("{PATH}/result"))));
    assert_eq!(payload(completed(None, None)), with("result", Value::Null));
    let failed = |code| Entry::Failed {
        claim: None,
        end: None,
        failure: Failure::new(Class::Permanent, code, "no such file"),
        attempts: 1,
        log: None,
    };
    let mut wanted = json!({"error": "no such file", "class": "permanent", "attempts": 1, "deadLettered": true});
    assert_eq!(payload(failed(None)), wanted);
    wanted["code"] = json!("exit_66");
    assert_eq!(payload(failed(Some("exit_66"))), wanted);
    let canceled = Entry::Canceled { claim: None, by: "alice".into(), reason: "user".into(), log: None };
    assert_eq!(payload(canceled), json!({"reason": "user", "requestedBy": "alice"}));
}

#[test]
fn links_in_payloads_begin_with_the_public_url() {
    let mut out = Vec::new();
    let body = BodyRef::of(Part::Result, 1, b"{}");
    Writer::new(Epoch(1), "https://jobs.example").write(&logged(completed(Some(body), None)), &mut out);
    let frame = String::from_utf8(out).expect("UTF-8");
    assert!(frame.contains(&format!("\"resultUrl\":\"https://jobs.example{PATH}/result\"")));
}

#[test]
fn quiet_entries_have_no_frame() {
    let mut out = Vec::new();
    let mut writer = Writer::new(Epoch(1), "");
    for entry in [
        Entry::Released { claim: ClaimNo(1), log: None },
        Entry::Interrupted { claim: ClaimNo(1), charged: true },
        Entry::CancelRequested { by: "a".into(), reason: "user".into() },
        Entry::CancelDelivered { claim: ClaimNo(1) },
        Entry::Replayed { as_job: JOB },
    ] {
        assert_eq!(writer.write(&logged(entry), &mut out), None);
    }
    assert!(out.is_empty());
}

/// A newline or a lone carriage return in a payload let it forge further events.
#[test]
fn case_08_nothing_in_a_payload_ends_its_line() {
    for hostile in [
        "a\rdata: x",
        "a\n\nid: 999\ndata: forged",
        "a\r\n\r\nevent: job.completed\r\ndata: {}\r\n\r\n",
        "\u{0}\u{b}\u{c}\u{1b}\u{7f}",
        "next\u{85}line\u{2028}separator\u{2029}paragraph",
        "quotes \" and \\ and \\\" and \\u2028",
        "€ 🎁 \u{c2}\u{e2}\u{80}\u{a8} é",
        "",
    ] {
        let made = Progress { message: Some(hostile.into()), ..Progress::default() };
        let (frame, fields) = written(Entry::Progress(made));
        assert_eq!(fields, json!({ "message": hostile }), "equal after parsing");
        harmless(&frame);
        // The same within a value that is JSON already, with its line breaks between tokens and raw separators in it.
        let value = json!({ hostile: [hostile] });
        let spelled = serde_json::to_string_pretty(&value).expect("JSON").replace('\n', "\r\n");
        let body = BodyRef::of(Part::Partial, 1, spelled.as_bytes());
        let (frame, fields) = written(Entry::Partial { body, inline: Some(Json(spelled.into())) });
        assert_eq!(fields, value);
        harmless(&frame);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_comes_out_as_it_went_in(message in proptest::prelude::any::<String>()) {
        let (frame, fields) = written(Entry::Progress(Progress { message: Some(message.as_str().into()), ..Progress::default() }));
        harmless(&frame);
        proptest::prop_assert_eq!(fields, json!({ "message": message }));
    }
}

fn harmless(frame: &str) {
    let ends = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}'];
    let lines: Vec<&str> = frame.split(|c| ends.contains(&c)).collect();
    assert_eq!(lines.len(), 5, "three lines and an empty one: {frame:?}");
    assert_eq!(lines[0], "id: 0a1b2c3d-42");
    assert!(lines[1].starts_with("event: job.") && lines[2].starts_with("data: {"));
    assert_eq!(lines[3..], ["", ""]);
}
