//! `machine`: bytes as commands to one job, decided and folded; what must hold of every life is judged by its log alone.
//!
//! The first bytes make the job and the rules for its type, each further command begins with the move of the clock. Some steps fold an
//! entry that nobody has decided: that must be refused or fit, and is then forgotten.

mod making;

use std::sync::Arc;

use longhaul::job::machine::{Moment, apply, create, decide, dropped, fold};
use longhaul::job::{
    Class, Command, End, Entry, Job, Millis, Progress, QUESTIONS_MAX, Refusal, Rules, Spec, Standing, State, Status,
    Throttle, Timestamp,
};

use super::pieces::Pieces;
use making::{command, entry, rules, spec, throttle, time};

/// Most commands of one run.
const COMMANDS_MAX: usize = 300;

/// Lives through the commands that these bytes tell.
///
/// # Panics
/// When a promise about jobs is broken.
pub fn run(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    let mut life = Life::new(&mut pieces);
    for _ in 0..COMMANDS_MAX {
        if pieces.is_over() {
            break;
        }
        life.now = time(&mut pieces, life.now);
        if pieces.below(8) == 7 {
            life.fold_anything(&entry(&mut pieces, &life.job));
        } else {
            let command = command(&mut pieces, &life.job);
            let spread = f64::from(pieces.byte()) / 128.0 - 0.5;
            life.send(&command, spread);
        }
    }
    life.end();
}

/// One job, its log, and what is held back.
struct Life {
    job: Job,
    held: Option<Progress>,
    log: Vec<(Timestamp, Entry)>,
    now: Timestamp,
    rules: Rules,
    throttle: Throttle,
}

impl Life {
    fn new(pieces: &mut Pieces<'_>) -> Self {
        let now = time(pieces, Timestamp(1_800_000_000_000));
        let (spec, rules, throttle): (Spec, _, _) = (spec(pieces, now), rules(pieces), throttle(pieces));
        let run_at = pieces.coin().then(|| time(pieces, now));
        let entry = create(Arc::new(spec), run_at);
        let job = apply(None, now, &entry).expect("a creation fits nothing");
        assert!(run_at.is_none_or(|run_at| job.run_at == run_at.max(job.spec.created_at)));
        assert_eq!((job.status(), job.revision), (Status::Pending, 1));
        Self { job, held: None, log: vec![(now, entry)], now, rules, throttle }
    }

    fn send(&mut self, command: &Command, spread: f64) {
        let (before, held) = (self.job.clone(), self.held.clone());
        let moment = Moment { now: self.now, rules: &self.rules, throttle: &self.throttle, spread };
        let decided = decide(&self.job, &mut self.held, command, &moment);
        assert_eq!(refusal(&before, command, self.now), decided.as_ref().err().copied(), "{command:?} to {before:?}");
        let entries = match decided {
            Ok(entries) => entries,
            Err(_) => return assert!(self.held == held, "what is refused changes nothing"),
        };
        if entries.is_empty() && !matches!(command, Command::Report { .. }) {
            assert!(self.held == held, "what is so already changes nothing");
        }
        for entry in &entries {
            let from = self.job.clone();
            self.job = apply(Some(from.clone()), self.now, entry)
                .unwrap_or_else(|why| panic!("what was decided does not fit: {why}: {entry:?} to {from:?}"));
            self.log.push((self.now, entry.clone()));
            one_step(&from, entry, &self.job, self.now);
        }
        if let Some(last) = entries.last() {
            self.answers(command, last, &before);
        }
        if self.job.status().is_terminal() && !before.status().is_terminal() {
            assert!(self.held.is_none(), "held progress comes out before the end");
        }
    }

