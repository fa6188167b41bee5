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
