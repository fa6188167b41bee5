//! Progress is news, not noise.

use super::*;
use crate::job::{PROGRESS_MESSAGE_MAX, Place};

fn message(text: &str) -> Progress {
    Progress { message: Some(text.into()), ..Progress::default() }
}

/// Reports each after 1 ms; what was logged.
fn logged(life: &mut Life, reports: &[Progress]) -> Vec<Progress> {
    let mut entries = Vec::new();
    for report in reports {
        life.advance(1);
        entries.extend(life.report(report.clone()));
    }
    entries.into_iter().map(progress_of).collect()
}

fn progress_of(entry: Entry) -> Progress {
    let Entry::Progress(progress) = entry else { panic!("{entry:?} is no progress") };
    progress
}

#[test]
fn a_new_step_or_message_is_news_at_once() {
    let reports = [step(1), step(2), message("a"), message("b"), step(3)];
    assert_eq!(logged(&mut Life::running(), &reports), reports);
}

#[test]
fn percentages_are_news_after_the_interval_or_a_leap() {
    let mut life = Life::running();
    assert_eq!(logged(&mut life, &[1.0, 2.0, 3.0, 10.9, 11.0, 12.0].map(percent)), [1.0, 11.0].map(percent));
    life.advance(497);
    assert_eq!(logged(&mut life, &[percent(13.0)]), [], "499 ms after the last");
    assert_eq!(logged(&mut life, &[percent(14.0)]), [percent(14.0)]);
}

#[test]
fn what_is_held_back_is_merged_and_comes_before_the_next_other_entry() {
    let mut life = Life::running();
    let full = Progress { step: Some(1), total_steps: Some(4), percent: Some(1.0), message: Some("a".into()) };
    logged(&mut life, std::slice::from_ref(&full));
    assert_eq!(logged(&mut life, &[percent(2.0), percent(3.0)]), []);
    let entries = life.send(&cancel()).expect("it runs");
    assert!(matches!(&entries[..], [Entry::Progress(held), Entry::CancelRequested { .. }] if *held == percent(3.0)));
    assert_eq!(life.held, None);
    logged(&mut life, &[percent(4.0)]);
    assert_eq!(life.complete().len(), 2);
}

#[test]
fn what_is_held_back_loses_no_field_to_a_later_report() {
    let mut life = Life::running();
    let total = |total| Progress { total_steps: Some(total), ..Progress::default() };
    assert_eq!(logged(&mut life, &[percent(1.0), total(4), percent(2.0), total(5)]), [percent(1.0)]);
    assert_eq!(life.held, Some(Progress { percent: Some(2.0), ..total(5) }));
}

#[test]
fn a_refusal_or_no_news_leaves_what_is_held() {
    let mut life = Life::running();
    logged(&mut life, &[percent(1.0), percent(2.0)]);
    assert_eq!(life.send(&complete(ClaimNo(9))), Err(Refusal::StaleClaim));
    life.report(percent(1.0));
    assert_eq!(life.held, Some(percent(2.0)));
}

#[test]
fn what_equals_the_last_logged_is_never_logged_again() {
    let mut life = Life::running();
    let whole = Progress { message: Some("a".into()), ..step(1) };
    assert_eq!(logged(&mut life, &[whole.clone(), whole.clone(), step(1), message("a"), Progress::default()]), [whole]);
    life.advance(10_000);
    assert_eq!(logged(&mut life, &[step(1)]), []);
    assert_eq!(life.held, None);
}

#[test]
fn a_retry_logs_only_what_lies_beyond_all_earlier_attempts() {
    let mut life = Life::running();
    assert_eq!(logged(&mut life, &[step(1), step(3), step(2)]), [step(1), step(3)]);
    life.fail(Class::Transient);
    life.start();
    life.advance(10_000);
    assert_eq!(logged(&mut life, &[step(1), percent(50.0), step(2), step(3), step(4)]), [step(4)]);
    assert_eq!(life.job.reached, Some(Place { step: 4, percent: 0.0 }));
}

#[test]
fn percentages_do_not_fall_back_either() {
    let mut life = Life::running();
    assert_eq!(logged(&mut life, &[0.0, 60.0, 40.0].map(percent)), [0.0, 60.0].map(percent));
    life.send(&Command::Interrupt { charged: true }).expect("it runs");
    life.held = None;
    life.start();
    assert_eq!(logged(&mut life, &[0.0, 60.0, 80.0].map(percent)), [percent(80.0)]);
}

#[test]
fn a_percentage_counts_within_its_step() {
    let mut life = Life::running();
    let at = |step, percent| Progress { step: Some(step), percent: Some(percent), ..Progress::default() };
    let reports = [at(1, 90.0), percent(95.0), at(2, 5.0), percent(50.0), percent(20.0), at(2, 60.0)];
    assert_eq!(logged(&mut life, &reports), [at(1, 90.0), at(2, 5.0), percent(50.0), at(2, 60.0)]);
    logged(&mut life, &[percent(61.0)]);
    assert_eq!(logged(&mut life, &[step(3)]), [step(3)], "the held 61 % were of step 2");
    assert_eq!(logged(&mut life, &[percent(12.0)]), [percent(12.0)]);
}

#[test]
fn a_clock_set_back_holds_nothing_up() {
    let mut life = Life::running();
    logged(&mut life, &[percent(1.0)]);
    life.now = Timestamp(0);
    assert_eq!(logged(&mut life, &[percent(2.0)]), [percent(2.0)]);
}

#[test]
fn what_makes_no_sense_in_a_report_is_left_out_or_clamped() {
    let report = |step, total_steps, percent| Progress { step, total_steps, percent, message: None };
    for (reported, logs) in [
        (report(Some(0), Some(0), Some(-5.0)), Some(report(None, None, Some(0.0)))),
        (report(Some(5), Some(4), Some(1e9)), Some(report(Some(5), None, Some(100.0)))),
        (report(Some(u32::MAX), Some(u32::MAX), None), Some(report(Some(u32::MAX), Some(u32::MAX), None))),
        (report(None, Some(4), Some(f64::NAN)), Some(report(None, Some(4), None))),
        (report(None, None, Some(f64::INFINITY)), None),
        (message(""), None),
        (message(&"€".repeat(PROGRESS_MESSAGE_MAX)), Some(message(&"€".repeat(PROGRESS_MESSAGE_MAX / 3)))),
    ] {
        let entries = Life::running().report(reported.clone());
        assert_eq!(entries.into_iter().map(progress_of).collect::<Vec<_>>(), Vec::from_iter(logs), "{reported:?}");
    }
}
