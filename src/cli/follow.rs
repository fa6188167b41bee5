//! Follows an event stream over every interruption: resumes with the last id, tells each event once.
//!
//! In: a path. Out: events in order, and what the reader should know of gaps and outages. Gives up when the server says
//! no, or stays away too long.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;
use ureq::Body;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::sse::{Frame, Parser};
use crate::job::{EventId, Millis};

/// Attempts to come back in a row, after which the server counts as gone: about a quarter of an hour.
pub const RECONNECTS_MAX: u32 = 200;
/// First delay before coming back, unless the server names another.
const DELAY_FIRST: Millis = Millis(250);
/// Shortest delay before coming back, also if the server names a shorter one.
const DELAY_MIN: Millis = Millis(10);
/// Longest delay before coming back, also if the server names a longer one.
pub const DELAY_MAX: Millis = Millis::seconds(5);
/// Events that are remembered, so that a log that begins again under another name tells none of them twice.
pub const SEEN_MAX: usize = 65_536;

/// One event of the log (contract 2).
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    /// Its id and cursor.
    pub event_id: String,
    /// `job.progress` and so on.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Whose.
    pub job_id: String,
    /// When.
    pub timestamp: String,
    /// What.
    #[serde(default)]
    pub payload: Value,
    /// The line as it came.
    #[serde(skip)]
    pub line: String,
}

impl Event {
    /// How the job ended, if this is its last event.
    pub fn ending(&self) -> Option<Ending> {
        Ending::of_status(self.event_type.strip_prefix("job.")?)
    }
}

/// What a follower is told.
#[derive(Debug)]
pub enum Told {
    /// The next event.
    Event(Event),
    /// Events may be missing, or the log is another one; what follows is what is kept.
    Reset(String),
    /// The server is away; told once.
    Away,
    /// It is back; told once.
    Back,
}

/// Whoever hears of it; `Break` ends the following.
pub type Tell<'a> = &'a mut dyn FnMut(Told) -> ControlFlow<()>;

/// Follows the stream at `path` to its end (204), or until `tell` breaks. Blocks. `start` is where to begin, if not where
/// the stream begins by itself.
///
/// # Errors
/// `Refused` if the server says no; `Unreachable` or `BrokeOff` if it is not there at first, or does not come back.
pub fn follow(client: &Client, path: &str, start: Option<&str>, tell: Tell<'_>) -> Result<(), Failure> {
    let mut follower = Follower { cursor: start.map(str::to_owned), ..Follower::default() };
    let mut misses = 0;
    loop {
        match follower.attempt(client, path, tell) {
            Step::Over => return Ok(()),
            Step::Again => misses = 0,
            Step::Failed(failure) => return Err(failure),
            Step::Absent(failure) if !follower.was_there || misses >= RECONNECTS_MAX => return Err(failure),
            Step::Absent(_) => misses += 1,
            Step::Lost => misses = 1,
        }
        if misses > 0 {
            if !std::mem::replace(&mut follower.is_away, true) && tell(Told::Away).is_break() {
                return Ok(());
            }
            std::thread::sleep(follower.delay(misses).duration());
        }
    }
}

/// What became of one connection.
enum Step {
    /// The stream is over, or nobody wants to hear more.
    Over,
    /// It was silent for too long: look whether it still lives, without a word about it.
    Again,
    /// It was there, and broke off.
    Lost,
    /// The server is not there, or not able to serve.
    Absent(Failure),
    /// No further attempt will help.
    Failed(Failure),
}

#[derive(Default)]
struct Follower {
    cursor: Option<String>,
    seen: Seen,
    hint: Option<Millis>,
    was_there: bool,
    is_away: bool,
}

impl Follower {
    fn attempt(&mut self, client: &Client, path: &str, tell: Tell<'_>) -> Step {
        let answer = match client.stream(path, self.cursor.as_deref()) {
            Ok(answer) => answer,
            Err(failure @ (Failure::Unreachable { .. } | Failure::BrokeOff { .. })) => return Step::Absent(failure),
            Err(failure) => return Step::Failed(failure),
        };
        match answer.status().as_u16() {
            200 => {}
            204 => return Step::Over,
            429 | 500 | 502 | 503 | 504 => return Step::Absent(client.refusal(answer)),
            _ => return Step::Failed(client.refusal(answer)),
        }
        self.was_there = true;
        if std::mem::take(&mut self.is_away) && tell(Told::Back).is_break() {
            return Step::Over;
        }
        self.read(answer.into_body(), tell)
    }

    fn read(&mut self, body: Body, tell: Tell<'_>) -> Step {
        let mut reader = body.into_reader();
        let mut parser = Parser::default();
        let mut buffer = vec![0; 16 << 10];
        let mut frames = Vec::new();
        loop {
            let length = match reader.read(&mut buffer) {
                Ok(0) => return Step::Lost,
                Ok(length) => length,
                Err(error) if is_silence(&error) => return Step::Again,
                Err(_) => return Step::Lost,
            };
            if parser.read(&buffer[..length], &mut frames).is_err() {
                return Step::Failed(Failure::Refused("the stream holds an event without end".to_owned()));
            }
            for frame in frames.drain(..) {
                if let Err(step) = self.take(frame, tell) {
                    return step;
                }
            }
        }
    }

