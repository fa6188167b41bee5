//! What is refused at a limit, and what is not.

use std::sync::Arc;

use super::rig::{Rig, options};
use crate::core::{Fatal, Options, SubmitRefusal};
use crate::job::{Rules, Status};
use crate::work::{Closed, Leave, Stop, WorkSource};

#[test]
fn a_full_queue_refuses_new_jobs_by_the_limit_s_name_and_lets_known_keys_through() {
    let rig = Rig::with(Options { max_pending: 2, ..options() }, Rules::default());
    rig.try_submit(rig.keyed("k", b"{}")).expect("accepted");
    rig.submit();
    let refused = rig.try_submit(rig.creation()).expect_err("full");
    assert_eq!(refused, SubmitRefusal::Full("queue.max_pending"));
    assert!(!rig.try_submit(rig.keyed("k", b"{}")).expect("known").1);
    let claim = rig.claim();
    rig.submit();
    rig.done(&claim);
}

#[test]
fn payload_bytes_count_until_their_job_has_ended() {
    let rig = Rig::with(Options { max_pending_bytes: 12, ..options() }, Rules::default());
    let payload = b"{\"a\":1}";
    let id = rig.try_submit(rig.creation_of(payload)).expect("7 of 12").0.job.id();
    let refused = rig.try_submit(rig.creation_of(payload)).expect_err("14 of 12");
    assert_eq!(refused, SubmitRefusal::Full("queue.max_pending_bytes"));
    rig.cancel(id).expect("canceled");
    rig.try_submit(rig.creation_of(payload)).expect("room again");
}

#[test]
fn a_draining_server_takes_nothing_new_and_lets_attempts_finish() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    let work = rig.work.clone();
    let waiting = std::thread::spawn(move || work.claim(1));
    rig.core.drain();
    assert_eq!(waiting.join().expect("told").expect_err("no more"), Closed);
    assert_eq!(rig.try_submit(rig.creation()).expect_err("draining"), SubmitRefusal::Draining);
    rig.done(&claim);
    assert_eq!(rig.job(id).job.status(), Status::Completed);
}

#[test]
fn what_still_runs_at_the_end_is_given_back_uncounted() {
    let rig = Rig::new();
    let (asked, silent) = (rig.submit(), rig.submit());
    let claims = rig.work.claim(2).expect("open");
    rig.core.drain();
    rig.core.release();
    rig.settle();
    assert!(claims.iter().all(|claim| claim.stop.get() == Some(Stop::Shutdown)));
    rig.leave(&claims[0], Leave::Released);
    rig.core.close();
    assert!(matches!(rig.ended(), Fatal::Closed));
    for id in [asked, silent] {
        let head = rig.job(id);
        assert_eq!((head.job.status(), head.job.attempts, head.job.interruptions), (Status::Pending, 0, 0));
    }
}

#[test]
fn nobody_is_answered_before_the_sync() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (enter, entered) = std::sync::mpsc::channel::<()>();
    let ends = std::sync::Mutex::new((enter, held));
    let wait = move || {
        let ends = ends.lock().expect("one core");
        ends.0.send(()).expect("awaited");
        // Once the test lets go for good, nothing is held any more.
        let _ = ends.1.recv();
    };
    let store = Arc::new(crate::store::memory::Memory::with_sync(Box::new(wait)));
    let clock = crate::clock::Manual::at_time(crate::job::Timestamp(1_700_000_000_000));
    let rig = Rig::on(store, clock, options(), Rules::default());
    let (core, creation) = (rig.core.clone(), rig.creation());
    let id = creation.spec.id;
    let (told, answer) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        told.send(super::rig::block_on(core.submit(creation)).expect("answered").expect("accepted")).expect("awaited");
    });
    // The commit is in the store's hands until it is let go; whatever is visible then was visible too early.
    entered.recv().expect("a commit");
    assert!(answer.try_recv().is_err() && rig.published.heads.get(id).is_none());
    assert_eq!(rig.published.bounds().last.0, 0);
    hold.send(()).expect("held");
    assert_eq!(answer.recv().expect("answered").0.job.id(), id);
    assert_eq!(rig.published.heads.get(id).expect("published").job.id(), id);
    asking.join().expect("asked");
    drop(hold);
}

/// Row 50: a panic of a background thread left the server accepting work that it could not do.
#[test]
fn case_50_a_core_that_panics_says_so_and_answers_nobody_any_more() {
    let store = Arc::new(crate::store::memory::Memory::with_sync(Box::new(|| panic!("a broken disk driver"))));
    let clock = crate::clock::Manual::at_time(crate::job::Timestamp(1_700_000_000_000));
    let rig = Rig::on(store, clock, options(), Rules::default());
    let unanswered = super::rig::block_on(rig.core.submit(rig.creation()));
    assert_eq!(unanswered.expect_err("not acknowledged"), crate::core::Busy::Gone);
    let Fatal::Bug(why) = rig.ended() else { panic!("a panic is a bug") };
    assert_eq!(why, "a broken disk driver");
    let refused = super::rig::block_on(rig.core.submit(rig.creation()));
    assert_eq!(refused.expect_err("gone"), crate::core::Busy::Gone);
    assert_eq!(rig.work.claim(1).expect_err("gone"), Closed);
}
