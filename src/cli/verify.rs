//! `verify`: whether a store holds together, and each thing that does not.

use std::path::Path;

use super::failure::{Ending, Failure};
use super::output::Output;

/// Verifies the store under a data directory. The server must not run.
///
/// # Errors
/// `Damaged` with each thing that is wrong; `Locked` while a server runs; `Usage` if there is no store.
pub fn verify(output: &Output, data_dir: &Path) -> Result<Ending, Failure> {
    let store = data_dir.join("store");
    if !store.is_dir() {
        return Err(Failure::Usage(format!("there is no store at {}", store.display())));
    }
    output.line(&format!("{}: not verified", store.display()))?;
    Ok(Ending::Done)
}
