//! The requests of a session that are being answered, so that its client can cancel them; and those that were not when their stream ended.
//!
//! In: request ids as written, and what is waited for. Out: a mark for each request, and word to whoever answers it. In memory only: after a
//! restart there is none.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use super::work::Waits;

/// Requests of a session whose stream ended before their answer that are remembered, the newest: an older one cannot be canceled any more.
pub const LEFT_MAX: usize = 32;

/// To whoever answers a request.
#[derive(Debug, Default)]
struct Line {
    canceled: Notify,
    taken: Notify,
    /// Once it is known.
    waits: OnceLock<Waits>,
    is_canceled: AtomicBool,
    is_answered: AtomicBool,
}

/// A request without a stream and without an answer.
#[derive(Debug)]
struct Left {
    id: Box<str>,
    waits: Waits,
    is_canceled: bool,
}

#[derive(Debug, Default)]
struct Known {
    /// Those that are being answered, by their ids; of one id the newest last.
    open: HashMap<Box<str>, Vec<Arc<Line>>>,
    /// The newest last.
    left: VecDeque<Left>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Known>>);

/// A request that is being answered. Dropped before its answer was made, it is left.
pub(super) struct CallInFlight {
    known: Arc<Mutex<Known>>,
    id: Box<str>,
    line: Arc<Line>,
}

impl Calls {
    /// Notes a request. From now on its id names this one.
    pub(super) fn enter(&self, id: &str) -> CallInFlight {
        let mut known = lock(&self.0);
        known.left.retain(|left| left.is_canceled || *left.id != *id);
        self.note(&mut known, id, Arc::default())
    }

    /// Notes a request that is taken up again on another stream: whoever answers it so far is told to end. One that has only its id is another.
    pub(super) fn take_over(&self, id: &str, waits: &Waits) -> CallInFlight {
        let mut known = lock(&self.0);
        known.left.retain(|left| left.is_canceled || !left.is(id, waits));
        if let Some(open) = known.open.get_mut(id) {
            let before = open.extract_if(.., |line| line.waits.get() == Some(waits));
            before.for_each(|line| line.taken.notify_one());
        }
        let line = Line { waits: waits.clone().into(), ..Line::default() };
        self.note(&mut known, id, Arc::new(line))
    }

    fn note(&self, known: &mut Known, id: &str, line: Arc<Line>) -> CallInFlight {
        known.open.entry(id.into()).or_default().push(line.clone());
        CallInFlight { known: self.0.clone(), id: id.into(), line }
    }

    /// Cancels the request that this id names, if it is being answered or was left. What it waits for is then to be given up.
    pub(super) fn cancel(&self, id: &str) -> Option<Waits> {
        let mut known = lock(&self.0);
        if let Some(line) = known.open.get(id).and_then(|open| open.last()) {
            line.is_canceled.store(true, Ordering::Relaxed);
            line.canceled.notify_one();
            return line.waits.get().cloned();
        }
        let left = known.left.iter_mut().rev().find(|left| *left.id == *id)?;
        left.is_canceled = true;
        Some(left.waits.clone())
    }

    /// Whether this request was canceled.
    pub(super) fn is_canceled(&self, id: &str, waits: &Waits) -> bool {
        let known = lock(&self.0);
        let is_canceled =
            |line: &Arc<Line>| line.waits.get() == Some(waits) && line.is_canceled.load(Ordering::Relaxed);
        known.open.get(id).is_some_and(|open| open.iter().any(is_canceled))
            || known.left.iter().any(|left| left.is_canceled && left.is(id, waits))
    }
}

impl Left {
    fn is(&self, id: &str, waits: &Waits) -> bool {
        *self.id == *id && self.waits == *waits
    }
}

impl CallInFlight {
    /// It is known now what the request waits for. Only the first call does anything.
    pub(super) fn wait_for(&self, waits: &Waits) {
        let _ = self.line.waits.set(waits.clone());
    }

    /// Its answer is made: it is not left any more.
    pub(super) fn answer(&self) {
        self.line.is_answered.store(true, Ordering::Relaxed);
    }

    /// Returns when the client has canceled the request.
    pub(super) async fn canceled(&self) {
        self.line.canceled.notified().await;
    }

    /// Returns when the request is answered on another stream.
    pub(super) async fn taken_over(&self) {
        self.line.taken.notified().await;
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        let mut known = lock(&self.known);
        let Some(open) = known.open.get_mut(&self.id) else { return };
        let Some(at) = open.iter().position(|line| Arc::ptr_eq(line, &self.line)) else { return };
        open.remove(at);
        if open.is_empty() {
            known.open.remove(&self.id);
        }
        let is_canceled = self.line.is_canceled.load(Ordering::Relaxed);
        let is_left = is_canceled || !self.line.is_answered.load(Ordering::Relaxed);
        if let Some(waits) = self.line.waits.get().filter(|_| is_left) {
            if known.left.len() == LEFT_MAX {
                known.left.pop_front();
            }
            known.left.push_back(Left { id: self.id.clone(), waits: waits.clone(), is_canceled });
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    fn waits(job: u128) -> Waits {
        Waits::Call(JobId::from_u128(job), 0)
    }

    #[tokio::test]
    async fn a_canceled_request_hears_of_it_even_if_it_was_not_listening_yet() {
        let calls = Calls::default();
        let (first, second) = (calls.enter("1"), calls.enter("\"1\""));
        calls.cancel("1");
        calls.cancel("7");
        first.canceled().await;
        drop(first);
        assert_eq!(lock(&calls.0).open.len(), 1);
        let again = calls.enter("\"1\"");
        drop(second);
        calls.cancel("\"1\"");
        again.canceled().await;
    }

    #[tokio::test]
    async fn a_request_that_is_taken_up_again_has_one_stream() {
        let calls = Calls::default();
        let first = calls.enter("1");
        first.wait_for(&waits(1));
        let second = calls.take_over("1", &waits(1));
        first.taken_over().await;
        drop(first);
        let third = calls.take_over("1", &waits(1));
        second.taken_over().await;
        calls.cancel("1");
        third.canceled().await;
        drop(second);
        let known = lock(&calls.0);
        assert_eq!((known.open.len(), known.left.len()), (1, 0));
    }

    #[test]
    fn a_request_that_was_left_can_be_canceled_and_one_that_was_answered_cannot() {
        let calls = Calls::default();
        let begin = |id: &str, job| {
            let call = calls.enter(id);
            call.wait_for(&waits(job));
            call
        };
        drop(begin("1", 1));
        let answered = begin("2", 2);
        answered.answer();
        drop(answered);
        assert_eq!((calls.cancel("1"), calls.cancel("2")), (Some(waits(1)), None));
        assert!(calls.is_canceled("1", &waits(1)) && !calls.is_canceled("1", &waits(2)));
        // An id that is used again names the newer request, and which of that id were canceled stays known.
        drop(begin("3", 3));
        let newer = begin("3", 4);
        assert_eq!(calls.cancel("3"), Some(waits(4)));
        drop(newer);
        assert!(calls.is_canceled("3", &waits(4)) && !calls.is_canceled("3", &waits(3)));
        // One that goes on elsewhere is not left.
        drop(begin("5", 5));
        let taken = calls.take_over("5", &waits(5));
        assert_eq!(calls.cancel("5"), Some(waits(5)));
        drop(taken);
        for job in 0..2 * LEFT_MAX {
            drop(begin("6", job as u128));
            drop(begin("7", job as u128));
            calls.cancel("7");
        }
        assert_eq!(lock(&calls.0).left.len(), LEFT_MAX);
    }
}
