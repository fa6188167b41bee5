//! What this server offers, as `initialize` and `server/discover` say it.
//!
//! In: an endpoint and a revision. Out: the JSON of its capabilities: what is not named is answered as a method that is not offered.

use serde_json::{Map, Value, json};

use super::era::Revision;
use super::tasks::modern::EXTENSION;
use super::{Endpoint, app};

/// Core tasks. `list` among them: whoever may read a task may list it, and without tokens there is but one who asks, `local`.
const TASKS: &str = ",\"tasks\":{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}";

/// The capabilities as one JSON object.
pub(super) fn offered(endpoint: &Endpoint, revision: Revision) -> String {
    // In 2026-07-28 log lines need no method, so there is nothing to declare.
    let logging = if revision.is_modern() { "" } else { "\"logging\":{}," };
    let tasks = if revision.has_tasks() { TASKS } else { "" };
    let mut extensions = if endpoint.helpers.is_some() { app::capability() } else { Map::new() };
    if revision.is_modern() {
        extensions.insert(EXTENSION.into(), json!({}));
    }
    let extensions = match extensions.is_empty() {
        true => String::new(),
        false => format!(",\"extensions\":{}", Value::Object(extensions)),
    };
    let changes = "{\"listChanged\":true}";
    let resources = "{\"subscribe\":true,\"listChanged\":true}";
    format!(
        "{{{logging}\"tools\":{changes},\"resources\":{resources},\"prompts\":{changes},\"completions\":{{}}{tasks}{extensions}}}"
    )
}
