//! An entry as clients see it: the envelope of contract 2, and the SSE frame around it.
//!
//! In: an entry in its place. Out: bytes, appended; the same for the same entry whether live or replayed. Each frame is
//! three lines and an empty one: nothing that a payload holds can end its `data:` line. Quiet entries have no frame.

use std::ops::Range;

use crate::job::{Completion, Entry, Epoch, EventId, JobId, Json, Logged, Position, Progress, Spec, Timestamp};

/// Writes frames of one log. Owns nothing but what all of them share.
#[derive(Debug, Clone)]
pub struct Writer {
    epoch: [u8; 8],
    base: Box<str>,
    stamp: (Timestamp, String),
}

/// Where a frame stands in the buffer that it was appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The whole frame with its empty line.
    pub frame: Range<usize>,
    /// The envelope alone: one line of JSON.
    pub envelope: Range<usize>,
}

impl Writer {
    /// A writer for this log; `base` stands before the paths in payloads (`public_url`, no slash at its end, or empty).
    pub fn new(epoch: Epoch, base: &str) -> Self {
        let mut digits = [0; 8];
        for (at, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(epoch.0 >> (28 - 4 * at) & 15) as usize];
        }
        Self { epoch: digits, base: base.into(), stamp: (Timestamp::default(), Timestamp::default().to_string()) }
    }

    /// Appends the entry's frame; `None`, and nothing appended, for a quiet one.
    pub fn write(&mut self, logged: &Logged, out: &mut Vec<u8>) -> Option<Written> {
        let event_type = logged.entry.event_type()?;
        if self.stamp.0 != logged.at {
            self.stamp = (logged.at, logged.at.to_string());
        }
        let start = out.len();
        let id_starts = out.len() + 4;
        out.extend_from_slice(b"id: ");
        self.id(logged.position, out);
        let id = id_starts..out.len();
        out.extend_from_slice(b"\nevent: ");
        out.extend_from_slice(event_type.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        let data = out.len();
        out.extend_from_slice(b"{\"event_id\":\"");
        out.extend_from_within(id);
        out.extend_from_slice(b"\",\"type\":\"");
        out.extend_from_slice(event_type.as_bytes());
        out.extend_from_slice(b"\",\"job_id\":\"");
        job_id(logged.job, out);
        out.extend_from_slice(b"\",\"timestamp\":\"");
        out.extend_from_slice(self.stamp.1.as_bytes());
        out.extend_from_slice(b"\",\"payload\":");
        self.payload(logged, out);
        out.push(b'}');
        let envelope = data..out.len();
        out.extend_from_slice(b"\n\n");
        Some(Written { frame: start..out.len(), envelope })
    }

    fn id(&self, position: Position, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch);
        out.push(b'-');
        number(position.0, out);
    }

    /// The payload of contract 2 for a visible entry; `{}` for a quiet one, which `write` never asks for.
    fn payload(&self, logged: &Logged, out: &mut Vec<u8>) {
        match &logged.entry {
            Entry::Created { spec, run_at } => created(spec, *run_at, out),
            Entry::Started { attempt, max_attempts, worker, .. } => Object::begin(out)
                .number("attempt", u64::from(*attempt))
                .number("maxAttempts", u64::from(*max_attempts))
                .text("worker", worker)
                .end(),
            Entry::Progress(made) => progress(made, out),
            Entry::Partial { inline: Some(value), .. } => json(value, out),
            Entry::Partial { inline: None, .. } => {
                let mut object = Object::begin(out);
                object.raw("truncated", b"true");
                self.link(&mut object, "url", logged.job, "partial");
                object.end();
            }
            Entry::Asked { key, message, schema, .. } => asked(key, message, schema, out),
            Entry::Answered { answers, .. } => {
                let mut object = Object::begin(out);
                object.texts("keys", answers.iter().map(|answer| &*answer.key));
                object.end();
            }
            Entry::Retrying { failure, retry, max_attempts, next_at, .. } => Object::begin(out)
                .number("retry", u64::from(*retry))
                .number("maxAttempts", u64::from(*max_attempts))
                .number("nextAttemptInMs", next_at.since(logged.at).0)
                .text("error", failure.general())
                .end(),
            Entry::Completed { completion, attempts, duration, inline, .. } => {
                let mut object = Object::begin(out);
                self.result(&mut object, logged.job, completion, inline.as_ref());
                object.number("attempts", u64::from(*attempts)).number("durationMs", duration.0).end();
            }
            Entry::Failed { failure, attempts, .. } => {
                let mut object = Object::begin(out);
                object.text("error", failure.general()).text("class", failure.class.name());
                if let Some(code) = &failure.code {
                    object.text("code", code);
                }
                object.number("attempts", u64::from(*attempts)).raw("deadLettered", b"true").end();
            }
            Entry::Canceled { by, reason, .. } => {
                Object::begin(out).text("reason", reason).text("requestedBy", by).end();
            }
            Entry::Released { .. }
            | Entry::Interrupted { .. }
            | Entry::CancelRequested { .. }
            | Entry::CancelDelivered { .. }
            | Entry::Replayed { .. } => Object::begin(out).end(),
        }
    }

    fn result(&self, object: &mut Object<'_>, job: JobId, completion: &Completion, inline: Option<&Json>) {
        object.text("resultSummary", &completion.summary);
        match (inline, completion.result) {
            (Some(value), _) => {
                object.key("result");
                json(value, object.out);
            }
            (None, Some(_)) => self.link(object, "resultUrl", job, "result"),
            (None, None) => {
                object.raw("result", b"null");
            }
        }
    }

    fn link(&self, object: &mut Object<'_>, name: &str, job: JobId, part: &str) {
        object.text(name, &format!("{}/api/jobs/{job}/{part}", self.base));
    }
}

