//! `ask` and `answer` lines: in place, and after the hold.

use serde_json::json;

use super::*;
use crate::clock::Manual;
use crate::job::{Action, QUESTION_MESSAGE_MAX, QUESTION_SCHEMA_MAX, QUESTIONS_MAX, Timestamp};
use crate::work::Stop;

/// The keys that were asked, and which of the attempt's questions each was.
fn asks(ran: &Ran) -> Vec<(&str, u32)> {
    let mut asks = Vec::new();
    for report in &ran.reports {
        if let Report::Ask { asking, count } = report {
            asks.push((&*asking.key, *count));
        }
    }
    asks
}

const ASK_A: &str = r#"echo '{"type":"ask","key":"a","message":"Which?","schema":{"type":"object"}}'"#;

#[test]
fn an_answer_goes_to_the_process_that_waits_and_holds_no_other_line_back() {
    let text = format!(
        r#"read -r job; {ASK_A}; echo '{{"type":"progress","step":1}}'; read -r answer
        printf '{{"type":"result","data":%s}}\n' "$answer""#
    );
    let claim = claim_for(AMPLE);
    let ran = run_claim(&claim, script(&text, Form::Events), "{}", None, |recorder| {
        recorder.wait_for(2);
        recorder.answer(&claim, "a", Action::Accept, Some(r#"{"n":1.50}"#));
    });
    assert_eq!(
        ran.output().data.as_deref(),
        Some(&br#"{"type":"answer","key":"a","action":"accept","content":{"n":1.50}}"#[..])
    );
    assert_eq!((ran.reports.len(), asks(&ran)), (2, vec![("a", 1)]));
}

#[test]
fn the_job_line_carries_what_was_answered_before_and_a_key_asked_again_is_answered_at_once() {
    let text = format!(
        r#"read -r job; {ASK_A}; read -r answer
        printf '{{"type":"result","data":[%s,%s]}}\n' "$job" "$answer""#
    );
    let claim = claim_for(AMPLE);
    let recorder = Recorder::default();
    recorder.answer(&claim, "a", Action::Accept, Some(r#"{"n":1}"#));
    recorder.answer(&claim, "b", Action::Decline, None);
    let ran = run_with(recorder, &claim, script(&text, Form::Events), "{}", None, |_| {});
    let expected = json!({"a": {"action": "accept", "content": {"n": 1}}, "b": {"action": "decline"}});
    assert_eq!(ran.data()[0]["answers"], expected);
    assert_eq!(ran.data()[1], json!({"type": "answer", "key": "a", "action": "accept", "content": {"n": 1}}));
    assert_eq!(ran.reports, [], "nobody is asked again");
}

#[test]
fn a_process_whose_question_waits_too_long_is_ended_as_by_a_cancel_and_given_back() {
    let text = format!(r#"trap '' TERM; read -r job; {ASK_A}; read -r line; echo "$line" >&2"#);
    let settings = Settings { ask_hold: Millis(50), ..script(&text, Form::Events) };
    let ran = run(settings, "{}");
    assert_eq!(ran.outcome, Outcome::Asked);
    assert!(ran.log.contains(r#"{"type":"cancel","grace_ms":60000,"reason":"ask_hold"}"#), "{}", ran.log);
}

#[test]
fn a_result_that_comes_when_the_hold_is_over_counts() {
    let text = format!(
        r#"trap 'echo "{{\"type\":\"result\",\"data\":7}}"; exit 0' TERM; read -r job; {ASK_A}; read -r cancel; sleep 600 & wait"#
    );
    let settings = Settings { ask_hold: Millis(0), ..script(&text, Form::Events) };
    assert_eq!(run(settings, "{}").data(), 7);
}

#[test]
fn a_program_that_asks_and_ends_well_without_a_result_is_given_back() {
    let ran = run(script(ASK_A, Form::Events), "{}");
    assert_eq!((&ran.outcome, asks(&ran)), (&Outcome::Asked, vec![("a", 1)]));
    let ran = run(script(&format!("{ASK_A}; exit 65"), Form::Events), "{}");
    assert_eq!(ran.failure().0, Class::Permanent, "a bad exit is a failure all the same");
    let ran = run(script(&format!(r#"{ASK_A}; echo '{{"type":"result","data":1}}'"#), Form::Events), "{}");
    assert_eq!(ran.data(), 1, "a result needs no answer");
}

#[test]
fn the_deadline_stands_still_while_a_question_is_open() {
    let text = format!(r#"read -r job; {ASK_A}; read -r answer; echo '{{"type":"result","data":1}}'"#);
    let clock = Manual::at_time(Timestamp(0));
    let claim = claim(Timestamp(1_000));
    let settings = Settings { ask_hold: AMPLE, ..script(&text, Form::Events) };
    let ran = run_by(Arc::new(clock.clone()), Recorder::default(), &claim, settings, "{}", None, |recorder| {
        recorder.wait_for(1);
        clock.advance(Millis(100_000));
        recorder.answer(&claim, "a", Action::Accept, None);
    });
    assert_eq!(ran.data(), 1);
}

#[test]
fn a_cancel_ends_a_process_that_waits_for_an_answer() {
    let text = format!("read -r job; {ASK_A}; exec sleep 600");
    let claim = claim_for(AMPLE);
    let ran = run_claim(&claim, script(&text, Form::Events), "{}", None, |recorder| {
        recorder.wait_for(1);
        claim.stop.set(Stop::Cancel);
    });
    assert_eq!(ran.outcome, crate::handler::stopped());
    assert_eq!(ran.reports.last(), Some(&Report::Delivered));
}

#[test]
fn a_question_that_nobody_could_be_asked_is_a_protocol_error() {
    let long = |length: usize| "x".repeat(length);
    let large = format!(r#"{{"type":"object","title":"{}"}}"#, long(QUESTION_SCHEMA_MAX));
    for (line, why) in [
        (r#"{"type":"ask","message":"m","schema":{"type":"object"}}"#.to_owned(), "key"),
        (r#"{"type":"ask","key":"","message":"m"}"#.to_owned(), "key"),
        (r#"{"type":"ask","key":"a b","message":"m"}"#.to_owned(), "key"),
        (format!(r#"{{"type":"ask","key":"{}","message":"m"}}"#, long(129)), "key"),
        (r#"{"type":"ask","key":"a"}"#.to_owned(), "message"),
        (r#"{"type":"ask","key":"a","message":""}"#.to_owned(), "message"),
        (format!(r#"{{"type":"ask","key":"a","message":"{}"}}"#, long(QUESTION_MESSAGE_MAX + 1)), "message"),
        (r#"{"type":"ask","key":"a","message":"m","schema":{}}"#.to_owned(), "object"),
        (r#"{"type":"ask","key":"a","message":"m","schema":{"type":"object","required":1}}"#.to_owned(), "schema"),
        (format!(r#"{{"type":"ask","key":"a","message":"m","schema":{large}}}"#), "bytes"),
    ] {
        let ran = run(script(&format!("cat <<'END'\n{line}\nEND\nexec sleep 600"), Form::Events), "{}");
        let (class, code, message) = ran.failure();
        assert_eq!((class, code), (Class::Fatal, "protocol_error"), "{line}");
        assert!(message.contains("ask line") && message.contains(why), "{line}: {message}");
        assert_eq!(ran.reports, []);
    }
    let lines = |count: usize| {
        let lines: Vec<_> = (0..count).map(|n| format!(r#"{{"type":"ask","key":"k{n}","message":"m"}}"#)).collect();
        run(script(&format!("cat <<'END'\n{}\nEND", lines.join("\n")), Form::Events), "{}")
    };
    let ran = lines(QUESTIONS_MAX);
    assert_eq!((&ran.outcome, asks(&ran).len()), (&Outcome::Asked, QUESTIONS_MAX));
    let ran = lines(QUESTIONS_MAX + 1);
    assert_eq!((ran.failure().1, asks(&ran).len()), ("protocol_error", QUESTIONS_MAX));
}
