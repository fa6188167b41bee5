//! `ask` lines and their answers (contract 4).
//!
//! In: a line of JSON, or an answer. Out: a question that people can be asked and whose answers can be checked, or what is
//! wrong with it; or the line that brings the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json;
use crate::handler::Answer;
use crate::job::{Asking, Json, QUESTION_KEY_MAX, QUESTION_MESSAGE_MAX, QUESTION_SCHEMA_MAX};

/// The schema of a question that has none: an object without more to say about it.
const ANY: &str = r#"{"type":"object","properties":{}}"#;

#[derive(Deserialize)]
struct AskLine<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

/// The question in a line.
///
/// # Errors
/// What is wrong with it, for whoever wrote the program.
pub fn asking(text: &str) -> Result<Asking, String> {
    let line: AskLine<'_> = serde_json::from_str(text).map_err(|why| crate::job::json::wrong("", text, &why))?;
    let key_fits = (1..=QUESTION_KEY_MAX).contains(&line.key.len()) && line.key.bytes().all(|b| b.is_ascii_graphic());
    if !key_fits {
        return Err(format!("key must be 1 to {QUESTION_KEY_MAX} visible ASCII characters"));
    }
    if line.message.is_empty() || line.message.len() > QUESTION_MESSAGE_MAX {
        return Err(format!("message must have 1 to {QUESTION_MESSAGE_MAX} bytes"));
    }
    let schema = json::compact(line.schema.map_or(ANY, RawValue::get)).ok_or_else(|| json::UNSOUND.to_owned())?;
    if schema.len() > QUESTION_SCHEMA_MAX {
        return Err(format!("schema has more than {QUESTION_SCHEMA_MAX} bytes"));
    }
    let value: serde_json::Value = serde_json::from_str(&schema).map_err(|why| format!("schema: {why}"))?;
    if value.get("type").and_then(serde_json::Value::as_str) != Some("object") {
        return Err("schema must be one of an object: \"type\": \"object\"".into());
    }
    jsonschema::validator_for(&value).map_err(|why| format!("schema: {why}"))?;
    Ok(Asking { key: line.key.into(), message: line.message.into(), schema: Json(schema.into()) })
}

/// The line that brings an answer.
pub fn answer_line(answer: &Answer) -> String {
    // Raw JSON cannot be flattened into another object, so the members are put together by hand.
    let body = serde_json::to_string(answer).unwrap_or_default();
    format!("{{\"type\":\"answer\",{}\n", body.strip_prefix('{').unwrap_or("}"))
}
