//! What this server offers, as `initialize` and `server/discover` say it.
//!
//! In: an endpoint and a revision. Out: the JSON of its capabilities: what is not named is answered as a method that is not offered.

use super::era::Revision;
use super::{Endpoint, app};

/// The capabilities as one JSON object.
pub(super) fn offered(endpoint: &Endpoint, revision: Revision) -> String {
    // In 2026-07-28 log lines need no method, so there is nothing to declare.
    let logging = if revision.is_modern() { "" } else { "\"logging\":{}," };
    let prompts = if endpoint.prompts.is_empty() { "" } else { ",\"prompts\":{}" };
    let extensions = match endpoint.helpers {
        Some(_) => format!(",\"extensions\":{}", serde_json::Value::Object(app::capability())),
        None => String::new(),
    };
    format!(
        "{{{logging}\"tools\":{{}},\"resources\":{{\"subscribe\":true}}{prompts},\"completions\":{{}}{extensions}}}"
    )
}
