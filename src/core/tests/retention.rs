//! What goes when, and what stays.

use std::collections::HashMap;

use super::rig::{Rig, TYPE, options};
use crate::core::{Bound, Keep, Options, Retention};
use crate::job::{Class, JobId, KEPT_FLAT, Millis, Outcome, Rules};
use crate::store::Store;
use crate::work::WorkSource;

#[test]
fn ended_jobs_go_when_they_are_too_many_and_the_floor_rises_past_them() {
    let all = Bound { max_jobs: Some(3), max_bytes: None };
    let retention = Retention { all, ..Retention::default() };
    let rig = Rig::with(Options { retention, ..options() }, Rules::default());
    let ids: Vec<_> = (0..5)
        .map(|_| {
            let id = rig.submit();
            let claim = rig.claim();
            rig.done(&claim);
            id
        })
        .collect();
    rig.rest();
    let kept = |id| rig.store.job(id).expect("readable").is_some();
    assert_eq!(ids.iter().map(|id| kept(*id)).collect::<Vec<_>>(), [false, false, true, true, true]);
    assert_eq!(rig.store.bounds().floor.0, 7, "past the three entries of each");
    assert_eq!(rig.published.bounds().floor.0, 7);
}

#[test]
fn ended_jobs_go_at_their_age_by_themselves_and_failed_ones_later() {
    let plain = Keep { keep: Millis(1_000), keep_failed: Millis(5_000), ..Keep::default() };
    let retention = Retention { plain, ..Retention::default() };
    let rig = Rig::with(Options { retention, ..options() }, Rules::default());
    let (done, failed) = (rig.submit(), rig.submit());
    let claims = rig.work.claim(2).expect("open");
    rig.done(&claims[0]);
    rig.finish(&claims[1], Outcome::failed(Class::Permanent, None, "bad"));
    let kept = || [done, failed].map(|id| rig.store.job(id).expect("readable").is_some());
    rig.advance(Millis(999));
    rig.settle();
    assert_eq!(kept(), [true, true]);
    rig.advance(Millis(1));
    rig.settle();
    rig.settle();
    assert_eq!(kept(), [false, true]);
    rig.advance(Millis(4_000));
    rig.settle();
    rig.settle();
    assert_eq!(kept(), [false, false]);
}

/// Five jobs that have ended one after the other, under this retention, and which of them are kept.
fn kept_of_five(retention: Retention) -> Vec<bool> {
    let rig = Rig::with(Options { retention, ..options() }, Rules::default());
    let ids: Vec<JobId> = (0..5).map(|n| end_one(&rig, n)).collect();
    rig.rest();
    ids.iter().map(|id| rig.store.job(*id).expect("readable").is_some()).collect()
}

/// A job with a payload of `100 * n + 2` bytes that ends at once.
fn end_one(rig: &Rig, n: usize) -> JobId {
    let payload: &'static str = format!("\"{}\"", "x".repeat(100 * n)).leak();
    let id = rig.try_submit(rig.creation_of(payload.as_bytes())).expect("accepted").0.job.id();
    let claim = rig.claim();
    rig.done(&claim);
    rig.advance(Millis(1));
    id
}

#[test]
fn ended_jobs_go_when_they_are_too_large_together_and_no_more_of_them_than_must() {
    let of_last_two = 2 * KEPT_FLAT + 302 + 402;
    // What the rig's handler answers counts too, the same for each.
    for (max_bytes, expected) in [(of_last_two + 200, [false, false, false, true, true]), (1 << 30, [true; 5])] {
        let all = Bound { max_jobs: None, max_bytes: Some(max_bytes) };
        assert_eq!(kept_of_five(Retention { all, ..Retention::default() }), expected, "{max_bytes}");
    }
}

#[test]
fn a_type_s_own_bounds_and_terms_count_for_it_alone() {
    let of_two = Bound { max_jobs: Some(2), max_bytes: None };
    let own = |keep: Keep, job_type: &str| Retention {
        types: HashMap::from([(job_type.into(), keep)]),
        ..Retention::default()
    };
    let two = Keep { bound: of_two, ..Keep::default() };
    assert_eq!(kept_of_five(own(two, TYPE)), [false, false, false, true, true]);
    assert_eq!(kept_of_five(own(two, "other")), [true; 5]);
    let brief = Keep { keep: Millis(3), ..Keep::default() };
    assert_eq!(kept_of_five(own(brief, TYPE)), [false, false, false, true, true], "ended 5, 4, 3, 2 and 1 ms ago");
    assert_eq!(kept_of_five(own(brief, "other")), [true; 5]);
}

#[test]
fn what_had_ended_before_a_start_goes_after_it() {
    let rig = Rig::new();
    let ids: Vec<JobId> = (0..5).map(|n| end_one(&rig, n)).collect();
    let (store, clock) = (rig.store.clone(), rig.clock.clone());
    rig.rest();
    let all = Bound { max_jobs: Some(1), max_bytes: None };
    let rig = Rig::on(
        store,
        clock,
        Options { retention: Retention { all, ..Retention::default() }, ..options() },
        Rules::default(),
    );
    rig.rest();
    assert_eq!(ids.iter().filter(|id| rig.store.job(**id).expect("readable").is_some()).collect::<Vec<_>>(), [&ids[4]]);
}
