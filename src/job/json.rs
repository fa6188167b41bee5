//! JSON that others write: how deep it may be, and what is wrong with it in words for whoever wrote it.
//!
//! In: a text and what serde says of it. Out: a sentence that names the place and what was expected there. Repeats names that were sent,
//! cut, and never values.

use serde_json::Error;
use serde_json::error::Category;

use super::cut;

/// Deepest nesting of a JSON value that is taken, of payloads, answers and results alike: each goes out again within a few more levels,
/// and many readers end at 128.
pub const JSON_DEPTH_MAX: usize = 120;

/// Longest name that a sentence repeats, in bytes.
const NAME_MAX: usize = 64;

/// What is wrong with this text, the value of `root` (nothing: the whole of what was sent).
pub fn wrong(root: &str, text: &str, error: &Error) -> String {
    match error.classify() {
        Category::Data => misfit(root, text, error),
        Category::Syntax | Category::Eof | Category::Io => format!("{} is not JSON: {error}", subject(root)),
    }
}

fn misfit(root: &str, text: &str, error: &Error) -> String {
    let said = error.to_string();
    let end = format!(" at line {} column {}", error.line(), error.column());
    let said = said.strip_suffix(&end).unwrap_or(&said);
    let read = read_of(text, error);
    let here = path(root, read, Last::Kept);
    // An enum is read as a whole before what is in it is looked at.
    let is_within = matches!(read.last(), Some(b'}' | b']')) && said.starts_with("invalid type: ");
    let here = if is_within { format!("a value within {}", subject(&here)) } else { subject(&here) };
    let member = |name: &str| subject(&joined(path(root, read, Last::Left), cut(name, NAME_MAX)));
    if let Some(name) = quoted(said, "missing field ") {
        return format!("{} is missing", member(name));
    }
    if let Some(name) = quoted(said, "duplicate field ") {
        return format!("{} is there more than once", member(name));
    }
    if let Some(name) = quoted(said, "unknown field ") {
        let known = said.rsplit_once(", expected ").map_or("none", |(_, known)| known).replace('`', "");
        return format!("{} is not known; there is {known}", member(name));
    }
    let Some((found, expected)) = said.rsplit_once(", expected ") else { return format!("{here}: {said}") };
    if found.starts_with("unknown variant ") {
        return format!("{here} must be {}", expected.replace('`', ""));
    }
    match found.strip_prefix("invalid type: ") {
        Some(found) => format!("{here} must be {}, not {}", kind(expected), kind(found)),
        None => format!("{here} must be {}", kind(expected)),
    }
}

/// A name between backticks that stands behind `before`.
fn quoted<'a>(said: &'a str, before: &str) -> Option<&'a str> {
    said.strip_prefix(before)?.strip_prefix('`')?.split('`').next()
}

/// What serde calls a kind of value, as JSON does.
fn kind(word: &str) -> &str {
    let first = word.split([' ', '`']).next().unwrap_or_default();
    match first {
        "map" | "struct" => "an object",
        "sequence" | "tuple" => "an array",
        "string" | "character" | "borrowed" | "enum" => "a string",
        "boolean" | "bool" => "true or false",
        "integer" | "i8" | "i16" | "i32" | "i64" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "floating" | "f32" | "f64" => "a number",
        "null" | "unit" => "null",
        "a" | "an" => match word.split(' ').nth(1).unwrap_or_default() {
            "map" => "an object",
            "sequence" => "an array",
            "string" | "borrowed" => "a string",
            "boolean" => "true or false",
            _ => word,
        },
        _ => word,
    }
}

fn subject(path: &str) -> String {
    if path.is_empty() { "it".into() } else { path.into() }
}

/// The text up to where it was found wrong.
fn read_of<'a>(text: &'a str, error: &Error) -> &'a [u8] {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let end = lines.map(str::len).sum::<usize>() + error.column();
    &text.as_bytes()[..end.min(text.len())]
}

/// What of the last name is told.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Kept,
    /// What is wrong is about the object around it.
    Left,
}

enum Step {
    Object { name: Option<String> },
    Array { index: usize },
}

