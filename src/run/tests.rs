//! Promises of the pool, kept against a source in memory.

use std::collections::VecDeque;
use std::sync::{Barrier, Condvar, Mutex};

use bytes::Bytes;

use super::*;
use crate::clock::Manual;
use crate::handler::{Handler, Handlers, Roster, RunContext};
use crate::job::{BodyRef, Carried, ClaimNo, Class, JobId, Millis, Outcome, Output, Part, Timestamp};
use crate::work::{Claim, Closed, Leave, NoBody, Report, StopFlag};

/// A source in memory. Breaks the test if it is asked for more claims than slots can be free.
struct Source {
    slots: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Claim>,
    submitted: u64,
    handed: usize,
    freed: usize,
    asked_too_much: bool,
    closed: bool,
    holds_frees: bool,
    held: Vec<Box<dyn FnOnce() + Send>>,
    ended: Vec<(u64, Leave, String)>,
    reports: Vec<Report>,
}

impl Source {
    fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self { slots, state: Mutex::default(), changed: Condvar::new() })
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        result
    }

    /// Submits a job whose number is its payload; returns its flag.
    fn submit(&self, job_type: &str) -> Arc<StopFlag> {
        let stop = Arc::new(StopFlag::default());
        self.update(|state| {
            state.submitted += 1;
            state.waiting.push_back(Claim {
                job: JobId::from_u128(u128::from(state.submitted)),
                job_type: job_type.into(),
                number: ClaimNo(1),
                attempt: 1,
                max_attempts: 5,
                payload: BodyRef::of(Part::Payload, 0, b""),
                carried: Carried::default(),
                deadline: Timestamp(i64::MAX),
                idempotency_key: None,
                traceparent: None,
                stop: stop.clone(),
                answers: Arc::default(),
            });
        });
        stop
    }

    fn close(&self) {
        self.update(|state| state.closed = true);
    }

    fn wait_until(&self, done: impl Fn(&State) -> bool) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| !done(state)).unwrap());
    }

    /// How the job with this number ended, and its log.
    fn end_of(&self, job: u64) -> (Leave, String) {
        self.wait_until(|state| state.ended.iter().any(|(ended, ..)| *ended == job));
        let state = self.state.lock().unwrap();
        let found = state.ended.iter().find(|(ended, ..)| *ended == job).unwrap();
        (found.1.clone(), found.2.clone())
    }

    fn free_one(&self) {
        let free = self.update(|state| state.held.pop()).expect("an end is held");
        self.update(|state| state.freed += 1);
        free();
    }
}

impl WorkSource for Source {
    fn claim(&self, want: usize) -> Result<Vec<Claim>, Closed> {
        let check =
            |state: &mut State| state.asked_too_much |= want == 0 || want + state.handed - state.freed > self.slots;
        self.update(check);
        let mut state = self.state.lock().unwrap();
        state = self.changed.wait_while(state, |state| state.waiting.is_empty() && !state.closed).unwrap();
        if state.waiting.is_empty() {
            return Err(Closed);
        }
        let count = want.min(state.waiting.len());
        state.handed += count;
        Ok(state.waiting.drain(..count).collect())
    }

    fn body(&self, claim: &Claim, _: crate::job::BodyRef) -> Result<Bytes, NoBody> {
        match &*claim.job_type {
            "no payload" => Err(NoBody("the disk is gone".into())),
            _ => Ok(claim.job.as_u128().to_string().into()),
        }
    }

    fn report(&self, _: &Claim, report: Report) {
        self.update(|state| state.reports.push(report));
    }

    fn finish(&self, claim: &Claim, leave: Leave, log: Bytes, freed: Box<dyn FnOnce() + Send>) {
        let job = u64::try_from(claim.job.as_u128()).unwrap();
        let log = String::from_utf8(log.to_vec()).unwrap();
        let free_now = self.update(|state| {
            state.ended.push((job, leave, log));
            match state.holds_frees {
                true => {
                    state.held.push(freed);
                    None
                }
                false => {
                    state.freed += 1;
                    Some(freed)
                }
            }
        });
        if let Some(freed) = free_now {
            freed();
        }
    }
}

/// Does with the attempt what a closure says.
struct Does<F>(F);

