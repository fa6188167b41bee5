//! The requests of a session that are being answered, so that its client can cancel them.
//!
//! In: request ids as written. Out: a mark for each request, and word to whoever answers it. In memory only: after a restart there is none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

type Open = HashMap<Box<str>, Arc<Line>>;

/// To whoever answers a request.
#[derive(Debug, Default)]
struct Line {
    canceled: Notify,
    taken: Notify,
}

/// The requests that are being answered.
#[derive(Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Open>>);

/// One of them. It is over when this is dropped.
pub(super) struct CallInFlight {
    open: Arc<Mutex<Open>>,
    id: Box<str>,
    line: Arc<Line>,
}

impl Calls {
    /// Notes a request. A second one with the same id takes the place of the first.
    pub(super) fn enter(&self, id: &str) -> CallInFlight {
        self.replace(id).0
    }

    /// Notes a request that is taken up again on another stream: whoever answers it so far is told to end.
    pub(super) fn take_over(&self, id: &str) -> CallInFlight {
        let (call, before) = self.replace(id);
        if let Some(before) = before {
            before.taken.notify_one();
        }
        call
    }

    fn replace(&self, id: &str) -> (CallInFlight, Option<Arc<Line>>) {
        let line = Arc::<Line>::default();
        let before = lock(&self.0).insert(id.into(), line.clone());
        (CallInFlight { open: self.0.clone(), id: id.into(), line }, before)
    }

    /// Cancels the request with this id, if it is being answered.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(call) = lock(&self.0).get(id) {
            call.canceled.notify_one();
        }
    }
}

impl CallInFlight {
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
        let mut open = lock(&self.open);
        if open.get(&self.id).is_some_and(|call| Arc::ptr_eq(call, &self.line)) {
            open.remove(&self.id);
        }
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_canceled_request_hears_of_it_even_if_it_was_not_listening_yet() {
        let calls = Calls::default();
        let (first, second) = (calls.enter("1"), calls.enter("\"1\""));
        calls.cancel("1");
        calls.cancel("7");
        first.canceled().await;
        drop(first);
        assert_eq!(lock(&calls.0).len(), 1);
        let again = calls.enter("\"1\"");
        drop(second);
        calls.cancel("\"1\"");
        again.canceled().await;
    }

    #[tokio::test]
    async fn a_request_that_is_taken_up_again_has_one_stream() {
        let calls = Calls::default();
        let first = calls.enter("1");
        let second = calls.take_over("1");
        first.taken_over().await;
        drop(first);
        let third = calls.take_over("1");
        second.taken_over().await;
        calls.cancel("1");
        third.canceled().await;
        drop(second);
        assert_eq!(lock(&calls.0).len(), 1);
    }
}
