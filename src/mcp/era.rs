//! Which protocol revision a message speaks: judged from its body first, its headers second, each message alone.
//!
//! In: what is known of a message. Out: whose rules apply to it. Pure; answers nothing itself.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::rpc::{Kind, is_object, present};
use crate::job::json::wrong;

/// A protocol revision whose results we can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// 2025-03-26: sessions, batches; nothing structured.
    March2025,
    /// 2025-06-18: sessions.
    June2025,
    /// 2025-11-25: sessions; bad arguments are results.
    November2025,
    /// 2026-07-28: no sessions, an envelope in every request.
    July2026,
}

impl Revision {
    /// Every revision.
    pub(super) const ALL: [Self; 4] = [Self::March2025, Self::June2025, Self::November2025, Self::July2026];

    /// Whether it has an envelope in place of sessions.
    pub(super) const fn is_modern(self) -> bool {
        match self {
            Self::July2026 => true,
            Self::March2025 | Self::June2025 | Self::November2025 => false,
        }
    }

    /// Whether it knows `structuredContent`, `outputSchema`, `title` and `resource_link`.
    pub(super) const fn is_structured(self) -> bool {
        match self {
            Self::March2025 => false,
            Self::June2025 | Self::November2025 | Self::July2026 => true,
        }
    }

    /// Whether its sessions ask the client's user.
    pub(super) const fn has_elicitation(self) -> bool {
        match self {
            Self::June2025 | Self::November2025 => true,
            Self::March2025 | Self::July2026 => false,
        }
    }

    /// Whether its sessions have tasks.
    pub(super) const fn has_tasks(self) -> bool {
        match self {
            Self::November2025 => true,
            Self::March2025 | Self::June2025 | Self::July2026 => false,
        }
    }

    /// Whether its streams begin with an id and no data; clients of older revisions stumble over that.
    pub(super) const fn primes(self) -> bool {
        match self {
            Self::November2025 => true,
            Self::March2025 | Self::June2025 | Self::July2026 => false,
        }
    }

    /// As written in `protocolVersion`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::March2025 => "2025-03-26",
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::July2026 => "2026-07-28",
        }
    }

    /// The revision that a session gets whose client asks for this one: the same if it has sessions, else the latest that has.
    pub(super) fn negotiate(asked: &str) -> Self {
        Self::of_session(asked).unwrap_or(Self::November2025)
    }

    /// The session revision with that name.
    pub(super) fn of_session(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| !revision.is_modern() && revision.name() == name)
    }
}

/// Whether the header may come with a session: any known revision will do, the session's own counts.
pub(super) fn is_spoken_in_sessions(version: &str) -> bool {
    Revision::ALL.into_iter().any(|revision| revision.name() == version)
}

/// Whether the header names no revision with sessions: 2026-07-28, anything newer, or something unknown.
pub(super) fn is_past_sessions(version: Option<&str>) -> bool {
    version.is_some_and(|version| Revision::of_session(version).is_none())
}

/// Whose rules apply to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// The ladder of 2026-07-28.
    Modern,
    /// `initialize`.
    Handshake,
    /// A session's rules; the session itself is judged there.
    Session,
    /// An answer to a request of ours: a session's rules.
    Response,
}

/// What the `Mcp-Session-Id` header names, for this caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// No header.
    Absent,
    /// No session that is open and the caller's.
    Unknown,
    /// An open session.
    Known,
}

/// The era of a message, by the first mark that decides.
pub(super) fn of(kind: Kind<'_>, method: &str, enveloped: bool, version: Option<&str>, session: Presence) -> Era {
    let modern_only = matches!(method, "server/discover" | "subscriptions/listen" | "tasks/update");
    if kind == Kind::Response {
        Era::Response
    } else if enveloped {
        Era::Modern
    } else if method == "initialize" {
        Era::Handshake
    } else if (is_past_sessions(version) && session != Presence::Known) || (modern_only && session == Presence::Absent)
    {
        Era::Modern
    } else {
        Era::Session
    }
}

/// What `params._meta` says, as written.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Meta<'a> {
    /// The envelope's version: its presence alone makes a message modern.
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/protocolVersion")]
    pub version: Option<&'a RawValue>,
    /// The envelope's capabilities.
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/clientCapabilities")]
    pub capabilities: Option<&'a RawValue>,
    /// The idempotency key of a call.
    #[serde(borrow, default, deserialize_with = "present", rename = "longhaul/idempotencyKey")]
    pub key: Option<&'a RawValue>,
    /// W3C trace context.
    #[serde(borrow, default, deserialize_with = "present")]
    pub traceparent: Option<&'a RawValue>,
    /// The client wants to hear of progress under this name.
    #[serde(borrow, default, deserialize_with = "present", rename = "progressToken")]
    pub token: Option<&'a RawValue>,
    /// 2026-07-28: the client wants log lines from this level on.
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/logLevel")]
    pub level: Option<&'a RawValue>,
}

impl<'a> Meta<'a> {
    /// Reads `params._meta`; nothing is said if it is absent.
    ///
    /// # Errors
    /// What is wrong with it: no object, or a key twice.
    pub(super) fn read(raw: Option<&'a RawValue>) -> Result<Self, String> {
        match raw {
            None => Ok(Self::default()),
            Some(raw) if is_object(raw) => {
                serde_json::from_str(raw.get()).map_err(|why| wrong("params._meta", raw.get(), &why))
            }
            Some(_) => Err("params._meta must be an object".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_tells_the_era_before_the_headers_do() {
        let (request, note) = (Kind::Request("1"), Kind::Notification);
        let (none, unknown, known) = (Presence::Absent, Presence::Unknown, Presence::Known);
        for (kind, method, enveloped, version, session, era) in [
            (Kind::Response, "", false, Some("2026-07-28"), none, Era::Response),
            (request, "tools/call", true, None, known, Era::Modern),
            (request, "initialize", true, None, none, Era::Modern),
            (request, "ping", true, Some("2025-11-25"), known, Era::Modern),
            (request, "initialize", false, None, none, Era::Handshake),
            (request, "initialize", false, Some("2026-07-28"), known, Era::Handshake),
            (request, "tools/list", false, Some("2026-07-28"), none, Era::Modern),
            (request, "tools/list", false, Some("2026-07-28"), unknown, Era::Modern),
            (request, "tools/list", false, Some("2026-07-28"), known, Era::Session),
            (request, "tools/list", false, Some("v999.0.0"), none, Era::Modern),
            (note, "notifications/x", false, Some("2027-01-01"), none, Era::Modern),
            (request, "server/discover", false, None, none, Era::Modern),
            (request, "tasks/update", false, Some("2025-11-25"), none, Era::Modern),
            (request, "server/discover", false, None, known, Era::Session),
            (request, "tools/list", false, Some("2025-11-25"), known, Era::Session),
            (request, "tools/list", false, Some("2025-03-26"), unknown, Era::Session),
            (note, "notifications/initialized", false, None, known, Era::Session),
            (request, "tools/list", false, None, none, Era::Session),
        ] {
            assert_eq!(of(kind, method, enveloped, version, session), era, "{method} {version:?} {session:?}");
        }
    }

    #[test]
    fn a_session_gets_the_revision_asked_for_or_the_latest_that_has_sessions() {
        for (asked, given) in [
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2025-03-26", "2025-03-26"),
            ("2026-07-28", "2025-11-25"),
            ("2024-11-05", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            assert_eq!(Revision::negotiate(asked).name(), given);
        }
    }
}
