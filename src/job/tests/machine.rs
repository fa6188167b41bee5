//! What may happen to a job, one promise each.

use super::*;
use crate::job::machine::{Impossible, dropped, fold};
use crate::job::{LOGS_MAX, OnInterrupt, REASON_MAX, State, Status};

/// The code of the failure that ended the job.
fn code(life: &Life) -> Option<String> {
    life.job.error.as_ref().and_then(|error| error.failure.code.as_deref().map(str::to_owned))
}

/// Everything by which an attempt can end.
fn ends(claim: ClaimNo) -> Vec<Command> {
    vec![
        complete(claim),
        fail(claim, Class::Transient, None),
        fail(claim, Class::Fatal, None),
        Command::Release { claim, log: None },
        Command::Interrupt { charged: true },
        Command::Interrupt { charged: false },
    ]
}

#[test]
fn a_delay_that_delays_nothing_is_not_recorded() {
    for (run_at, recorded) in
        [(BIRTH, None), (Timestamp(0), None), (BIRTH.plus(Millis(1)), Some(BIRTH.plus(Millis(1))))]
    {
        let Entry::Created { run_at, .. } = create(Arc::new(spec(1)), Some(run_at)) else { panic!("no creation") };
        assert_eq!(run_at, recorded);
    }
}

#[test]
fn a_completed_job_says_how_often_it_was_tried_and_how_long_the_last_attempt_took() {
    let mut life = Life::running();
    life.fail(Class::Transient);
    life.advance(5_000);
    life.start();
    assert!(life.job.error.is_some(), "the failure stays visible while later attempts run");
    life.advance(70);
    let entries = life.complete();
    assert!(matches!(entries[..], [Entry::Completed { attempts: 2, duration: Millis(70), .. }]));
    assert_eq!((life.job.status(), life.job.attempts, &life.job.error), (Status::Completed, 2, &None));
}

#[test]
fn a_transient_failure_is_retried_up_to_the_limit_and_the_other_classes_never() {
    for (class, runs) in [(Class::Transient, 5), (Class::Permanent, 1), (Class::Fatal, 1)] {
        let mut life = Life::new();
        while life.job.status() == Status::Pending {
            life.start();
            life.fail(class);
        }
        assert_eq!((life.job.status(), life.job.attempts, life.job.claims), (Status::Failed, runs, u64::from(runs)));
        assert!(life.job.is_dead_letter());
    }
}

#[test]
fn a_retry_says_how_many_attempts_failed_and_when_the_next_may_start() {
    let mut life = Life::running();
    let claim = life.claim();
    let asked = Some(Millis::seconds(7));
    let entries = life.send(&fail(claim, Class::Transient, asked)).expect("current");
    let next_at = life.now.plus(Millis::seconds(7));
    assert!(matches!(&entries[..], [Entry::Retrying { retry: 1, max_attempts: 5, next_at: at, .. }] if *at == next_at));
    assert_eq!((life.job.status(), life.job.run_at), (Status::Pending, next_at));
    assert!(life.job.error.is_some(), "visible while the retry waits");
}

#[test]
fn a_retry_that_could_only_start_after_the_expiry_is_a_failure_at_once() {
    for (expires_in, status) in [(1_000, Status::Failed), (1_001, Status::Pending)] {
        let mut life = Life::of(Spec { expires_at: Some(BIRTH.plus(Millis(expires_in))), ..spec(1) });
        life.start();
        life.fail(Class::Transient);
        assert_eq!(life.job.status(), status);
        let error = life.job.error.clone().expect("it failed");
        assert_eq!(error.failure.class, Class::Transient);
        assert!(error.failure.message.contains("no luck"));
        assert_eq!(code(&life).as_deref(), (status == Status::Failed).then_some("expired"));
    }
}

