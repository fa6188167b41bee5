//! What a caller may do here, and what each message needs: reading jobs and changing them are two rights.
//!
//! In: a message that is about to be answered. Out: nothing, or a refusal that names the scope. What shows no job and changes none, such as
//! the handshake and the lists of tools and prompts, needs either of the two.

use super::rpc::{self, Error, INVALID_REQUEST, Kind, Message};
use super::work::Waits;
use super::{Endpoint, helpers};

/// What a token's scopes allow. Whoever has neither right does not come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Scope `read`: see jobs, their results, logs and events.
    pub reads: bool,
    /// Scope `submit`: make, answer, cancel and replay them.
    pub submits: bool,
}

impl Rights {
    /// Both.
    pub const ALL: Self = Self { reads: true, submits: true };

    /// Goes on only with what is needed. `status` is the HTTP status of the refusal.
    ///
    /// # Errors
    /// -32600 with `data.code` `forbidden` and the scope that is missing.
    pub(super) fn check(self, need: Need, status: u16) -> Result<(), Error> {
        let missing = match need {
            Need::Either => None,
            Need::Read | Need::Both if !self.reads => Some("read"),
            Need::Submit | Need::Both if !self.submits => Some("submit"),
            Need::Read | Need::Submit | Need::Both => None,
        };
        missing.map_or(Ok(()), |scope| {
            let data = serde_json::json!({ "code": "forbidden", "scope": scope });
            let text = format!("this needs a token with the scope {scope}");
            Err(Error { data: Some(Box::new(data)), ..Error::refused(status, INVALID_REQUEST, text) })
        })
    }
}

/// What a message needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// One of the rights, whichever.
    Either,
    /// To read.
    Read,
    /// To change.
    Submit,
    /// Both.
    Both,
}

impl Need {
    /// Of a message; one that is not known is refused for that, not for want of a right.
    pub(super) fn of(endpoint: &Endpoint, message: &Message<'_>) -> Self {
        if message.kind == Kind::Response {
            // The answer to a job's question.
            return Self::Submit;
        }
        match &*message.method {
            "resources/list" | "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Self::Read,
            "completion/complete" | "subscriptions/listen" => Self::Read,
            "tasks/get" | "tasks/result" | "tasks/list" => Self::Read,
            "tasks/cancel" | "tasks/update" => Self::Submit,
            "events/list" | "events/poll" | "events/stream" | "events/unsubscribe" => Self::Read,
            // It reads, and has the server send requests.
            "events/subscribe" => Self::Both,
            "tools/call" => {
                message.params.name.and_then(rpc::text).map_or(Self::Either, |name| Self::of_tool(endpoint, &name))
            }
            _ => Self::Either,
        }
    }

    fn of_tool(endpoint: &Endpoint, name: &str) -> Self {
        match helpers::reads(name) {
            _ if endpoint.service.catalogue().named(name).is_some() => Self::Submit,
            Some(true) => Self::Read,
            Some(false) => Self::Submit,
            None => Self::Either,
        }
    }

    /// Of taking up a stream that waits for that.
    pub(super) fn of_wait(waits: &Waits) -> Self {
        match waits {
            Waits::Jobs(_) | Waits::Result(_) => Self::Read,
            Waits::Call(..) | Waits::Cancel(_) => Self::Submit,
        }
    }
}
