//! Jobs, rules, commands and entries out of bytes: often such as fit, sometimes such as nobody would send.

use std::sync::Arc;

use longhaul::job::{
    Action, Answer, Asking, BodyRef, Carried, ClaimNo, Class, Command, Completion, End, Entry, Failing, Failure, Job,
    JobId, Json, Key, Millis, OnInterrupt, Part, Progress, RetryPolicy, Rules, Spec, Throttle, Timestamp,
};

use super::super::pieces::Pieces;

/// Mostly later than `now`, sometimes before it, at the edges of what a number can say, or the same.
pub fn time(pieces: &mut Pieces<'_>, now: Timestamp) -> Timestamp {
    let far = i64::from(pieces.byte()) * 997;
    match pieces.below(8) {
        0 => now,
        1..=4 => Timestamp(now.0.saturating_add(far)),
        5 => Timestamp(now.0.saturating_sub(far)),
        6 => Timestamp(now.0.saturating_add(far.saturating_mul(100_000))),
        _ => pieces.one_of(&[Timestamp(i64::MIN), Timestamp(0), Timestamp(-1), Timestamp(i64::MAX)]),
    }
}

fn millis(pieces: &mut Pieces<'_>) -> Millis {
    let few = u64::from(pieces.byte());
    pieces.one_of(&[Millis(few), Millis(few * 1_000), Millis(0), Millis(u64::MAX), Millis(few << 40)])
}

fn number(pieces: &mut Pieces<'_>) -> u32 {
    let few = u32::from(pieces.byte());
    pieces.one_of(&[few % 6, few, few, 0, u32::MAX])
}

fn share(pieces: &mut Pieces<'_>) -> f64 {
    let some = f64::from(pieces.byte()) / 128.0;
    pieces.one_of(&[some, some, some * 100.0, -some, f64::NAN, f64::INFINITY, f64::MAX])
}

fn text(pieces: &mut Pieces<'_>) -> Arc<str> {
    let some = pieces.text();
    let long = "ä\u{2028}x".repeat(usize::from(pieces.byte() % 64) * 16);
    pieces.one_of(&[some.clone(), some, String::new(), long]).into()
}

pub fn spec(pieces: &mut Pieces<'_>, now: Timestamp) -> Spec {
    Spec {
        id: JobId::from_u128(u128::from(pieces.byte())),
        job_type: "echo".into(),
        owner: "local".into(),
        payload: body(pieces, Part::Payload),
        carried: Carried::default(),
        priority: pieces.byte().cast_signed(),
        max_attempts: number(pieces),
        created_at: now,
        expires_at: pieces.coin().then(|| time(pieces, now)),
        key: pieces.coin().then(|| Arc::new(Key { text: text(pieces), digest: [1; 32] })),
        tags: Arc::new([]),
        traceparent: None,
        replay_of: None,
    }
}

pub fn rules(pieces: &mut Pieces<'_>) -> Rules {
    let plain = Rules::default();
    if pieces.coin() {
        return plain;
    }
    Rules {
        retry: RetryPolicy {
            max_attempts: number(pieces),
            base_delay: millis(pieces),
            max_delay: millis(pieces),
            jitter: share(pieces),
            max_interruptions: number(pieces),
        },
        on_interrupt: pieces.one_of(&[OnInterrupt::Retry, OnInterrupt::Fail]),
        ..plain
    }
}

pub fn throttle(pieces: &mut Pieces<'_>) -> Throttle {
    if pieces.coin() {
        Throttle::default()
    } else {
        Throttle { min_interval: millis(pieces), min_delta: share(pieces) }
    }
}

fn body(pieces: &mut Pieces<'_>, part: Part) -> BodyRef {
    BodyRef {
        part,
        seq: u64::from(pieces.byte() % 4),
        len: u64::from(pieces.byte() % 4),
        crc: u32::from(pieces.byte() % 4),
    }
}

fn log(pieces: &mut Pieces<'_>) -> Option<BodyRef> {
    pieces.coin().then(|| body(pieces, Part::Log))
}

fn json(pieces: &mut Pieces<'_>) -> Option<Json> {
    pieces.coin().then(|| Json("[1]".into()))
}

fn progress(pieces: &mut Pieces<'_>) -> Progress {
    Progress {
        step: pieces.coin().then(|| number(pieces)),
        total_steps: pieces.coin().then(|| number(pieces)),
        percent: pieces.coin().then(|| share(pieces)),
        message: pieces.coin().then(|| text(pieces)),
    }
}

fn completion(pieces: &mut Pieces<'_>) -> Arc<Completion> {
    Arc::new(Completion {
        summary: text(pieces),
        result: pieces.coin().then(|| body(pieces, Part::Result)),
        content: pieces.coin().then(|| body(pieces, Part::Content)),
        is_error: pieces.coin(),
        lossy: pieces.coin(),
    })
}

fn failure(pieces: &mut Pieces<'_>) -> Failure {
    let class = pieces.one_of(&[Class::Transient, Class::Transient, Class::Permanent, Class::Fatal]);
    Failure::new(class, Some(&text(pieces)).map(|code| &**code), &text(pieces))
}

