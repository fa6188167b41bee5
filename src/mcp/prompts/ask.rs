//! Questions for a prompt's missing arguments, as 2026-07-28 asks them: the answer to `prompts/get` is a form, and its retry brings the user's.
//!
//! In: an argument and what the client sent along. Out: its value, a question, or that the user would not say. Nothing is kept in between.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Argument;
use super::get::ARGUMENT_MAX;

/// How a missing argument is asked for.
#[derive(Clone)]
pub struct Ask {
    message: String,
    schema: Value,
    validator: Arc<jsonschema::Validator>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").field("message", &self.message).field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// What the user said.
pub(super) enum Said {
    /// The value.
    Value(String),
    /// Not this.
    Declined,
    /// Nothing yet, or nothing that fits: the question stays.
    Nothing,
}

impl Ask {
    /// A question; `schema` is what the value must be, a text if nothing is said.
    ///
    /// # Errors
    /// What is wrong with the schema: forms have only texts, numbers, booleans and choices.
    pub fn new(message: String, schema: Option<Value>) -> Result<Self, String> {
        let schema = schema.unwrap_or_else(|| json!({ "type": "string" }));
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        if !matches!(kind, "string" | "number" | "integer" | "boolean") {
            return Err(
                "expected a schema whose type is string, number, integer or boolean: forms have no others".into()
            );
        }
        let validator = jsonschema::validator_for(&schema).map_err(|why| format!("is no JSON Schema: {why}"))?;
        Ok(Self { message, schema, validator: Arc::new(validator) })
    }

    /// The question as a request of the server's.
    pub(super) fn request(&self, argument: &Argument) -> Value {
        let mut schema = self.schema.clone();
        for (key, label) in [("title", &argument.title), ("description", &argument.description)] {
            if let (Some(label), None) = (label, schema.get(key)) {
                schema[key] = label.as_str().into();
            }
        }
        let name = &argument.name;
        json!({
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": self.message,
                "requestedSchema": { "type": "object", "properties": { name: schema }, "required": [name] },
            },
        })
    }

    /// What the client's `inputResponses` say to it.
    pub(super) fn said(&self, argument: &str, responses: &Map<String, Value>) -> Said {
        let Some(response) = responses.get(argument) else { return Said::Nothing };
        match response.get("action").and_then(Value::as_str) {
            Some("accept") => {}
            Some("decline" | "cancel") => return Said::Declined,
            Some(_) | None => return Said::Nothing,
        }
        let value = response.get("content").and_then(|content| content.get(argument));
        let text = value.filter(|value| self.validator.is_valid(value)).and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        });
        text.filter(|text| text.len() <= ARGUMENT_MAX).map_or(Said::Nothing, Said::Value)
    }
}

/// The client's answers; none if they are no object.
pub(super) fn responses(raw: Option<&RawValue>) -> Map<String, Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_fit_leaves_the_question_open() {
        let ask = Ask::new("How many?".into(), Some(json!({"type": "integer", "minimum": 1}))).expect("a schema");
        let said = |response: Value| {
            let responses = json!({ "count": response });
            match ask.said("count", responses.as_object().expect("an object")) {
                Said::Value(text) => text,
                Said::Declined => "declined".into(),
                Said::Nothing => "nothing".into(),
            }
        };
        assert_eq!(said(json!({"action": "accept", "content": {"count": 7}})), "7");
        assert_eq!(said(json!({"action": "decline"})), "declined");
        assert_eq!(said(json!({"action": "cancel", "content": {"count": 7}})), "declined");
        for unusable in [
            json!({"action": "accept", "content": {"count": 0}}),
            json!({"action": "accept", "content": {"count": "7"}}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept"}),
            json!({"action": "later"}),
            json!({"content": {"count": 7}}),
            json!(null),
            json!([7]),
        ] {
            assert_eq!(said(unusable.clone()), "nothing", "{unusable}");
        }
    }

    #[test]
    fn forms_have_only_plain_values() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({}),
            json!({"type": "string", "minLength": "x"}),
        ] {
            assert!(Ask::new("?".into(), Some(schema.clone())).is_err(), "{schema}");
        }
    }
}
