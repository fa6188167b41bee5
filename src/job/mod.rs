//! Jobs as values: what they are, what may happen to them, and when. Pure.
//!
//! In: a head, a command, the time. Out: entries, or a refusal. No I/O, clock, threads or async here.

mod apply;
mod body;
pub mod canonical;
mod carried;
mod command;
mod entry;
mod failure;
mod head;
mod id;
pub mod json;
pub mod machine;
mod outcome;
mod progress;
mod question;
pub mod queue;
pub mod retry;
mod rules;
mod spec;
#[cfg(test)]
mod tests;
mod time;
pub mod written;

pub use body::*;
pub use carried::{CARRIED_MAX, Carried};
pub use command::*;
pub use entry::*;
pub use failure::*;
pub use head::*;
pub use id::*;
pub use json::JSON_DEPTH_MAX;
pub use outcome::*;
pub use progress::Place;
pub use question::*;
pub use rules::*;
pub use spec::*;
pub use time::*;

/// The longest beginning of `text` that has at most `max` bytes and ends at a character.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
