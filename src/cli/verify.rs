//! `verify`: whether a store holds together, and each thing that does not.
//!
//! In: a data directory whose server does not run. Out: what was looked at, or every complaint. Changes nothing.

use std::path::Path;

use super::failure::{Ending, Failure};
use super::logging;
use super::output::Output;
use crate::store;

/// Verifies the store under a data directory.
///
/// # Errors
/// `Damaged` with each thing that is wrong, or if the store cannot be read; `Locked` while a server runs; `DiskFull` if
/// opening it needs room that the disk has not; `Usage` if there is no store.
pub fn verify(output: &Output, data_dir: &Path) -> Result<Ending, Failure> {
    let dir = data_dir.join("store");
    if !dir.is_dir() {
        return Err(Failure::Usage(format!("there is no store in {} (--data-dir)", data_dir.display())));
    }
    // sled panics on some damage: that is said once, below.
    logging::tell_of_panics();
    let looked = std::panic::catch_unwind(|| store::verify::verify(&dir));
    let report = looked.unwrap_or_else(|panic| {
        Err(store::Error::Corrupt { at: dir.display().to_string(), why: crate::panic_text(panic.as_ref()) })
    });
    let report = report.map_err(|error| match error {
        store::Error::Locked(_) => Failure::Locked(format!("{error}\nStop the server first.")),
        store::Error::Full(_) => Failure::DiskFull(error.to_string()),
        store::Error::Corrupt { .. } | store::Error::Body { .. } | store::Error::Unavailable(_) => {
            Failure::Damaged(error.to_string())
        }
    })?;
    let store::verify::Report { jobs, entries, bodies, leftovers, complaints, wrong } = report;
    if wrong == 0 {
        let swept = if leftovers > 0 { format!(", {leftovers} leftovers of a killed process") } else { String::new() };
        output.line(&format!("ok: {jobs} jobs, {entries} entries, {bodies} bodies{swept}"))?;
        return Ok(Ending::Done);
    }
    for complaint in &complaints {
        output.line(&complaint.to_string())?;
    }
    Err(Failure::Damaged(format!("{}: {wrong} complaints; the first {} are above", dir.display(), complaints.len())))
}