fn end(pieces: &mut Pieces<'_>) -> End {
    pieces.one_of(&[End::Failed, End::TimedOut, End::Succeeded, End::Canceled, End::Released, End::Interrupted])
}

/// Mostly the claim that holds the job.
fn claim(pieces: &mut Pieces<'_>, job: &Job) -> ClaimNo {
    match pieces.below(8) {
        0 => ClaimNo(job.claims.saturating_sub(1)),
        1 => ClaimNo(job.claims.saturating_add(1)),
        2 => pieces.one_of(&[ClaimNo(0), ClaimNo(u64::MAX)]),
        _ => ClaimNo(job.claims),
    }
}

/// One of more keys than there may be, mostly of a few.
fn key(pieces: &mut Pieces<'_>) -> Arc<str> {
    let most = pieces.one_of(&[3, 3, 40]);
    format!("k{}", pieces.below(most)).into()
}

fn answers(pieces: &mut Pieces<'_>) -> Vec<Answer> {
    let answer = |pieces: &mut Pieces<'_>| Answer {
        key: key(pieces),
        action: pieces.one_of(&[Action::Accept, Action::Decline, Action::Cancel]),
        body: body(pieces, Part::Answer),
    };
    (0..=pieces.below(3)).map(|_| answer(pieces)).collect()
}

pub fn command(pieces: &mut Pieces<'_>, job: &Job) -> Command {
    let claim = claim(pieces, job);
    match pieces.below(19) {
        0..=3 => Command::Start { worker: text(pieces) },
        4..=6 => Command::Report { claim, progress: progress(pieces) },
        7 => Command::Partial { claim, body: body(pieces, Part::Partial), inline: json(pieces) },
        8 => Command::Complete { claim, completion: completion(pieces), inline: json(pieces), log: log(pieces) },
        9 | 10 => {
            let retry_after = pieces.coin().then(|| millis(pieces));
            let failing = Failing { failure: failure(pieces), end: end(pieces), retry_after };
            Command::Fail { claim, failing, log: log(pieces) }
        }
        11 => Command::Release { claim, log: log(pieces) },
        12 => Command::Interrupt { charged: pieces.coin() },
        13 => {
            let cancel = Command::Cancel { by: "ann".into(), reason: text(pieces) };
            pieces.one_of(&[Command::Expire, cancel])
        }
        14 => Command::Delivered { claim },
        16 | 17 => {
            let asking = Asking { key: key(pieces), message: text(pieces), schema: Json("{}".into()) };
            Command::Ask { claim, asking: Arc::new(asking), body: body(pieces, Part::Question) }
        }
        18 => Command::Answer { by: "ann".into(), answers: answers(pieces) },
        _ => Command::Replay { as_job: JobId::from_u128(7) },
    }
}

/// An entry that may or may not follow.
pub fn entry(pieces: &mut Pieces<'_>, job: &Job) -> Entry {
    let claim = claim(pieces, job);
    let attempt = if pieces.coin() { job.attempts.saturating_add(1) } else { number(pieces) };
    match pieces.below(15) {
        0 => Entry::Created { spec: job.spec.clone(), run_at: None },
        1 => Entry::Started { claim, attempt, max_attempts: number(pieces), worker: text(pieces) },
        2 => Entry::Progress(Progress { percent: None, ..progress(pieces) }),
        3 => Entry::Partial { body: body(pieces, Part::Partial), inline: json(pieces) },
        4 => Entry::Retrying {
            claim,
            end: end(pieces),
            failure: failure(pieces),
            retry: number(pieces),
            max_attempts: number(pieces),
            next_at: time(pieces, job.updated_at),
            log: log(pieces),
        },
        5 => Entry::Released { claim, log: log(pieces) },
        6 => Entry::Interrupted { claim, charged: pieces.coin() },
        7 => Entry::CancelRequested { by: text(pieces), reason: text(pieces) },
        8 => Entry::CancelDelivered { claim },
        9 => Entry::Completed {
            claim,
            completion: completion(pieces),
            attempts: number(pieces),
            duration: millis(pieces),
            inline: json(pieces),
            log: log(pieces),
        },
        10 => Entry::Failed {
            claim: pieces.coin().then_some(claim),
            end: pieces.coin().then(|| end(pieces)),
            failure: failure(pieces),
            attempts: number(pieces),
            log: log(pieces),
        },
        11 => Entry::Canceled {
            claim: pieces.coin().then_some(claim),
            by: text(pieces),
            reason: text(pieces),
            log: log(pieces),
        },
        13 => Entry::Asked {
            claim,
            key: key(pieces),
            message: text(pieces),
            schema: Json("{}".into()),
            body: body(pieces, Part::Question),
        },
        14 => Entry::Answered { by: text(pieces), answers: answers(pieces) },
        _ => Entry::Replayed { as_job: JobId::from_u128(7) },
    }
}
