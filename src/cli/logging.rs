//! What the server logs, and where: to stderr, filtered by `LONGHAUL_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::failure::Failure;

/// The filter's variable, such as `LONGHAUL_LOG=debug` or `info,longhaul::core=trace`.
pub const VARIABLE: &str = "LONGHAUL_LOG";

/// Starts logging for this process. A second call changes nothing.
///
/// # Errors
/// `Usage` if the filter makes no sense.
pub fn start() -> Result<(), Failure> {
    let written = std::env::var(VARIABLE).unwrap_or_default();
    let text = if written.is_empty() { "info" } else { written.as_str() };
    let filter = EnvFilter::builder().parse(text);
    let filter = filter.map_err(|why| Failure::Usage(format!("{VARIABLE}={text}: {why}")))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would say on stderr that stderr cannot be written, and panic on that: a full disk there must not matter.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // Only tests start it twice.
    let _ = subscriber.try_init();
    Ok(())
}

/// From now on a panic, ours or sled's on a damaged file, is one line of the log; without logging it is none, and whoever
/// catches it says what came of it.
pub fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = crate::panic_text(panic.payload());
        let why = why.lines().next().unwrap_or_default();
        tracing::error!(thread, at, why, "caught a panic");
    }));
}
