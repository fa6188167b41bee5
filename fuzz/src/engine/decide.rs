//! Decides steps about one job, as the core does: a wish becomes entries, and they become a change.
//!
//! In: a job as the group has left it. Out: a change for one commit, or nothing. Never touches a store.

use std::sync::Arc;

use bytes::Bytes;
use longhaul::job::machine::{self, Moment};
use longhaul::job::{
    Action, Answer, Asking, Body, BodyRef, ClaimNo, Command, Completion, Entry, Head, Job, Json, Millis, Part,
    Position, Progress, Throttle, Timestamp,
};
use longhaul::store::JobChange;

use super::making;
use super::step::Wish;

/// A command, with the bodies that it names.
pub struct Wanted {
    pub command: Command,
    pub bodies: Vec<(Body, Bytes)>,
}

impl Wanted {
    fn bare(command: Command) -> Self {
        Self { command, bodies: Vec::new() }
    }
}

/// The command that this wish is, said by the attempt that holds the job, if one does.
pub fn command(job: &Job, wish: &Wish) -> Wanted {
    let claim = ClaimNo(job.claims);
    match wish {
        Wish::Start => Wanted::bare(Command::Start { worker: "a worker".into() }),
        Wish::Report { step, percent, message } => {
            let progress = Progress {
                step: Some(u32::from(*step)),
                total_steps: Some(8),
                percent: percent.map(f64::from),
                message: (*message != 0).then(|| "m".repeat(usize::from(*message)).into()),
            };
            Wanted::bare(Command::Report { claim, progress })
        }
        Wish::Partial { size } => {
            let (body, bytes) = making::body(Part::Partial, claim.0 << 32 | u64::from(job.revision), *size);
            let command = Command::Partial { claim, body: body.name, inline: making::inline(body.name) };
            Wanted { command, bodies: vec![(body, bytes)] }
        }
        Wish::Complete { size, content, log } => complete(claim, *size, *content, *log),
        Wish::Fail { class, after, log } => {
            let log = log.then(|| making::body(Part::Log, claim.0, *class));
            let name = log.as_ref().map(|(body, _)| body.name);
            let command = Command::Fail { claim, failing: making::failing(*class, *after), log: name };
            Wanted { command, bodies: log.into_iter().collect() }
        }
        Wish::Release => Wanted::bare(Command::Release { claim, log: None }),
        Wish::Cancel => Wanted::bare(Command::Cancel { by: "ann".into(), reason: "user".into() }),
        Wish::Delivered => Wanted::bare(Command::Delivered { claim }),
        Wish::Expire => Wanted::bare(Command::Expire),
        Wish::Stale => Wanted::bare(Command::Release { claim: ClaimNo(claim.0.wrapping_sub(1)), log: None }),
        Wish::Ask { key, size } => ask(claim, *key, *size),
        Wish::Answer { open, size } => answer(job, *open, *size),
    }
}

fn ask(claim: ClaimNo, key: u8, size: u8) -> Wanted {
    let schema = Json(format!("{{\"type\":\"object\",\"title\":\"{}\"}}", "t".repeat(usize::from(size) * 11)).into());
    let asking = Asking { key: key_of(key.into()), message: "m".repeat(usize::from(size) * 3).into(), schema };
    let bytes = Bytes::from(asking.to_json());
    let body = Body { name: BodyRef::of(Part::Question, key.into(), &bytes), bytes: Some(bytes.clone()) };
    Wanted { command: Command::Ask { claim, asking: Arc::new(asking), body: body.name }, bodies: vec![(body, bytes)] }
}

/// The key of a question, by the number of its body.
fn key_of(number: u64) -> Arc<str> {
    format!("k{number}").into()
}

