//! How it ends: exit codes, signals, cancels, deadlines; and that nothing of it is left.

use super::*;
use crate::handler::stopped;
use crate::work::Stop;

fn stop_after_first_report(settings: Settings, stop: Stop) -> Ran {
    let claim = claim_for(AMPLE);
    run_claim(&claim, settings, "{}", None, |recorder| {
        recorder.wait_for(1);
        claim.stop.set(stop);
    })
}

#[test]
fn exit_codes_mean_what_the_table_says() {
    let rows = [
        (75, Class::Transient),
        (64, Class::Permanent),
        (65, Class::Permanent),
        (66, Class::Permanent),
        (77, Class::Permanent),
        (78, Class::Permanent),
        (1, Class::Fatal),
        (2, Class::Fatal),
        (67, Class::Fatal),
        (127, Class::Fatal),
        (255, Class::Fatal),
    ];
    for (code, class) in rows {
        for form in [Form::Text, Form::Json, Form::Events] {
            let ran = run(script(&format!("echo 1; echo secret >&2; exit {code}"), form), "{}");
            let message = format!("the program exited with status {code}: secret");
            assert_eq!(ran.failure(), (class, format!("exit_{code}").as_str(), message.as_str()));
            assert!(ran.log.contains("secret"));
        }
    }
}

