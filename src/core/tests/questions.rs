//! Questions through the core: who is told what, what waits where, and what a restart leaves.

use std::sync::Arc;

use bytes::Bytes;

use super::rig::{Rig, block_on, options};
use crate::core::group::{Group, Table};
use crate::core::{ActRefusal, SubmitRefusal};
use crate::job::{
    Action, Answer, Asking, Body, BodyRef, ClaimNo, Command, Entry, Head, JobId, Json, Millis, Outcome, Part, Refusal,
    Rules, Standing, State, Status, machine,
};
use crate::work::{Claim, Leave, Report, WorkSource};

fn ask(rig: &Rig, claim: &Claim, key: &str, count: u32) {
    let schema = Json("{\"type\":\"object\"}".into());
    let asking = Arc::new(Asking { key: key.into(), message: "Which?".into(), schema });
    rig.work.report(claim, Report::Ask { asking, count });
    rig.settle();
}

fn answer(rig: &Rig, id: JobId, key: &str) -> Result<Arc<Head>, ActRefusal> {
    let standing = rig.job(id).job.questions.keyed(key).map(|question| question.standing);
    let seq = match standing {
        Some(Standing::Open { body, .. } | Standing::Answered { body, .. }) => body.seq,
        None => 0,
    };
    let bytes = Bytes::from(format!("{{\"key\":\"{key}\",\"action\":\"accept\",\"content\":{{}}}}"));
    let name = BodyRef::of(Part::Answer, seq, &bytes);
    let answers = vec![Answer { key: key.into(), action: Action::Accept, body: name }];
    let command = Command::Answer { by: "ann".into(), answers };
    block_on(rig.core.act_with(id, command, vec![Body { name, bytes: Some(bytes) }])).expect("the core answers")
}

fn told(rig: &Rig, claim: &Claim) -> Vec<String> {
    let read = |name| rig.work.body(claim, name).expect("stored");
    claim.answers.take().into_iter().map(|name| String::from_utf8_lossy(&read(name)).into_owned()).collect()
}

