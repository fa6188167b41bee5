//! The MCP App: a view of one job, live, for hosts that show apps (extension `io.modelcontextprotocol/ui`).
//!
//! In: what a client says that it can show. Out: the view's page, and the marks by which a host knows which tools it belongs to. The page holds
//! no data: it asks for its job by tools of its own, which the model does not see.

use serde_json::{Map, Value, json};

/// The extension, in capabilities of either side.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The view of a job.
pub(super) const URI: &str = "ui://longhaul/job";
/// The type that makes a page an app.
const MIME_TYPE: &str = "text/html;profile=mcp-app";
const PAGE: &str = include_str!("job.html");

/// What a tool has to do with the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It makes jobs, which the app shows.
    Shown,
    /// Nothing.
    None,
    /// The app calls it, and nobody else is told of it.
    Own,
}

impl Part {
    /// The tool's `_meta` for clients that show apps.
    pub(super) fn meta(self) -> Option<Value> {
        match self {
            // The flat name is what older hosts look for.
            Self::Shown => Some(json!({ "ui": { "resourceUri": URI }, "ui/resourceUri": URI })),
            Self::None => None,
            Self::Own => Some(json!({ "ui": { "visibility": ["app"] } })),
        }
    }
}

/// Whether a client with these capabilities shows apps of our type.
pub(super) fn is_shown_by(capabilities: &Value) -> bool {
    let types = capabilities.get("extensions").and_then(|all| all.get(EXTENSION)?.get("mimeTypes")?.as_array());
    types.is_some_and(|types| types.iter().any(|known| known == MIME_TYPE))
}

/// What the view holds, as `resources/read` has it. It needs no domains, and a host's own frame around it suits it.
pub(super) fn contents() -> Value {
    json!({ "uri": URI, "mimeType": MIME_TYPE, "text": PAGE, "_meta": { "ui": { "prefersBorder": true } } })
}

/// The server's side of the extension.
pub(super) fn capability() -> Map<String, Value> {
    Map::from_iter([(EXTENSION.to_owned(), json!({}))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_names_our_type_shows_apps() {
        let with = |types: Value| json!({ "extensions": { EXTENSION: { "mimeTypes": types } } });
        assert!(is_shown_by(&with(json!(["text/html", MIME_TYPE]))));
        for other in [
            with(json!(["text/html"])),
            with(json!(MIME_TYPE)),
            json!({"extensions": {EXTENSION: {}}}),
            json!({}),
            json!(null),
        ] {
            assert!(!is_shown_by(&other), "{other}");
        }
    }

    #[test]
    fn the_page_stands_alone_and_takes_what_a_job_says_for_text() {
        for word in [
            "http:",
            "https:",
            "src=",
            "href=",
            "@import",
            "url(",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "eval(",
            "fetch(",
        ] {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert!(PAGE.starts_with("<!doctype html>") && PAGE.contains("default-src 'none'"));
    }
}
