//! `events`: every line of contract 4, and what is no line of it.

use serde_json::json;

use super::*;
use crate::job::Progress;

/// Writes these lines, then exits with this status.
fn tell(lines: &str, exit: i32) -> Ran {
    run(script(&format!("cat <<'END'\n{lines}\nEND\nexit {exit}"), Form::Events), "{}")
}

#[test]
fn the_first_line_tells_the_job() {
    let mut claim = claim_for(AMPLE);
    claim.idempotency_key = Some("key-1".into());
    let settings = script(r#"read -r job; printf '{"type":"result","data":%s}\n' "$job""#, Form::Events);
    let ran = run_claim(&claim, settings, "{ \"a\" : 1 }", None, |_| {});
    let expected = json!({
        "type": "job", "job_id": claim.job, "job_type": "trial", "claim": 7, "attempt": 1, "max_attempts": 5,
        "payload": {"a": 1}, "deadline": claim.deadline, "idempotency_key": "key-1",
    });
    assert_eq!(ran.data(), expected);
    let names: Vec<_> = ran.data().as_object().expect("an object").keys().cloned().collect();
    assert_eq!(names[..2], ["type", "job_id"]);
}

#[test]
fn progress_and_partials_are_reported_as_they_come_and_the_result_is_the_outcome() {
    let ran = tell(
        r#"{"type":"progress","step":1,"totalSteps":2,"percent":150.5,"message":"half"}
{"type":"partial","data":{"n": 1.0}}
{"type":"partial","data":null}
{"type":"progress"}
{"type":"result","data":{"x": [1, 2]},"summary":"two","is_error":true,"content":[ {"type":"text","text":"t"} ]}"#,
        0,
    );
    let progress = Progress { step: Some(1), total_steps: Some(2), percent: Some(100.0), message: Some("half".into()) };
    let expected = [
        Report::Progress(progress),
        Report::Partial { data: Bytes::from_static(br#"{"n":1.0}"#), count: 1 },
        Report::Partial { data: Bytes::from_static(b"null"), count: 2 },
        Report::Progress(Progress::default()),
    ];
    assert_eq!(ran.reports, expected);
    let expected = Output {
        data: Some(Bytes::from_static(br#"{"x":[1,2]}"#)),
        summary: Some("two".into()),
        content: Some(Bytes::from_static(br#"[{"type":"text","text":"t"}]"#)),
        is_error: true,
        lossy: false,
    };
    assert_eq!(*ran.output(), expected);
}

#[test]
fn log_lines_stderr_and_what_is_no_json_object_are_the_log() {
    let ran = tell(
        r#"{"type":"log","level":"warn","message":"careful\nnow"}
{"type":"log","message":"plain"}
plain text
[1, 2]
{"type": torn

"string""#,
        0,
    );
    assert_eq!(ran.log, "warn: careful\nnow\nplain\nplain text\n[1, 2]\n{\"type\": torn\n\"string\"\n");
    assert_eq!(ran.data(), Value::Null);
}

#[test]
fn an_unknown_type_is_said_once_and_ignored() {
    let ran = tell(
        r#"{"type":"checkpoint","state":{}}
{"type":"checkpoint","state":{}}
{"kind":"none"}
{"type":7}
{"type":"result","data":1}"#,
        0,
    );
    assert_eq!(ran.data(), 1);
    let expected =
        "longhaul: ignored a line of unknown type \"checkpoint\"\nlonghaul: ignored a line of unknown type \"\"\n";
    assert_eq!(ran.log, expected);
    let many: String = (0..100).map(|n| format!("{{\"type\":\"t{n}\"}}\n")).collect();
    assert_eq!(tell(&many, 0).log.lines().count(), protocol::UNKNOWN_MAX);
}

#[test]
fn a_known_line_that_is_malformed_is_kept_in_the_log_unless_it_is_the_end() {
    let ran = tell("{\"type\":\"progress\",\"step\":\"one\"}\n{\"type\":\"partial\"}\n{\"type\":\"log\"}", 0);
    assert_eq!((ran.reports.len(), ran.log.lines().count()), (0, 3));
    for line in [
        r#"{"type":"result","content":{}}"#,
        r#"{"type":"result","content":[{"type":"image","data":"?","mimeType":"image/png"}]}"#,
        r#"{"type":"result","is_error":"no"}"#,
        r#"{"type":"error","message":"no class"}"#,
        r#"{"type":"error","class":"sad","message":"x"}"#,
    ] {
        let ran = tell(line, 0);
        assert_eq!((ran.failure().0, ran.failure().1), (Class::Fatal, "protocol_error"), "{line}");
    }
}

#[test]
fn an_error_line_decides_over_the_exit_code_and_over_a_result() {
    let error = r#"{"type":"error","class":"permanent","message":"no such city","code":"city","retry_after_ms":1500,"rpc_code":-32001}"#;
    for exit in [0, 75] {
        let ran = tell(error, exit);
        assert_eq!(ran.failure(), (Class::Permanent, "city", "no such city"));
        assert_eq!((ran.failing().retry_after, ran.failing().failure.rpc_code), (Some(Millis(1500)), Some(-32001)));
    }
    assert_eq!(tell(&format!("{{\"type\":\"result\",\"data\":1}}\n{error}"), 0).failure().1, "city");
}

#[test]
fn a_result_followed_by_a_bad_exit_is_a_fatal_failure() {
    for exit in [1, 65, 75] {
        let ran = tell(r#"{"type":"result","data":1}"#, exit);
        let code = format!("exit_{exit}");
        assert_eq!((ran.failure().0, ran.failure().1), (Class::Fatal, code.as_str()));
    }
}

#[test]
fn what_is_told_after_the_end_is_only_logged() {
    let ran = tell(
        r#"{"type":"result","data":1}
{"type":"progress","step":1}
{"type":"result","data":2}
{"type":"log","message":"cleaning up"}"#,
        0,
    );
    assert_eq!((ran.data(), ran.reports.len()), (json!(1), 0));
    assert!(ran.log.ends_with("cleaning up\n") && ran.log.lines().count() == 3, "{}", ran.log);
}

#[test]
fn a_line_of_a_mebibyte_is_taken_and_a_longer_one_ends_the_program() {
    let line = |padding: usize| {
        format!("printf '{{\"type\":\"result\",\"data\":\"'; head -c {padding} /dev/zero | tr '\\0' x; echo '\"}}'")
    };
    let frame = r#"{"type":"result","data":""}"#.len();
    let ran = run(script(&line(protocol::LINE_MAX - frame), Form::Events), "{}");
    assert_eq!(ran.data().as_str().map(str::len), Some(protocol::LINE_MAX - frame));
    let ran = run(script(&line(protocol::LINE_MAX - frame + 1), Form::Events), "{}");
    assert_eq!((ran.failure().0, ran.failure().1), (Class::Fatal, "output_too_large"));
    let ran = run(script("cat /dev/zero", Form::Events), "{}");
    assert_eq!(ran.failure().1, "output_too_large");
}

#[test]
fn bytes_that_are_no_text_mark_the_result() {
    let ran = run(script(r#"printf '{"type":"result","data":"\377"}'"#, Form::Events), "{}");
    assert_eq!((ran.data(), ran.output().lossy), (json!("\u{fffd}"), true));
    let ran = run(script(r#"printf '{"type":"log","message":"\377"}\n{"type":"result"}'"#, Form::Events), "{}");
    assert_eq!((ran.log.as_str(), ran.output().lossy), ("\u{fffd}\n", false));
}

#[test]
fn a_value_nested_too_deeply_is_no_partial_and_no_result() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let ran = tell(&format!("{{\"type\":\"partial\",\"data\":{deep}}}"), 0);
    assert!(ran.reports.is_empty() && ran.log.contains("too deeply"));
    assert_eq!(tell(&format!("{{\"type\":\"result\",\"data\":{deep}}}"), 0).failure().1, "protocol_error");
}