    /// What was asked for is what came.
    fn answers(&self, command: &Command, last: &Entry, before: &Job) {
        let is_canceling = before.cancel.is_some();
        let fits = match (command, last) {
            (Command::Start { .. }, Entry::Started { .. })
            | (Command::Report { .. }, Entry::Progress(_))
            | (Command::Partial { .. }, Entry::Partial { .. })
            | (
                Command::Cancel { .. } | Command::Expire,
                Entry::Canceled { claim: None, .. } | Entry::CancelRequested { .. },
            )
            | (Command::Delivered { .. }, Entry::CancelDelivered { .. })
            | (Command::Answer { .. }, Entry::Answered { .. })
            | (Command::Replay { .. }, Entry::Replayed { .. }) => true,
            (Command::Ask { .. }, Entry::Asked { .. })
            | (Command::Complete { .. }, Entry::Completed { .. })
            | (Command::Release { .. }, Entry::Released { .. })
            | (Command::Interrupt { .. }, Entry::Interrupted { .. } | Entry::Failed { .. }) => !is_canceling,
            (Command::Fail { failing, .. }, Entry::Retrying { next_at, retry, end, .. }) => {
                self.retries_in_time(*next_at);
                !is_canceling
                    && failing.failure.class == Class::Transient
                    && *retry < before.spec.max_attempts
                    && matches!(end, End::Failed | End::TimedOut)
            }
            (Command::Fail { failing, .. }, Entry::Failed { failure, .. }) => {
                let is_last = before.attempts >= before.spec.max_attempts;
                let has_expired = failure.code.as_deref() == Some("expired");
                !is_canceling && (failing.failure.class != Class::Transient || is_last || has_expired)
            }
            (
                Command::Complete { .. } | Command::Fail { .. } | Command::Release { .. } | Command::Interrupt { .. },
                Entry::Canceled { claim: Some(_), .. },
            ) => is_canceling,
            _ => false,
        };
        assert!(fits, "{command:?} made {last:?} of {before:?}");
    }

    /// Not before the plain delay has passed, and before the job expires.
    fn retries_in_time(&self, next_at: Timestamp) {
        let retry = &self.rules.retry;
        let least = self.now.plus(retry.base_delay.min(retry.max_delay));
        assert!(next_at >= least, "{next_at} is before {least}");
        assert!(self.job.spec.expires_at.is_none_or(|expires_at| next_at < expires_at));
    }

    /// An entry from anywhere: refused, or one step like any other.
    fn fold_anything(&self, entry: &Entry) {
        if let Ok(after) = apply(Some(self.job.clone()), self.now, entry) {
            one_step(&self.job, entry, &after, self.now);
        }
        let alone = apply(None, self.now, entry);
        assert_eq!(alone.is_ok(), matches!(entry, Entry::Created { .. }));
    }

    /// The record is the fold of its log, and the log tells one story.
    fn end(&self) {
        let folded = fold(self.log.iter().map(|(at, entry)| (*at, entry)));
        assert_eq!(folded.as_ref(), Ok(&Some(self.job.clone())), "{:?}", self.log);
        let ends: Vec<usize> = (0..self.log.len()).filter(|at| self.log[*at].1.is_terminal()).collect();
        assert!(ends.len() <= 1, "two ends: {:?}", self.log);
        assert_eq!(ends.len() == 1, self.job.status().is_terminal());
        let after = ends.first().map_or(&[][..], |end| &self.log[end + 1..]);
        assert!(after.len() <= 1 && after.iter().all(|(_, entry)| matches!(entry, Entry::Replayed { .. })));
        let claims = self.log.iter().filter_map(|(_, entry)| match entry {
            Entry::Started { claim, .. } => Some(claim.0),
            _ => None,
        });
        assert!(claims.eq(1..=self.job.claims), "claims are numbered without a gap");
    }
}

