//! `Mcp-Param-*`: headers that repeat single arguments of a call, as `x-mcp-header` in a tool's input schema asks for (2026-07-28).
//!
//! In: schemas at start, then headers and arguments. Out: whether they agree. A call of a tool without such arguments costs one look-up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Endpoint;
use super::headers::{Headers, value};
use super::modern::{decoded, mismatch};
use super::rpc::{Error, text};
use super::tools::Call;
use crate::service::Tool;

/// An argument that a header repeats.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The header, lower case.
    header: String,
    /// Its property, from the outermost in.
    path: Vec<String>,
    is_integer: bool,
}

/// The bound arguments of each tool that has any, by its name.
pub(super) type ByTool = HashMap<Arc<str>, Vec<Bound>>;

/// Reads the annotations of these tools. One that breaks their rules is passed over, with a word in the log.
pub(super) fn read<'a>(tools: impl Iterator<Item = &'a Tool>) -> ByTool {
    let bound = tools.map(|tool| (tool.name.clone(), of_schema(&tool.name, &tool.input_schema)));
    bound.filter(|(_, bound)| !bound.is_empty()).collect()
}

fn of_schema(tool: &str, schema: &Value) -> Vec<Bound> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut open = vec![(Vec::new(), schema)];
    while let Some((path, schema)) = open.pop() {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path: Vec<String> = path.iter().chain([name]).cloned().collect();
            if let Some(header) = property.get("x-mcp-header") {
                let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
                let header = header.as_str().filter(|header| is_token(header)).map(str::to_ascii_lowercase);
                match header {
                    Some(header) if matches!(kind, "string" | "integer" | "boolean") && seen.insert(header.clone()) => {
                        let header = format!("mcp-param-{header}");
                        found.push(Bound { header, path: path.clone(), is_integer: kind == "integer" });
                    }
                    Some(_) | None => {
                        tracing::warn!(tool, property = %name, "x-mcp-header is passed over: it breaks its rules")
                    }
                }
            }
            open.push((path, property));
        }
    }
    found
}

/// RFC 9110's token.
fn is_token(name: &str) -> bool {
    let is_mark = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// Rung 7 of the ladder.
///
/// # Errors
/// -32020: a header is missing, does not match, or is no Base64 though it says so.
pub(super) fn check(endpoint: &Endpoint, call: &Call<'_>, headers: &dyn Headers) -> Result<(), Error> {
    let shown = endpoint.shown();
    if shown.bound.is_empty() {
        return Ok(());
    }
    let bound = call.params.name.and_then(text).and_then(|name| shown.bound.get(&*name));
    let (Some(bound), Some(arguments)) = (bound, call.params.arguments) else { return Ok(()) };
    // Arguments that are no JSON to be had are refused further on.
    let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else { return Ok(()) };
    bound.iter().try_for_each(|bound| agree(bound, &arguments, headers))
}

/// The headers that a call with these arguments has to carry, for who writes them to a server.
pub fn headers_of(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let own = |bound: Bound| {
        let value = match bound.path.iter().try_fold(arguments, |value, name| value.get(name))? {
            Value::String(text) => dressed(text),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((bound.header, value))
    };
    of_schema("", schema).into_iter().filter_map(own).collect()
}

/// As a header can hold it: what is not plain text, or looks like Base64's dress, is put into that.
pub fn dressed(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    if is_plain && !text.starts_with("=?base64?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

fn agree(bound: &Bound, arguments: &Value, headers: &dyn Headers) -> Result<(), Error> {
    let found = bound.path.iter().try_fold(arguments, |value, name| value.get(name));
    let expected = match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => return Ok(()),
    };
    let header = &bound.header;
    let Some(raw) = value(headers, header) else {
        return Err(mismatch(format!("the {header} header is missing; it must repeat /{}", bound.path.join("/"))));
    };
    let sent = decoded(&raw).map_err(|why| mismatch(format!("the {header} header {why}")))?;
    let is_same = *sent == *expected.as_bytes() || (bound.is_integer && is_same_number(&sent, &expected));
    let text = || mismatch(format!("the {header} header does not match /{}", bound.path.join("/")));
    is_same.then_some(()).ok_or_else(text)
}

fn is_same_number(sent: &[u8], expected: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let sent = std::str::from_utf8(sent).ok().and_then(number);
    sent.is_some() && sent == number(expected)
}

#[cfg(test)]
mod tests {
    use super::super::headers::fake::List;
    use super::*;

    #[test]
    fn headers_repeat_the_arguments_that_ask_for_it() {
        let schema = serde_json::json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "count"},
            "ratio": {"type": "number", "x-mcp-header": "ratio"},
            "again": {"type": "string", "x-mcp-header": "REGION"},
            "odd": {"type": "string", "x-mcp-header": "a b"},
            "inner": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "flag"}}},
            "list": {"type": "array", "items": {"properties": {"no": {"type": "string", "x-mcp-header": "no"}}}},
        }});
        let bound = of_schema("t", &schema);
        let mut names: Vec<_> = bound.iter().map(|bound| &*bound.header).collect();
        names.sort_unstable();
        assert_eq!(names, ["mcp-param-count", "mcp-param-flag", "mcp-param-region"]);

        let check = |arguments: &str, headers: &[(&str, &[u8])]| {
            let arguments = serde_json::from_str(arguments).expect("is JSON");
            bound.iter().all(|bound| agree(bound, &arguments, &List(headers)).is_ok())
        };
        assert!(check("{}", &[]));
        assert!(check(r#"{"region":null,"again":"x","ratio":1}"#, &[("mcp-param-ratio", b"2")]));
        assert!(!check(r#"{"region":"eu"}"#, &[]));
        assert!(check(r#"{"region":"eu"}"#, &[("mcp-param-region", b" eu ")]));
        assert!(!check(r#"{"region":"eu"}"#, &[("mcp-param-region", b"EU")]));
        assert!(check(r#"{"region":"eu"}"#, &[("mcp-param-region", b"=?base64?ZXU=?=")]));
        assert!(!check(r#"{"region":"eu"}"#, &[("mcp-param-region", b"=?base64?ZXU?=")]));
        assert!(!check(r#"{"region":"eu"}"#, &[("mcp-param-region", b"=?base64?Z*U=?=")]));
        assert!(check(r#"{"count":7}"#, &[("mcp-param-count", b"7.0")]));
        assert!(!check(r#"{"count":7}"#, &[("mcp-param-count", b"8")]));
        assert!(check(r#"{"inner":{"flag":true}}"#, &[("mcp-param-flag", b"true")]));
        assert!(!check(r#"{"inner":{"flag":true}}"#, &[("mcp-param-flag", b"1")]));

        // Who writes headers by the same rules is always believed.
        for arguments in
            [r#"{"region":" grüße ","count":7}"#, r#"{"region":"=?base64?x","inner":{"flag":false}}"#, "{}"]
        {
            let arguments = serde_json::from_str(arguments).expect("is JSON");
            let written = headers_of(&schema, &arguments);
            let written: Vec<_> = written.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            assert!(bound.iter().all(|bound| agree(bound, &arguments, &List(&written)).is_ok()), "{written:?}");
        }
    }
}
