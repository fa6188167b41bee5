//! The test-only kind: does what its payload says. Never part of a release build.
//!
//! In: `{"do": "sleep" | "echo" | "fail" | "panic" | "abort" | "progress" | "partial" | "noop" | "hang" | "ask", …}`. Out: that. Sleeps on
//! the clock it is given, and wakes for a stop and for an answer.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Asked, Handler, RunContext, stopped};
use crate::job::{Asking, Class, Failing, Failure, Json, Millis, Outcome, Output, Progress};
use crate::work::Claim;

/// Does what the payload says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trial;

/// What to do.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Deed {
    /// Completes with `null`.
    Noop,
    /// Takes this long, or until it is stopped.
    Sleep { ms: u64 },
    /// Blocks its thread for so long, deaf to every wish to stop; then completes.
    Hang { ms: u64 },
    /// Completes with this text, or with as many bytes of it as asked for.
    Echo { text: Option<String>, bytes: Option<usize> },
    /// Fails so many times, then completes.
    Fail { times: u32, class: Option<Class>, retry_after_ms: Option<u64> },
    /// Panics.
    Panic { message: Option<String> },
    /// Ends the whole process.
    Abort,
    /// Reports so many steps, then completes.
    Progress { steps: u32, pause_ms: Option<u64> },
    /// Reports this partial result, then completes.
    Partial { data: serde_json::Value },
    /// Asks these questions, one after the other, and waits for each answer so long at most; completes with the answers.
    Ask { keys: Vec<String>, hold_ms: u64 },
}

impl Handler for Trial {
    #[expect(clippy::panic, reason = "it is asked to")]
    fn run(&self, claim: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Outcome {
        let deed = match serde_json::from_slice(payload) {
            Ok(deed) => deed,
            Err(why) => return Outcome::failed(Class::Permanent, None, &format!("the payload: {why}")),
        };
        match deed {
            Deed::Noop => done(None),
            Deed::Sleep { ms } => context.pause(Millis(ms)).map_or_else(|stopped| stopped, |()| done(None)),
            Deed::Hang { ms } => {
                let until = context.clock.now().plus(Millis(ms));
                while context.clock.now() < until {
                    // Sent to once, or, where the clock was set, not at all: then it looks again.
                    let _ = context.clock.at(until).recv();
                }
                done(None)
            }
            Deed::Echo { text, bytes } => done(Some(json!(echo(text, bytes)))),
            Deed::Fail { times, class, retry_after_ms } if claim.attempt <= times => Outcome::Failed(Failing {
                failure: Failure::new(class.unwrap_or(Class::Transient), None, "failed as it was asked to"),
                end: crate::job::End::Failed,
                retry_after: retry_after_ms.map(Millis),
            }),
            Deed::Fail { .. } => done(Some(json!({"attempt": claim.attempt}))),
            Deed::Panic { message } => panic!("{}", message.unwrap_or_else(|| "panicked as it was asked to".into())),
            Deed::Abort => std::process::abort(),
            Deed::Progress { steps, pause_ms } => progress(steps, Millis(pause_ms.unwrap_or(0)), context),
            Deed::Partial { data } => {
                context.partial(data.to_string().into());
                done(None)
            }
            Deed::Ask { keys, hold_ms } => {
                let answers = keys.iter().map(|key| ask(key, Millis(hold_ms), context));
                let answers: Result<Vec<_>, Outcome> = answers.collect();
                answers.map_or_else(|outcome| outcome, |answers| done(Some(json!(answers))))
            }
        }
    }
}

fn done(data: Option<serde_json::Value>) -> Outcome {
    Outcome::Done(Output { data: data.map(|value| value.to_string().into()), ..Output::default() })
}

/// The text, repeated and cut to so many bytes.
fn echo(text: Option<String>, bytes: Option<usize>) -> String {
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| "x".into());
    match bytes {
        None => text,
        Some(bytes) => crate::job::cut(&text.repeat(bytes / text.len() + 1), bytes).to_owned(),
    }
}

fn progress(steps: u32, pause: Millis, context: &RunContext<'_>) -> Outcome {
    for step in 1..=steps {
        context.progress(Progress { step: Some(step), total_steps: Some(steps), ..Progress::default() });
        if let Err(stopped) = context.pause(pause) {
            return stopped;
        }
    }
    done(Some(json!({"steps": steps})))
}

fn ask(key: &str, hold: Millis, context: &RunContext<'_>) -> Result<Arc<Answer>, Outcome> {
    let (tell, told) = crossbeam_channel::bounded(1);
    let wake = tell.clone();
    // Whoever is about to look need not be told twice.
    context.claim().answers.on_new(move || {
        let _ = wake.try_send(());
    });
    context.claim().stop.on_stop(move |_| {
        let _ = tell.try_send(());
    });
    let until = context.clock.now().plus(hold);
    loop {
        let schema = Json(r#"{"type":"object"}"#.into());
        let asking = Asking { key: key.into(), message: format!("What about {key}?").into(), schema };
        match context.ask(asking)? {
            Asked::Answered(answer) => return Ok(answer),
            Asked::New(_) | Asked::Open => {}
            Asked::TooMany => return Err(Outcome::failed(Class::Fatal, None, "too many questions")),
        }
        if context.stop().is_some() {
            return Err(stopped());
        }
        if context.clock.now() >= until {
            return Err(Outcome::Asked);
        }
        crossbeam_channel::select! {
            recv(told) -> _ => {}
            recv(context.clock.at(until)) -> _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Manual};
    use crate::handler::testing::{Recorder, claim};
    use crate::job::Timestamp;
    use crate::work::Stop;

    fn run(claim: &Claim, payload: &serde_json::Value) -> (Outcome, usize) {
        let clock: Arc<dyn Clock> = Arc::new(Manual::at_time(Timestamp(0)));
        let recorder = Recorder::default();
        let context = RunContext::new(&recorder, claim, &clock);
        let outcome = Trial.run(claim, &payload.to_string().into(), &context);
        (outcome, recorder.reports().len())
    }

    #[test]
    fn it_does_what_the_payload_says() {
        let mut claim = claim(Timestamp(1_000));
        let fail = json!({"do": "fail", "times": 1, "retry_after_ms": 5});
        assert!(matches!(run(&claim, &fail).0, Outcome::Failed(failing) if failing.retry_after == Some(Millis(5))));
        claim.attempt = 2;
        assert_eq!(run(&claim, &fail).0, done(Some(json!({"attempt": 2}))));
        assert_eq!(run(&claim, &json!({"do": "echo", "text": "€", "bytes": 7})).0, done(Some(json!("€€"))));
        assert_eq!(run(&claim, &json!({"do": "progress", "steps": 3})), (done(Some(json!({"steps": 3}))), 3));
        assert_eq!(run(&claim, &json!({"do": "partial", "data": [1]})), (done(None), 1));
        assert!(matches!(run(&claim, &json!({"do": "nothing"})).0, Outcome::Failed(_)));
        claim.stop.set(Stop::Cancel);
        assert_eq!(run(&claim, &json!({"do": "sleep", "ms": 900})), (crate::handler::stopped(), 1));
    }
}
