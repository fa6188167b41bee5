//! The deciding and committing thread: every change of a job, whoever asks for it, goes through here.
//!
//! In: commands on two bounded lanes, and the next due time. Out: durable entries, then answers, then wake-ups, in that
//! order. It never polls, never waits for a reader, and never limps: when it or its store fails, the process is told.

mod claims;
mod count;
mod decide;
mod disk;
mod group;
mod handle;
mod held;
mod inbox;
mod local;
mod pin;
mod publish;
mod recover;
mod sweep;
mod thread;

#[cfg(test)]
mod tests;

pub use disk::{DISK_RESERVE_MAX, Room};
pub use group::GROUP_MAX;
pub use handle::{Busy, Handle};
pub use inbox::{
    ActRefusal, CellsRefusal, Creation, INNER_MAX, ReplayRefusal, SUBMIT_MAX, SubmitAnswer, SubmitRefusal,
};
pub use local::{LocalWork, ROOM_WAIT_MAX};
pub use pin::{PIN_MAX, PinRefusal};
pub use recover::recover;
pub use sweep::{Bound, Keep, Retention, SWEEP_MAX};
pub use thread::{Fatal, Options, Parts, start};
