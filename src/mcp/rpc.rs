//! JSON-RPC messages, in both directions.
//!
//! In: the bytes of one message. Out: its parts, still as they were written, so that ids are echoed byte for byte and arguments are
//! handed on without being copied; and the bytes of answers. Knows nothing of eras, tools or jobs.

use std::borrow::Cow;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use crate::job::json::wrong;

/// Bad JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// Not a valid request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// Method not offered.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// The method's parameters do not fit.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// Nothing that the client can mend.
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// The revisions with sessions: there is no such resource.
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;
/// 2026-07-28: headers contradict the body.
pub(super) const HEADER_MISMATCH: i64 = -32020;
/// 2026-07-28: the request has to declare something that its client can do.
pub(super) const MISSING_CAPABILITY: i64 = -32021;
/// 2026-07-28: the version is not spoken here.
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// Longest id, in bytes as written. A longer one is refused and not echoed.
pub const ID_MAX: usize = 1_024;

/// A JSON-RPC error, to be answered with an HTTP status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Error {
    /// HTTP status: 200 unless the ladders say otherwise.
    pub status: u16,
    /// JSON-RPC code.
    pub code: i64,
    /// What to do about it, for a person or a model.
    pub message: String,
    /// Further fields for programs, a JSON value.
    pub data: Option<Box<serde_json::Value>>,
}

impl Error {
    /// An error of a request that was understood: HTTP 200.
    pub(super) fn answered(code: i64, message: impl Into<String>) -> Self {
        Self { status: 200, code, message: message.into(), data: None }
    }

    /// An error of the HTTP request itself.
    pub(super) fn refused(status: u16, code: i64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None }
    }
}

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A request with its id as written.
    Request(&'a str),
    /// No id.
    Notification,
    /// An answer to a request of the server's.
    Response,
}

/// One message.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// What kind of message.
    pub kind: Kind<'a>,
    /// Its method; empty for a response.
    pub method: Cow<'a, str>,
    /// Its parameters; all absent if it has none.
    pub params: Params<'a>,
    /// The whole message.
    pub text: &'a str,
}

impl<'a> Message<'a> {
    /// The id of a request.
    pub(super) fn id(&self) -> Option<&'a str> {
        match self.kind {
            Kind::Request(id) => Some(id),
            Kind::Notification | Kind::Response => None,
        }
    }

    /// The parameters of a method that needs others than `Params` has.
    ///
    /// # Errors
    /// -32602 if they are missing or do not fit.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> Result<T, Error> {
        #[derive(Deserialize)]
        struct Outer<T> {
            params: T,
        }
        let read = serde_json::from_str::<Outer<T>>(self.text);
        read.map(|outer| outer.params).map_err(|why| Error::answered(INVALID_PARAMS, wrong("", self.text, &why)))
    }
}

/// A message that cannot be read, and the id to echo if there is one.
pub(super) struct Unreadable<'a> {
    /// The id as written.
    pub id: Option<&'a str>,
    /// What is wrong with it: always HTTP 400.
    pub error: Error,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Params<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// The parameters that any method here looks at, as written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Params<'a> {
    /// `_meta`.
    pub meta: Option<&'a RawValue>,
    /// Of `tools/call` and `prompts/get`.
    pub name: Option<&'a RawValue>,
    /// Of `tools/call` and `prompts/get`.
    pub arguments: Option<&'a RawValue>,
    /// Of the list methods; none if it is null or empty.
    pub cursor: Option<&'a RawValue>,
    /// Of `initialize`.
    pub protocol_version: Option<&'a RawValue>,
    /// Of `resources/read`.
    pub uri: Option<&'a RawValue>,
    /// Of a retry that brings what was asked for (2026-07-28).
    pub input_responses: Option<&'a RawValue>,
    /// Of such a retry: what it was given with the questions.
    pub request_state: Option<&'a RawValue>,
    /// Of a `tools/call` that is to be a task (2025-11-25).
    pub task: Option<&'a RawValue>,
    /// Of `tasks/*`.
    pub task_id: Option<&'a RawValue>,
}

