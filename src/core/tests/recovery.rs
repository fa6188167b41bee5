//! What a restart finds, and what becomes of it.

use super::rig::Rig;
use crate::job::{Millis, OnInterrupt, Rules, Status};
use crate::work::WorkSource;

#[test]
fn an_interrupted_job_is_pending_again_at_once_and_its_attempt_does_not_count() {
    let rig = Rig::new();
    let id = rig.submit();
    let old = rig.claim();
    let rig = rig.restart(Rules::default());
    let head = rig.job(id);
    assert_eq!((head.job.status(), head.job.attempts, head.job.interruptions), (Status::Pending, 0, 1));
    let claim = rig.claim();
    assert_eq!((claim.number.0, claim.attempt), (2, 1), "a new token, the same attempt");
    rig.done(&old);
    assert_eq!(rig.job(id).job.status(), Status::InProgress, "the old token opens nothing");
    rig.done(&claim);
    assert_eq!(rig.story(id), ["job.created", "job.started", "job.started", "job.completed"]);
}

#[test]
fn a_job_that_must_not_run_twice_ends_as_outcome_unknown() {
    let rules = || Rules { on_interrupt: OnInterrupt::Fail, ..Rules::default() };
    let rig = Rig::with(super::rig::options(), rules());
    let id = rig.submit();
    rig.claim();
    let rig = rig.restart(rules());
    let head = rig.job(id);
    assert_eq!(head.job.error.as_ref().expect("an error").failure.code.as_deref(), Some("outcome_unknown"));
}

/// Row 39: a job that kills its worker was put back without counting and crashed the fleet again and again.
#[test]
fn case_39_a_job_that_kills_its_server_ends_and_its_neighbours_complete() {
    let mut rig = Rig::new();
    let killer = rig.submit();
    let innocents: Vec<_> = (0..20).map(|_| rig.submit()).collect();
    let mut deaths = 0;
    loop {
        let claims = match rig.job(killer).job.status() {
            Status::Failed => break,
            Status::Pending => rig.work.claim(8).expect("open"),
            Status::InProgress | Status::InputRequired | Status::Completed | Status::Canceled => {
                panic!("{:?}", rig.job(killer))
            }
        };
        if claims.iter().any(|claim| claim.job == killer) {
            deaths += 1;
            assert!(deaths <= 10, "the killer must end");
            rig = rig.restart(Rules::default());
        } else {
            claims.iter().for_each(|claim| rig.done(claim));
        }
    }
    assert_eq!(rig.job(killer).job.error.as_ref().expect("an error").failure.code.as_deref(), Some("worker_died"));
    let unfinished = |rig: &Rig| innocents.iter().filter(|id| !rig.job(**id).job.status().is_terminal()).count();
    while unfinished(&rig) > 0 {
        let claims = rig.work.claim(8).expect("open");
        claims.iter().for_each(|claim| rig.done(claim));
    }
    assert!(innocents.iter().all(|id| rig.job(*id).job.status() == Status::Completed));
    assert_eq!(deaths, 3, "charged each time it was running alone among suspects");
}

#[test]
fn jobs_whose_tool_is_no_longer_configured_wait_until_it_is() {
    let rig = Rig::new();
    let id = rig.submit();
    let (store, clock) = rig.crash();
    let rig = Rig::configured(store, clock, super::rig::options(), [].into());
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(1));
    rig.settle();
    rig.settle();
    assert_eq!(rig.job(id).job.status(), Status::Pending);
    rig.core.drain();
    waiting.join().expect("told").expect_err("nothing was handed out");
    let rig = rig.restart(Rules::default());
    assert_eq!(rig.claim().job, id);
}

#[test]
fn a_jump_of_the_clock_loses_no_delayed_job() {
    let rig = Rig::new();
    let mut creation = rig.creation();
    creation.run_at = Some(rig.clock_now().plus(Millis(60_000)));
    let id = rig.try_submit(creation).expect("accepted").0.job.id();
    let start = rig.clock_now();
    rig.clock.set(crate::job::Timestamp(start.0 - 3_600_000));
    rig.settle();
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(1).expect("open"));
    rig.clock.set(start.plus(Millis(60_000)));
    assert_eq!(waiting.join().expect("claimed")[0].job, id);
}