/// Why a command must be refused, judged by what a person reads in the job; `None`: it must not.
fn refusal(job: &Job, command: &Command, now: Timestamp) -> Option<Refusal> {
    let claim = match command {
        Command::Report { claim, .. }
        | Command::Partial { claim, .. }
        | Command::Ask { claim, .. }
        | Command::Complete { claim, .. }
        | Command::Fail { claim, .. }
        | Command::Release { claim, .. }
        | Command::Delivered { claim } => Some(*claim),
        Command::Start { .. } | Command::Interrupt { .. } | Command::Cancel { .. } => None,
        Command::Expire | Command::Answer { .. } | Command::Replay { .. } => None,
    };
    let runs = matches!(job.state, State::InProgress { .. });
    match command {
        _ if claim.is_some_and(|claim| !runs || claim.0 != job.claims) => Some(Refusal::StaleClaim),
        Command::Replay { .. } => match job.state {
            State::Failed { replayed_as: None } => None,
            State::Failed { replayed_as: Some(_) } => Some(Refusal::AlreadyReplayed),
            _ => Some(Refusal::NotDeadLettered),
        },
        _ if job.status().is_terminal() => Some(Refusal::Ended),
        Command::Start { .. } if runs || job.questions.are_open() => Some(Refusal::NotNow),
        Command::Interrupt { .. } if !runs => Some(Refusal::NotNow),
        Command::Expire if job.spec.expires_at.is_none_or(|at| at > now) => Some(Refusal::NotNow),
        Command::Delivered { .. } if job.cancel.is_none() => Some(Refusal::NotNow),
        Command::Ask { asking, .. } => {
            let is_new = job.cancel.is_none() && job.questions.keyed(&asking.key).is_none();
            (is_new && job.questions.all().len() >= QUESTIONS_MAX).then_some(Refusal::TooManyQuestions)
        }
        Command::Answer { answers, .. } => {
            let is_new = |at: usize| answers[..at].iter().all(|earlier| earlier.key != answers[at].key);
            let mut fits = answers.iter().enumerate().map(|(at, answer)| {
                job.questions.keyed(&answer.key).is_some_and(|question| match question.standing {
                    Standing::Open { .. } => job.cancel.is_none() && is_new(at),
                    Standing::Answered { action, body } => (action, body) == (answer.action, answer.body),
                })
            });
            (!fits.all(|fits| fits)).then_some(Refusal::NotWaiting)
        }
        _ => None,
    }
}

/// What holds of every step, decided or not.
fn one_step(before: &Job, entry: &Entry, after: &Job, at: Timestamp) {
    assert!(!before.status().is_terminal() || matches!(entry, Entry::Replayed { .. }), "after the end: {entry:?}");
    assert_eq!(after.status().is_terminal(), entry.is_terminal() || before.status().is_terminal(), "{entry:?}");
    assert_eq!(after.revision, before.revision.saturating_add(1));
    assert_eq!((after.updated_at, &after.spec), (at, &before.spec));
    assert_eq!(after.finished_at.is_some(), after.status().is_terminal());
    assert!(after.claims >= before.claims && after.interruptions >= before.interruptions);
    assert!(after.claim().is_none_or(|claim| claim.0 == after.claims && after.started_at.is_some()));
    assert!(after.reached >= before.reached, "progress went back");
    assert!(after.logs.len() <= longhaul::job::LOGS_MAX);
    if let Some(receipt) = after.cancel.as_deref() {
        let times = [Some(receipt.requested_at), receipt.delivered_at, receipt.stopped_at];
        assert!(times.iter().flatten().is_sorted(), "{receipt:?}");
        assert_eq!(receipt.stopped_at.is_some(), after.status() == Status::Canceled);
    }
    assert!(before.cancel.is_none() || matches!(after.status(), Status::InProgress | Status::Canceled));
    assert!(after.questions.all().len() <= QUESTIONS_MAX);
    let waits = !after.status().is_terminal() && after.cancel.is_none() && after.questions.are_open();
    assert_eq!(after.status() == Status::InputRequired, waits, "{after:?}");
    for answered in before.questions.all().iter().filter(|q| matches!(q.standing, Standing::Answered { .. })) {
        assert!(after.questions.all().contains(answered), "an answer was lost");
    }
    let gone = dropped(before, after);
    for body in before.bodies() {
        assert_eq!(gone.contains(&body), !after.bodies().any(|kept| kept == body));
    }
    if let Some(Some(percent)) = after.progress.as_ref().map(|progress| progress.percent)
        && matches!(entry, Entry::Progress(_))
    {
        assert!(percent.is_finite() || before.progress.is_none(), "{percent}");
    }
    let _: Millis = at.since(before.updated_at);
}
