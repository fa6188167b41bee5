//! Properties of random lives: any commands in any order, a clock that jumps both ways, restarts in between.

use proptest::prelude::*;
use proptest::sample::Index;

use super::model::{Model, Verdict};
use super::*;
use crate::job::machine::fold;
use crate::job::retry::delay;
use crate::job::{OnInterrupt, RetryPolicy, State, Status};

/// One thing that happens to a job.
#[derive(Clone, Debug)]
enum Happening {
    Jump(i64),
    /// The server dies: what is held is lost, and the attempt cut short.
    Restart {
        charged: bool,
    },
    Sent(Wish, Which),
}

/// A command, its claim still open.
#[derive(Clone, Debug)]
enum Wish {
    Start,
    Report(Progress),
    Partial(u8),
    Complete,
    Fail(Class, Option<Millis>),
    Release,
    Cancel,
    Delivered,
    Expire,
    Replay,
    Ask(usize),
    Answer(Vec<usize>, Action),
}

/// Keys of questions: more than there may be.
const KEYS: usize = crate::job::QUESTIONS_MAX + 1;

/// Which claim it names: mostly the current one.
#[derive(Clone, Debug)]
enum Which {
    Current,
    Old(Index),
    Coming,
}

fn progress() -> impl Strategy<Value = Progress> {
    let step = prop_oneof![2 => Just(None), 5 => (0..6_u32).prop_map(Some)];
    let percents = prop_oneof![(0..12_u32).prop_map(|tenth| f64::from(tenth) * 9.5), any::<f64>()];
    let total = prop_oneof![3 => Just(None), 1 => (0..6_u32).prop_map(Some)];
    let message = prop_oneof![3 => Just(None), 1 => "[ab]{0,1}".prop_map(|text| Some(text.into()))];
    (step, total, proptest::option::of(percents), message).prop_map(|(step, total_steps, percent, message)| Progress {
        step,
        total_steps,
        percent,
        message,
    })
}

/// Mostly one of a few.
fn key() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..3_usize, 1 => 0..KEYS]
}

