//! `tools/list`, written once at start for each revision.
//!
//! In: the tools of the catalogue and the helpers. Out: the one page there is. Keywords of schemas stay as they were configured.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::app::Part;
use super::era::Revision;
use super::modern::LIST_TTL_MS;
use super::reply::Members;
use super::rpc::{self, Error, INVALID_PARAMS};
use super::session::Abilities;
use crate::job::Status;
use crate::service::{TaskSupport, Tool};

/// The page in each revision.
pub(super) struct Lists {
    plain: [Arc<[u8]>; Revision::ALL.len()],
    /// For clients that show apps.
    with_app: [Arc<[u8]>; Revision::ALL.len()],
}

impl Lists {
    /// Lists these tools, in their order.
    pub(super) fn new(tools: &[(&Tool, Part)]) -> Self {
        let pages = |shows_apps| Revision::ALL.map(|revision| page(revision, tools, shows_apps).into());
        Self { plain: pages(false), with_app: pages(true) }
    }

    /// The page. There is only one, so no cursor was ever given out.
    ///
    /// # Errors
    /// -32602 for any cursor.
    pub(super) fn page(
        &self,
        revision: Revision,
        abilities: Abilities,
        cursor: Option<&RawValue>,
    ) -> Result<Members, Error> {
        if cursor.is_some_and(|cursor| cursor.get() != "null") {
            return Err(Error::answered(
                INVALID_PARAMS,
                "params.cursor is not one of this server's: the list has one page",
            ));
        }
        let pages = if abilities.ui { &self.with_app } else { &self.plain };
        let page = match revision {
            Revision::March2025 => &pages[0],
            Revision::June2025 => &pages[1],
            Revision::November2025 => &pages[2],
            Revision::July2026 => &pages[3],
        };
        Ok(Members { json: page.to_vec(), ..Members::default() })
    }
}

fn page(revision: Revision, tools: &[(&Tool, Part)], shows_apps: bool) -> Vec<u8> {
    let mut json = b"\"tools\":".to_vec();
    // A tool that is always a task cannot be called where there are none.
    let can_be_called =
        |tool: &Tool| tool.task_support != TaskSupport::Required || revision.has_tasks() || revision.is_modern();
    let told = tools.iter().filter(|(tool, part)| can_be_called(tool) && (shows_apps || *part != Part::Own));
    let entry = |(tool, part): &(&Tool, Part)| {
        let mut entry = entry(revision, tool);
        if let Some(meta) = part.meta().filter(|_| shows_apps) {
            entry.insert("_meta".into(), meta);
        }
        entry
    };
    rpc::push_value(&mut json, &told.map(entry).collect::<Vec<_>>());
    if revision.is_modern() {
        json.extend_from_slice(format!(",\"ttlMs\":{LIST_TTL_MS},\"cacheScope\":\"private\"").as_bytes());
    }
    json
}

fn entry(revision: Revision, tool: &Tool) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry.insert(name.into(), value);
        }
    };
    set("name", Some(Value::from(&*tool.name)));
    set("title", tool.title.as_deref().filter(|_| revision.is_structured()).map(Value::from));
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or(&tool.name);
    set("description", Some(Value::from(description)));
    set("inputSchema", Some(tool.input_schema.clone()));
    set("outputSchema", tool.output_schema.as_ref().and_then(|schema| output(revision, &tool.name, schema)));
    set("annotations", tool.annotations.clone());
    set("execution", revision.has_tasks().then(|| json!({ "taskSupport": task_support(tool) })));
    entry
}

fn task_support(tool: &Tool) -> &'static str {
    match tool.task_support {
        TaskSupport::Auto => "optional",
        TaskSupport::Never => "forbidden",
        TaskSupport::Required => "required",
    }
}

/// What a call may answer: the handle or the result. Never the result alone, as any job may outlast its `inline_wait`.
fn output(revision: Revision, tool: &str, result: &Value) -> Option<Value> {
    let is_object = result.get("type").and_then(Value::as_str) == Some("object");
    if !revision.is_structured() || (!is_object && !revision.is_modern()) {
        return None;
    }
    // Exactly one of the two fits: what looks like a handle is one.
    let result = json!({ "allOf": [rooted(tool, result)], "not": { "type": "object", "required": ["jobId", "status", "message"] } });
    let mut schema = Map::new();
    if is_object {
        schema.insert("type".into(), "object".into());
    }
    schema.insert("oneOf".into(), json!([handle(), result]));
    Some(Value::Object(schema))
}

/// The schema with an `$id` of its own if it refers to its own root, which it no longer is.
fn rooted(tool: &str, schema: &Value) -> Value {
    match schema {
        Value::Object(members) if !members.contains_key("$id") && refers_to_root(schema) => {
            let id = ("$id".to_owned(), Value::from(format!("urn:longhaul:{tool}:result")));
            let rest = members.iter().map(|(name, value)| (name.clone(), value.clone()));
            Value::Object(std::iter::once(id).chain(rest).collect())
        }
        other => other.clone(),
    }
}

fn refers_to_root(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_reference = matches!(name.as_str(), "$ref" | "$dynamicRef");
            is_reference && value.as_str().is_some_and(|to| to.starts_with('#')) || refers_to_root(value)
        }),
        Value::Array(items) => items.iter().any(refers_to_root),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn handle() -> Value {
    json!({
        "type": "object",
        "description": "The work goes on, or its result is too large for an answer: message says what to do next.",
        "required": ["jobId", "status", "message"],
        "properties": {
            "jobId": { "type": "string" },
            "status": { "enum": Status::ALL.map(Status::name) },
            "message": { "type": "string" },
            "statusUrl": { "type": "string" },
            "eventsUrl": { "type": "string" },
            "resultUrl": { "type": "string" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_the_output_schema_whether_it_is_a_handle_or_a_result() {
        let result = json!({
            "type": "object",
            "properties": { "gifts": { "type": "array", "items": { "$ref": "#/$defs/gift" } } },
            "required": ["gifts"],
            "$defs": { "gift": { "type": "string" } },
        });
        let handle = json!({"jobId": "x", "status": "pending", "message": "wait"});
        for revision in Revision::ALL.into_iter().filter(|revision| revision.is_structured()) {
            let schema = output(revision, "t", &result).expect("has one");
            assert_eq!(schema["type"], "object");
            let validator = jsonschema::validator_for(&schema).expect("is a schema");
            assert!(validator.is_valid(&handle));
            assert!(validator.is_valid(&json!({"gifts": ["a"]})));
            assert!(!validator.is_valid(&json!({"gifts": [1]})));
            assert!(!validator.is_valid(&json!({})));
            // Nothing is so general that a handle would fit twice.
            let open = output(revision, "t", &json!({"type": "object"})).expect("has one");
            assert!(jsonschema::validator_for(&open).expect("is a schema").is_valid(&handle));
        }
    }

    #[test]
    fn older_revisions_are_told_no_schema_of_a_result_that_is_no_object() {
        let list = json!({"type": "array", "items": {"type": "number"}});
        assert_eq!(output(Revision::March2025, "t", &json!({"type": "object"})), None);
        assert_eq!(output(Revision::June2025, "t", &list), None);
        assert_eq!(output(Revision::November2025, "t", &list), None);
        let schema = output(Revision::July2026, "t", &list).expect("has one");
        let validator = jsonschema::validator_for(&schema).expect("is a schema");
        assert!(validator.is_valid(&json!([1, 2])));
        assert!(validator.is_valid(&json!({"jobId": "x", "status": "failed", "message": "m"})));
        assert!(!validator.is_valid(&json!({"a": 1})));
    }
}
