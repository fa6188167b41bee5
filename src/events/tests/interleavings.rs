//! No wake-up is lost: every order in which a publisher and its readers can take their steps, one after the other.
//!
//! The steps are the registry's own calls and the reads between them. A reader that sleeps in the end has read everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::events::Filter;
use crate::events::registry::{Registry, Wait};
use crate::job::{JobId, Position};

const JOB: JobId = JobId::from_u128(7);

#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Whom a reader waits under.
#[derive(Clone, Copy)]
enum Kind {
    Job,
    Feed,
}

/// Registers, then reads and polls in turn; sleeps while nothing woke it.
struct Reader {
    kind: Kind,
    wait: Option<Wait>,
    has_read: u64,
    polls_next: bool,
    called: Arc<Called>,
    sleeps: bool,
}

impl Reader {
    fn new(kind: Kind) -> Self {
        Self { kind, wait: None, has_read: 0, polls_next: false, called: Arc::default(), sleeps: false }
    }

    fn can_step(&self) -> bool {
        !self.sleeps || self.called.0.load(Ordering::SeqCst)
    }

    fn step(&mut self, registry: &Arc<Registry>, last: u64) {
        self.sleeps = false;
        self.called.0.store(false, Ordering::SeqCst);
        let Some(wait) = &self.wait else {
            self.wait = Some(match self.kind {
                Kind::Job => registry.job(JOB),
                Kind::Feed => registry.feed(&Arc::new(Filter::default())),
            });
            return;
        };
        if !self.polls_next {
            self.has_read = last;
        } else if wait.poll_woken(&Context::from_waker(&Waker::from(self.called.clone()))) == Poll::Pending {
            // A call that came before this counts: the executor polls again.
            self.sleeps = true;
        }
        self.polls_next = !self.polls_next;
    }
}

/// Takes the steps that `choices` name, then the first possible ones; how many were possible at each.
fn live(kinds: &[Kind], commits: u64, choices: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let registry = Registry::new(Position::ZERO);
    let mut readers: Vec<Reader> = kinds.iter().map(|kind| Reader::new(*kind)).collect();
    let (mut last, mut published) = (0, 0);
    let (mut taken, mut possible) = (Vec::new(), Vec::new());
    loop {
        let mut actors: Vec<usize> = (0..readers.len()).filter(|reader| readers[*reader].can_step()).collect();
        // Each commit: the watermark moves, the job's readers are woken, the feed's are.
        actors.extend((published < 3 * commits).then_some(readers.len()));
        if actors.is_empty() {
            break;
        }
        let choice = choices.get(taken.len()).copied().unwrap_or(0);
        taken.push(choice);
        possible.push(actors.len());
        match readers.get_mut(actors[choice]) {
            Some(reader) => reader.step(&registry, last),
            None => {
                match published % 3 {
                    0 => last += 1,
                    1 => registry.wake_jobs([JOB].into_iter()),
                    _ => drop(registry.announce(None, Position(last))),
                }
                published += 1;
            }
        }
    }
    assert!(readers.iter().all(|reader| reader.has_read == commits), "lost: {taken:?}");
    (taken, possible)
}

/// Goes through all orders; how many there are.
fn exhaust(kinds: &[Kind], commits: u64) -> usize {
    let mut choices = Vec::new();
    for orders in 1.. {
        let (taken, possible) = live(kinds, commits, &choices);
        // The last step that can be chosen otherwise is.
        let Some(at) = (0..taken.len()).rev().find(|at| taken[*at] + 1 < possible[*at]) else { return orders };
        choices = taken[..at].to_vec();
        choices.push(taken[at] + 1);
    }
    unreachable!("the orders have an end")
}

#[test]
fn no_order_of_registering_reading_and_publishing_loses_a_wake_up() {
    let orders = [exhaust(&[Kind::Job], 2), exhaust(&[Kind::Feed], 2), exhaust(&[Kind::Job, Kind::Feed], 1)];
    assert!(orders.iter().all(|orders| *orders > 100), "{orders:?}");
}