#[test]
fn a_late_report_of_an_old_claim_is_refused_and_changes_nothing() {
    let mut life = Life::running();
    let old = life.claim();
    life.send(&Command::Interrupt { charged: true }).expect("it runs");
    life.start();
    let before = life.job.clone();
    let mut late = ends(old);
    late.truncate(4);
    late.extend([
        Command::Report { claim: old, progress: step(1) },
        partial(old, 1, b"1"),
        Command::Delivered { claim: old },
    ]);
    for command in &late {
        assert_eq!(life.send(command), Err(Refusal::StaleClaim));
    }
    assert_eq!(life.job, before);
    life.complete();
    for command in &late {
        assert_eq!(life.send(command), Err(Refusal::StaleClaim), "also when the job has ended");
    }
}

#[test]
fn a_pending_job_is_canceled_at_once() {
    let mut life = Life::new();
    life.send(&cancel()).expect("it waits");
    let receipt = life.job.cancel.clone().expect("a receipt");
    assert_eq!((receipt.requested_at, receipt.delivered_at, receipt.stopped_at), (BIRTH, None, Some(BIRTH)));
    assert_eq!(life.send(&cancel()), Err(Refusal::Ended));
}

#[test]
fn a_running_job_is_told_and_only_then_canceled() {
    let mut life = Life::running();
    let claim = life.claim();
    assert_eq!(life.send(&Command::Delivered { claim }), Err(Refusal::NotNow));
    life.send(&cancel()).expect("it runs");
    assert_eq!((life.job.status(), life.send(&cancel())), (Status::InProgress, Ok(Vec::new())));
    life.advance(10);
    life.send(&Command::Delivered { claim }).expect("it was requested");
    assert_eq!(life.send(&Command::Delivered { claim }), Ok(Vec::new()));
    life.advance(10);
    life.complete();
    let receipt = life.job.cancel.clone().expect("a receipt");
    let after = |length| Some(BIRTH.plus(Millis(length)));
    assert_eq!(
        (Some(receipt.requested_at), receipt.delivered_at, receipt.stopped_at),
        (after(0), after(10), after(20))
    );
}

#[test]
fn once_a_cancel_is_requested_the_attempt_ends_as_that_cancel_whatever_it_brings() {
    for on_interrupt in [OnInterrupt::Retry, OnInterrupt::Fail] {
        for end in ends(ClaimNo(1)) {
            let mut life = Life::running();
            life.rules.on_interrupt = on_interrupt;
            life.send(&cancel()).expect("it runs");
            life.send(&end).expect("it ends");
            assert!(
                matches!(&life.job.state, State::Canceled { by, reason } if &**by == "anna" && &**reason == "user")
            );
            assert!(life.job.cancel.as_ref().is_some_and(|receipt| receipt.stopped_at.is_some()));
        }
    }
}

#[test]
fn a_reason_is_cut_at_a_character() {
    let mut life = Life::running();
    life.send(&Command::Cancel { by: "anna".into(), reason: "ä".repeat(REASON_MAX).into() }).expect("it runs");
    let reason = life.job.cancel.as_ref().expect("requested").reason.clone();
    assert_eq!(&*reason, "ä".repeat(REASON_MAX / 2));
}

#[test]
fn a_receipt_rises_though_the_clock_was_set_back() {
    let mut life = Life::running();
    let claim = life.claim();
    life.send(&cancel()).expect("it runs");
    life.now = Timestamp(10);
    life.send(&Command::Delivered { claim }).expect("it was requested");
    life.now = Timestamp(5);
    life.complete();
    let receipt = life.job.cancel.clone().expect("a receipt");
    assert_eq!((receipt.delivered_at, receipt.stopped_at), (Some(BIRTH), Some(BIRTH)));
}

#[test]
fn a_job_expires_when_its_time_has_come_and_not_before() {
    let expiring = Spec { expires_at: Some(BIRTH.plus(Millis(100))), ..spec(1) };
    for running in [false, true] {
        let mut life = Life::of(expiring.clone());
        if running {
            life.start();
        }
        life.advance(99);
        assert_eq!(life.send(&Command::Expire), Err(Refusal::NotNow));
        life.advance(1);
        life.send(&Command::Expire).expect("its time has come");
        if running {
            assert_eq!(life.send(&Command::Expire), Ok(Vec::new()));
            life.complete();
        }
        let state = &life.job.state;
        assert!(matches!(state, State::Canceled { by, reason } if &**by == "longhaul" && &**reason == "timeout"));
        assert_eq!(life.send(&Command::Expire), Err(Refusal::Ended));
    }
    assert_eq!(Life::new().send(&Command::Expire), Err(Refusal::NotNow), "what has no expiry never expires");
}

