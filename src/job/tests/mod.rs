//! The promises of the pure job core: by example, and as properties of random lives.
//!
//! `Life` drives one job through `decide` and `apply`, as the core thread does, and keeps what both said.

mod interruptions;
mod lives;
mod machine;
mod model;
mod nouns;
mod progress;
mod questions;
mod queue;
mod queue_model;
mod retry;

use std::sync::Arc;

use super::machine::{Moment, apply, create, decide};
use super::{
    Action, Answer, Asking, BodyRef, Carried, ClaimNo, Class, Command, Completion, End, Entry, Failing, Failure, Job,
    JobId, Json, Millis, Part, Progress, Refusal, Rules, Spec, Throttle, Timestamp,
};

/// When the jobs of these tests are created.
const BIRTH: Timestamp = Timestamp(1_000_000);

fn spec(id: u128) -> Spec {
    Spec {
        id: JobId::from_u128(id),
        job_type: "echo".into(),
        owner: "local".into(),
        payload: BodyRef::of(Part::Payload, 0, b"{}"),
        carried: Carried::default(),
        priority: 0,
        max_attempts: 5,
        created_at: BIRTH,
        expires_at: None,
        key: None,
        tags: Arc::new([]),
        traceparent: None,
        replay_of: None,
    }
}

fn job(spec: Spec) -> Job {
    let at = spec.created_at;
    apply(None, at, &create(Arc::new(spec), None)).expect("a creation fits nothing")
}

/// One job, its log, and what is held back.
#[derive(Debug)]
struct Life {
    job: Job,
    held: Option<Progress>,
    log: Vec<(Timestamp, Entry)>,
    now: Timestamp,
    rules: Rules,
    throttle: Throttle,
    spread: f64,
}

impl Life {
    fn of(spec: Spec) -> Self {
        let now = spec.created_at;
        let entry = create(Arc::new(spec), None);
        Self {
            job: apply(None, now, &entry).expect("a creation fits nothing"),
            held: None,
            log: vec![(now, entry)],
            now,
            rules: Rules::default(),
            throttle: Throttle::default(),
            spread: 0.0,
        }
    }

    fn new() -> Self {
        Self::of(spec(1))
    }

    /// A life whose first attempt runs.
    fn running() -> Self {
        let mut life = Self::new();
        life.start();
        life
    }

    /// Decides and applies. What does not fit the fold is a fault of the decision.
    fn send(&mut self, command: &Command) -> Result<Vec<Entry>, Refusal> {
        let moment = Moment { now: self.now, rules: &self.rules, throttle: &self.throttle, spread: self.spread };
        let entries = decide(&self.job, &mut self.held, command, &moment)?;
        for entry in &entries {
            self.job = apply(Some(self.job.clone()), self.now, entry).expect("what was decided fits");
            self.log.push((self.now, entry.clone()));
        }
        Ok(entries)
    }

    fn start(&mut self) -> ClaimNo {
        self.send(&Command::Start { worker: "here".into() }).expect("the job waits");
        self.claim()
    }

    fn claim(&self) -> ClaimNo {
        self.job.claim().expect("an attempt runs")
    }

    fn advance(&mut self, length: u64) {
        self.now = self.now.plus(Millis(length));
    }

    fn report(&mut self, progress: Progress) -> Vec<Entry> {
        let claim = self.claim();
        self.send(&Command::Report { claim, progress }).expect("the claim is current")
    }

    fn complete(&mut self) -> Vec<Entry> {
        let claim = self.claim();
        self.send(&complete(claim)).expect("the claim is current")
    }

    fn fail(&mut self, class: Class) -> Vec<Entry> {
        let claim = self.claim();
        self.send(&fail(claim, class, None)).expect("the claim is current")
    }
}

fn complete(claim: ClaimNo) -> Command {
    let completion = Completion {
        summary: "done".into(),
        result: Some(BodyRef::of(Part::Result, claim.0, b"1")),
        content: None,
        is_error: false,
        lossy: false,
    };
    Command::Complete { claim, completion: Arc::new(completion), inline: None, log: Some(log_of(claim)) }
}

fn fail(claim: ClaimNo, class: Class, retry_after: Option<Millis>) -> Command {
    let failing = Failing { failure: Failure::new(class, None, "no luck"), end: End::Failed, retry_after };
    Command::Fail { claim, failing, log: Some(log_of(claim)) }
}

fn log_of(claim: ClaimNo) -> BodyRef {
    BodyRef::of(Part::Log, claim.0, b"a line")
}

fn partial(claim: ClaimNo, count: u64, bytes: &[u8]) -> Command {
    let body = BodyRef::of(Part::Partial, (claim.0 << 32) | count, bytes);
    Command::Partial { claim, body, inline: None }
}

/// Tells the bodies of one key from those of others.
fn number_of(key: &str) -> u64 {
    key.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte))
}

fn ask(claim: ClaimNo, key: &str) -> Command {
    let asking = Asking { key: key.into(), message: "Which?".into(), schema: Json("{\"type\":\"object\"}".into()) };
    let body = BodyRef::of(Part::Question, number_of(key), asking.to_json().as_bytes());
    Command::Ask { claim, asking: Arc::new(asking), body }
}

/// Answers each of these, the same each time.
fn answer(keys: &[&str], action: Action) -> Command {
    let named = |key: &&str| {
        let body = BodyRef::of(Part::Answer, number_of(key), format!("{key} {}", action.name()).as_bytes());
        Answer { key: (*key).into(), action, body }
    };
    Command::Answer { by: "anna".into(), answers: keys.iter().map(named).collect() }
}

fn cancel() -> Command {
    Command::Cancel { by: "anna".into(), reason: "user".into() }
}

fn step(step: u32) -> Progress {
    Progress { step: Some(step), total_steps: Some(4), ..Progress::default() }
}

fn percent(percent: f64) -> Progress {
    Progress { percent: Some(percent), ..Progress::default() }
}
