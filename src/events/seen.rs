//! Frames, taken apart again by those who tell of them in other words.
//!
//! In: slices that a tail gave out. Out: what each frame is. Only for our own frames, whose form is known.

use crate::job::{EventId, JobId};

/// What a tail gives out, taken apart again.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// An entry.
    Event {
        /// Its id.
        id: EventId,
        /// Its type.
        event_type: &'a str,
        /// The envelope of contract 2: one line of JSON.
        envelope: &'a str,
    },
    /// What follows does not connect to what came before.
    Reset,
    /// Everything that passes up to here was given out.
    Cursor(EventId),
}

/// The frames in a slice that a tail gave out.
pub fn split(frames: &[u8]) -> impl Iterator<Item = Seen<'_>> {
    let text = std::str::from_utf8(frames).unwrap_or_default();
    text.split("\n\n").filter(|frame| !frame.is_empty()).filter_map(|frame| {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let id = field("id: ").and_then(|id| id.parse().ok());
        match (id, field("event: "), field("data: ")) {
            (Some(id), Some(event_type), Some(envelope)) => Some(Seen::Event { id, event_type, envelope }),
            (None, Some(_), Some(_)) => Some(Seen::Reset),
            (Some(id), None, None) => Some(Seen::Cursor(id)),
            (Some(_) | None, _, _) => None,
        }
    })
}

/// What an envelope says before its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<'a> {
    /// The event's id.
    pub id: EventId,
    /// Its type.
    pub event_type: &'a str,
    /// When it happened, in RFC 3339.
    pub timestamp: &'a str,
}

/// The label of an envelope.
pub fn label(envelope: &[u8]) -> Option<Label<'_>> {
    let mut rest = std::str::from_utf8(envelope).ok()?;
    // Before the payload stands nothing that a client has written.
    let mut text = |name: &str| {
        let (_, behind) = rest.split_once(name)?;
        let (text, behind) = behind.split_once('"')?;
        rest = behind;
        Some(text)
    };
    let id = text("\"event_id\":\"")?.parse().ok()?;
    Some(Label { id, event_type: text("\"type\":\"")?, timestamp: text("\"timestamp\":\"")? })
}

/// The job that an envelope is about.
pub fn job_of(envelope: &str) -> Option<JobId> {
    // Before the payload stands nothing that a client has written.
    let (_, rest) = envelope.split_once("\"job_id\":\"")?;
    rest.get(..uuid::fmt::Hyphenated::LENGTH)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Reset, ResetReason, cursor, reset};
    use super::*;
    use crate::job::{Epoch, Position};

    #[test]
    fn what_a_tail_gives_out_comes_apart_into_what_went_in() {
        let id = EventId { epoch: Epoch(7), position: Position(3) };
        let job = JobId::from_u128(0x0190_b5a0_0000_7000_8000_0000_0000_0000);
        let envelope = format!(
            r#"{{"event_id":"{id}","type":"job.progress","job_id":"{job}","timestamp":"t","payload":{{"message":"id: x\\n\\n"}}}}"#
        );
        let mut bytes = reset(&Reset { reason: ResetReason::Ahead, first_event_id: id });
        bytes.extend_from_slice(&cursor(id));
        bytes.extend_from_slice(format!("id: {id}\nevent: job.progress\ndata: {envelope}\n\n").as_bytes());
        let seen: Vec<_> = split(&bytes).collect();
        let event = Seen::Event { id, event_type: "job.progress", envelope: &envelope };
        assert_eq!(seen, [Seen::Reset, Seen::Cursor(id), event]);
        assert_eq!(job_of(&envelope), Some(job));
        assert_eq!(job_of("{}"), None);
        assert_eq!(label(envelope.as_bytes()), Some(Label { id, event_type: "job.progress", timestamp: "t" }));
        assert_eq!(label(b"{}"), None);
    }
}
