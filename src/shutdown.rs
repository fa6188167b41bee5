//! One signal, four phases: whoever has something to end hears each phase once, in order.
//!
//! Neither knows nor ends anything itself.

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
#[derive(Debug, Clone)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { phase: watch::Sender::new(Phase::Running) }
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