fn answer(job: &Job, open: u8, size: u8) -> Wanted {
    let all: Vec<u64> = job.questions.open().map(|(words, _)| words.seq).collect();
    // To none of them is a wish that is refused.
    let some = if all.is_empty() { vec![0] } else { all[..1 + usize::from(open) % all.len()].to_vec() };
    let (mut answers, mut bodies) = (Vec::new(), Vec::new());
    for number in some {
        let bytes = Bytes::from("7".repeat(1 + usize::from(size) * 60));
        let body = Body { name: BodyRef::of(Part::Answer, number, &bytes), bytes: Some(bytes.clone()) };
        answers.push(Answer { key: key_of(number), action: Action::Accept, body: body.name });
        bodies.push((body, bytes));
    }
    Wanted { command: Command::Answer { by: "ann".into(), answers }, bodies }
}

fn complete(claim: ClaimNo, size: u8, content: bool, log: bool) -> Wanted {
    let result = (size != 0).then(|| making::body(Part::Result, claim.0, size));
    let content = content.then(|| making::body(Part::Content, claim.0, size / 3));
    let log = log.then(|| making::body(Part::Log, claim.0, size / 5));
    let name = |body: &Option<(Body, Bytes)>| body.as_ref().map(|(body, _)| body.name);
    let completion = Completion {
        summary: "done".repeat(usize::from(size % 50)).into(),
        result: name(&result),
        content: name(&content),
        is_error: size & 1 == 1,
        lossy: size & 2 == 2,
    };
    let inline = completion.result.and_then(making::inline);
    let command = Command::Complete { claim, completion: Arc::new(completion), inline, log: name(&log) };
    Wanted { command, bodies: [result, content, log].into_iter().flatten().collect() }
}

/// What the machine makes of a command now; empty also for a refusal.
pub fn entries(job: &Job, held: &mut Option<Progress>, command: &Command, now: Timestamp) -> Vec<Entry> {
    let (rules, throttle) = (making::rules(&job.spec.job_type), Throttle::default());
    let moment = Moment { now, rules: &rules, throttle: &throttle, spread: 0.5 };
    machine::decide(job, held, command, &moment).unwrap_or_default()
}

/// The change that these entries make of a job, naming what it names of these bodies.
pub fn change(before: Option<Arc<Head>>, entries: Vec<Entry>, bodies: &[(Body, Bytes)], at: Timestamp) -> JobChange {
    let mut job = before.as_ref().map(|head| head.job.clone());
    for entry in &entries {
        job = Some(machine::apply(job, at, entry).expect("what was decided fits"));
    }
    let after = job.expect("a change has entries");
    let dropped = before.as_ref().map(|head| machine::dropped(&head.job, &after)).unwrap_or_default();
    let named = |body: &&(Body, Bytes)| after.bodies().any(|name| name == body.0.name);
    let bodies = bodies.iter().filter(named).map(|(body, _)| body.clone()).collect();
    JobChange { before, after, entries, at, bodies, dropped }
}

/// The head that a change makes before it has positions: what the next change of the same commit is decided from.
pub fn pending(change: &JobChange) -> Arc<Head> {
    let mut trail = change.before.as_ref().map(|head| head.trail.clone()).unwrap_or_default();
    change.entries.iter().for_each(|_| drop(trail.push(Position::ZERO)));
    Arc::new(Head { job: change.after.clone(), trail })
}

/// A row of progress, each a step further, a while apart for whoever throttles.
pub fn burst(job: &Job, count: u8) -> Vec<Entry> {
    let from = job.reached.map_or(0, |place| place.step).max(job.progress.as_ref().and_then(|p| p.step).unwrap_or(0));
    let step =
        |n: u32| Progress { step: Some(from.saturating_add(n)), message: Some("on".into()), ..Progress::default() };
    (1..=u32::from(count)).map(|n| Entry::Progress(step(n))).collect()
}

/// A moment that is later than all others so far, whatever the clock says.
pub const LATER: Timestamp = Timestamp(i64::MAX);
/// When the first job is made.
pub const BIRTH: Timestamp = Timestamp(1_700_000_000_000);

/// The clock after a jump; far from where sums would overflow.
pub fn jumped(now: Timestamp, millis: i64) -> Timestamp {
    const FAR: i64 = i64::MAX / 4;
    if millis >= 0 {
        let later = now.plus(Millis(millis.cast_unsigned()));
        return Timestamp(later.0.min(FAR));
    }
    Timestamp(now.0.saturating_add(millis).max(-FAR))
}
