//! What questions do to a job, one promise each.

use super::*;
use crate::job::machine::{Impossible, dropped, fold};
use crate::job::{ANSWERS_TOLD_MAX, QUESTIONS_MAX, Standing, State, Status};

/// A life whose running attempt has asked these.
fn asking(keys: &[&str]) -> Life {
    let mut life = Life::running();
    for key in keys {
        let claim = life.claim();
        life.send(&ask(claim, key)).expect("the claim is current");
    }
    life
}

fn release(life: &mut Life) {
    let claim = life.claim();
    life.send(&Command::Release { claim, log: None }).expect("the claim is current");
}

/// The number of open questions, and of answers.
fn counts(job: &Job) -> (usize, usize) {
    (job.questions.open().count(), job.questions.answers().count())
}

#[test]
fn a_job_with_an_open_question_requires_input_and_goes_on_once_all_is_answered() {
    let mut life = asking(&["a", "b"]);
    assert_eq!((life.job.status(), counts(&life.job)), (Status::InputRequired, (2, 0)));
    assert!(life.job.claim().is_some(), "its attempt still runs");
    life.send(&answer(&["b"], Action::Accept)).expect("it is open");
    assert_eq!((life.job.status(), counts(&life.job)), (Status::InputRequired, (1, 1)));
    life.send(&answer(&["a"], Action::Decline)).expect("it is open");
    assert_eq!((life.job.status(), counts(&life.job)), (Status::InProgress, (0, 2)));
    life.complete();
    assert_eq!((life.job.status(), counts(&life.job), life.job.attempts), (Status::Completed, (0, 2), 1));
}

#[test]
fn a_job_that_was_given_back_for_a_question_waits_outside_the_queue_until_the_last_answer() {
    let mut life = asking(&["a", "b"]);
    release(&mut life);
    assert_eq!((&life.job.state, life.job.attempts), (&State::InputRequired, 0));
    assert_eq!(life.send(&Command::Start { worker: "w".into() }), Err(Refusal::NotNow));
    life.advance(86_400_000);
    life.send(&answer(&["a"], Action::Accept)).expect("it is open");
    assert_eq!(life.job.state, State::InputRequired, "an answer to a part");
    life.send(&answer(&["b"], Action::Cancel)).expect("it is open");
    assert_eq!((&life.job.state, life.job.run_at), (&State::Pending, life.now), "its turn counts from the answer");
    life.start();
    assert_eq!((life.job.attempts, life.job.status()), (1, Status::InProgress));
}

#[test]
fn however_its_attempt_ends_a_job_with_open_questions_waits_for_them_before_the_next() {
    for end in 0..3 {
        let mut life = asking(&["a"]);
        let claim = life.claim();
        let (end, failed) = match end {
            0 => (fail(claim, Class::Transient, None), 1),
            1 => (Command::Interrupt { charged: true }, 0),
            _ => (Command::Release { claim, log: None }, 0),
        };
        life.send(&end).expect("an attempt runs");
        assert_eq!((&life.job.state, life.job.attempts), (&State::InputRequired, failed), "{end:?}");
        let due = life.job.run_at;
        life.send(&answer(&["a"], Action::Accept)).expect("it is open");
        assert_eq!((&life.job.state, life.job.run_at), (&State::Pending, due), "a backoff that is not over is kept");
    }
}

#[test]
fn a_key_is_asked_once_in_a_jobs_life() {
    let mut life = asking(&["a"]);
    let claim = life.claim();
    assert_eq!(life.send(&ask(claim, "a")), Ok(Vec::new()), "asked again while it is open");
    release(&mut life);
    life.send(&answer(&["a"], Action::Accept)).expect("it is open");
    let claim = life.start();
    assert_eq!(life.send(&ask(claim, "a")), Ok(Vec::new()), "asked again after it was answered");
    assert_eq!(life.job.status(), Status::InProgress);
    let twice = Entry::Asked {
        claim,
        key: "a".into(),
        message: "m".into(),
        schema: Json("{}".into()),
        body: BodyRef::of(Part::Question, 1, b"{}"),
    };
    assert_eq!(apply(Some(life.job.clone()), life.now, &twice), Err(Impossible::AskedOutOfTurn));
}

