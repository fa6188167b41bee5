//! Claims and their ends: numbers, stale reports, retries, interruptions.

use super::rig::{Rig, options};
use crate::job::{Class, End, Failing, Failure, Millis, Outcome, RetryPolicy, Rules, Status};
use crate::work::WorkSource;

fn rules() -> Rules {
    let retry = RetryPolicy { base_delay: Millis(5_000), jitter: 0.2, ..RetryPolicy::default() };
    Rules { retry, ..Rules::default() }
}

#[test]
fn a_delayed_job_is_handed_out_when_its_time_comes_and_nothing_else_wakes_it() {
    let rig = Rig::new();
    let mut creation = rig.creation();
    creation.run_at = Some(rig.clock_now().plus(Millis(60_000)));
    let id = rig.try_submit(creation).expect("accepted").0.job.id();
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(4).expect("open"));
    rig.settle();
    rig.advance(Millis(59_999));
    rig.settle();
    assert_eq!(rig.job(id).job.status(), Status::Pending, "not a millisecond early");
    rig.advance(Millis(1));
    let claims = waiting.join().expect("claimed");
    assert_eq!(claims.iter().map(|claim| claim.job).collect::<Vec<_>>(), [id]);
}

/// Row 40: retry jobs were lost after a restart, because nothing woke the scheduler until some other job came.
#[test]
fn case_40_a_retry_whose_server_died_runs_at_its_time_after_the_restart() {
    let rig = Rig::with(options(), rules());
    let id = rig.submit();
    let claim = rig.claim();
    rig.finish(&claim, Outcome::failed(Class::Transient, None, "upstream"));
    let (_, next_at) = rig.next_at(id)[0];
    let rig = rig.restart(rules());
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(1).expect("open"));
    rig.settle();
    let just_before = next_at.since(rig.clock_now()).0 - 1;
    rig.advance(Millis(just_before));
    rig.settle();
    assert_eq!(rig.job(id).job.status(), Status::Pending, "a delay that is not over is kept");
    rig.advance(Millis(1));
    assert_eq!(waiting.join().expect("claimed")[0].job, id);
}

#[test]
fn retries_wait_as_long_as_the_policy_and_the_upstream_say() {
    let rig = Rig::with(options(), rules());
    let id = rig.submit();
    let after = |retry_after| {
        let failure = Failure::new(Class::Transient, Some("http_503"), "busy");
        Outcome::Failed(Failing { failure, end: End::Failed, retry_after })
    };
    let claim = rig.claim();
    rig.finish(&claim, after(None));
    rig.advance(Millis(6_000));
    let claim = rig.claim();
    rig.finish(&claim, after(Some(Millis::seconds(7_200))));
    let waits: Vec<u64> = rig.next_at(id).iter().map(|(at, next)| next.since(*at).0).collect();
    assert!((5_000..=6_000).contains(&waits[0]), "{waits:?}");
    assert_eq!(waits[1], 3_600_000, "Retry-After is honoured up to an hour");
    rig.advance(Millis::seconds(3_600));
    let claim = rig.claim();
    assert_eq!((claim.attempt, claim.max_attempts), (3, 3));
    rig.finish(&claim, after(None));
    assert!(rig.job(id).job.is_dead_letter());
}

#[test]
fn claims_come_in_one_batch_and_never_beyond_a_type_s_limit() {
    let limited = Rules { concurrency: Some(2), ..Rules::default() };
    let rig = Rig::with(options(), limited);
    let ids: Vec<_> = (0..5).map(|_| rig.submit()).collect();
    let first = rig.work.claim(10).expect("open");
    assert_eq!(first.iter().map(|claim| claim.job).collect::<Vec<_>>(), ids[..2]);
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(10).expect("open"));
    rig.done(&first[0]);
    let next = waiting.join().expect("claimed");
    assert_eq!(next.iter().map(|claim| claim.job).collect::<Vec<_>>(), ids[2..3]);
}

#[test]
fn a_bulk_upload_delays_no_urgent_job() {
    let rig = Rig::new();
    for _ in 0..200 {
        rig.submit();
    }
    let mut urgent = rig.creation();
    urgent.spec.priority = 50;
    let id = rig.try_submit(urgent).expect("accepted").0.job.id();
    assert_eq!(rig.claim().job, id);
}

#[test]
fn a_pending_job_that_expires_is_canceled_and_a_running_one_is_stopped() {
    let rig = Rig::new();
    let expiring = || {
        let mut creation = rig.creation();
        creation.spec.expires_at = Some(rig.clock_now().plus(Millis(1_000)));
        rig.try_submit(creation).expect("accepted").0.job.id()
    };
    let running = expiring();
    let claim = rig.claim();
    let pending = expiring();
    rig.advance(Millis(1_000));
    rig.settle();
    assert_eq!(rig.job(pending).job.status(), Status::Canceled);
    rig.settle();
    assert_eq!(claim.stop.get(), Some(crate::work::Stop::Cancel));
    rig.finish(&claim, Outcome::failed(Class::Transient, None, "stopped"));
    let head = rig.job(running);
    let crate::job::State::Canceled { by, reason } = &head.job.state else { panic!("{head:?}") };
    assert_eq!((&**by, &**reason), ("longhaul", "timeout"));
}
