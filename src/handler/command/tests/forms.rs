//! `text` and `json`: what goes in, what comes out, and what it costs to say too much.

use super::*;

fn text(script_text: &str) -> Ran {
    run(script(script_text, Form::Text), "{}")
}

fn json(script_text: &str) -> Ran {
    run(script(script_text, Form::Json), "{}")
}

#[test]
fn text_is_the_payload_on_one_line_in_and_the_output_as_it_is_out() {
    let ran = run(script("cat; printf 'no newline'", Form::Text), "{ \"a\": [1.50,\n 2],\t\"b c\": \"d e\" }");
    assert_eq!(ran.data(), "{\"a\":[1.50,2],\"b c\":\"d e\"}\nno newline");
    assert!(!ran.output().lossy);
}

#[test]
fn one_line_end_at_the_end_of_a_text_is_not_part_of_it() {
    // `echo` and `wc` end their last line: nobody who reads a text wants that.
    for (written, expected) in [
        (r"a\n", "a"),
        (r"a\r\n", "a"),
        (r"a\n\n", "a\n"),
        (r"a\r\n\r\n", "a\r\n"),
        (r"a\r", "a\r"),
        (r"a\nb", "a\nb"),
        (r"a \n", "a "),
        (r"\n", ""),
        ("", ""),
    ] {
        assert_eq!(text(&format!("printf '{written}'")).data(), expected, "{written}");
    }
}

#[test]
fn stderr_is_the_log_and_never_the_result() {
    let ran = text("echo out; echo err one >&2; printf 'err \\303\\050' >&2");
    assert_eq!((ran.data(), ran.log.as_str()), ("out".into(), "err one\nerr \u{fffd}(\n"));
}

#[test]
fn case_10_characters_stay_whole_in_whatever_pieces_they_come_and_a_broken_one_is_replaced_once() {
    // A multi-byte character split over two chunks was treated as invalid.
    let ran = text(r"for b in '\342' '\202' '\254' '\360' '\237' '\230' '\200'; do printf $b; sleep 0.001; done");
    assert_eq!((ran.data(), ran.output().lossy), ("€😀".into(), false));
    let ran = text(r"printf 'half \342\202'");
    assert_eq!((ran.data(), ran.output().lossy), ("half \u{fffd}".into(), true));
    let ran = json(r"printf '[\042\377\042]'");
    assert_eq!((ran.data(), ran.output().lossy), (serde_json::json!(["\u{fffd}"]), true));
}