/// Reads one message.
pub(super) fn read(body: &str) -> Result<Message<'_>, Unreadable<'_>> {
    if is_batch(body) {
        let text = "a JSON-RPC batch is not accepted here: send one message per request";
        return Err(Unreadable { id: None, error: Error::refused(400, INVALID_REQUEST, text) });
    }
    let envelope: Envelope<'_> = serde_json::from_str(body).map_err(|why| unreadable(body, &why))?;
    let id = envelope.id.map(RawValue::get);
    if let Some(id) = id.filter(|id| !is_id(id)) {
        let shown = crate::job::cut(id, 40);
        let text = format!("id must be a string or an integer of at most {ID_MAX} bytes, not {shown}");
        return Err(Unreadable { id: None, error: Error::refused(400, INVALID_REQUEST, text) });
    }
    let invalid = |text: &str| Unreadable { id, error: Error::refused(400, INVALID_REQUEST, text) };
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let Some(method) = envelope.method else {
        let is_response = envelope.result.is_some() != envelope.error.is_some() && id.is_some();
        let method = Cow::Borrowed("");
        let response = Message { kind: Kind::Response, method, params: Params::default(), text: body };
        return is_response.then_some(response).ok_or_else(|| invalid("method is missing"));
    };
    let method = text(method).ok_or_else(|| invalid("method must be a string"))?;
    let kind = id.map_or(Kind::Notification, Kind::Request);
    Ok(Message { kind, method, params: envelope.params, text: body })
}

/// Whether it is a JSON array.
pub(super) fn is_batch(body: &str) -> bool {
    body.trim_ascii_start().starts_with('[')
}

/// Tells bad JSON from JSON that is no message, and finds the id to echo.
fn unreadable<'a>(body: &'a str, why: &serde_json::Error) -> Unreadable<'a> {
    #[derive(Deserialize)]
    struct JustId<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        id: Option<&'a RawValue>,
    }
    // Whoever finds the id has read all of the body: it is JSON, if only with a number beyond all doubles where none belongs.
    let id = match serde_json::from_str(body) {
        Ok(JustId { id }) => id.map(RawValue::get),
        Err(_) if why.is_syntax() || why.is_eof() => {
            let error = Error::refused(400, PARSE_ERROR, format!("the body is not JSON: {why}"));
            return Unreadable { id: None, error };
        }
        Err(_) => None,
    };
    let text = format!("the body is not a JSON-RPC message: {}", wrong("", body, why));
    Unreadable { id: id.filter(|id| is_id(id)), error: Error::refused(400, INVALID_REQUEST, text) }
}

/// A string or an integer, 0 included, and not longer than `ID_MAX`.
pub(super) fn is_id(raw: &str) -> bool {
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    raw.len() <= ID_MAX && (is_text(raw) || (!raw.starts_with('"') && digits.bytes().all(|byte| byte.is_ascii_digit())))
}

/// Whether it is a JSON string that everybody can read: half a surrogate pair would make whoever it is echoed to throw the answer away.
fn is_text(raw: &str) -> bool {
    raw.starts_with('"') && (!raw.contains('\\') || serde_json::from_str::<String>(raw).is_ok())
}

/// The text of a JSON string; `None` for any other value. Borrows unless something is escaped.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let quoted = raw.get();
    let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') { serde_json::from_str(quoted).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inside)) }
}

/// Whether the value is a JSON object.
pub(super) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Keeps a member as written, `null` included: `Option` alone would take `null` for absent.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Written by hand because a derived one would also take an array. `null` is taken as none, as some clients write it.
impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Param {
    #[serde(rename = "_meta")]
    Meta,
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "arguments")]
    Arguments,
    #[serde(rename = "cursor")]
    Cursor,
    #[serde(rename = "protocolVersion")]
    ProtocolVersion,
    #[serde(rename = "uri")]
    Uri,
    #[serde(rename = "inputResponses")]
    InputResponses,
    #[serde(rename = "requestState")]
    RequestState,
    #[serde(rename = "task")]
    Task,
    #[serde(rename = "taskId")]
    TaskId,
    #[serde(other)]
    Other,
}

struct ParamsVisitor;

impl<'de> Visitor<'de> for ParamsVisitor {
    type Value = Params<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("params as a JSON object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Params<'de>, E> {
        Ok(Params::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
        let mut params = Params::default();
        while let Some(key) = map.next_key()? {
            let (slot, name) = match key {
                Param::Meta => (&mut params.meta, "_meta"),
                Param::Name => (&mut params.name, "name"),
                Param::Arguments => (&mut params.arguments, "arguments"),
                Param::Cursor => (&mut params.cursor, "cursor"),
                Param::ProtocolVersion => (&mut params.protocol_version, "protocolVersion"),
                Param::Uri => (&mut params.uri, "uri"),
                Param::InputResponses => (&mut params.input_responses, "inputResponses"),
                Param::RequestState => (&mut params.request_state, "requestState"),
                Param::Task => (&mut params.task, "task"),
                Param::TaskId => (&mut params.task_id, "taskId"),
                Param::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                return Err(de::Error::duplicate_field(name));
            }
        }
        // The first page is asked for in any of three ways.
        params.cursor = params.cursor.filter(|cursor| !matches!(cursor.get(), "null" | "\"\""));
        Ok(params)
    }
}

/// Adds a JSON string.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail, and every `str` is a JSON string.
    let _ = serde_json::to_writer(out, text);
}