    fn take(&mut self, frame: Frame, tell: Tell<'_>) -> Result<(), Step> {
        match frame {
            Frame::Retry(millis) => self.hint = Some(Millis(millis)),
            Frame::Cursor(id) => self.cursor = Some(id),
            Frame::Event { name, data, .. } if name == "stream.reset" => {
                self.seen.begin_again();
                told(tell(Told::Reset(reset_text(&data))))?;
            }
            Frame::Event { data, id, .. } => {
                let nonsense = |_| Step::Failed(Failure::Refused("the stream is none of a longhaul server".to_owned()));
                let mut event: Event = serde_json::from_str(&data).map_err(nonsense)?;
                event.line = data;
                if self.seen.is_new(&event) {
                    told(tell(Told::Event(event)))?;
                }
                if !id.is_empty() {
                    self.cursor = Some(id);
                }
            }
        }
        Ok(())
    }

    /// The server's hint at first, then twice as long each time.
    fn delay(&self, misses: u32) -> Millis {
        let first = self.hint.unwrap_or(DELAY_FIRST).0.max(DELAY_MIN.0);
        Millis(first.saturating_mul(1 << (misses - 1).min(16)).min(DELAY_MAX.0))
    }
}

/// Nothing came for too long.
fn is_silence(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    error.kind() == ErrorKind::TimedOut || inner.is_some_and(|inner| matches!(inner, ureq::Error::Timeout(_)))
}

fn told(flow: ControlFlow<()>) -> Result<(), Step> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Step::Over),
    }
}

/// What a reset means, in words.
fn reset_text(data: &str) -> String {
    let reset: Value = serde_json::from_str(data).unwrap_or_default();
    match reset["reason"].as_str() {
        Some("trimmed") => "events were missed: they are no longer kept".to_owned(),
        Some("other_log") => "the server has another log than before; what it keeps follows".to_owned(),
        Some("ahead") => "the server's log is behind what was seen; what it keeps follows".to_owned(),
        other => format!("the stream begins again ({})", other.unwrap_or("no reason given")),
    }
}

/// Which events were told. Positions decide within a log; a log that begins again is compared with what is remembered.
#[derive(Default)]
struct Seen {
    last: Option<EventId>,
    marks: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    fn begin_again(&mut self) {
        self.last = None;
    }

    fn is_new(&mut self, event: &Event) -> bool {
        let id: Option<EventId> = event.event_id.parse().ok();
        let is_behind = |(last, id): (EventId, EventId)| last.epoch == id.epoch && id.position <= last.position;
        if self.last.zip(id).is_some_and(is_behind) {
            return false;
        }
        self.last = id.or(self.last);
        let mut hasher = DefaultHasher::new();
        // A restored log keeps positions and times under another epoch.
        (id.map(|id| id.position), &event.job_id, &event.timestamp, &event.event_type).hash(&mut hasher);
        let mark = hasher.finish();
        if !self.marks.insert(mark) {
            return false;
        }
        self.order.push_back(mark);
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.marks.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, job: &str) -> Event {
        Event {
            event_id: id.to_owned(),
            event_type: "job.progress".to_owned(),
            job_id: job.to_owned(),
            timestamp: "2026-11-30T12:00:00.000Z".to_owned(),
            payload: Value::Null,
            line: String::new(),
        }
    }

    #[test]
    fn an_event_that_comes_again_is_not_told_again() {
        let mut seen = Seen::default();
        let told = |seen: &mut Seen, id: &str| seen.is_new(&event(id, "a"));
        assert!(told(&mut seen, "00000001-5") && told(&mut seen, "00000001-9"));
        assert!(!told(&mut seen, "00000001-9") && !told(&mut seen, "00000001-7"));
        seen.begin_again();
        assert!(!told(&mut seen, "00000002-5"), "a restored log tells what was told");
        assert!(told(&mut seen, "00000002-6"), "and what was not");
    }

    #[test]
    fn a_log_that_begins_anew_is_told_from_its_start() {
        let mut seen = Seen::default();
        assert!(seen.is_new(&event("00000001-50", "a")));
        seen.begin_again();
        assert!(seen.is_new(&event("00000002-1", "b")) && seen.is_new(&event("00000002-50", "b")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = Seen::default();
        for position in 1..SEEN_MAX + 100 {
            assert!(seen.is_new(&event(&format!("00000001-{position}"), "a")));
        }
        assert_eq!((seen.marks.len(), seen.order.len()), (SEEN_MAX, SEEN_MAX));
    }

    #[test]
    fn delays_follow_the_servers_hint_and_end_at_a_limit() {
        let delays = |hint| {
            let follower = Follower { hint, ..Follower::default() };
            [1, 2, 3, 60, RECONNECTS_MAX].map(|misses| follower.delay(misses).0)
        };
        assert_eq!(delays(None), [250, 500, 1_000, 5_000, 5_000]);
        assert_eq!(delays(Some(Millis(3_000))), [3_000, 5_000, 5_000, 5_000, 5_000]);
        assert_eq!(delays(Some(Millis(u64::MAX))), [5_000; 5]);
        assert_eq!(delays(Some(Millis(0))), [10, 20, 40, 5_000, 5_000]);
    }
}