#[test]
fn json_is_one_value_with_its_numbers_as_written() {
    let ran = json(r#"echo ' { "n": 123456789012345678901234567890.10, "s": "a  b" } '"#);
    let data = ran.output().data.as_deref().expect("data");
    assert_eq!(data, br#"{"n":123456789012345678901234567890.10,"s":"a  b"}"#);
    assert_eq!(json("echo null").data(), Value::Null);
}

#[test]
fn output_that_is_no_json_value_is_a_protocol_error() {
    for output in ["", "{\"a\":", "1 2", "text"] {
        let ran = json(&format!("printf '%s' '{output}'"));
        assert_eq!((ran.failure().0, ran.failure().1), (Class::Fatal, "protocol_error"), "{output}");
    }
    let deep = format!("printf '{}{}'", "[".repeat(500), "]".repeat(500));
    assert_eq!(json(&deep).failure().1, "protocol_error");
}

#[test]
fn a_call_tool_result_is_taken_as_such() {
    let ran =
        json(r#"echo '{"content": [{"type": "text", "text": "hi"}], "structuredContent": {"a": 1}, "isError": true}'"#);
    let output = ran.output();
    assert_eq!(output.content.as_deref(), Some(&br#"[{"type":"text","text":"hi"}]"#[..]));
    assert_eq!((ran.data(), output.is_error), (serde_json::json!({"a": 1}), true));
    let ran = json(
        r#"echo '{"content": [{"type": "text", "text": "one"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "text", "text": "two"}]}'"#,
    );
    assert_eq!(ran.data(), "one\ntwo");
    let ran = json(r#"echo '{"content": [{"type": "text", "text": "one"}, {"type": "image"}]}'"#);
    let (class, code, message) = ran.failure();
    assert_eq!((class, code), (Class::Fatal, "protocol_error"));
    assert!(message.contains("content[1].data: expected Base64"), "{message}");
    let ran = json(r#"echo '{"content": "just a field"}'"#);
    assert_eq!((ran.data(), &ran.output().content), (serde_json::json!({"content": "just a field"}), &None));
}

#[test]
fn more_output_than_allowed_ends_the_program_and_fails_the_job() {
    for form in [Form::Text, Form::Json] {
        let settings = Settings { max_result: 1_000, ..script("while :; do echo 0123456789; done", form) };
        let ran = run(settings, "{}");
        let (class, code, message) = ran.failure();
        assert_eq!((class, code), (Class::Fatal, "output_too_large"));
        assert!(message.contains("1000 bytes"), "{message}");
    }
    let settings = Settings { max_result: 11, ..script("echo 0123456789", Form::Text) };
    assert_eq!(run(settings, "{}").data(), "0123456789");
}

#[test]
fn a_result_is_checked_against_the_output_schema_unless_it_is_an_error() {
    let check: Check = Arc::new(|value: &Value| match value.is_number() {
        true => Vec::new(),
        false => vec![format!("{value} is no number")],
    });
    let run_checked = |output: &str, form| {
        let settings = script(&format!("echo '{output}'"), form);
        run_claim(&claim_for(AMPLE), settings, "{}", Some(check.clone()), |_| {})
    };
    assert_eq!(run_checked("7", Form::Json).data(), 7);
    let ran = run_checked("[]", Form::Json);
    assert_eq!((ran.failure().0, ran.failure().1), (Class::Fatal, "output_schema"));
    assert!(ran.failure().2.ends_with("[] is no number"), "{}", ran.failure().2);
    assert_eq!(run_checked("7", Form::Text).failure().1, "output_schema");
    assert_eq!(run_checked(r#"{"type":"result","data":8}"#, Form::Events).data(), 8);
    assert_eq!(run_checked(r#"{"type":"result"}"#, Form::Events).failure().1, "output_schema");
    assert_eq!(run_checked("not a result", Form::Events).failure().1, "output_schema");
    assert_eq!(
        run_checked(r#"{"type":"result","data":[],"is_error":true}"#, Form::Events).data(),
        serde_json::json!([])
    );
}

#[test]
fn a_program_that_does_not_read_its_stdin_is_not_waited_for() {
    let payload = format!("{{\"big\":\"{}\"}}", "x".repeat(1024 * 1024));
    assert_eq!(run(script("echo done", Form::Text), &payload).data(), "done");
    assert_eq!(run(script("exec <&-; echo done", Form::Text), &payload).data(), "done");
    let both_ways = run(script("cat; cat >&2", Form::Text), &payload[..]);
    assert_eq!(both_ways.failure().1, "output_too_large");
    let settings = Settings { max_result: 2 * 1024 * 1024, ..script("cat", Form::Text) };
    assert_eq!(run(settings, &payload).data().as_str().map(str::len), Some(payload.len()));
}

#[test]
fn a_program_may_close_its_pipes_before_it_ends() {
    assert_eq!(text("echo early; exec >&- 2>&-; read -r line; exit 0").data(), "early");
    assert_eq!(text("exec >&- 2>&-; exit 75").failure().1, "exit_75");
}

#[test]
fn a_flood_on_stderr_holds_nothing_up_and_only_its_end_is_kept() {
    let ran = text(
        "i=0; while [ $i -lt 20000 ]; do echo 'line 0123456789 0123456789' >&2; i=$((i+1)); done; echo last >&2; echo out",
    );
    assert_eq!(ran.data(), "out");
    assert!(ran.log.len() <= crate::handler::LOG_MAX && ran.log.len() > 60_000, "{}", ran.log.len());
    assert!(ran.log.starts_with("line") && ran.log.ends_with("last\n"));
    let ran = text("head -c 200000 /dev/zero | tr '\\0' x >&2; echo out");
    assert_eq!(ran.data(), "out");
    assert!(ran.log.lines().all(|line| line.len() <= pump::STDERR_LINE_MAX) && ran.log.len() > 50_000);
}

#[test]
fn a_field_of_the_payload_is_one_argument_and_no_shell_reads_it() {
    let mut settings = script("printf '%s|' \"$@\"", Form::Text);
    settings.command.extend(["--", "{payload.text}", "n={payload.n}"].map(String::from));
    let ran = run(settings.clone(), r#"{"text": "-x; $(reboot) `id` \"q\" é", "n": 3}"#);
    assert_eq!(ran.data(), "-x; $(reboot) `id` \"q\" é|n=3|");
    assert_eq!(run(settings, r#"{"text": "only"}"#).failure().0, Class::Permanent);
}

#[test]
fn the_environment_names_the_job_and_holds_what_is_configured_but_nothing_of_the_server() {
    let mut settings = script("echo $LONGHAUL_JOB_ID $LONGHAUL_ATTEMPT $TRACEPARENT $OWN; pwd; env", Form::Text);
    settings.env = vec![("OWN".into(), "mine".into())];
    settings.cwd = Some("/".into());
    let mut claim = claim_for(AMPLE);
    claim.traceparent = Some("00-trace".into());
    let ran = run_claim(&claim, settings, "{}", None, |_| {});
    let data = ran.data();
    let lines: Vec<_> = data.as_str().expect("text").lines().collect();
    assert_eq!(lines[0], format!("{} 1 00-trace mine", claim.job));
    assert_eq!(lines[1], "/");
    let own: Vec<_> = lines.iter().filter(|line| line.starts_with("LONGHAUL_")).collect();
    assert_eq!(own.len(), 2, "{own:?}");
}

#[test]
fn a_program_that_cannot_be_started_says_why() {
    let missing = Settings { command: vec!["/no/such/program".into()], ..script("", Form::Text) };
    let ran = run(missing, "{}");
    assert_eq!((ran.failure().0, ran.failure().2), (Class::Fatal, "there is no program /no/such/program"));
    let nowhere = Settings { cwd: Some("/no/such/place".into()), ..script("", Form::Text) };
    assert!(run(nowhere, "{}").failure().2.contains("working directory"));
    let no_program = Settings { command: vec!["/etc/passwd".into()], ..script("", Form::Text) };
    assert_eq!(run(no_program, "{}").failure().0, Class::Fatal);
    let mut long = script("", Form::Text);
    long.command.push("{payload.x}".into());
    let ran = run(long, &format!("{{\"x\":\"{}\"}}", "x".repeat(4 * 1024 * 1024)));
    assert_eq!(ran.failure().0, Class::Permanent);
}