#[test]
fn an_answer_reaches_the_attempt_that_waits_for_it_once_it_is_durable() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    ask(&rig, &claim, "size", 1);
    assert_eq!(rig.job(id).job.status(), Status::InputRequired);
    let (tell, woken) = std::sync::mpsc::channel();
    claim.answers.on_new(move || tell.send(()).expect("awaited"));
    answer(&rig, id, "size").expect("it is open");
    woken.recv().expect("woken");
    assert_eq!(told(&rig, &claim), [r#"{"key":"size","action":"accept","content":{}}"#]);
    assert_eq!(rig.job(id).job.status(), Status::InProgress);
    rig.done(&claim);
    let story = ["job.created", "job.started", "job.input_required", "job.input_received", "job.completed"];
    assert_eq!(rig.story(id), story);
}

#[test]
fn a_job_that_waits_for_an_answer_holds_no_slot_and_the_next_claim_carries_the_answers() {
    let rules = Rules { concurrency: Some(1), ..Rules::default() };
    let rig = Rig::with(options(), rules);
    let asks = rig.submit();
    let claim = rig.claim();
    ask(&rig, &claim, "size", 1);
    rig.leave(&claim, Leave::Over(Outcome::Asked));
    assert_eq!((&rig.job(asks).job.state, rig.job(asks).job.attempts), (&State::InputRequired, 0));
    // Of one slot and one at a time of this type: another job goes through it.
    let other = rig.submit();
    let its = rig.claim();
    assert_eq!(its.job, other);
    rig.done(&its);
    answer(&rig, asks, "size").expect("it is open");
    let again = rig.claim();
    assert_eq!((again.job, again.attempt, again.number.0), (asks, 1, 2));
    assert_eq!(told(&rig, &again).len(), 1);
    // Asked again, it is no new question: there is no second event.
    ask(&rig, &again, "size", 1);
    rig.done(&again);
    let events = rig.story(asks);
    assert_eq!(events.iter().filter(|event| **event == "job.input_required").count(), 1, "{events:?}");
    assert_eq!(rig.job(asks).job.status(), Status::Completed);
}

#[test]
fn questions_and_answers_survive_a_restart() {
    let rig = Rig::new();
    let id = rig.submit();
    let claim = rig.claim();
    ask(&rig, &claim, "size", 1);
    ask(&rig, &claim, "colour", 2);
    answer(&rig, id, "size").expect("it is open");
    let rig = rig.restart(Rules::default());
    assert_eq!((&rig.job(id).job.state, rig.job(id).job.interruptions), (&State::InputRequired, 1));
    // It waits outside the queue.
    let other = rig.submit();
    assert_eq!(rig.claim().job, other);
    answer(&rig, id, "colour").expect("it is open");
    let again = rig.claim();
    assert_eq!((again.job, told(&rig, &again).len()), (id, 2));
    rig.done(&again);
    let rig = rig.restart(Rules::default());
    assert_eq!(answer(&rig, id, "colour"), Err(ActRefusal::NotLive));
    assert_eq!(rig.job(id).job.questions.answers().count(), 2);
}

#[test]
fn a_job_that_waits_for_an_answer_expires_and_is_canceled_like_any_that_waits() {
    let rig = Rig::new();
    let mut creation = rig.creation();
    creation.spec.expires_at = Some(rig.clock_now().plus(Millis(1_000)));
    let expires = rig.try_submit(creation).expect("accepted").0.job.id();
    let canceled = rig.submit();
    for _ in 0..2 {
        let claim = rig.claim();
        ask(&rig, &claim, "size", 1);
        rig.leave(&claim, Leave::Over(Outcome::Asked));
    }
    let rig = rig.restart(Rules::default());
    rig.advance(Millis(999));
    rig.settle();
    assert_eq!(rig.job(expires).job.status(), Status::InputRequired);
    rig.advance(Millis(1));
    rig.settle();
    assert_eq!(rig.job(expires).job.status(), Status::Canceled);
    rig.cancel(canceled).expect("it waits");
    assert_eq!(rig.job(canceled).job.status(), Status::Canceled);
    assert_eq!(answer(&rig, canceled, "size"), Err(ActRefusal::NotLive));
    for id in [expires, canceled] {
        assert_eq!(rig.story(id).last(), Some(&"job.canceled"));
        assert_eq!(rig.job(id).job.bodies().count(), 1, "the words of its question are dropped");
    }
}

#[test]
fn jobs_that_wait_for_answers_count_as_pending_where_that_is_limited() {
    let rig = Rig::with(crate::core::Options { max_pending: 1, ..options() }, Rules::default());
    rig.submit();
    let claim = rig.claim();
    ask(&rig, &claim, "size", 1);
    rig.leave(&claim, Leave::Over(Outcome::Asked));
    let refused = rig.try_submit(rig.creation()).expect_err("full");
    assert_eq!(refused, SubmitRefusal::Full("queue.max_pending"));
}

/// What the record names already has been written: a change brings what is new.
#[test]
fn an_answer_given_again_beside_a_new_one_brings_its_body_once() {
    let rig = Rig::new();
    let creation = rig.creation();
    let id = creation.spec.id;
    let (mut group, table) = (Group::new(rig.clock_now()), Table::default());
    group.create(machine::create(Arc::new(creation.spec), None), creation.payload).expect("it fits");
    let claim = ClaimNo(1);
    let started = Entry::Started { claim, attempt: 1, max_attempts: 3, worker: "w".into() };
    group.step(&table, id, vec![started], Vec::new()).expect("it fits");
    let said = |seq| {
        let bytes = Bytes::from_static(b"{}");
        Body { name: BodyRef::of(Part::Answer, seq, &bytes), bytes: Some(bytes) }
    };
    for seq in [1, 2] {
        let bytes = Bytes::from_static(b"{}");
        let words = Body { name: BodyRef::of(Part::Question, seq, &bytes), bytes: Some(bytes) };
        let (key, message, schema) = (seq.to_string().into(), "m".into(), Json("{}".into()));
        let asked = Entry::Asked { claim, key, message, schema, body: words.name };
        group.step(&table, id, vec![asked], vec![words]).expect("it fits");
    }
    for (new, brought) in [(1, vec![said(1)]), (2, vec![said(1), said(2)])] {
        let answer = Answer { key: new.to_string().into(), action: Action::Accept, body: said(new).name };
        let answered = Entry::Answered { by: "ann".into(), answers: vec![answer] };
        group.step(&table, id, vec![answered], brought).expect("it fits");
    }
    let part = group.part(id).expect("it was touched");
    let answers: Vec<u64> =
        part.bodies.iter().filter(|body| body.name.part == Part::Answer).map(|body| body.name.seq).collect();
    assert_eq!(answers, [1, 2]);
    assert!(part.bodies.iter().all(|body| body.name.part != Part::Question), "words that were answered at once");
}

#[test]
fn an_answer_to_what_was_not_asked_changes_nothing() {
    let rig = Rig::new();
    let id = rig.submit();
    assert_eq!(answer(&rig, id, "size"), Err(ActRefusal::Refused(Refusal::NotWaiting)));
    let claim = rig.claim();
    ask(&rig, &claim, "size", 1);
    let before = rig.job(id);
    assert_eq!(answer(&rig, id, "colour"), Err(ActRefusal::Refused(Refusal::NotWaiting)));
    assert_eq!(rig.job(id), before);
}