fn wish() -> impl Strategy<Value = Wish> {
    let actions = prop_oneof![4 => Just(Action::Accept), 1 => Just(Action::Decline)];
    let class = prop_oneof![6 => Just(Class::Transient), 1 => Just(Class::Permanent), 1 => Just(Class::Fatal)];
    prop_oneof![
        12 => Just(Wish::Start),
        24 => progress().prop_map(Wish::Report),
        4 => (0..3_u8).prop_map(Wish::Partial),
        1 => Just(Wish::Complete),
        5 => (class, proptest::option::of((0..10_000_000_u64).prop_map(Millis))).prop_map(|(c, after)| Wish::Fail(c, after)),
        2 => Just(Wish::Release),
        1 => Just(Wish::Cancel),
        2 => Just(Wish::Delivered),
        1 => Just(Wish::Expire),
        1 => Just(Wish::Replay),
        4 => key().prop_map(Wish::Ask),
        4 => (prop::collection::vec(key(), 1..4), actions).prop_map(|(keys, action)| Wish::Answer(keys, action)),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let which =
        prop_oneof![8 => Just(Which::Current), 1 => any::<Index>().prop_map(Which::Old), 1 => Just(Which::Coming)];
    prop_oneof![
        3 => (-1_000..1_000_i64).prop_map(Happening::Jump),
        1 => (-100_000_000..100_000_000_i64).prop_map(Happening::Jump),
        1 => any::<bool>().prop_map(|charged| Happening::Restart { charged }),
        20 => (wish(), which).prop_map(|(wish, which)| Happening::Sent(wish, which)),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    let on_interrupt = prop_oneof![4 => Just(OnInterrupt::Retry), 1 => Just(OnInterrupt::Fail)];
    let expires = proptest::option::of((1..50_000_000_u64).prop_map(|length| BIRTH.plus(Millis(length))));
    (on_interrupt, expires, 1..6_u32, 1..5_u32, 0.0..=1.0).prop_map(|(on_interrupt, expires_at, runs, dies, spread)| {
        let mut life = Life::of(Spec { expires_at, max_attempts: runs, ..spec(1) });
        let retry = RetryPolicy { max_interruptions: dies, ..RetryPolicy::default() };
        life.rules = Rules { on_interrupt, retry, ..Rules::default() };
        life.spread = spread;
        life
    })
}

/// The life and the model of it, step by step.
struct Pair {
    life: Life,
    model: Model,
}

impl Pair {
    fn happen(&mut self, happening: &Happening) {
        let command = match happening {
            Happening::Jump(length) => {
                self.life.now = Timestamp(self.life.now.0 + length);
                return;
            }
            Happening::Restart { charged } => {
                self.life.held = None;
                Command::Interrupt { charged: *charged }
            }
            Happening::Sent(wish, which) => self.command(wish, which),
        };
        let (job, held) = (self.life.job.clone(), self.life.held.clone());
        let waits = match &command {
            Command::Fail { failing, .. } => {
                delay(&self.life.rules.retry, job.attempts, failing.retry_after, self.life.spread)
            }
            _ => Millis(0),
        };
        let expected = self.model.tell(&command, self.life.now, waits);
        let decided = self.life.send(&command);
        match (&decided, expected) {
            (Err(refusal), Err(expected)) => {
                assert_eq!(*refusal, expected);
                assert_eq!((&self.life.job, &self.life.held), (&job, &held), "a refusal changes nothing");
            }
            (Ok(entries), Ok(Verdict::Nothing)) => assert_eq!(entries[..], []),
            (Ok(_), Ok(Verdict::Heard)) => {}
            (Ok(entries), Ok(Verdict::Now(status))) => {
                assert!(!entries.is_empty());
                assert_eq!(self.life.job.status(), status);
            }
            (decided, expected) => panic!("{command:?}: decided {decided:?}, expected {expected:?}"),
        }
        if let Ok(entries) = &decided {
            self.check_held(&job, held, &command, entries);
        }
        self.check_counts();
    }

    fn command(&self, wish: &Wish, which: &Which) -> Command {
        let claims = self.life.job.claims;
        let claim = ClaimNo(match which {
            Which::Current => claims,
            Which::Old(index) => index.index(claims as usize + 1) as u64,
            Which::Coming => claims + 1,
        });
        match wish {
            Wish::Start => Command::Start { worker: "w".into() },
            Wish::Report(progress) => Command::Report { claim, progress: progress.clone() },
            Wish::Partial(value) => partial(claim, u64::from(self.life.job.revision), &[*value]),
            Wish::Complete => complete(claim),
            Wish::Fail(class, retry_after) => fail(claim, *class, *retry_after),
            Wish::Release => Command::Release { claim, log: None },
            Wish::Cancel => cancel(),
            Wish::Delivered => Command::Delivered { claim },
            Wish::Expire => Command::Expire,
            Wish::Replay => Command::Replay { as_job: JobId::from_u128(2) },
            Wish::Ask(key) => ask(claim, &key.to_string()),
            Wish::Answer(keys, action) => {
                let keys: Vec<String> = keys.iter().map(usize::to_string).collect();
                answer(&keys.iter().map(String::as_str).collect::<Vec<_>>(), *action)
            }
        }
    }

    /// What is held is never lost before the next other entry, and what is logged at once has a reason to be.
    fn check_held(&self, before: &Job, held: Option<Progress>, command: &Command, entries: &[Entry]) {
        if let Command::Report { progress, .. } = command {
            let later = self.life.held.as_ref().or(entries.first().and_then(progress_in));
            assert!(held.as_ref().is_none_or(|held| later.is_some_and(|later| keeps(held, later))));
            let (Some(last), Some(at)) = (&before.progress, before.progress_at) else { return };
            match entries {
                [] => assert!(self.life.held.is_some() || held.is_none()),
                [Entry::Progress(logged)] => {
                    assert_eq!(self.life.held, None);
                    let leap = (logged.percent.unwrap_or(0.0) - last.percent.unwrap_or(0.0)).abs() >= 10.0;
                    let other = progress.step != last.step || progress.message != last.message;
                    assert!(leap || other || self.life.now < at || self.life.now.since(at) >= Millis(500));
                }
                _ => panic!("{entries:?} of one report"),
            }
        } else if entries.is_empty() {
            assert_eq!(self.life.held, held);
        } else {
            assert_eq!(entries.first().and_then(progress_in), held.as_ref());
            assert_eq!(self.life.held, None);
        }
    }

    fn check_counts(&self) {
        let (job, model) = (&self.life.job, &self.model);
        assert_eq!((job.status(), job.claims, job.interruptions), (model.status, model.claims, model.charged));
        assert!(job.attempts <= job.spec.max_attempts && job.attempts <= model.attempts() + 1);
        if !job.status().is_terminal() {
            assert_eq!(job.attempts, model.attempts());
        }
        assert!(job.interruptions <= self.life.rules.retry.max_interruptions);
        assert_eq!(job.revision as usize, self.life.log.len());
        assert!(job.error.is_none() || !matches!(job.state, State::Completed(_)));
        assert!(job.error.is_some() || !matches!(job.state, State::Failed { .. }));
        if let Some(receipt) = &job.cancel {
            let delivered = receipt.delivered_at.unwrap_or(receipt.requested_at);
            assert!(receipt.requested_at <= delivered && receipt.stopped_at.is_none_or(|at| delivered <= at));
            assert_eq!(receipt.stopped_at.is_some(), job.status() == Status::Canceled);
        }
    }

    /// Whatever has happened, a worker that does its work ends it.
    fn end(&mut self) {
        for key in 0..KEYS {
            for action in [Action::Accept, Action::Decline] {
                self.happen(&Happening::Sent(Wish::Answer(vec![key], action), Which::Current));
            }
        }
        for wish in [Wish::Start, Wish::Complete] {
            if !self.life.job.status().is_terminal() {
                let may_run_already = self.life.job.claim().is_some() && matches!(wish, Wish::Start);
                if !may_run_already {
                    self.happen(&Happening::Sent(wish, Which::Current));
                }
            }
        }
    }
}

fn progress_in(entry: &Entry) -> Option<&Progress> {
    if let Entry::Progress(progress) = entry { Some(progress) } else { None }
}

/// Whether nothing that was held is lost in what came of it: a percentage may give way to a new step.
fn keeps(held: &Progress, later: &Progress) -> bool {
    held.step.is_none_or(|step| later.step >= Some(step))
        && (held.total_steps.is_none() || later.total_steps.is_some())
        && (held.percent.is_none() || later.percent.is_some() || later.step != held.step)
        && (held.message.is_none() || later.message.is_some() || later.step != held.step)
}

/// The log alone, read by somebody who knows only the contract.
fn check_log(life: &Life) {
    let terminal: Vec<_> = life.log.iter().filter(|(_, entry)| entry.is_terminal()).collect();
    assert_eq!(terminal.len(), 1, "exactly one terminal entry");
    let after = life.log.iter().skip_while(|(_, entry)| !entry.is_terminal()).skip(1);
    assert!(after.into_iter().all(|(_, entry)| matches!(entry, Entry::Replayed { .. })), "and none after it");
    assert_eq!(fold(life.log.iter().map(|(at, entry)| (*at, entry))), Ok(Some(life.job.clone())));
    let claims: Vec<_> = life
        .log
        .iter()
        .filter_map(|(_, entry)| if let Entry::Started { claim, .. } = entry { Some(claim.0) } else { None })
        .collect();
    assert_eq!(claims, (1..=claims.len() as u64).collect::<Vec<_>>(), "claim numbers are never reused");
    check_progress(&life.log);
    check_retries(life);
    let requested = life.log.iter().any(|(_, entry)| matches!(entry, Entry::CancelRequested { .. }));
    assert!(!requested || life.job.status() == Status::Canceled, "a cancel once requested wins");
}

/// Steps never fall, repeat only within their attempt, and no progress says the same as the one before it.
fn check_progress(log: &[(Timestamp, Entry)]) {
    let (mut highest, mut of_earlier) = (0, 0);
    let mut last: Option<&Progress> = None;
    for (_, entry) in log {
        match entry {
            Entry::Started { .. } => of_earlier = highest,
            Entry::Progress(progress) => {
                assert_ne!(Some(progress), last, "progress repeats itself");
                last = Some(progress);
                let Some(step) = progress.step else { continue };
                assert!(step >= highest && step > of_earlier, "progress moves back");
                highest = step;
            }
            _ => {}
        }
    }
}

/// A retry waits between the plain delay and its jitter, or as long as was asked, at most an hour.
fn check_retries(life: &Life) {
    for (at, entry) in &life.log {
        let Entry::Retrying { retry, next_at, .. } = entry else { continue };
        let plain = (1_000_u64 << (retry - 1)).min(300_000);
        let waits = next_at.since(*at).0;
        assert!(waits >= plain && (waits <= plain + plain / 5 || waits <= 3_600_000));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn every_life_keeps_the_guarantees(life in life(), happenings in prop::collection::vec(happening(), 0..80)) {
        let model = Model::new(Spec::clone(&life.job.spec), life.rules.clone());
        let mut pair = Pair { life, model };
        for happening in &happenings {
            pair.happen(happening);
        }
        pair.end();
        for happening in &happenings {
            pair.happen(happening);
        }
        check_log(&pair.life);
    }

    #[test]
    fn percentages_without_steps_rise_over_attempts(reports in prop::collection::vec((0..110_i32, any::<bool>()), 1..60)) {
        let mut life = Life::of(Spec { max_attempts: 1_000, ..spec(1) });
        for (reported, dies) in reports {
            if life.job.claim().is_none() {
                life.start();
            }
            life.advance(300);
            life.report(percent(f64::from(reported - 5)));
            if dies {
                life.fail(Class::Transient);
            }
        }
        let logged = life.log.iter().filter_map(|(_, entry)| if let Entry::Progress(p) = entry { p.percent } else { None });
        let logged: Vec<_> = logged.collect();
        prop_assert!(logged.is_sorted_by(|a, b| a < b), "{logged:?}");
    }
}
