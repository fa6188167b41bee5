//! `serve`: makes the parts and lets them run. Placeholder until the parts are there.

use std::process::ExitCode;

use crate::config::Config;

/// Serves until it is told to stop.
pub fn run(_: Config) -> ExitCode {
    ExitCode::FAILURE
}
