//! The endpoint over the reference store, in this process, with time moved by hand.

mod agent;
mod apps;
mod broken;
mod calls;
mod held;
mod helpers;
mod ladders;
mod library;
mod methods;
mod occurrences;
mod questions;
mod reader;
mod results;
mod rig;
mod rights;
mod sessions;
mod streams;
mod tasks;
mod webhooks;

pub(super) use held::held;
