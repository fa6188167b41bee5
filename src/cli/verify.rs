//! `verify`: whether a store holds together, and each thing that does not.
//!
//! In: a data directory whose server does not run. Out: what was looked at, or every complaint. Changes nothing.

use std::path::Path;

use serde_json::json;

use super::backup::store_in;
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
    let dir = store_in(data_dir)?;
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
    let counts = format!("{}: {wrong} complaints; the first {} are above", dir.display(), complaints.len());
    let is_whole = if wrong == 0 { Ok(Ending::Done) } else { Err(Failure::Damaged(counts)) };
    if output.json {
        let told: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        output.value(&json!({
            "ok": wrong == 0, "jobs": jobs, "entries": entries, "bodies": bodies, "leftovers": leftovers,
            "wrong": wrong, "complaints": told,
        }))?;
        return is_whole;
    }
    if wrong == 0 {
        let swept = if leftovers > 0 { format!(", {leftovers} leftovers of a killed process") } else { String::new() };
        output.line(&format!("ok: {jobs} jobs, {entries} entries, {bodies} bodies{swept}"))?;
    }
    for complaint in &complaints {
        output.line(&complaint.to_string())?;
    }
    is_whole
}
