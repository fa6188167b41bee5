//! MCP content blocks, as handlers may hand them in with a result.
//!
//! In: the blocks as JSON. Out: nothing, or what is wrong with the first bad one. Strict clients throw a whole answer away for one bad
//! block, so none is kept. Members that are not named here pass: MCP allows them.

use std::io;

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Checks an array of content blocks.
///
/// # Errors
/// What is wrong, and where: `content[2].data: expected Base64`.
pub fn check(json: &str) -> Result<(), String> {
    let blocks: Vec<&RawValue> =
        serde_json::from_str(json).map_err(|_| "content: expected an array of content blocks".to_owned())?;
    // One after the other: an image may be large.
    blocks.iter().enumerate().try_for_each(|(at, block)| {
        let object: Map<String, Value> =
            serde_json::from_str(block.get()).map_err(|_| format!("content[{at}]: expected an object"))?;
        check_block(&object).map_err(|why| format!("content[{at}]{why}"))
    })
}

fn check_block(block: &Map<String, Value>) -> Result<(), String> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => need(block, "text", TEXT)?,
        Some("image" | "audio") => {
            need(block, "data", BASE64)?;
            need(block, "mimeType", TEXT)?;
        }
        Some("resource_link") => {
            need(block, "uri", URI)?;
            need(block, "name", TEXT)?;
            ["title", "description", "mimeType"].into_iter().try_for_each(|name| may(block, name, TEXT))?;
            may(block, "size", NUMBER)?;
        }
        Some("resource") => {
            let resource = block.get("resource").and_then(Value::as_object);
            let resource = resource.ok_or(".resource: expected an object")?;
            check_resource(resource).map_err(|why| format!(".resource{why}"))?;
        }
        Some(_) | None => return Err(".type: expected text, image, audio, resource_link or resource".into()),
    }
    may(block, "_meta", OBJECT)?;
    may(block, "annotations", OBJECT)?;
    match block.get("annotations").and_then(Value::as_object) {
        Some(annotations) => check_annotations(annotations).map_err(|why| format!(".annotations{why}")),
        None => Ok(()),
    }
}

fn check_resource(resource: &Map<String, Value>) -> Result<(), String> {
    need(resource, "uri", URI)?;
    may(resource, "mimeType", TEXT)?;
    may(resource, "_meta", OBJECT)?;
    match (resource.contains_key("text"), resource.contains_key("blob")) {
        (true, false) => need(resource, "text", TEXT),
        (false, true) => need(resource, "blob", BASE64),
        (true, true) | (false, false) => Err(": expected either text or blob".into()),
    }
}

fn check_annotations(annotations: &Map<String, Value>) -> Result<(), String> {
    may(annotations, "priority", PRIORITY)?;
    may(annotations, "lastModified", TEXT)?;
    may(annotations, "audience", AUDIENCE)
}

/// What a member must be: in words, and as a test.
type Rule = (&'static str, fn(&Value) -> bool);

const TEXT: Rule = ("a string", Value::is_string);
const NUMBER: Rule = ("a number", Value::is_number);
const OBJECT: Rule = ("an object", Value::is_object);
const BASE64: Rule = ("Base64 of the standard alphabet, with padding", |value| value.as_str().is_some_and(is_base64));
const URI: Rule = ("a URI", |value| {
    let scheme = value.as_str().filter(|uri| !uri.contains(char::is_whitespace)).and_then(|uri| uri.split_once(':'));
    scheme.is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
});
const PRIORITY: Rule =
    ("a number from 0 to 1", |value| value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number)));
const AUDIENCE: Rule = ("a list of user and assistant", |value| {
    let is_role = |role: &Value| matches!(role.as_str(), Some("user" | "assistant"));
    value.as_array().is_some_and(|roles| roles.iter().all(is_role))
});

/// Decodes it piece by piece and keeps nothing.
fn is_base64(text: &str) -> bool {
    io::copy(&mut DecoderReader::new(text.as_bytes(), &STANDARD), &mut io::sink()).is_ok()
}

fn need(object: &Map<String, Value>, name: &str, (expected, fits): Rule) -> Result<(), String> {
    let found = object.get(name).is_some_and(fits);
    found.then_some(()).ok_or_else(|| format!(".{name}: expected {expected}"))
}

fn may(object: &Map<String, Value>, name: &str, rule: Rule) -> Result<(), String> {
    if object.contains_key(name) { need(object, name, rule) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_block_passes_with_what_else_it_carries() {
        for block in [
            r#"{"type":"text","text":""}"#,
            r#"{"type":"text","text":"a","annotations":{"audience":["user"],"priority":0.5},"_meta":{"x":1},"other":7}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#,
            r#"{"type":"resource_link","uri":"job://x","name":"n","size":7}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","text":""}}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"AAAA"}}"#,
        ] {
            assert_eq!(check(&format!("[{block}]")), Ok(()), "{block}");
        }
        assert_eq!(check("[]"), Ok(()));
    }

    #[test]
    fn a_bad_block_is_named_with_what_is_wrong() {
        for (block, why) in [
            ("7", ": expected an object"),
            ("{}", ".type: expected"),
            (r#"{"type":"video"}"#, ".type: expected"),
            (r#"{"type":"text"}"#, ".text: expected a string"),
            (r#"{"type":"text","text":null}"#, ".text: expected a string"),
            (r#"{"type":"image","data":"A","mimeType":"a/b"}"#, ".data: expected Base64"),
            (r#"{"type":"image","data":"a-_=","mimeType":"a/b"}"#, ".data: expected Base64"),
            (r#"{"type":"audio","data":"AAAA"}"#, ".mimeType: expected a string"),
            (r#"{"type":"resource_link","uri":"x","name":"n"}"#, ".uri: expected a URI"),
            (r#"{"type":"resource_link","uri":"a:b"}"#, ".name: expected a string"),
            (r#"{"type":"resource_link","uri":"a:b","name":"n","size":"7"}"#, ".size: expected a number"),
            (r#"{"type":"resource"}"#, ".resource: expected an object"),
            (r#"{"type":"resource","resource":{"text":""}}"#, ".resource.uri: expected a URI"),
            (r#"{"type":"resource","resource":{"uri":"a:b"}}"#, ".resource: expected either text or blob"),
            (r#"{"type":"resource","resource":{"uri":"a:b","text":"","blob":""}}"#, "either text or blob"),
            (r#"{"type":"text","text":"","annotations":[]}"#, ".annotations: expected an object"),
            (r#"{"type":"text","text":"","annotations":{"priority":2}}"#, ".annotations.priority: expected"),
            (r#"{"type":"text","text":"","annotations":{"audience":["all"]}}"#, ".annotations.audience: expected"),
            (r#"{"type":"text","text":"","_meta":7}"#, "._meta: expected an object"),
        ] {
            let told = check(&format!(r#"[{{"type":"text","text":"fine"}},{block}]"#)).expect_err(block);
            assert!(told.starts_with("content[1]") && told.contains(why), "{block}: {told}");
        }
        assert!(check("{}").is_err() && check("[").is_err());
    }
}
