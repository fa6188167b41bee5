//! What this server offers, as `initialize` and `server/discover` say it.
//!
//! In: an endpoint. Out: the JSON of its capabilities: what is not named is answered as a method that is not offered.

use super::Endpoint;

/// The capabilities as one JSON object.
pub(super) fn offered(endpoint: &Endpoint) -> String {
    let prompts = if endpoint.prompts.is_empty() { "" } else { ",\"prompts\":{}" };
    format!("{{\"tools\":{{}},\"resources\":{{}}{prompts},\"completions\":{{}}}}")
}
