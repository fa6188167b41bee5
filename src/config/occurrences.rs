//! `[mcp.events]`: how the Events extension is spoken.
//!
//! In: the file's settings. Out: the extension's options.

use super::complaint::Complaints;
use super::form::choice;
use super::raw::Section;
use super::setting as key;
use crate::mcp::occurrences::{Codes, Dialect, Options};

choice!(Codes, "\"draft\" or \"sketch\"", "draft" => Self::Draft, "sketch" => Self::Sketch);

/// What the file says of it.
pub(super) fn read(top: &Section<'_>, complaints: &mut Complaints) -> Option<Options> {
    Some(Options {
        enabled: top.take(&key::EVENTS, complaints)?,
        dialect: Dialect {
            codes: top.take(&key::EVENT_CODES, complaints)?,
            require_mcp_name: top.take(&key::REQUIRE_MCP_NAME, complaints)?,
            require_client_capability: top.take(&key::REQUIRE_CAPABILITY, complaints)?,
            advertise_legacy_capability: top.take(&key::LEGACY_CAPABILITY, complaints)?,
        },
    })
}
