//! `compact`: the same store in less space.
//!
//! In: a data directory whose server does not run. Out: what was gained. Whenever it is cut short, the store is whole.

use std::path::PathBuf;

use serde_json::json;

use super::backup::{of_store, store_in};
use super::failure::{Ending, Failure};
use super::output::Output;
use super::settings;
use crate::job::EventId;
use crate::store;

/// What `compact` is told.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// The data directory; without it that of the configuration
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// One JSON value instead of text for people
    #[arg(long)]
    json: bool,
}

/// Rewrites the store under a data directory, and keeps its epoch and every position.
///
/// # Errors
/// `Locked` while a server runs; `Damaged` if the store is not whole, which is then left as it is; `Usage` if there is none;
/// `DiskFull` if there is no room for a second one.
pub fn compact(wish: &Wish) -> Result<Ending, Failure> {
    let Wish { data_dir, json } = wish;
    let data_dir = settings::data_dir(data_dir.clone())?;
    let done = store::sled::compact(&store_in(&data_dir)?).map_err(|error| of_store(&error))?;
    let store::sled::Compacted { before, after, bounds } = done;
    let last = EventId { epoch: bounds.epoch, position: bounds.last };
    let output = Output::new(*json);
    if *json {
        output.value(&json!({ "bytesBefore": before, "bytesAfter": after, "last": last }))?;
    } else {
        output.line(&format!("{}: {before} bytes are now {after}; the log ends at {last}", data_dir.display()))?;
    }
    Ok(Ending::Done)
}
