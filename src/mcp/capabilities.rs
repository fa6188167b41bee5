//! What this server offers, as `initialize` and `server/discover` say it.
//!
//! In: an endpoint and a revision. Out: the JSON of its capabilities: what is not named is answered as a method that is not offered.

use serde_json::{Value, json};

use super::era::Revision;
use super::tasks::modern::EXTENSION;
use super::{Endpoint, app};

/// The capabilities as one JSON object.
pub(super) fn offered(endpoint: &Endpoint, revision: Revision) -> Value {
    let changes = json!({ "listChanged": true });
    let mut offered = json!({
        "tools": changes,
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": changes,
        "completions": {},
    });
    if endpoint.helpers.is_some() {
        offered["extensions"] = app::capability().into();
    }
    if revision.has_tasks() {
        // `list` among them: whoever may read a task may list it, and without tokens there is but one who asks, `local`.
        offered["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    if revision.is_modern() {
        offered["extensions"][EXTENSION] = json!({});
        if endpoint.events.enabled {
            endpoint.events.dialect.announce(&mut offered);
        }
    } else {
        // In 2026-07-28 log lines need no method, so there is nothing to declare.
        offered["logging"] = json!({});
    }
    offered
}
