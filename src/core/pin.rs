//! Pins: a backup reads the store as it was between two commits, and until it has, nothing is forgotten.
//!
//! In: the wish to pin, its end, the time. Out: at most one pin at once. Whoever reads slowly, or never says that he is
//! done, pins no longer than `PIN_MAX`; then retention goes on, and his next page is an error.

use super::thread::{Core, Fatal};
use crate::job::{Millis, Timestamp};
use crate::store::Pin;

/// Longest pin; a backup that is not written by then breaks off.
pub const PIN_MAX: Millis = Millis::seconds(60 * 60);

/// Why there is no pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinRefusal {
    /// Another one is on.
    Taken,
    /// Shutting down.
    Draining,
}

/// The pin that is on, and when it ends by itself.
#[derive(Debug, Default)]
pub(super) struct Pinning(Option<(Pin, Timestamp)>);

impl Pinning {
    /// Whether nothing may be forgotten.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// When it ends by itself.
    pub fn due(&self) -> Option<Timestamp> {
        self.0.map(|(_, until)| until)
    }
}

impl Core {
    /// Pins what is durable. What the group in hand has decided comes after it.
    pub fn pin(&mut self, now: Timestamp) -> Result<Result<Pin, PinRefusal>, Fatal> {
        if self.draining {
            return Ok(Err(PinRefusal::Draining));
        }
        if self.pinning.is_on() {
            return Ok(Err(PinRefusal::Taken));
        }
        let pin = self.parts.store.pin().map_err(Fatal::Store)?;
        self.pinning.0 = Some((pin, now.plus(PIN_MAX)));
        tracing::info!(position = pin.bounds.last.0, "a backup begins; nothing is forgotten until it is done");
        Ok(Ok(pin))
    }

    /// Whoever pinned is done.
    pub fn unpin(&mut self, pin: &Pin) {
        if self.pinning.0.is_some_and(|(on, _)| on == *pin) {
            self.parts.store.unpin(pin);
            self.pinning.0 = None;
        }
    }

    /// Ends a pin whose time is over.
    pub fn expire_pin(&mut self, now: Timestamp) {
        if let Some((pin, until)) = self.pinning.0
            && until <= now
        {
            tracing::warn!("a backup took longer than {} s and is broken off", PIN_MAX.0 / 1_000);
            self.unpin(&pin);
        }
    }
}
