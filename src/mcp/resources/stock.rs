//! Configured resources and resource templates.
//!
//! In: what the configuration says, checked there. Out: entries for the lists, contents for a URI. Reads no files: they were read at start.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::uri::Pattern;
use crate::mcp::fill::{Escape, FILLED_MAX, Fillable};

/// What a resource or template says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// For people and models.
    pub description: Option<String>,
    /// What its content is.
    pub mime_type: String,
}

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// Bytes, in Base64.
    Blob(String),
}

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its URI; `is_free` of it.
    pub uri: String,
    /// What it says of itself.
    pub label: Label,
    /// What it holds.
    pub content: Content,
}

/// Many resources: one for each way to fill in a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// As written; `is_free` of it.
    pub uri: String,
    /// The same, read.
    pub pattern: Pattern,
    /// What it says of itself.
    pub label: Label,
    /// What such a resource holds; its places are the pattern's names in their order.
    pub text: Fillable,
    /// Values that are suggested, by variable.
    pub suggestions: HashMap<String, Vec<String>>,
}

/// All of them, in the order of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stock {
    /// Listed by `resources/list`.
    pub resources: Vec<Resource>,
    /// Listed by `resources/templates/list`.
    pub templates: Vec<Template>,
}

/// Why a URI that fits a template cannot be answered.
pub(in crate::mcp) struct TooLarge;

impl Stock {
    /// The contents of this URI; the first template that fits counts, after the resources.
    pub(in crate::mcp) fn read(&self, uri: &str) -> Option<Result<Value, TooLarge>> {
        if let Some(found) = self.resources.iter().find(|resource| resource.uri == uri) {
            return Some(Ok(found.contents()));
        }
        self.templates.iter().find_map(|template| Some(template.contents(uri, &template.pattern.read(uri)?)))
    }

    /// What is suggested for a variable of this template; `None` if it has no such template or variable.
    pub(in crate::mcp) fn suggestions(&self, template: &str, variable: &str) -> Option<&[String]> {
        let template = self.templates.iter().find(|known| known.uri == template)?;
        template.pattern.names().find(|name| *name == variable)?;
        Some(template.suggestions.get(variable).map_or(&[], Vec::as_slice))
    }
}

impl Resource {
    /// Its line in the list.
    pub(in crate::mcp) fn entry(&self) -> Value {
        let mut entry = self.label.entry("uri", &self.uri);
        entry["size"] = self.content.size().into();
        entry
    }

    fn contents(&self) -> Value {
        let (kind, held) = match &self.content {
            Content::Text(text) => ("text", text),
            Content::Blob(base64) => ("blob", base64),
        };
        json!({ "uri": self.uri, "mimeType": self.label.mime_type, kind: held })
    }
}

impl Content {
    /// Bytes of what it holds, before any encoding.
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(base64) => base64.len() / 4 * 3 - base64.bytes().rev().take_while(|byte| *byte == b'=').count(),
        }
    }
}

impl Template {
    /// Its line in the list.
    pub(in crate::mcp) fn entry(&self) -> Value {
        self.label.entry("uriTemplate", &self.uri)
    }

    fn contents(&self, uri: &str, values: &[String]) -> Result<Value, TooLarge> {
        let mime_type = &self.label.mime_type;
        let text = self.text.fill(values, Escape::of(mime_type), &mut { FILLED_MAX }).ok_or(TooLarge)?;
        Ok(json!({ "uri": uri, "mimeType": mime_type, "text": text }))
    }
}

impl Label {
    fn entry(&self, key: &str, uri: &str) -> Value {
        let mut entry = json!({ key: uri, "name": self.name, "mimeType": self.mime_type });
        for (key, value) in [("title", &self.title), ("description", &self.description)] {
            if let Some(value) = value {
                entry[key] = value.as_str().into();
            }
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_blob_is_that_of_its_bytes() {
        for (base64, size) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3), ("AAAAAA==", 4)] {
            assert_eq!(Content::Blob(base64.into()).size(), size);
        }
        assert_eq!(Content::Text("語".into()).size(), 3);
    }
}
