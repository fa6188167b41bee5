//! A job from its submission to its end, as its events tell it.

use bytes::Bytes;

use super::rig::{Rig, block_on};
use crate::core::{ActRefusal, SubmitRefusal};
use crate::job::{Class, Millis, Outcome, Output, Progress, Refusal, Status};
use crate::store::Store;
use crate::work::{Leave, Report, Stop, WorkSource};

#[test]
fn a_job_is_created_started_reported_and_completed_in_that_order() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    assert_eq!((claim.job, claim.number.0, claim.attempt), (id, 1, 1));
    assert_eq!(rig.work.body(&claim, claim.payload).expect("stored"), "{}");
    rig.work.report(&claim, Report::Progress(Progress { step: Some(1), total_steps: Some(2), ..Progress::default() }));
    rig.work.report(&claim, Report::Partial { data: Bytes::from_static(b"[1]"), count: 1 });
    rig.done(&claim);
    assert_eq!(rig.story(id), ["job.created", "job.started", "job.progress", "job.partial", "job.completed"]);
    let head = rig.job(id);
    assert_eq!(head.job.status(), Status::Completed);
    let partial = head.job.partial.expect("kept");
    assert_eq!(rig.store.body(id, partial, 0, 10).expect("readable").expect("kept"), "[1]");
}

#[test]
fn what_a_reader_sees_is_what_the_store_holds() {
    let rig = Rig::new();
    let id = rig.submit();
    assert_eq!(rig.published.heads.get(id).expect("published"), rig.job(id));
    let claim = rig.claim();
    rig.done(&claim);
    assert_eq!(rig.published.heads.get(id).expect("lately ended"), rig.job(id));
    assert_eq!(rig.published.bounds(), rig.store.bounds());
}

#[test]
fn one_key_names_one_job_for_a_hundred_callers_at_once() {
    let rig = Rig::new();
    let answers = block_on(async {
        let mut submits = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (core, creation) = (rig.core.clone(), rig.keyed("k", b"{\"a\":1}"));
            submits.spawn(async move { core.submit(creation).await.expect("answered").expect("accepted") });
        }
        submits.join_all().await
    });
    assert_eq!(answers.iter().filter(|(_, is_new)| *is_new).count(), 1);
    assert!(answers.iter().all(|(head, _)| head.job.id() == answers[0].0.job.id()));
}

#[test]
fn a_key_outlives_its_job_s_end_and_knows_its_payload_however_spelled() {
    let rig = Rig::new();
    let (first, is_new) = rig.try_submit(rig.keyed("k", b"{\"a\":1,\"b\":2}")).expect("accepted");
    assert!(is_new);
    let claim = rig.claim();
    rig.done(&claim);
    let (again, is_new) = rig.try_submit(rig.keyed("k", b"{ \"b\": 2.0, \"a\": 1 }")).expect("the same");
    assert_eq!((again.job.id(), is_new), (first.job.id(), false));
    assert_eq!(again.job.status(), Status::Completed);
    let other = rig.try_submit(rig.keyed("k", b"{\"a\":2}"));
    assert_eq!(other.expect_err("refused"), SubmitRefusal::KeyConflict(first.job.id()));
}

#[test]
fn a_pending_job_is_canceled_at_once_and_never_starts() {
    let rig = Rig::new();
    let id = rig.submit();
    let head = rig.cancel(id).expect("canceled");
    assert_eq!(head.job.status(), Status::Canceled);
    let other = rig.submit();
    assert_eq!(rig.claim().job, other);
    assert_eq!(rig.cancel(id).expect_err("ended"), ActRefusal::NotLive);
}

#[test]
fn a_running_job_is_told_and_only_then_says_that_it_is_canceled() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    let head = rig.cancel(id).expect("wished");
    assert_eq!(head.job.status(), Status::InProgress);
    // The flag is set after the answer is durable and before anybody is answered about what follows.
    rig.settle();
    assert_eq!(claim.stop.get(), Some(Stop::Cancel));
    rig.work.report(&claim, Report::Delivered);
    rig.settle();
    rig.advance(Millis(5));
    rig.done(&claim);
    let head = rig.job(id);
    let receipt = head.job.cancel.as_ref().expect("a receipt");
    assert_eq!(head.job.status(), Status::Canceled, "the first decided wins");
    assert!(receipt.delivered_at.is_some() && receipt.stopped_at > receipt.delivered_at);
    assert_eq!(rig.story(id), ["job.created", "job.started", "job.canceled"]);
}

#[test]
fn the_end_of_an_old_attempt_is_refused() {
    let rig = Rig::new();
    let id = rig.submit();
    let old = rig.claim();
    rig.leave(&old, Leave::Released);
    let new = rig.claim();
    rig.done(&old);
    assert_eq!(rig.job(id).job.status(), Status::InProgress, "the old claim's end changed nothing");
    rig.done(&new);
    assert_eq!(rig.job(id).job.status(), Status::Completed);
    assert_eq!(rig.story(id).iter().filter(|event| **event == "job.completed").count(), 1);
}

#[test]
fn a_dead_letter_is_replayed_once_and_both_jobs_say_so() {
    let rig = Rig::new();
    let dead = rig.submit();
    let claim = rig.claim();
    rig.finish(&claim, Outcome::failed(Class::Permanent, None, "bad input"));
    let mut creation = rig.creation();
    creation.spec.replay_of = Some(dead);
    let new = block_on(rig.core.replay(dead, creation)).expect("answered").expect("replayed");
    assert_eq!(new.job.spec.replay_of, Some(dead));
    assert!(!rig.job(dead).job.is_dead_letter());
    let again = block_on(rig.core.replay(dead, rig.creation())).expect("answered");
    assert_eq!(again.expect_err("once"), crate::core::ReplayRefusal::Refused(Refusal::AlreadyReplayed));
    assert_eq!(rig.claim().job, new.job.id());
}

#[test]
fn a_large_result_is_on_disk_before_its_job_is_completed_and_is_read_in_ranges() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    let text = format!("\"{}\"", "x".repeat(300_000));
    rig.finish(&claim, Outcome::Done(Output { data: Some(text.clone().into()), ..Output::default() }));
    let head = rig.job(id);
    let crate::job::State::Completed(completion) = &head.job.state else { panic!("{head:?}") };
    assert_eq!(&*completion.summary, "x".repeat(200));
    let name = completion.result.expect("a result");
    assert_eq!(name.len, text.len() as u64);
    let range = rig.store.body(id, name, 299_998, 100).expect("readable").expect("kept");
    assert_eq!(range, "xxx\"");
}