#[test]
fn a_program_that_ends_badly_is_quoted_and_one_that_says_itself_what_is_wrong_is_not() {
    // A person and a model saw "the program exited with status 65", and why stood in the log alone.
    let last = "echo 'warning: x' >&2; printf \"error: no column 'c'\\n\\n  \" >&2";
    let rows = [
        (format!("{last}; exit 65"), Form::Text, "the program exited with status 65: error: no column 'c'"),
        (format!("{last}; kill -KILL $$"), Form::Json, "the program was ended by SIGKILL: error: no column 'c'"),
        (
            format!(r#"echo '{{"type":"result","data":1}}'; {last}; exit 3"#),
            Form::Events,
            "the program reported a result and then exited with status 3: error: no column 'c'",
        ),
        (
            format!(r#"echo '{{"type":"error","class":"permanent","message":"no"}}'; {last}; exit 65"#),
            Form::Events,
            "no",
        ),
        ("exit 65".into(), Form::Text, "the program exited with status 65"),
    ];
    for (text, form, message) in rows {
        assert_eq!(run(script(&text, form), "{}").failure().2, message, "{text}");
    }
}

#[test]
fn a_tool_may_have_exit_codes_of_its_own() {
    let settings = |code: i32| Settings {
        transient_exit_codes: vec![3, 65],
        permanent_exit_codes: vec![4, 75],
        ..script(&format!("exit {code}"), Form::Text)
    };
    let rows = [(3, Class::Transient), (65, Class::Transient), (4, Class::Permanent), (75, Class::Permanent)];
    for (code, class) in rows {
        assert_eq!(run(settings(code), "{}").failure().0, class, "{code}");
    }
    assert_eq!(run(settings(0), "{}").data(), "");
}

#[test]
fn death_by_signal_is_transient_and_names_the_signal() {
    for (signal, code) in [("KILL", "signal_SIGKILL"), ("SEGV", "signal_SIGSEGV"), ("TERM", "signal_SIGTERM")] {
        let ran = run(script(&format!("kill -{signal} $$; sleep 600"), Form::Text), "{}");
        assert_eq!((ran.failure().0, ran.failure().1), (Class::Transient, code));
    }
}

#[test]
fn case_48_a_grandchild_that_holds_the_output_does_not_hold_the_job_and_ends_with_it() {
    // A grandchild kept the output pipe open: the call never returned, even after time-out and kill.
    let ran = run(script("sleep 600 & echo $!", Form::Text), "{}");
    wait_until_gone(ran.data().as_str().expect("a process id"));
    let ran = run(script("(trap '' TERM HUP; exec sleep 600) & echo $!; exit 75", Form::Text), "{}");
    assert_eq!(ran.failure().1, "exit_75");
}

#[cfg(target_os = "linux")]
#[test]
fn case_48_a_grandchild_in_a_session_of_its_own_does_not_hold_the_job() {
    let ran = run(script("setsid sleep 600 & echo $!", Form::Text), "{}");
    let data = ran.data();
    let pid = data.as_str().and_then(|text| text.trim().parse().ok()).and_then(rustix::process::Pid::from_raw);
    // It has left the group on purpose, and is out of reach for longhaul; not for this test.
    let _ = rustix::process::kill_process(pid.expect("a process id"), rustix::process::Signal::KILL);
    wait_until_gone(data.as_str().expect("text"));
}

#[test]
fn output_that_a_grandchild_still_writes_right_after_the_exit_is_read() {
    // An `events` program's stdin ends when its exit has been seen.
    let text = r#"(while read -r line; do :; done; echo '{"type":"result","data":"late"}') <&0 & exit 0"#;
    assert_eq!(run(script(text, Form::Events), "{}").data(), "late");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_at_its_deadline_with_all_its_children() {
    let text = "trap '' TERM; sleep 600 & echo $! >&2; echo $$ >&2; wait; sleep 600";
    let settings = Settings { cancel_grace: Millis(50), ..script(text, Form::Text) };
    let ran = run_claim(&claim_for(Millis(200)), settings, "{}", None, |_| {});
    assert_eq!(ran.outcome, Outcome::timed_out("the program did not end in time"));
    for pid in ran.log.lines() {
        wait_until_gone(pid);
        assert!(!is_our_child(pid), "a zombie is left");
    }
}

#[test]
fn a_cancel_is_told_on_stdin_reported_as_delivered_and_then_sigterm_comes() {
    let text = r#"trap 'echo "{\"type\":\"log\",\"message\":\"term\"}"' TERM
        read -r job; echo '{"type":"progress"}'
        while ! read -r line; do :; done
        echo "{\"type\":\"partial\",\"data\":$line}"; exit 0"#;
    let ran = stop_after_first_report(script(text, Form::Events), Stop::Cancel);
    assert_eq!(ran.outcome, stopped());
    let [Report::Progress(_), Report::Delivered, Report::Partial { data, .. }] = &ran.reports[..] else {
        panic!("{:?}", ran.reports)
    };
    assert_eq!(data, r#"{"type":"cancel","grace_ms":60000,"reason":"cancel"}"#);
}

#[test]
fn a_cancelled_program_that_does_not_listen_is_ended_and_reaped() {
    for form in [Form::Text, Form::Json, Form::Events] {
        // Only `events` can report, so the others are cancelled before they have said anything.
        let claim = claim_for(AMPLE);
        claim.stop.set(Stop::Cancel);
        let ran = run_claim(&claim, script("sleep 600", form), "{}", None, |_| {});
        assert_eq!((ran.outcome, ran.reports), (stopped(), vec![Report::Delivered]));
    }
}

#[test]
fn a_program_killed_after_its_grace_is_gone() {
    let text =
        "trap '' TERM; echo $$ >&2; sleep 600 & echo $! >&2; echo '{\"type\":\"progress\"}'; wait; wait; sleep 600";
    let settings = Settings { cancel_grace: Millis(20), ..script(text, Form::Events) };
    let ran = stop_after_first_report(settings, Stop::Cancel);
    assert_eq!(ran.outcome, stopped());
    for pid in ran.log.lines() {
        wait_until_gone(pid);
        assert!(!is_our_child(pid), "a zombie is left");
    }
}

#[test]
fn a_result_that_is_reported_within_the_grace_counts() {
    let text = r#"trap 'echo "{\"type\":\"result\",\"data\":\"saved\"}"; exit 0' TERM
        echo '{"type":"progress"}'; while :; do read -r line || :; done"#;
    assert_eq!(stop_after_first_report(script(text, Form::Events), Stop::Shutdown).data(), "saved");
    let unconfirmed = text.replace("exit 0", "exit 1");
    assert_eq!(stop_after_first_report(script(&unconfirmed, Form::Events), Stop::Cancel).outcome, stopped());
}

#[test]
fn only_a_cancel_is_reported_as_delivered() {
    let text = "echo '{\"type\":\"progress\"}'; exec sleep 600";
    for stop in [Stop::Shutdown, Stop::Stale] {
        let ran = stop_after_first_report(script(text, Form::Events), stop);
        assert_eq!((ran.outcome, ran.reports.len()), (stopped(), 1));
    }
}

#[test]
fn a_program_that_ends_well_leaves_no_zombie() {
    let ran = run(script("echo $$", Form::Text), "{}");
    assert!(!is_our_child(ran.data().as_str().expect("a process id")));
}

#[test]
fn a_panic_beside_the_program_ends_the_program() {
    struct Panics(std::sync::Mutex<Option<String>>);
    impl crate::work::WorkSource for Panics {
        fn claim(&self, _: usize) -> Result<Vec<Claim>, crate::work::Closed> {
            Err(crate::work::Closed)
        }
        fn body(&self, _: &Claim, _: crate::job::BodyRef) -> Result<Bytes, crate::work::NoBody> {
            Ok(Bytes::new())
        }
        fn report(&self, _: &Claim, report: Report) {
            if let Report::Partial { data, .. } = report {
                *self.0.lock().expect("once") = String::from_utf8(data.to_vec()).ok();
                panic!("in the middle of it");
            }
        }
        fn finish(&self, _: &Claim, _: crate::work::Leave, _: Bytes, _: Box<dyn FnOnce() + Send>) {}
    }
    let source = Panics(std::sync::Mutex::new(None));
    let claim = claim_for(AMPLE);
    let clock: Arc<dyn Clock> = Arc::new(System);
    let text = r#"echo "{\"type\":\"partial\",\"data\":$$}"; exec sleep 600"#;
    let program = Program::new(script(text, Form::Events), None).expect("a good command");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        program.run(&claim, &Bytes::from_static(b"{}"), &RunContext::new(&source, &claim, &clock))
    }));
    assert!(caught.is_err());
    let pid = source.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone().expect("a process id");
    assert!(!is_our_child(&pid));
}