/// The frame of `stream.reset`: an event without id.
pub fn reset(reset: &super::Reset) -> Vec<u8> {
    let mut out = b"event: stream.reset\ndata: ".to_vec();
    let reason = reset.reason.name();
    Object::begin(&mut out).text("reason", reason).text("firstEventId", &reset.first_event_id.to_string()).end();
    out.extend_from_slice(b"\n\n");
    out
}

/// An `id:` without data: moves a client's cursor and tells it nothing (HTML, 9.2.6: the id is taken before an event
/// with no data is dropped).
pub fn cursor(at: EventId) -> Vec<u8> {
    format!("id: {at}\n\n").into_bytes()
}

fn created(spec: &Spec, run_at: Option<Timestamp>, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    object.text("type", &spec.job_type).raw("priority", spec.priority.to_string().as_bytes());
    if let Some(at) = run_at {
        object.text("runAt", &at.to_string());
    }
    if !spec.tags.is_empty() {
        object.texts("tags", spec.tags.iter().map(|tag| &**tag));
    }
    if let Some(job) = spec.replay_of {
        object.text("replayOf", &job.to_string());
    }
    object.end();
}

fn asked(key: &str, message: &str, schema: &Json, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"questions\":[");
    let mut question = Object::begin(out);
    question.text("key", key).text("message", message).key("schema");
    json(schema, question.out);
    question.end();
    out.extend_from_slice(b"]}");
}

fn progress(made: &Progress, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    if let Some(step) = made.step {
        object.number("step", u64::from(step));
    }
    if let Some(total) = made.total_steps {
        object.number("totalSteps", u64::from(total));
    }
    if let Some(percent) = made.percent.filter(|p| p.is_finite()) {
        // As JSON spells it best: 50, 33.3.
        object.raw("percent", percent.to_string().as_bytes());
    }
    if let Some(message) = &made.message {
        object.text("message", message);
    }
    object.end();
}

/// A JSON object on its way into a buffer.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    fn key(&mut self, name: &str) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn raw(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.key(name);
        self.out.extend_from_slice(value);
        self
    }

    fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.key(name);
        number(value, self.out);
        self
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.key(name);
        text(value, self.out);
        self
    }

    fn texts<'t>(&mut self, name: &str, values: impl Iterator<Item = &'t str>) {
        self.key(name);
        for (n, value) in values.enumerate() {
            self.out.push(if n == 0 { b'[' } else { b',' });
            text(value, self.out);
        }
        self.out.push(b']');
    }

    fn end(&mut self) {
        self.out.push(b'}');
    }
}

fn job_id(id: JobId, out: &mut Vec<u8>) {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    out.extend_from_slice(uuid::Uuid::from_u128(id.as_u128()).hyphenated().encode_lower(&mut text).as_bytes());
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A string with its quotes. Runs of plain bytes are copied whole.
fn text(value: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = value.as_bytes();
    let mut plain = 0;
    let mut at = 0;
    while at < bytes.len() {
        let skip = match bytes[at] {
            b'"' | b'\\' => {
                out.extend_from_slice(&bytes[plain..at]);
                out.extend_from_slice(&[b'\\', bytes[at]]);
                1
            }
            control @ 0..=0x1f => {
                out.extend_from_slice(&bytes[plain..at]);
                escape(u32::from(control), out);
                1
            }
            0x7f..=0xff => match separator(&bytes[at..]) {
                Some((code, len)) => {
                    out.extend_from_slice(&bytes[plain..at]);
                    escape(code, out);
                    len
                }
                None => {
                    at += 1;
                    continue;
                }
            },
            0x20..=0x7e => {
                at += 1;
                continue;
            }
        };
        at += skip;
        plain = at;
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

/// A value that is JSON already, on one line whatever it holds: separators occur only within its strings, where they
/// are escaped, and line breaks only between its tokens, where a space means the same.
fn json(value: &Json, out: &mut Vec<u8>) {
    let bytes = value.0.as_bytes();
    let mut plain = 0;
    for at in 0..bytes.len() {
        if at < plain {
            continue;
        }
        match bytes[at] {
            b'\n' | b'\r' => {
                out.extend_from_slice(&bytes[plain..at]);
                out.push(b' ');
                plain = at + 1;
            }
            0xc2 | 0xe2 => {
                if let Some((code, len)) = separator(&bytes[at..]) {
                    out.extend_from_slice(&bytes[plain..at]);
                    escape(code, out);
                    plain = at + len;
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(&bytes[plain..]);
}

/// Characters that some readers take for the end of a line, though SSE does not: U+0085, U+2028, U+2029.
fn separator(bytes: &[u8]) -> Option<(u32, usize)> {
    match bytes {
        [0xc2, 0x85, ..] => Some((0x85, 2)),
        [0xe2, 0x80, 0xa8, ..] => Some((0x2028, 3)),
        [0xe2, 0x80, 0xa9, ..] => Some((0x2029, 3)),
        _ => None,
    }
}

fn escape(code: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
}
