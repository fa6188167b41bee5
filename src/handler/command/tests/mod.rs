//! Promises of `command`, kept with real children of /bin/sh, one file per part of contract 4.
//!
//! Children live in real time, so these tests use the system's clock; they wait for what happens, never for a while.

mod asking;
mod ending;
mod events;
mod forms;

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::clock::{Clock, System};
use crate::handler::testing::{Recorder, claim};
use crate::job::Failing;
use crate::work::{Claim, Report};

/// A script of /bin/sh; its payload is on stdin.
fn script(text: &str, output: Form) -> Settings {
    Settings {
        command: ["/bin/sh", "-c", text].map(String::from).into(),
        output,
        env: Vec::new(),
        cwd: None,
        transient_exit_codes: Vec::new(),
        permanent_exit_codes: Vec::new(),
        ask_hold: Millis::seconds(60),
        cancel_grace: Millis::seconds(60),
        max_result: 1024 * 1024,
    }
}

/// An attempt that is over.
struct Ran {
    outcome: Outcome,
    reports: Vec<Report>,
    log: String,
}

/// Far more than any of these scripts takes.
const AMPLE: Millis = Millis::seconds(600);

fn claim_for(length: Millis) -> Claim {
    claim(System.now().plus(length))
}

fn run(settings: Settings, payload: &str) -> Ran {
    run_claim(&claim_for(AMPLE), settings, payload, None, |_| {})
}

/// Runs an attempt; `beside` runs on this thread meanwhile and may stop it.
fn run_claim(
    claim: &Claim,
    settings: Settings,
    payload: &str,
    check: Option<Check>,
    beside: impl FnOnce(&Recorder),
) -> Ran {
    run_with(Recorder::default(), claim, settings, payload, check, beside)
}

/// The same with a source that has something already.
fn run_with(
    recorder: Recorder,
    claim: &Claim,
    settings: Settings,
    payload: &str,
    check: Option<Check>,
    beside: impl FnOnce(&Recorder),
) -> Ran {
    run_by(Arc::new(System), recorder, claim, settings, payload, check, beside)
}

fn run_by(
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    claim: &Claim,
    settings: Settings,
    payload: &str,
    check: Option<Check>,
    beside: impl FnOnce(&Recorder),
) -> Ran {
    let program = Program::new(settings, check).expect("a good command");
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let context = RunContext::new(&recorder, claim, &clock);
            let outcome = program.run(claim, &payload, &context);
            recorder.keep_log(context.into_log());
            outcome
        });
        beside(&recorder);
        running.join().expect("no panic")
    });
    Ran { outcome, reports: recorder.reports(), log: recorder.log() }
}

impl Ran {
    fn output(&self) -> &Output {
        match &self.outcome {
            Outcome::Done(output) => output,
            Outcome::Failed(failing) => panic!("failed: {:?}, log: {}", failing.failure, self.log),
            Outcome::Asked => panic!("asked"),
        }
    }

    fn data(&self) -> Value {
        self.output().data.as_ref().map_or(Value::Null, |data| serde_json::from_slice(data).expect("JSON"))
    }

    fn failing(&self) -> &Failing {
        match &self.outcome {
            Outcome::Done(output) => panic!("done: {output:?}"),
            Outcome::Failed(failing) => failing,
            Outcome::Asked => panic!("asked"),
        }
    }

    /// Class, code and message of the failure.
    fn failure(&self) -> (Class, &str, &str) {
        let failure = &self.failing().failure;
        (failure.class, failure.code.as_deref().unwrap_or(""), &failure.message)
    }
}

/// Waits until this process is gone or a zombie that only its new parent can reap.
#[cfg(target_os = "linux")]
fn wait_until_gone(pid: &str) {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("not 0");
    if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) {
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).expect("a wait");
    }
}

/// Waits until this process is gone.
#[cfg(not(target_os = "linux"))]
fn wait_until_gone(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("not 0");
    while rustix::process::test_kill_process(pid).is_ok() {
        std::thread::yield_now();
    }
}

/// Whether this process is a child of ours, zombies included.
fn is_our_child(pid: &str) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("not 0");
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT).is_ok()
}
