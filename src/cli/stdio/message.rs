//! One line of the client's, as far as its way to the server depends on it.
//!
//! In: text. Out: its parts. What cannot be read goes to the server all the same, which knows what to answer.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const KEY: &str = "longhaul/idempotencyKey";

/// A message.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// As it came.
    pub text: String,
    /// The request's id as written; `None` for what wants no answer.
    pub id: Option<String>,
    /// Its method; empty for an answer.
    pub method: String,
    /// The version that its envelope names, if it has one.
    pub envelope: Option<String>,
    /// What `Mcp-Name` repeats.
    pub name: Option<String>,
    /// The request that a cancel names, as written.
    pub cancels: Option<String>,
}

#[derive(Deserialize, Default)]
struct Outer<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Params<'a> {
    #[serde(rename = "_meta")]
    meta: Value,
    name: Value,
    uri: Value,
    task_id: Value,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
}

/// Tells an id of null from none.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Message {
    /// Reads a line.
    pub fn read(text: String) -> Self {
        let outer: Outer<'_> = serde_json::from_str(&text).unwrap_or_default();
        let params: Params<'_> =
            outer.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        let method = outer.method.unwrap_or_default();
        let source = match method.as_str() {
            "tools/call" | "prompts/get" => &params.name,
            "resources/read" => &params.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => &params.task_id,
            _ => &Value::Null,
        };
        let own = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            id: outer.id.filter(|_| !method.is_empty()).map(|id| id.get().to_owned()),
            envelope: own(&params.meta[VERSION]),
            name: own(source),
            cancels: params.request_id.filter(|_| method == "notifications/cancelled").map(|id| id.get().to_owned()),
            method,
            text,
        }
    }

    /// Whether it wants an answer under an id that is none.
    pub fn has_null_id(&self) -> bool {
        self.id.as_deref() == Some("null")
    }

    /// Whether it answers the request with this id.
    pub fn answers(text: &str, id: &str) -> bool {
        let outer: Outer<'_> = serde_json::from_str(text).unwrap_or_default();
        let same = |found: &str| found == id || (found.starts_with('"') && text_of(found) == text_of(id));
        outer.method.is_none() && outer.id.is_some_and(|found| same(found.get()))
    }

    /// The progress that a notification tells of.
    pub fn progress(text: &str) -> Option<f64> {
        let outer: Outer<'_> = serde_json::from_str(text).ok()?;
        let params = outer.params.filter(|_| outer.method.as_deref() == Some("notifications/progress"))?;
        serde_json::from_str::<Value>(params.get()).ok()?["progress"].as_f64()
    }

    /// The name as a header can hold it.
    pub fn name_header(&self) -> Option<String> {
        self.name.as_deref().map(crate::mcp::dressed)
    }

    /// The call with an idempotency key, so that it may be sent again: what has one of its own keeps it. Everything else stays as it was written.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        let outer: Outer<'_> = serde_json::from_str(&self.text).unwrap_or_default();
        let Some(params) = outer.params.map(RawValue::get).filter(|params| params.starts_with('{')) else {
            return self;
        };
        let meta: Meta<'_> = serde_json::from_str(params).unwrap_or_default();
        let (object, member) = match meta.meta.map(RawValue::get) {
            Some(meta) if meta.contains(KEY) || !meta.starts_with('{') => return self,
            Some(meta) => (meta, format!("\"{KEY}\":\"{key}\"")),
            None => (params, format!("\"_meta\":{{\"{KEY}\":\"{key}\"}}")),
        };
        let at = object.as_ptr() as usize - self.text.as_ptr() as usize + 1;
        let comma = if object[1..].trim_start().starts_with('}') { "" } else { "," };
        self.text.insert_str(at, &format!("{member}{comma}"));
        self
    }
}

/// What a string says, however it is escaped.
fn text_of(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_its_headers_repeat() {
        let text = r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"tools/call","params":{"name":"grüße","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let message = Message::read(text.into());
        assert_eq!(message.id.as_deref(), Some("12345678901234567890123"));
        assert_eq!(message.envelope.as_deref(), Some("2026-07-28"));
        assert_eq!(message.name_header().as_deref(), Some("=?base64?Z3LDvMOfZQ==?="));
        let plain = Message::read(r#"{"id":"a","method":"tasks/get","params":{"taskId":"t 1"}}"#.into());
        assert_eq!((plain.id.as_deref(), plain.name_header().as_deref()), (Some("\"a\""), Some("t 1")));
        let note = Message::read(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#.into());
        assert_eq!((note.id, note.cancels.as_deref()), (None, Some("7")));
        let null = |text: &str| Message::read(text.into()).has_null_id();
        assert!(
            null(r#"{"id":null,"method":"ping"}"#)
                && !null(r#"{"id":"null","method":"ping"}"#)
                && !null(r#"{"method":"ping"}"#)
        );
        let answer = Message::read(r#"{"id":1,"result":{}}"#.into());
        assert_eq!((answer.id, answer.method.as_str()), (None, ""));
        assert_eq!(Message::read("nonsense".into()).method, "");
    }

    #[test]
    fn an_answer_is_told_from_a_request_of_the_server_with_the_same_id() {
        assert!(Message::answers(r#"{"id":1,"result":{}}"#, "1"));
        assert!(!Message::answers(r#"{"id":1,"method":"elicitation/create"}"#, "1"));
        assert!(!Message::answers(r#"{"id":"1","result":{}}"#, "1"));
        assert!(Message::answers(r#"{"id":"é","result":{}}"#, r#""\u00e9""#));
    }

    #[test]
    fn a_key_is_added_where_there_is_none() {
        let call = |text: &str| Message::read(text.into()).with_key("k").text;
        assert_eq!(
            call(r#"{"id":1,"params":{"name":"a"}}"#),
            r#"{"id":1,"params":{"_meta":{"longhaul/idempotencyKey":"k"},"name":"a"}}"#
        );
        assert_eq!(
            call(
                r#"{"id":12345678901234567890124,"params":{"_meta":{ },"arguments":{"a":1,"a":0.10000000000000000555}}}"#
            ),
            r#"{"id":12345678901234567890124,"params":{"_meta":{"longhaul/idempotencyKey":"k" },"arguments":{"a":1,"a":0.10000000000000000555}}}"#
        );
        let own = r#"{"id":1,"params":{"_meta":{"longhaul/idempotencyKey":"mine"}}}"#;
        assert_eq!(call(own), own);
        assert_eq!(call("nonsense"), "nonsense");
    }
}