#[test]
fn an_answer_is_given_once_and_all_of_a_call_or_nothing() {
    let mut life = asking(&["a", "b"]);
    for keys in [&["a", "c"][..], &["c"], &["a", "a"]] {
        let before = life.job.clone();
        assert_eq!(life.send(&answer(keys, Action::Accept)), Err(Refusal::NotWaiting), "{keys:?}");
        assert_eq!(life.job, before);
    }
    life.send(&answer(&["a"], Action::Accept)).expect("it is open");
    assert_eq!(life.send(&answer(&["a"], Action::Accept)), Ok(Vec::new()), "the same again");
    assert_eq!(life.send(&answer(&["a"], Action::Decline)), Err(Refusal::NotWaiting), "another one");
    let Ok(entries) = life.send(&answer(&["a", "b"], Action::Accept)) else { panic!("refused") };
    let [Entry::Answered { answers, by }] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((answers.len(), &*answers[0].key, &**by), (1, "b", "anna"), "only what is new is told");
    life.complete();
    assert_eq!(life.send(&answer(&["a"], Action::Accept)), Err(Refusal::Ended));
}

#[test]
fn many_answers_at_once_are_told_in_parts_that_fit_the_log() {
    let keys: Vec<String> = (0..QUESTIONS_MAX).map(|n| n.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut life = asking(&keys);
    release(&mut life);
    let Ok(entries) = life.send(&answer(&keys, Action::Accept)) else { panic!("refused") };
    assert_eq!((entries.len(), &life.job.state), (QUESTIONS_MAX / ANSWERS_TOLD_MAX, &State::Pending));
}

#[test]
fn only_the_attempt_that_holds_the_job_may_ask_and_not_too_much() {
    let mut life = asking(&["a"]);
    let old = life.claim();
    release(&mut life);
    assert_eq!(life.send(&ask(old, "b")), Err(Refusal::StaleClaim));
    let keys: Vec<String> = (0..QUESTIONS_MAX).map(|n| n.to_string()).collect();
    let mut life = asking(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let claim = life.claim();
    assert_eq!(life.send(&ask(claim, "one more")), Err(Refusal::TooManyQuestions));
    assert_eq!(life.send(&ask(claim, "0")), Ok(Vec::new()));
}

#[test]
fn cancel_and_expiry_end_a_job_that_waits_at_once_and_nobody_answers_one_that_is_being_canceled() {
    let mut life = asking(&["a"]);
    release(&mut life);
    life.send(&cancel()).expect("it waits");
    assert_eq!((life.job.status(), counts(&life.job)), (Status::Canceled, (0, 0)));
    let expires_at = Some(BIRTH.plus(Millis(1_000)));
    let mut life = Life::of(Spec { expires_at, ..spec(1) });
    let claim = life.start();
    life.send(&ask(claim, "a")).expect("the claim is current");
    release(&mut life);
    assert_eq!(life.send(&Command::Expire), Err(Refusal::NotNow));
    life.advance(1_000);
    life.send(&Command::Expire).expect("it has come");
    assert!(matches!(&life.job.state, State::Canceled { reason, .. } if &**reason == "timeout"));
    let mut life = asking(&["a"]);
    life.send(&cancel()).expect("it runs");
    assert_eq!(life.job.status(), Status::InProgress, "it is stopping, and waits for nobody");
    assert_eq!(life.send(&answer(&["a"], Action::Accept)), Err(Refusal::NotWaiting));
    let claim = life.claim();
    assert_eq!(life.send(&ask(claim, "b")), Ok(Vec::new()));
    release(&mut life);
    assert_eq!(life.job.status(), Status::Canceled);
}

#[test]
fn a_record_names_the_words_of_open_questions_and_the_answers_of_others() {
    let mut life = asking(&["a", "b"]);
    let before = life.job.clone();
    let question = |job: &Job, key: &str| job.questions.keyed(key).expect("asked").standing;
    let Standing::Open { body: words, asked_at } = question(&before, "a") else { panic!("answered") };
    assert_eq!((words.part, asked_at), (Part::Question, life.now));
    assert!(before.bodies().any(|body| body == words));
    life.send(&answer(&["a"], Action::Accept)).expect("it is open");
    let Standing::Answered { action: Action::Accept, body: said } = question(&life.job, "a") else { panic!("open") };
    assert_eq!(dropped(&before, &life.job), [words]);
    assert!(life.job.bodies().any(|body| body == said));
    let Standing::Open { body: words, .. } = question(&life.job, "b") else { panic!("answered") };
    let before = life.job.clone();
    life.complete();
    assert_eq!(dropped(&before, &life.job), [words], "nobody answers it any more");
    assert_eq!(fold(life.log.iter().map(|(at, entry)| (*at, entry))), Ok(Some(life.job.clone())));
}