#[test]
fn what_is_given_back_or_cut_short_does_not_count_as_an_attempt() {
    let mut life = Life::new();
    for (command, interruptions) in [
        (Command::Release { claim: ClaimNo(1), log: None }, 0),
        (Command::Interrupt { charged: false }, 0),
        (Command::Interrupt { charged: true }, 1),
    ] {
        life.start();
        life.advance(10);
        life.send(&command).expect("it runs");
        let job = &life.job;
        assert_eq!((job.status(), job.attempts, job.interruptions), (Status::Pending, 0, interruptions));
        assert_eq!(job.run_at, life.now, "it runs again as soon as it can");
    }
    assert_eq!(life.start(), ClaimNo(4));
}

#[test]
fn a_job_that_must_not_run_twice_ends_as_unknown_when_it_is_interrupted() {
    let mut life = Life::running();
    life.rules.on_interrupt = OnInterrupt::Fail;
    life.send(&Command::Interrupt { charged: false }).expect("it runs");
    assert_eq!((life.job.status(), code(&life).as_deref()), (Status::Failed, Some("outcome_unknown")));
}

#[test]
fn a_job_interrupted_too_often_fails_as_worker_died() {
    let mut life = Life::new();
    for interruptions in 1..=3 {
        assert_eq!(life.job.status(), Status::Pending);
        life.start();
        life.send(&Command::Interrupt { charged: true }).expect("it runs");
        assert_eq!(life.job.interruptions, interruptions);
    }
    let error = life.job.error.clone().expect("it failed");
    assert_eq!(
        (life.job.status(), error.failure.class, code(&life).as_deref()),
        (Status::Failed, Class::Fatal, Some("worker_died"))
    );
    assert!(error.failure.message.contains("process died"));
}

#[test]
fn only_a_dead_letter_is_replayed_and_once() {
    let replay = |id| Command::Replay { as_job: JobId::from_u128(id) };
    let mut life = Life::running();
    assert_eq!(life.send(&replay(9)), Err(Refusal::NotDeadLettered));
    life.fail(Class::Fatal);
    life.send(&replay(9)).expect("it failed");
    assert!(!life.job.is_dead_letter());
    assert_eq!(life.send(&replay(8)), Err(Refusal::AlreadyReplayed));
    assert_eq!(life.job.state, State::Failed { replayed_as: Some(JobId::from_u128(9)) });
}

#[test]
fn a_partial_like_the_last_one_is_no_news_over_retries_too() {
    let mut life = Life::running();
    assert_eq!(life.send(&partial(ClaimNo(1), 1, b"[1]")).map(|entries| entries.len()), Ok(1));
    assert_eq!(life.send(&partial(ClaimNo(1), 2, b"[1]")), Ok(Vec::new()));
    life.fail(Class::Transient);
    life.start();
    assert_eq!(life.send(&partial(ClaimNo(2), 1, b"[1]")), Ok(Vec::new()));
    assert_eq!(life.send(&partial(ClaimNo(2), 2, b"[2]")).map(|entries| entries.len()), Ok(1));
}

#[test]
fn the_newest_logs_are_kept_and_the_record_says_what_it_dropped() {
    let mut life = Life::of(Spec { max_attempts: 100, ..spec(1) });
    for n in 1..=LOGS_MAX as u64 + 2 {
        let claim = life.start();
        let before = life.job.clone();
        life.fail(Class::Transient);
        let gone = n.checked_sub(LOGS_MAX as u64).filter(|gone| *gone > 0);
        assert_eq!(dropped(&before, &life.job), gone.map(|gone| log_of(ClaimNo(gone))).into_iter().collect::<Vec<_>>());
        assert_eq!(life.job.logs.last(), Some(&log_of(claim)));
    }
    assert_eq!(life.job.logs.len(), LOGS_MAX);
}

