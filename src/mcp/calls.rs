//! The requests of a session that are being answered, so that its client can cancel them.
//!
//! In: request ids as written. Out: a mark for each request, and word to whoever answers it. In memory only: after a restart there is none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

type Open = HashMap<Box<str>, Arc<Notify>>;

/// The requests that are being answered.
#[derive(Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Open>>);

/// One of them. It is over when this is dropped.
pub(super) struct CallInFlight {
    open: Arc<Mutex<Open>>,
    id: Box<str>,
    notify: Arc<Notify>,
}

impl Calls {
    /// Notes a request. A second one with the same id takes the place of the first.
    pub(super) fn enter(&self, id: &str) -> CallInFlight {
        let notify = Arc::<Notify>::default();
        lock(&self.0).insert(id.into(), notify.clone());
        CallInFlight { open: self.0.clone(), id: id.into(), notify }
    }

    /// Cancels the request with this id, if it is being answered.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(call) = lock(&self.0).get(id) {
            call.notify_one();
        }
    }
}

impl CallInFlight {
    /// Returns when the client has canceled the request.
    pub(super) async fn canceled(&self) {
        self.notify.notified().await;
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if open.get(&self.id).is_some_and(|call| Arc::ptr_eq(call, &self.notify)) {
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
}
