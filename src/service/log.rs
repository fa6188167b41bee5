//! What a job's attempts logged, line by line: the one reader of it for `http` and `mcp`.
//!
//! In: a job's head and a cursor. Out: lines in their order, with their levels, and the cursor behind them. A line says its level itself, as handlers
//! write it (`warning: the disk is nearly full`); one that says none is `info`. What an attempt logs can be read once it has ended.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Refused, Service};
use crate::job::{BodyRef, ClaimNo, Head, JobId};

/// The levels of RFC 5424, as MCP names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For whoever debugs the handler.
    Debug,
    /// What a line is that says nothing else.
    Info,
    /// Worth a look.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// The attempt cannot go on.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// Nothing works any more.
    Emergency,
}

impl Level {
    /// Every level, rising.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];
    /// The number of no level.
    pub const NONE: u8 = u8::MAX;

    /// The level of that number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The level of that name, as written in JSON.
    pub fn of_json(raw: &str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }

    /// The level that a line begins with, and the rest of it; some handlers say `warn` or `fatal`.
    fn of_line(line: &str) -> (Self, &str) {
        let Some((word, rest)) = line.split_once(": ") else { return (Self::Info, line) };
        let level = match word.to_ascii_lowercase().as_str() {
            "debug" | "trace" => Self::Debug,
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warn" | "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" | "fatal" => Self::Critical,
            "alert" => Self::Alert,
            "emergency" => Self::Emergency,
            _ => return (Self::Info, line),
        };
        (level, rest)
    }
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// Of which claim: each run of the job has its own.
    pub claim: ClaimNo,
    /// What it says of itself.
    pub level: Level,
    /// The rest of it.
    pub message: String,
}

/// How far a log was read: up to a byte of a claim's. Written `2-120`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogCursor {
    claim: u64,
    offset: u64,
}

impl fmt::Display for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.claim, self.offset)
    }
}

/// It is no cursor of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCursor;

impl FromStr for LogCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| NoCursor),
            false => Err(NoCursor),
        };
        let (claim, offset) = text.split_once('-').ok_or(NoCursor)?;
        Ok(Self { claim: number(claim)?, offset: number(offset)? })
    }
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Behind them.
    pub cursor: LogCursor,
    /// Whether there are more now. A job that has not ended may log more later.
    pub has_more: bool,
}

impl Service {
    /// At most `limit` lines behind a cursor. What is not kept any more, of attempts long past, is passed over.
    ///
    /// # Errors
    /// `NoSuchJob` if it has been forgotten meanwhile; `Busy`, `Unhealthy`, `Damaged`.
    pub async fn log(&self, head: &Head, after: LogCursor, limit: usize) -> Result<LogPage, Refused> {
        let mut page = LogPage { lines: Vec::new(), cursor: after, has_more: false };
        for body in head.job.logs.iter().filter(|body| body.seq >= after.claim) {
            let from = if body.seq == after.claim { after.offset } else { 0 };
            for (line, end) in self.log_of(head.job.id(), *body, from).await? {
                if page.lines.len() >= limit {
                    return Ok(LogPage { has_more: true, ..page });
                }
                page.lines.push(line);
                page.cursor = LogCursor { claim: body.seq, offset: end };
            }
        }
        Ok(page)
    }

    /// The lines of one attempt from a byte on, each with the byte behind it.
    ///
    /// # Errors
    /// As `body`.
    pub async fn log_of(&self, job: JobId, log: BodyRef, from: u64) -> Result<Vec<(LogLine, u64)>, Refused> {
        if from >= log.len {
            return Ok(Vec::new());
        }
        let bytes = self.body(job, log, from, usize::MAX).await?;
        let mut end = from;
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
            end += line.len() as u64;
            let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
            let (level, message) = Level::of_line(&text);
            (LogLine { claim: ClaimNo(log.seq), level, message: message.to_owned() }, end)
        });
        Ok(lines.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_level_or_is_info() {
        for (line, level, rest) in [
            ("warning: low", Level::Warning, "low"),
            ("ERROR: a: b", Level::Error, "a: b"),
            ("fatal: gone", Level::Critical, "gone"),
            ("note: this", Level::Info, "note: this"),
            ("plain", Level::Info, "plain"),
            ("", Level::Info, ""),
        ] {
            assert_eq!(Level::of_line(line), (level, rest));
        }
    }

    #[test]
    fn a_cursor_is_read_back_as_it_was_written_and_nothing_else_is_one() {
        let cursor = LogCursor { claim: 12, offset: 345 };
        assert_eq!((cursor.to_string().as_str(), "12-345".parse()), ("12-345", Ok(cursor)));
        for text in ["", "1", "1-", "-1", "1-2-3", "1-+2", "a-1", "1-99999999999999999999"] {
            assert_eq!(text.parse::<LogCursor>(), Err(NoCursor), "{text}");
        }
    }

    #[test]
    fn levels_rise_and_are_read_by_name_alone() {
        assert!(Level::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(Level::ALL.iter().enumerate().all(|(at, level)| Level::of_number(at as u8) == Some(*level)));
        assert_eq!(Level::of_number(Level::NONE), None);
        assert_eq!(Level::of_json("\"notice\""), Some(Level::Notice));
        for bad in ["\"loud\"", "3", "null", "\"Info\""] {
            assert_eq!(Level::of_json(bad), None, "{bad}");
        }
    }
}
