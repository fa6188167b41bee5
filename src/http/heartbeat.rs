//! When a quiet stream has to show that it lives.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Ticks after each `every` in which nothing was sent. The timer is not moved for each frame: it looks back.
pub struct Heartbeat {
    every: Duration,
    timer: Pin<Box<Sleep>>,
    sent_at: Instant,
}

impl Heartbeat {
    /// The first tick is `every` from now.
    pub fn new(every: Duration) -> Self {
        Self { every, timer: Box::pin(tokio::time::sleep(every)), sent_at: Instant::now() }
    }

    /// Something was sent.
    pub fn sent(&mut self) {
        self.sent_at = Instant::now();
    }

    /// Ready when a heartbeat is due; it counts as sent.
    pub fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let (due, now) = (self.sent_at + self.every, Instant::now());
            if now < due {
                self.timer.as_mut().reset(due);
                continue;
            }
            self.sent_at = now;
            self.timer.as_mut().reset(now + self.every);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
