//! The thread of a session's stream: what its event ids carry, so that any server on the same store can take it up again.
//!
//! In: a request and what it waits for; or the id of an event. Out: the ids; or the request and what is still to come. Nothing is kept: an id
//! says what was asked, never what was answered, and whoever makes one up asks for what is theirs anyway.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::session::Session;
use super::voice::Heard;
use super::work::Waits;

/// Longest request id or progress token, as written, of a stream that can be resumed. With a longer one its events have no ids.
pub const THREAD_ID_MAX: usize = 128;
/// Longest event id that is looked at.
pub const EVENT_ID_MAX: usize = 8 * 1024;
/// How much of the session's id an event id repeats.
const SESSION_MARK: usize = 8;

/// A request that is being answered on a stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Thread {
    #[serde(rename = "s")]
    session: String,
    /// Its id as written.
    #[serde(rename = "i")]
    pub id: Box<RawValue>,
    /// Its progress token as written.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<RawValue>>,
    /// What it waits for.
    #[serde(rename = "w")]
    pub waits: Waits,
    /// What was told up to the event that was read.
    #[serde(skip)]
    pub heard: Heard,
}

/// What the id of an event says.
pub(super) enum Resumed {
    /// This is still to come.
    Pending(Thread),
    /// It was the answer: nothing is to come.
    Delivered,
    /// Not an id of this session's streams.
    Foreign,
}

impl Thread {
    /// The thread of this request, if its ids are of a length to be repeated with each event.
    pub(super) fn new(session: &Session, id: &str, token: Option<&str>, waits: &Waits) -> Option<Self> {
        let own = |raw: &str| RawValue::from_string(raw.to_owned()).ok();
        if id.len() > THREAD_ID_MAX || token.is_some_and(|token| token.len() > THREAD_ID_MAX) {
            return None;
        }
        let token = token.and_then(own);
        Some(Self { session: mark(session).into(), id: own(id)?, token, waits: waits.clone(), heard: Heard::default() })
    }

    /// With what the ids of its events begin.
    pub(super) fn prefix(&self) -> Option<String> {
        serde_json::to_vec(self).ok().map(|json| format!("{}.", URL_SAFE_NO_PAD.encode(json)))
    }

    /// Reads the id of an event.
    pub(super) fn read(session: &Session, event_id: &str) -> Resumed {
        let Some((thread, place)) = event_id.rsplit_once('.').filter(|_| event_id.len() <= EVENT_ID_MAX) else {
            return Resumed::Foreign;
        };
        let json = URL_SAFE_NO_PAD.decode(thread).ok().and_then(|json| String::from_utf8(json).ok());
        let thread = json.and_then(|json| serde_json::from_str::<Self>(&json).ok());
        let heard = if place == "end" { Some(Heard::default()) } else { Heard::read(place) };
        match thread.filter(|thread| thread.session == mark(session)).zip(heard) {
            Some(_) if place == "end" => Resumed::Delivered,
            Some((thread, heard)) if thread.is_sound() => Resumed::Pending(Self { heard, ..thread }),
            Some(_) | None => Resumed::Foreign,
        }
    }

    /// What was made up may hold anything where an id or a token belongs.
    fn is_sound(&self) -> bool {
        let fits = |raw: &RawValue| raw.get().len() <= THREAD_ID_MAX && super::rpc::is_id(raw.get());
        fits(&self.id) && self.token.as_deref().is_none_or(fits)
    }
}

fn mark(session: &Session) -> &str {
    session.id.get(session.id.len().saturating_sub(SESSION_MARK)..).unwrap_or(&session.id)
}