/// Where this much of a text ends, from its root.
fn path(root: &str, read: &[u8], last: Last) -> String {
    let mut steps: Vec<Step> = Vec::new();
    let mut at = 0;
    while let Some(byte) = read.get(at) {
        let mut length = 1;
        match byte {
            b'{' => steps.push(Step::Object { name: None }),
            b'[' => steps.push(Step::Array { index: 0 }),
            b'}' | b']' => drop(steps.pop()),
            b',' => match steps.last_mut() {
                Some(Step::Object { name }) => *name = None,
                Some(Step::Array { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                length = string(&read[at..]);
                if let Some(Step::Object { name: name @ None }) = steps.last_mut() {
                    *name = serde_json::from_slice(&read[at..at + length]).ok();
                }
            }
            _ => {}
        }
        at += length;
    }
    let is_inside = !matches!(read.last(), Some(b'}'));
    if last == Last::Left
        && is_inside
        && let Some(Step::Object { name }) = steps.last_mut()
    {
        *name = None;
    }
    steps.into_iter().fold(root.to_owned(), |path, step| match step {
        Step::Object { name: Some(name) } => joined(path, cut(&name, NAME_MAX)),
        Step::Object { name: None } => path,
        Step::Array { index } => format!("{path}[{index}]"),
    })
}

fn joined(path: String, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { path + "." + name }
}

/// Bytes of the string that begins here.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only what it refuses matters")]
    enum Way {
        One,
        Other,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only what it refuses matters")]
    #[serde(deny_unknown_fields)]
    struct Inner<'a> {
        text: Option<String>,
        count: Option<u32>,
        share: Option<f64>,
        flag: Option<bool>,
        way: Option<Way>,
        list: Option<Vec<String>>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only what it refuses matters")]
    #[serde(tag = "type")]
    enum Tagged {
        A { name: String },
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only what it refuses matters")]
    struct Outer<'a> {
        #[serde(borrow)]
        params: Inner<'a>,
        needed: BTreeMap<String, u64>,
        tagged: Option<Tagged>,
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place_and_what_was_expected_and_no_type_of_ours() {
        for (text, told) in [
            ("[]", "it must be an object"),
            ("7", "it must be an object, not a whole number"),
            ("{}", "params is missing"),
            (r#"{"params":[]}"#, "params must be an object"),
            (r#"{"params": "a, expected \"x"}"#, "params must be an object, not a string"),
            (r#"{"params":{}}"#, "needed is missing"),
            (r#"{"needed":{"a":{}}}"#, "needed.a must be a whole number that is not negative, not an object"),
            (r#"{"needed":{"a":1,"b":-1}}"#, "needed.b must be a whole number that is not negative"),
            (r#"{"params":{"text":7}}"#, "params.text must be a string, not a whole number"),
            (
                r#"{"params":{"text":"{\"x\\","count":1.5}}"#,
                "params.count must be a whole number that is not negative, not a number",
            ),
            (r#"{"params":{"share":true}}"#, "params.share must be a number, not true or false"),
            (r#"{"params":{"flag":null,"way":"third"}}"#, "params.way must be one or other"),
            (r#"{"params":{"flag":"yes"}}"#, "params.flag must be true or false, not a string"),
            ("{\n \"params\": {\n  \"list\": [\"a\", [\"b\"]] } }", "params.list[1] must be a string, not an array"),
            (r#"{"params":{"list":{}}}"#, "params.list must be an array, not an object"),
            (r#"{"params":{"raw":{"deep":[]},"raw":1}}"#, "params.raw is there more than once"),
            (
                r#"{"params":{"flag":true,"tect":1}}"#,
                "params.tect is not known; there is one of text, count, share, flag, way, list, raw",
            ),
            (r#"{"params":{},"params":{}}"#, "params is there more than once"),
            (r#"{"tagged":{"type":"A","name":7},"x":1}"#, "a value within tagged must be a string, not a whole number"),
            (r#"{"tagged":{"type":"B"}}"#, "tagged.type must be A"),
            (r#"{"tagged":{"type":"A"},"x":1}"#, "tagged.name is missing"),
        ] {
            let Err(error) = serde_json::from_str::<Outer<'_>>(text) else { panic!("{text} is read") };
            assert_eq!(wrong("", text, &error), told, "{text}: {error}");
        }
    }

    #[test]
    fn the_root_is_named_and_what_is_no_json_is_called_so() {
        let of = |text: &str| match serde_json::from_str::<Inner<'_>>(text) {
            Ok(_) => panic!("{text} is read"),
            Err(error) => wrong("params.delivery", text, &error),
        };
        assert_eq!(
            of(r#"{"count":{}}"#),
            "params.delivery.count must be a whole number that is not negative, not an object"
        );
        assert_eq!(of("true"), "params.delivery must be an object, not true or false");
        assert_eq!(of("{\"count\":}"), "params.delivery is not JSON: expected value at line 1 column 10");
        let long = format!("{{\"text\":{{\"{}\":1}}}}", "x".repeat(10_000));
        assert!(of(&long).len() < 200);
        let odd = "{\"\u{1f600}\\ud83d\\ude00\\n\": 1, \"text\": [}";
        assert!(of(odd).starts_with("params.delivery"));
    }
}
