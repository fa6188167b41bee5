//! The core over the reference store, with time moved by hand.

mod claims;
mod limits;
mod pins;
mod questions;
mod recovery;
mod retention;
mod rig;
mod room;
mod schedules;
mod story;