impl<F: Fn(&RunContext<'_>) -> Outcome + Send + Sync> Handler for Does<F> {
    fn run(&self, _: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Outcome {
        assert_eq!(*payload, context.claim().job.as_u128().to_string());
        (self.0)(context)
    }
}

fn done() -> Outcome {
    Outcome::Done(Output::default())
}

fn handlers() -> Handlers {
    let mut handlers = Handlers::default();
    handlers.insert("done".into(), Arc::new(Does(|_: &RunContext<'_>| done())));
    handlers.insert("panic".into(), Arc::new(Does(|_: &RunContext<'_>| panic!("a secret reason"))));
    handlers.insert(
        "sleep".into(),
        Arc::new(Does(|context: &RunContext<'_>| {
            context.progress(crate::job::Progress::default());
            context.pause(Millis::seconds(600)).map_or_else(|stopped| stopped, |()| done())
        })),
    );
    handlers
}

fn start(source: &Arc<Source>, handlers: Handlers, shutdown: &Shutdown) -> Runner {
    let clock = Arc::new(Manual::at_time(Timestamp(0)));
    Runner::start(source.clone(), Arc::new(Roster::from_pointee(handlers)), clock, source.slots, shutdown)
        .expect("threads")
}

/// Closes the source, waits for the runner, and checks that no thread is left and that no slot was used twice.
fn end(source: Arc<Source>, runner: Runner) {
    source.close();
    runner.join();
    assert!(!source.state.lock().unwrap().asked_too_much, "more claims were asked for than slots were free");
    assert_eq!(Arc::strong_count(&source), 1, "a thread still holds the source");
}

#[test]
fn case_50_a_panic_fails_its_job_with_a_general_message_and_costs_no_thread() {
    // Panics killed one worker each, silently, until none was left.
    let source = Source::new(3);
    let mut handlers = handlers();
    let all_at_once = Arc::new(Barrier::new(source.slots));
    handlers.insert(
        "together".into(),
        Arc::new(Does(move |_: &RunContext<'_>| {
            all_at_once.wait();
            done()
        })),
    );
    let runner = start(&source, handlers, &Shutdown::default());
    for _ in 0..=source.slots {
        source.submit("panic");
    }
    for job in 1..=source.slots as u64 + 1 {
        let (leave, log) = source.end_of(job);
        let expected = Outcome::failed(Class::Fatal, Some("panic"), "the handler panicked");
        assert_eq!((leave, log.as_str()), (Leave::Over(expected), "panic: a secret reason\n"));
    }
    for _ in 0..source.slots {
        source.submit("together");
    }
    for job in 5..=7 {
        assert_eq!(source.end_of(job).0, Leave::Over(done()));
    }
    end(source, runner);
}

#[test]
fn a_slot_is_free_again_only_when_the_end_is_durable() {
    let source = Source::new(2);
    source.update(|state| state.holds_frees = true);
    let runner = start(&source, handlers(), &Shutdown::default());
    for _ in 0..5 {
        source.submit("done");
    }
    for ended in 2..=5 {
        source.wait_until(|state| state.ended.len() == ended);
        assert_eq!(source.state.lock().unwrap().handed, ended);
        source.free_one();
    }
    source.free_one();
    end(source, runner);
}

#[test]
fn draining_lets_attempts_finish() {
    let source = Source::new(2);
    let (go, wait) = crossbeam_channel::bounded::<()>(0);
    let mut handlers = handlers();
    handlers.insert(
        "wait".into(),
        Arc::new(Does(move |context: &RunContext<'_>| {
            context.progress(crate::job::Progress::default());
            wait.recv().expect("the test lives");
            done()
        })),
    );
    let shutdown = Shutdown::default();
    let runner = start(&source, handlers, &shutdown);
    source.submit("wait");
    source.wait_until(|state| state.reports.len() == 1);
    shutdown.advance(Phase::Draining);
    source.close();
    go.send(()).expect("the handler waits");
    assert_eq!(source.end_of(1).0, Leave::Over(done()));
    end(source, runner);
}

#[test]
fn case_46_releasing_gives_back_what_runs_and_what_was_about_to() {
    // Shutdown left jobs locked for hours.
    let source = Source::new(2);
    let shutdown = Shutdown::default();
    let runner = start(&source, handlers(), &shutdown);
    source.submit("sleep");
    source.wait_until(|state| state.reports.len() == 1);
    shutdown.advance(Phase::Releasing);
    source.submit("done");
    source.submit("panic");
    for job in 1..=3 {
        assert_eq!(source.end_of(job).0, Leave::Released);
    }
    end(source, runner);
}

#[test]
fn an_attempt_that_asks_is_given_back_and_its_thread_takes_the_next() {
    let mut handlers = handlers();
    handlers.insert("asks".into(), Arc::new(Does(|_: &RunContext<'_>| Outcome::Asked)));
    let source = Source::new(1);
    let runner = start(&source, handlers, &Shutdown::default());
    source.submit("asks");
    source.submit("done");
    assert_eq!(source.end_of(1).0, Leave::Released);
    assert_eq!(source.end_of(2).0, Leave::Over(done()));
    end(source, runner);
}

#[test]
fn a_result_or_a_panic_is_told_even_if_the_server_goes_down() {
    let mut handlers = handlers();
    let stop_first = |context: &RunContext<'_>| context.claim().stop.set(Stop::Shutdown);
    handlers.insert(
        "late result".into(),
        Arc::new(Does(move |context: &RunContext<'_>| {
            stop_first(context);
            done()
        })),
    );
    handlers.insert(
        "late panic".into(),
        Arc::new(Does(move |context: &RunContext<'_>| {
            stop_first(context);
            panic!("late")
        })),
    );
    handlers.insert(
        "late failure".into(),
        Arc::new(Does(move |context: &RunContext<'_>| {
            stop_first(context);
            Outcome::failed(Class::Permanent, None, "cut short")
        })),
    );
    let source = Source::new(1);
    let runner = start(&source, handlers, &Shutdown::default());
    for job_type in ["late result", "late panic", "late failure"] {
        source.submit(job_type);
    }
    assert_eq!(source.end_of(1).0, Leave::Over(done()));
    assert_eq!(source.end_of(2).0, Leave::Over(Outcome::failed(Class::Fatal, Some("panic"), "the handler panicked")));
    assert_eq!(source.end_of(3).0, Leave::Released);
    end(source, runner);
}

#[test]
fn a_running_attempt_hears_of_its_cancel_and_one_that_is_cancelled_before_it_begins_never_runs() {
    let source = Source::new(1);
    let runner = start(&source, handlers(), &Shutdown::default());
    let running = source.submit("sleep");
    let waiting = source.submit("panic");
    waiting.set(Stop::Cancel);
    source.wait_until(|state| state.reports.len() == 1);
    running.set(Stop::Cancel);
    assert_eq!(source.end_of(1).0, Leave::Over(crate::handler::stopped()));
    let before = Outcome::failed(Class::Transient, None, "the attempt was stopped before it began");
    assert_eq!(source.end_of(2).0, Leave::Over(before));
    let delivered = source.update(|state| state.reports.iter().filter(|r| **r == Report::Delivered).count());
    assert_eq!(delivered, 2);
    end(source, runner);
}

#[test]
fn a_job_without_handler_or_payload_ends_and_says_so() {
    let source = Source::new(1);
    let mut handlers = handlers();
    handlers.insert("no payload".into(), Arc::new(Does(|_: &RunContext<'_>| done())));
    let runner = start(&source, handlers, &Shutdown::default());
    source.submit("nobody's");
    source.submit("no payload");
    let unknown = Outcome::failed(Class::Fatal, None, "no tool is configured for jobs of type nobody's");
    assert_eq!(source.end_of(1).0, Leave::Over(unknown));
    let unread = Outcome::failed(Class::Fatal, None, "the job's payload could not be read");
    assert_eq!(source.end_of(2), (Leave::Over(unread), "payload: the disk is gone\n".into()));
    end(source, runner);
}

#[test]
fn without_workers_nothing_is_claimed() {
    let source = Source::new(0);
    source.submit("done");
    let runner = start(&source, handlers(), &Shutdown::default());
    runner.join();
    assert_eq!(source.state.lock().unwrap().handed, 0);
    assert_eq!(Arc::strong_count(&source), 1);
}
