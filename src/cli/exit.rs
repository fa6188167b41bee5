//! The exit codes of contract 9. Scripts depend on them: they are never renumbered.

use crate::store;

/// It did what it should.
pub const DONE: u8 = 0;
/// A job that was followed failed; for `serve`: the server did.
pub const FAILED: u8 = 1;
/// What was asked for makes no sense.
pub const USAGE: u8 = 2;
/// A job that was followed was canceled.
pub const CANCELED: u8 = 3;
/// Nobody answers.
pub const UNREACHABLE: u8 = 4;
/// The server said no.
pub const REFUSED: u8 = 5;
/// The store does not hold together.
pub const STORE_DAMAGED: u8 = 6;
/// Another process holds the store.
pub const STORE_LOCKED: u8 = 7;
/// The disk refuses: it is full or failing. Nothing that was acknowledged is lost; start again once that is mended.
pub const DISK_REFUSES: u8 = 8;
/// Ended by a second signal, whose number is added.
pub const SIGNALED: u8 = 128;

/// The code for a store that cannot be opened.
pub fn of_store(error: &store::Error) -> u8 {
    match error {
        // A directory that cannot be used is a matter of settings; nothing is said of what is in it.
        store::Error::Unavailable(_) => USAGE,
        store::Error::Locked(_) | store::Error::Corrupt { .. } | store::Error::Body { .. } | store::Error::Full(_) => {
            of_failed(error)
        }
    }
}

/// The code for a store that was open and failed.
pub fn of_failed(error: &store::Error) -> u8 {
    match error {
        store::Error::Locked(_) => STORE_LOCKED,
        store::Error::Corrupt { .. } | store::Error::Body { .. } => STORE_DAMAGED,
        store::Error::Unavailable(_) | store::Error::Full(_) => DISK_REFUSES,
    }
}
