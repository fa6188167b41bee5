//! What an answer of `/mcp` must be, whatever was asked.

use std::fmt;

use longhaul::mcp::{Answer, ID_MAX};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A request, as the judge needs it.
pub struct Asked<'a> {
    pub verb: &'static str,
    pub body: &'a [u8],
}

impl Asked<'_> {
    /// Every id in it, as written; none for what is no POST of one message.
    pub fn ids(&self) -> Vec<&str> {
        let members = Members::of(self.body).filter(|_| self.verb == "POST");
        members.map_or_else(Vec::new, |members| members.all("id"))
    }
}

/// The members of an object as they were written, doubled ones included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl<'a> Members<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    fn all(&self, name: &str) -> Vec<&'a str> {
        self.0.iter().filter(|(n, _)| n == name).map(|(_, value)| value.get()).collect()
    }
}

/// # Panics
/// When it is not what the contract and the protocol allow.
pub fn judge(asked: &Asked<'_>, answer: &Answer) {
    let known = [200, 202, 204, 400, 404, 405, 406, 415, 503];
    assert!(known.contains(&answer.status), "status {}", answer.status);
    if matches!(answer.status, 202 | 204) {
        assert!(answer.body.is_empty() && answer.content_type.is_none(), "{answer:?}");
        return assert_eq!(asked.verb, if answer.status == 202 { "POST" } else { "DELETE" });
    }
    let message = match answer.content_type {
        Some("text/event-stream") if answer.status == 200 => one_event(&answer.body),
        Some("application/json") => &answer.body,
        other => panic!("{other:?}: {answer:?}"),
    };
    assert!(!message.contains(&b'\n') && !message.contains(&b'\r'), "one message is one line");
    let members = Members::of(message).unwrap_or_else(|| panic!("no JSON: {:?}", String::from_utf8_lossy(message)));
    is_a_response(&members, answer);
    has_the_right_id(asked, &members, answer);
    assert_eq!(answer.status == 405, answer.headers.iter().any(|(name, _)| *name == "allow"));
    if asked.verb != "POST" {
        assert!(answer.status >= 400 && !members.all("error").is_empty(), "{answer:?}");
    }
}

fn one_event(body: &[u8]) -> &[u8] {
    let data = body.strip_prefix(b"event: message\ndata: ").and_then(|rest| rest.strip_suffix(b"\n\n"));
    data.unwrap_or_else(|| panic!("no event: {:?}", String::from_utf8_lossy(body)))
}

/// `jsonrpc`, and one of `result` and `error`, well formed.
fn is_a_response(members: &Members<'_>, answer: &Answer) {
    for (name, _) in &members.0 {
        assert!(matches!(name.as_str(), "jsonrpc" | "id" | "result" | "error"), "{name}");
        assert_eq!(members.all(name).len(), 1, "{name} twice");
    }
    assert_eq!(members.all("jsonrpc"), ["\"2.0\""]);
    let read = |text: &&str| serde_json::from_str::<Value>(text).unwrap_or_else(|why| panic!("{why}: {text}"));
    let (result, error) = (members.all("result"), members.all("error"));
    match (result.first().map(read), error.first().map(read)) {
        (Some(result), None) => {
            assert_eq!(answer.status, 200);
            result_is_sound(&result);
        }
        (None, Some(error)) => {
            let code = error["code"].as_i64().unwrap_or_else(|| panic!("{error}"));
            let is_ours = matches!(code, -32_700 | -32_603..=-32_600 | -32_022..=-32_020 | -32_002);
            assert!(is_ours || code == -32_000, "{error}");
            assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        }
        (result, error) => panic!("{result:?} and {error:?}"),
    }
}

fn result_is_sound(result: &Value) {
    assert!(result.is_object(), "{result}");
    if let Some(content) = result.get("content") {
        let blocks = content.as_array().unwrap_or_else(|| panic!("{content}"));
        assert!(blocks.iter().all(|block| block["type"].is_string()), "{content}");
    }
    assert!(result.get("isError").is_none_or(Value::is_boolean));
    for name in ["tools", "resources", "resourceTemplates", "prompts", "messages", "contents"] {
        let entries = result.get(name).map(|list| list.as_array().unwrap_or_else(|| panic!("{name}: {list}")));
        assert!(entries.is_none_or(|entries| entries.iter().all(Value::is_object)), "{result}");
    }
    if let Some(contents) = result["contents"].as_array() {
        let is_held = |held: &Value| held["uri"].is_string() && (held["text"].is_string() != held["blob"].is_string());
        assert!(contents.len() == 1 && contents.iter().all(is_held), "{result}");
    }
    if let Some(completion) = result.get("completion") {
        assert!(completion["values"].as_array().is_some_and(|values| values.len() <= 100), "{completion}");
    }
    if result["resultType"] == "input_required" {
        assert!(result["inputRequests"].as_object().is_some_and(|asked| !asked.is_empty()), "{result}");
    }
}

/// The id of the request as it was written, wherever it can be read; never another.
fn has_the_right_id(asked: &Asked<'_>, members: &Members<'_>, answer: &Answer) {
    let id = members.all("id").first().copied();
    let is_text = asked.verb == "POST" && std::str::from_utf8(asked.body).is_ok();
    let members = Members::of(asked.body).filter(|_| is_text);
    let asked_ids = members.as_ref().map_or_else(Vec::new, |members| members.all("id"));
    // A message without a method may be a response to the server, which nobody answers.
    let is_call = members.is_some_and(|members| members.all("method").len() == 1);
    if let Some(id) = id {
        assert!(asked_ids.contains(&id), "{id} was never asked");
    }
    let is_read = !matches!(answer.status, 406 | 415);
    if let [only] = asked_ids[..]
        && is_read
        && is_call
        && is_id(only)
    {
        assert_eq!(id, Some(only), "{answer:?}");
    }
    if answer.status == 200 {
        assert!(id.is_some(), "{answer:?}");
    }
}

/// A string that can be echoed to anybody, or an integer, of at most `ID_MAX` bytes.
fn is_id(raw: &str) -> bool {
    let is_integer = raw.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    raw.len() <= ID_MAX && (serde_json::from_str::<String>(raw).is_ok() || is_integer)
}
