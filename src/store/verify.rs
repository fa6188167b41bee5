//! Whether a store holds together: the record of each job is the fold of its entries, and nothing is missing or astray.
//!
//! In: the directory of a store that nobody uses. Out: a report that names each job, position, row and file that is
//! wrong. Mends nothing, and never holds the whole history in memory.

use std::path::Path;

use super::Error;

/// Most complaints that a report keeps; more are only counted.
pub const COMPLAINTS_MAX: usize = 1_000;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Exactly where: a job, a position, a row, a file.
    pub at: String,
    /// What is wrong there.
    pub why: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.why)
    }
}

/// What was looked at, and what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Jobs looked at.
    pub jobs: u64,
    /// Entries looked at.
    pub entries: u64,
    /// Bodies looked at.
    pub bodies: u64,
    /// Files that a killed process had brought and nobody names: no fault, removed at the next start.
    pub leftovers: u64,
    /// What is wrong, in the order it was found, at most `COMPLAINTS_MAX`.
    pub complaints: Vec<Complaint>,
    /// How many things are wrong.
    pub wrong: u64,
}

impl Report {
    /// Whether all holds.
    pub fn is_whole(&self) -> bool {
        self.wrong == 0
    }

    /// The damage that it tells of, with what else is to be said; `None` if all holds.
    pub(super) fn into_error(self, also: &str) -> Option<Error> {
        let wrong = self.wrong;
        let Complaint { at, why } = self.complaints.into_iter().next()?;
        Some(Error::Corrupt { at, why: format!("{why}; that is the first of {wrong} complaints ({also})") })
    }

    /// Adds a complaint.
    pub(super) fn complain(&mut self, at: impl Into<String>, why: impl Into<String>) {
        self.wrong += 1;
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(Complaint { at: at.into(), why: why.into() });
        }
    }
}

/// Looks at all of the store in `dir`. Blocks for as long as that takes: some seconds per hundred thousand jobs.
///
/// # Errors
/// `Error::Locked` while a server uses the store; `Error::Corrupt` if it cannot be opened or read through at all;
/// `Error::Unavailable` if there is none, or the disk refuses.
pub fn verify(dir: &Path) -> Result<Report, Error> {
    super::sled::verify(dir)
}
