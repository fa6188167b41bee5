//! `[mcp.events]`: how the Events extension is spoken.
//!
//! In: the file's settings. Out: the extension's options.

use super::complaint::Complaints;
use super::form::choice;
use super::raw::Section;
use super::setting as key;
use std::collections::HashMap;

use crate::http::auth::{Scope, Token};
use crate::mcp::occurrences::{Codes, Dialect, Options, WebhookId, WebhookOptions};
use crate::net::Reach;

choice!(Codes, "\"draft\" or \"sketch\"", "draft" => Self::Draft, "sketch" => Self::Sketch);

choice!(WebhookId, "\"event\" or \"message\"", "event" => Self::Event, "message" => Self::Message);

/// What the file says of it, and who may subscribe to callbacks: whoever has a token that reads and submits.
pub(super) fn read(top: &Section<'_>, tokens: &[Token], complaints: &mut Complaints) -> Option<Options> {
    let mut principals = HashMap::new();
    for token in tokens.iter().filter(|token| token.scopes.has(Scope::Submit) && token.scopes.has(Scope::Read)) {
        *principals.entry(token.name.clone()).or_default() |= token.scopes.has(Scope::Admin);
    }
    Some(Options {
        enabled: top.take(&key::EVENTS, complaints)?,
        dialect: Dialect {
            codes: top.take(&key::EVENT_CODES, complaints)?,
            require_mcp_name: top.take(&key::REQUIRE_MCP_NAME, complaints)?,
            require_client_capability: top.take(&key::REQUIRE_CAPABILITY, complaints)?,
            advertise_legacy_capability: top.take(&key::LEGACY_CAPABILITY, complaints)?,
            webhook_id: top.take(&key::WEBHOOK_ID, complaints)?,
        },
        webhooks: WebhookOptions {
            reach: Reach {
                private: top.take(&key::PRIVATE_CALLBACKS, complaints)?,
                hosts: top
                    .take(&key::CALLBACK_HOSTS, complaints)?
                    .into_iter()
                    .map(|host| host.0.to_ascii_lowercase().into())
                    .collect(),
            },
            principals,
        },
    })
}
