//! Room for attempts: so many in all, and of these so many to one host, so that a host which does not answer holds up its own only.
//!
//! In: a host. Out: a place, once there is one. Keeps nothing of a host that nobody calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most attempts at once.
pub const ATTEMPTS_MAX: usize = 128;
/// Most attempts at once to one host.
pub const HOST_ATTEMPTS_MAX: usize = 4;

/// See the head of this file.
pub(super) struct Places {
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// Dropping it makes room.
pub(super) struct Place {
    _host: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Places {
    /// All are free.
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(ATTEMPTS_MAX)), hosts: Mutex::default() }
    }

    /// A place for an attempt to this host; waits for one. `None`: never, the semaphores are never closed.
    pub(super) async fn enter(&self, host: &str) -> Option<Place> {
        let of_host = self.of_host(host);
        // The host's first: who waits for its host must not hold a place that others could have.
        let of_host = of_host.acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(Place { _host: of_host, _all: of_all })
    }

    fn of_host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(host).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(HOST_ATTEMPTS_MAX));
        hosts.insert(host.into(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn a_host_that_does_not_answer_leaves_room_for_others_and_is_forgotten() {
        let places = Places::new();
        let mut held = Vec::new();
        for _ in 0..HOST_ATTEMPTS_MAX {
            held.push(places.enter("dead.example").await);
        }
        let mut waits = pin!(places.enter("dead.example"));
        assert!(poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_pending())).await);
        assert!(places.enter("good.example").await.is_some());
        held.pop();
        assert!(waits.await.is_some());
        drop(held);
        places.enter("other.example").await;
        assert_eq!(places.hosts.lock().unwrap().len(), 1);
    }
}
