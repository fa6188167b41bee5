//! `serve`: makes the parts and lets them run. Placeholder until the parts are there.

use std::process::ExitCode;

use super::{exit, output};
use crate::config::Config;

/// Serves until it is told to stop.
pub fn run(config: Config) -> ExitCode {
    output::say(&format!("would listen on {}", config.listen));
    output::complain("cannot serve yet");
    let _ = (exit::SIGNALED, exit::of_store);
    ExitCode::from(exit::FAILED)
}
