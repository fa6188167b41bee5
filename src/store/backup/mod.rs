//! Backups: all that is kept, as of one position, as lines of JSON; and back.
//!
//! In: a running store under a pin, or a file that may be anything. Out: compressed lines, or a store. Why it is
//! consistent at position P, although the trees change in place while it is written:
//!
//! - A record is the fold of its job's entries, so records, trails, index rows, keys and totals are not in a backup at all:
//!   entries up to P are, and the fold of exactly these is every record as of P, whatever has happened to it since.
//! - Entries never change, and they go only with their jobs. A pin (`Store::pin`), taken by the thread that commits,
//!   between two commits, keeps every job: whatever had an entry up to P when it was taken still has all of them.
//! - Bodies are written once, so a body that is found is as it was at P. One that a record names at P may be dropped later (a
//!   newer partial, a log too many); the pin keeps it. One that was dropped before P is not found, and no record as of P
//!   names it. So behind each entry stands each body that it names and that is still there, and together these are
//!   exactly what the records as of P name: reading a backup proves it, job by job.
//! - After each page it is asked whether the pin still holds; if not, the backup breaks off and has no trailer.
//!
//! Small named records (cells) are not in a backup: MCP sessions are opened anew by their clients when they are told 404, and
//! the key of read tickets, which last a quarter of an hour, is a secret that a backup should not pin.
//!
//! The form: a gzip stream of lines, each one JSON object with one member (`header`, then `entry`s by position, each followed
//! by the `body` pieces that it names, then `trailer`) and `sum`: the CRC-32 of everything before it in the file. So a line
//! that is changed, missing, moved or repeated is named by its number. The trailer has counts and the SHA-256 of all lines
//! before it. Sums tell of accidents; they are no signature.

mod dump;
mod lines;
mod reader;
pub(in crate::store) mod replay;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::job::{BodyRef, Entry, JobId, Position};

pub use super::sled::{Restored, Unrestored};
pub use dump::{Dump, PAGE_MAX};
pub use reader::{Reader, Refusal};

/// The version of the form. Another one is refused.
pub const VERSION: u32 = 1;

/// Longest line, in bytes, its newline included. A longer one is refused before it is in memory.
pub const LINE_MAX: usize = 512 * 1024;

/// Bytes of a body that one line holds at most, as they are: escaped they become at most six times as many.
pub const PIECE_MAX: usize = 64 * 1024;

/// What the first line says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `VERSION`.
    pub version: u32,
    /// The version of the program that wrote it.
    pub program: String,
    /// When, in RFC 3339.
    pub taken_at: String,
    /// The history that it was taken from: eight hex digits.
    pub epoch: String,
    /// The last position that it may pin an entry of.
    pub position: Position,
    /// At and above it there is an entry for every position up to that.
    pub floor: Position,
}

/// An entry in its place. Type, owner and tags are those of its job's creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryLine {
    /// Where it stands.
    pub position: Position,
    /// When it was decided.
    #[serde(with = "crate::job::written::stamp")]
    pub at: crate::job::Timestamp,
    /// Whose it is.
    pub job: JobId,
    /// What happened.
    pub entry: Entry,
}

/// A piece of a body that the last entry names, the whole of it if it is small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Which body.
    pub name: BodyRef,
    /// Where in it the piece begins: the end of the one before.
    pub from: u64,
    /// Its bytes, if they are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes in Base64, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// What the last line says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    /// How many jobs there are.
    pub jobs: u64,
    /// How many entries.
    pub entries: u64,
    /// How many bodies.
    pub bodies: u64,
    /// SHA-256 of all lines before this one, with their newlines.
    pub sha256: String,
}

/// One line, without its `sum`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first.
    Header(Header),
    /// What happened.
    Entry(EntryLine),
    /// What it names.
    Body(Piece),
    /// The last.
    Trailer(Trailer),
}

/// Restores a backup to `dir`, which must be absent or empty: a store of a new epoch in which every entry has its position,
/// and what ran waits for the first start to interrupt it. Blocks for as long as that takes.
///
/// # Errors
/// `Unrestored`; then nothing is left in `dir`.
pub fn restore(input: impl std::io::Read, dir: &std::path::Path) -> Result<Restored, Unrestored> {
    super::sled::restore(input, dir)
}

/// Reads a backup to its end, line by line, and believes nothing that does not stand where it was written.
///
/// # Errors
/// The line that is wrong.
pub fn inspect(input: impl std::io::Read) -> Result<(Header, Trailer), Refusal> {
    let (mut reader, header) = Reader::open(input)?;
    loop {
        match reader.next()? {
            Line::Trailer(trailer) => return Ok((header, trailer)),
            Line::Entry(_) | Line::Body(_) => {}
            Line::Header(_) => return Err(reader.refuse("a second header")),
        }
    }
}

/// The bodies that an entry names.
pub(in crate::store) fn named(entry: &Entry) -> Vec<BodyRef> {
    match entry {
        Entry::Created { spec, .. } => vec![spec.payload],
        Entry::Partial { body, .. } | Entry::Asked { body, .. } => vec![*body],
        Entry::Answered { answers, .. } => answers.iter().map(|answer| answer.body).collect(),
        Entry::Completed { completion, log, .. } => {
            completion.result.into_iter().chain(completion.content).chain(*log).collect()
        }
        Entry::Retrying { log, .. }
        | Entry::Released { log, .. }
        | Entry::Failed { log, .. }
        | Entry::Canceled { log, .. } => log.iter().copied().collect(),
        Entry::Started { .. }
        | Entry::Progress(_)
        | Entry::Interrupted { .. }
        | Entry::CancelRequested { .. }
        | Entry::CancelDelivered { .. }
        | Entry::Replayed { .. } => Vec::new(),
    }
}
