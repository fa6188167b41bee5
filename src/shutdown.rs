//! One signal, four phases: whoever has something to end hears each phase once, in order.
//!
//! Neither knows nor ends anything itself.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// How far the end has come. Only ever rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Phase {
    /// Serving.
    #[default]
    Running,
    /// Nothing new: no connections, no jobs, no claims. Attempts may finish.
    Draining,
    /// The grace is over: attempts are given back.
    Releasing,
    /// Nothing runs any more: streams end with a `retry:` hint, the store closes.
    Closing,
}

/// The end, as everybody sees it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
    waiting: Arc<Mutex<Vec<(Phase, OnPhase)>>>,
}

type OnPhase = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shutdown").field(&self.phase()).finish()
    }
}

impl Shutdown {
    /// Moves on to `phase`; going back changes nothing. Does not block.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let rises = phase > *now;
            *now = phase.max(*now);
            rises
        });
        self.tell();
    }

    /// Calls `tell` once, when `phase` is reached or has been; on the thread that reaches it, so it must not block.
    pub fn on(&self, phase: Phase, tell: impl FnOnce() + Send + 'static) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((phase, Box::new(tell)));
        self.tell();
    }

    fn tell(&self) {
        let now = self.phase();
        let due: Vec<_> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.extract_if(.., |(phase, _)| *phase <= now).collect()
        };
        for (_, tell) in due {
            tell();
        }
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until `phase` is reached.
    pub async fn reached(&self, phase: Phase) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn whoever_asked_is_told_once_when_the_phase_is_reached_or_was() {
        let shutdown = Shutdown::default();
        let told = Arc::new(AtomicU32::new(0));
        let count = |phase| {
            let told = told.clone();
            shutdown.on(phase, move || {
                told.fetch_add(1, Ordering::SeqCst);
            });
        };
        count(Phase::Releasing);
        shutdown.advance(Phase::Draining);
        assert_eq!(told.load(Ordering::SeqCst), 0);
        shutdown.clone().advance(Phase::Closing);
        shutdown.advance(Phase::Releasing);
        assert_eq!(told.load(Ordering::SeqCst), 1);
        count(Phase::Draining);
        assert_eq!((told.load(Ordering::SeqCst), shutdown.phase()), (2, Phase::Closing));
    }
}
