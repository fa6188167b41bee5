//! The fields of a JSON body: each found once, known, and of its type; every complaint in one answer.
//!
//! In: the bytes of one JSON object. Out: values by name. Values that are kept as JSON are not copied.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::http::problem::{Code, Problem};
use crate::service::Violation;

/// Longest unknown name that a complaint repeats, in bytes.
const NAME_MAX: usize = 64;
/// Most complaints of one answer.
const COMPLAINTS_MAX: usize = 20;

/// The fields of one object.
pub struct Fields<'a> {
    found: Vec<(&'static str, &'a RawValue)>,
    complaints: Vec<Violation>,
}

impl<'a> Fields<'a> {
    /// Takes an object apart whose fields may have these names.
    ///
    /// # Errors
    /// `bad_json` with the place if it is no JSON; `bad_request` if it is no object.
    pub fn read(json: &'a [u8], known: &'static [&'static str]) -> Result<Self, Problem> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let fields = Object { known }.deserialize(&mut deserializer);
        let fields = fields.and_then(|fields| deserializer.end().map(|()| fields));
        fields.map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Problem::of_field(Code::BadRequest, "", "must be a JSON object"),
            serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof
            | serde_json::error::Category::Io => Problem::new(Code::BadJson, error.to_string()),
        })
    }

    /// A field's value as it was written; `None` if it is absent or null.
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.found.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        found.filter(|value| value.get() != "null")
    }

    /// A field's value; `what` says in a complaint what it had to be. `None` if it is absent, null or complained of.
    pub fn take<T: serde::Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Option<T> {
        let value = self.raw(name)?;
        let read = serde_json::from_str(value.get()).ok();
        if read.is_none() {
            self.complain(name, format!("must be {what}"));
        }
        read
    }

    /// Notes what is wrong with a field.
    pub fn complain(&mut self, name: &str, message: impl Into<String>) {
        if self.complaints.len() < COMPLAINTS_MAX {
            let name = crate::job::cut(name, NAME_MAX).replace('~', "~0").replace('/', "~1");
            self.complaints.push(Violation { pointer: format!("/{name}"), message: message.into() });
        }
    }

    /// Goes on if there was nothing to complain of.
    ///
    /// # Errors
    /// `bad_request` with every complaint.
    pub fn finish(self) -> Result<(), Problem> {
        if self.complaints.is_empty() { Ok(()) } else { Err(Problem::of_fields(Code::BadRequest, self.complaints)) }
    }
}

struct Object {
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields { found: Vec::with_capacity(self.known.len()), complaints: Vec::new() };
        while let Some(name) = map.next_key::<String>()? {
            match self.known.iter().find(|known| **known == name) {
                None => {
                    map.next_value::<IgnoredAny>()?;
                    fields.complain(&name, format!("is unknown; there are {}", self.known.join(", ")));
                }
                Some(known) => {
                    let value = map.next_value()?;
                    if fields.found.iter().any(|(n, _)| n == known) {
                        fields.complain(known, "is there more than once");
                    }
                    fields.found.push((known, value));
                }
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["type", "priority", "payload"];

    fn complaints(json: &str) -> Result<Vec<String>, Code> {
        let mut fields = Fields::read(json.as_bytes(), KNOWN).map_err(|problem| problem.code)?;
        fields.take::<i64>("priority", "a whole number");
        let problem = fields.finish().err();
        Ok(problem.into_iter().flat_map(|p| p.errors).map(|v| v.pointer).collect())
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        assert_eq!(complaints(r#"{"type":"a","priority":1}"#), Ok(vec![]));
        assert_eq!(complaints(r#"{"priority":null}"#), Ok(vec![]));
        let wrong = r#"{"a/b~":1,"priority":"1","type":"a","type":"b"}"#;
        assert_eq!(complaints(wrong), Ok(vec!["/a~1b~0".into(), "/type".into(), "/priority".into()]));
        assert_eq!(complaints(r#"{"priority":1.5}"#), Ok(vec!["/priority".into()]));
        let many: String = (0..1_000).map(|n| format!(r#""x{n}":0,"#)).collect();
        assert_eq!(complaints(&format!(r#"{{{many}"type":"a"}}"#)).map(|c| c.len()), Ok(COMPLAINTS_MAX));
    }

    #[test]
    fn what_is_no_json_is_told_from_what_is_no_object() {
        for json in ["", "{", "{\"type\":}", "{} x", "{\"a\":\"\u{1}\"}", "nul"] {
            assert_eq!(complaints(json), Err(Code::BadJson), "{json}");
        }
        for json in ["[]", "1", "\"x\"", "null"] {
            assert_eq!(complaints(json), Err(Code::BadRequest), "{json}");
        }
        assert_eq!(Fields::read(b"{\"type\":\"\xff\"}", KNOWN).err().map(|p| p.code), Some(Code::BadJson));
        let place = Fields::read(b"{\n  x", KNOWN).err().map(|p| p.detail).unwrap();
        assert!(place.contains("line 2 column 3"), "{place}");
    }

    #[test]
    fn a_kept_value_is_as_it_was_written() {
        let fields = Fields::read(br#"{"payload": {"b":1.0, "a":[ ]} }"#, KNOWN).ok().unwrap();
        assert_eq!(fields.raw("payload").unwrap().get(), r#"{"b":1.0, "a":[ ]}"#);
    }
}
