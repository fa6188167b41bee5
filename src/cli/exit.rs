//! The exit codes of contract 9. Scripts depend on them: they are never renumbered.

use std::process::ExitCode;

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
/// The store does not hold together, or failed while it was used.
pub const STORE_DAMAGED: u8 = 6;
/// Another process holds the store.
pub const STORE_LOCKED: u8 = 7;
/// Ended by a second signal, whose number is added.
pub const SIGNALED: u8 = 128;

/// The code for a store that cannot be used.
pub fn of_store(error: &store::Error) -> ExitCode {
    ExitCode::from(match error {
        store::Error::Locked(_) => STORE_LOCKED,
        store::Error::Corrupt { .. } | store::Error::Body { .. } => STORE_DAMAGED,
        // A directory that cannot be used is a matter of settings; nothing is said of what is in it.
        store::Error::Unavailable(_) => USAGE,
    })
}
