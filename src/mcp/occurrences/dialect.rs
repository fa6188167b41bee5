//! What was not settled when this was written: the extension's error codes, its header, its gate, and how it is announced.
//!
//! In: settings under `mcp.events`. Out: errors and checks as that dialect has them. Everything that the final text may move is in this file and nowhere else.

use serde_json::{Value, json};

use super::super::era::Meta;
use super::super::headers::{Headers, value};
use super::super::modern::{agree_decoded, mismatch};
use super::super::rpc::{self, Error};
use crate::job::cut;

/// The extension's name in the maps of extensions.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/events";
/// 2026-07-28: the client has not declared what the method needs.
const MISSING_CAPABILITY: i64 = -32021;

/// Most of a name that does not exist which is said back, in bytes.
const NAME_MAX: usize = 128;

/// Which table of error codes is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codes {
    /// -32023 to -32027: the draft of SEP-3415.
    #[default]
    Draft,
    /// -32011 to -32015: the sketch before it, which some clients and the conformance suite know.
    Sketch,
}

/// What the `webhook-id` of a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebhookId {
    /// The event's id, as every receiver that was read takes it.
    #[default]
    Event,
    /// The message's own: the final text, as its release notes have it.
    Message,
}

/// The dialect, as `mcp.events` of the configuration has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `codes`.
    pub codes: Codes,
    /// `require_mcp_name`: the header must be there; otherwise it is only compared.
    pub require_mcp_name: bool,
    /// `require_client_capability`: only clients that declare the extension are served.
    pub require_client_capability: bool,
    /// `advertise_legacy_capability`: `capabilities.events` is sent beside the entry in `extensions`.
    pub advertise_legacy_capability: bool,
    /// `webhook_id`.
    pub webhook_id: WebhookId,
}

/// A domain error of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault<'a> {
    /// There is no event of this name.
    NoEvent(&'a str),
    /// There is no such subscription.
    NoSubscription,
    /// The principal may not.
    Forbidden(&'a str),
    /// A limit is reached.
    Exhausted { limit: &'static str, max: usize },
    /// The type has no such feature.
    Unsupported { feature: &'static str, value: &'a str },
    /// The callback's endpoint did not prove that it wants deliveries.
    Callback(&'static str),
}

impl Fault<'_> {
    /// Name, code of the draft, code of the sketch.
    const fn row(self) -> (&'static str, i64, i64) {
        match self {
            Self::NoEvent(_) | Self::NoSubscription => ("NotFound", -32023, -32011),
            Self::Forbidden(_) => ("Forbidden", -32024, -32012),
            Self::Exhausted { .. } => ("ResourceExhausted", -32025, -32013),
            Self::Unsupported { .. } => ("Unsupported", -32026, -32014),
            Self::Callback(_) => ("CallbackEndpointError", -32027, -32015),
        }
    }

    fn data(self) -> Value {
        match self {
            Self::NoEvent(name) => json!({ "kind": "event", "name": cut(name, NAME_MAX) }),
            Self::NoSubscription => json!({ "kind": "subscription" }),
            Self::Forbidden(reason) => json!({ "reason": reason }),
            Self::Exhausted { limit, max } => json!({ "limit": limit, "max": max }),
            Self::Unsupported { feature, value } => json!({ "feature": feature, "value": value }),
            Self::Callback(reason) => json!({ "reason": reason }),
        }
    }
}

impl Dialect {
    /// The error, on HTTP 200: its message is its name, as clients know it.
    pub(super) fn error(&self, fault: Fault<'_>) -> Error {
        let (name, draft, sketch) = fault.row();
        let code = match self.codes {
            Codes::Draft => draft,
            Codes::Sketch => sketch,
        };
        Error { data: Some(Box::new(fault.data())), ..Error::answered(code, name) }
    }

    /// Adds what the server says of itself to its capabilities.
    pub(in crate::mcp) fn announce(&self, capabilities: &mut Value) {
        capabilities["extensions"][EXTENSION] = json!({});
        if self.advertise_legacy_capability {
            capabilities["events"] = json!({});
        }
    }

    /// Whether the client may call at all.
    ///
    /// # Errors
    /// HTTP 400, -32021: it has to declare the extension first.
    pub(super) fn gate(&self, meta: &Meta<'_>) -> Result<(), Error> {
        let declares = |raw: &serde_json::value::RawValue| {
            let value: Option<Value> = serde_json::from_str(raw.get()).ok();
            value.is_some_and(|value| value["extensions"][EXTENSION].is_object())
        };
        if !self.require_client_capability || meta.capabilities.is_some_and(declares) {
            return Ok(());
        }
        let text = format!("declare the extension {EXTENSION} in the client's capabilities");
        let data = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
        Err(Error { data: Some(Box::new(data)), ..Error::refused(400, MISSING_CAPABILITY, text) })
    }

    /// Whether `Mcp-Name` repeats the event's name.
    ///
    /// # Errors
    /// HTTP 400, -32020: it says something else, or is missing where it is required.
    pub(super) fn check_name(
        &self,
        headers: &dyn Headers,
        name: Option<&serde_json::value::RawValue>,
    ) -> Result<(), Error> {
        let Some(name) = name.and_then(rpc::text) else { return Ok(()) };
        match value(headers, "mcp-name") {
            Some(_) => agree_decoded(headers, "mcp-name", "params.name", &name),
            None if self.require_mcp_name => {
                Err(mismatch("the mcp-name header is missing; it must repeat params.name"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_code_in_both_tables() {
        let draft = Dialect::default();
        let sketch = Dialect { codes: Codes::Sketch, ..Dialect::default() };
        for (at, fault) in [
            Fault::NoEvent("job.nothing"),
            Fault::Forbidden("no"),
            Fault::Exhausted { limit: "l", max: 1 },
            Fault::Unsupported { feature: "deliveryMode", value: "webhook" },
            Fault::Callback("timeout"),
        ]
        .into_iter()
        .enumerate()
        {
            let at = i64::try_from(at).expect("is small");
            assert_eq!(draft.error(fault).code, -32023 - at);
            assert_eq!(sketch.error(fault).code, -32011 - at);
            assert_eq!(draft.error(fault).message, fault.row().0);
        }
    }
}
