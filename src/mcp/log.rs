//! Levels of log lines, and the lines of a job as `notifications/message`.
//!
//! In: what an attempt logged, once it is durable. Out: the lines at or above a level. A line says its level itself, as handlers write it
//! (`warning: the disk is nearly full`); one that says none is `info`.

use serde::{Deserialize, Serialize};

use super::Endpoint;
use super::rpc;
use super::voice::Voice;
use crate::job::Head;

/// Most bytes of log, the newest, that are sent with an answer; the rest is read by `get_job`.
pub const LOG_SENT_MAX: u64 = 64 * 1024;

/// The levels of RFC 5424, as MCP names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [Self; 8] = [
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
    pub(super) const NONE: u8 = u8::MAX;

    /// The level of that number.
    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The level of that name, as written in JSON.
    pub(super) fn of_json(raw: &str) -> Option<Self> {
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

/// Sends what the job's attempts logged at or above this level. What cannot be read is left out: the answer stands without it.
pub(super) async fn send(endpoint: &Endpoint, head: &Head, least: Level, voice: &mut Voice) {
    let (job, logger) = (head.job.id(), &head.job.spec.job_type);
    let mut room = LOG_SENT_MAX;
    let mut texts = Vec::new();
    for log in head.job.logs.iter().rev() {
        if log.len > room {
            break;
        }
        room -= log.len;
        let Ok(bytes) = endpoint.service.body(job, *log, 0, usize::MAX).await else { break };
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let lines = texts.iter().rev().flat_map(|text| text.lines()).map(Level::of_line);
    for (level, text) in lines.filter(|(level, _)| *level >= least) {
        let mut json = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":".to_vec();
        rpc::push_value(&mut json, &level);
        json.extend_from_slice(b",\"logger\":");
        rpc::push_string(&mut json, logger);
        json.extend_from_slice(b",\"data\":");
        rpc::push_string(&mut json, text);
        json.extend_from_slice(voice.mark().as_bytes());
        json.extend_from_slice(b"}}");
        voice.say(&json, endpoint.clock.now()).await;
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