#[test]
fn a_new_partial_drops_the_last_one() {
    let mut life = Life::running();
    life.send(&partial(ClaimNo(1), 1, b"[1]")).expect("current");
    let before = life.job.clone();
    life.send(&partial(ClaimNo(1), 2, b"[2]")).expect("current");
    assert_eq!(dropped(&before, &life.job), [BodyRef::of(Part::Partial, (1 << 32) | 1, b"[1]")]);
}

#[test]
fn an_entry_that_does_not_follow_is_named() {
    let created = || create(Arc::new(spec(1)), None);
    let started =
        |claim, attempt| Entry::Started { claim: ClaimNo(claim), attempt, max_attempts: 5, worker: "w".into() };
    let released = |claim| Entry::Released { claim: ClaimNo(claim), log: None };
    let failed = |claim: Option<u64>| {
        let failure = Failure::new(Class::Fatal, None, "");
        Entry::Failed { claim: claim.map(ClaimNo), end: None, failure, attempts: 1, log: None }
    };
    let canceled = |claim: Option<u64>| Entry::Canceled {
        claim: claim.map(ClaimNo),
        by: "b".into(),
        reason: "r".into(),
        log: None,
    };
    let requested = || Entry::CancelRequested { by: "b".into(), reason: "r".into() };
    let delivered = || Entry::CancelDelivered { claim: ClaimNo(1) };
    let replayed = || Entry::Replayed { as_job: JobId::from_u128(2) };
    let wrong = |expected, found| Impossible::WrongClaim { expected: ClaimNo(expected), found: ClaimNo(found) };
    for (entries, impossible) in [
        (vec![started(1, 1)], Impossible::NotCreated),
        (vec![created(), created()], Impossible::CreatedTwice),
        (vec![created(), failed(None), started(1, 1)], Impossible::AfterEnd),
        (vec![created(), started(1, 1), failed(Some(1)), canceled(None)], Impossible::AfterEnd),
        (vec![created(), started(1, 1), started(2, 2)], Impossible::NotPending),
        (vec![created(), started(1, 1), failed(None)], Impossible::NotPending),
        (vec![created(), Entry::Progress(step(1))], Impossible::NotRunning),
        (vec![created(), released(1)], Impossible::NotRunning),
        (vec![created(), requested()], Impossible::NotRunning),
        (vec![created(), started(2, 1)], wrong(1, 2)),
        (vec![created(), started(1, 1), released(2)], wrong(1, 2)),
        (vec![created(), started(1, 1), released(1), started(1, 1)], wrong(2, 1)),
        (vec![created(), started(1, 2)], Impossible::WrongAttempt),
        (vec![created(), started(1, 1), delivered()], Impossible::CancelOutOfTurn),
        (vec![created(), started(1, 1), requested(), requested()], Impossible::CancelOutOfTurn),
        (vec![created(), started(1, 1), requested(), delivered(), delivered()], Impossible::CancelOutOfTurn),
        (vec![created(), started(1, 1), requested(), released(1)], Impossible::CancelOutOfTurn),
        (vec![created(), started(1, 1), requested(), failed(Some(1))], Impossible::CancelOutOfTurn),
        (vec![created(), started(1, 1), canceled(Some(1))], Impossible::CancelOutOfTurn),
        (vec![created(), replayed()], Impossible::NotDeadLettered),
        (vec![created(), canceled(None), replayed()], Impossible::NotDeadLettered),
        (vec![created(), failed(None), replayed(), replayed()], Impossible::NotDeadLettered),
    ] {
        let folded = fold(entries.iter().map(|entry| (BIRTH, entry)));
        assert_eq!(folded, Err(impossible), "{entries:?}");
    }
    assert_eq!(fold([]), Ok(None));
}
