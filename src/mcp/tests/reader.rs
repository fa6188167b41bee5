//! Streams as their clients read them: event by event, and taken up again.

use std::future::poll_fn;

use serde_json::Value;

use super::rig::Rig;
use crate::mcp::{Answer, Stream};

pub const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

/// One event of a stream.
#[derive(Debug)]
pub struct Event {
    pub id: Option<String>,
    pub data: Option<Value>,
}

/// Reads a stream event by event.
pub struct Reader(pub Stream);

impl Reader {
    pub fn of(answer: Answer) -> Self {
        assert_eq!((answer.status, answer.content_type), (200, Some("text/event-stream")), "{answer:?}");
        Self(answer.stream.expect("a stream"))
    }

    pub async fn next(&mut self) -> Option<Event> {
        let piece = poll_fn(|cx| self.0.poll_next(cx)).await?;
        let text = String::from_utf8(piece.to_vec()).expect("is text");
        assert!(text.ends_with("\n\n") && text.matches("\n\n").count() == 1, "one event: {text:?}");
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = field("data: ").map(|data| serde_json::from_str(&data).expect("is JSON"));
        Some(Event { id: field("id: "), data })
    }

    pub async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

impl Rig {
    pub async fn resume(&self, session: &str, last: &str) -> Answer {
        let headers: Vec<(&str, &[u8])> = vec![
            ("accept", b"text/event-stream"),
            ("mcp-session-id", session.as_bytes()),
            ("last-event-id", last.as_bytes()),
        ];
        self.request("GET", &headers, b"").await
    }

    /// Waits until a claim is held.
    pub async fn holds(&self) {
        while self.held.len() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

pub fn answers(events: &[Event]) -> Vec<&Value> {
    events.iter().filter_map(|event| event.data.as_ref()).filter(|data| data.get("id").is_some()).collect()
}