/// Adds JSON that was written elsewhere, on one line whatever its white space.
pub(super) fn push_raw(out: &mut Vec<u8>, json: &[u8]) {
    let from = out.len();
    out.extend_from_slice(json);
    // Inside strings JSON allows no bare line ends, so that these are all between tokens.
    out[from..].iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}

/// Adds a value that is already a tree.
pub(super) fn push_value(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    // Writing to memory cannot fail, and our trees have string keys only.
    let _ = serde_json::to_writer(out, value);
}

/// The start of an answer to the request with this id, up to the value of `result`.
pub(super) fn open_result(id: &str, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + id.len() + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    out
}

/// An error message. Without an id the member is left out: newer schemas do not allow null.
pub(super) fn error(id: Option<&str>, error: &Error) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.message.len() + 128);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"error\":{\"code\":");
    out.extend_from_slice(error.code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    push_string(&mut out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(b",\"data\":");
        push_value(&mut out, data);
    }
    out.extend_from_slice(b"}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> (i64, Option<&str>) {
        let Err(unreadable) = read(body) else { panic!("{body} was read") };
        assert_eq!(unreadable.error.status, 400);
        (unreadable.error.code, unreadable.id)
    }

    #[test]
    fn the_first_page_is_asked_for_by_no_cursor_by_null_or_by_an_empty_one() {
        for (params, is_first) in
            [("{}", true), (r#"{"cursor":null}"#, true), (r#"{"cursor":""}"#, true), (r#"{"cursor":"a"}"#, false)]
        {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
            let message = read(&body).unwrap_or_else(|_| panic!("{params}"));
            assert_eq!(message.params.cursor.is_none(), is_first, "{params}");
        }
    }

    #[test]
    fn ids_are_echoed_as_written_and_zero_is_one() {
        for id in ["0", "-7", "12345678901234567890123456789", r#""a\u0041""#, r#""\ud83d\ude00""#, r#""""#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let message = read(&body).unwrap_or_else(|_| panic!("{id}"));
            assert_eq!(message.kind, Kind::Request(id));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_where_it_can_be_read() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(ID_MAX));
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "[".repeat(200_000));
        for (body, code, id) in [
            ("", PARSE_ERROR, None),
            ("{", PARSE_ERROR, None),
            ("nonsense", PARSE_ERROR, None),
            (deep.as_str(), INVALID_REQUEST, None),
            ("[]", INVALID_REQUEST, None),
            (r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST, None),
            ("3", INVALID_REQUEST, None),
            ("{}", INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID_REQUEST, None),
            (long.as_str(), INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":"a\udc00b","method":5}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, INVALID_REQUEST, None),
            (r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#, INVALID_REQUEST, Some("4")),
            (r#"{"id":4,"method":"ping"}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":5}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"result":{},"error":{}}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":"x","params":[1]}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":"x","params":"a"}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":"x","params":1e999}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":"x","params":"\ud800"}"#, INVALID_REQUEST, Some("4")),
            (r#"{"jsonrpc":"2.0","id":4,"method":"x","method":"y"}"#, INVALID_REQUEST, Some("4")),
            (
                r#"{"jsonrpc":"2.0","id":"k","method":"x","params":{"name":"a","name":"b"}}"#,
                INVALID_REQUEST,
                Some(r#""k""#),
            ),
        ] {
            assert_eq!(refused(body), (code, id), "{}", crate::job::cut(body, 80));
        }
    }

    #[test]
    fn arguments_stay_where_they_were_in_the_body() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"other":[{}],"arguments":{"a" : 1}}}"#;
        let Ok(message) = read(body) else { panic!("is read") };
        let arguments = message.params.arguments.expect("are there").get();
        assert_eq!(arguments, r#"{"a" : 1}"#);
        assert_eq!(arguments.as_ptr() as usize - body.as_ptr() as usize, body.find(r#"{"a""#).expect("is there"));
    }

    #[test]
    fn json_from_elsewhere_stays_on_one_line() {
        let mut out = Vec::new();
        push_raw(&mut out, b"{\r\n \"a\": \"b\\n\"\n}");
        assert_eq!(out, b"{   \"a\": \"b\\n\" }");
    }
}
