//! Reading a caller's JSON into a value, with nothing left to interpretation.
//!
//! In: bytes. Out: a value, or why it is none. An object that names a member twice is refused: who validates it and who runs
//! with it might each believe another one of the two. So is what is nested deeper than a handler is given it.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::job::JSON_DEPTH_MAX;

/// Reads one JSON value, nested `JSON_DEPTH_MAX` deep at most.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// A value within so many others.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn within<E: Error>(self) -> Result<Self, E> {
        match self.depth < JSON_DEPTH_MAX {
            true => Ok(Self { depth: self.depth + 1 }),
            false => Err(E::custom(format!("nested deeper than {JSON_DEPTH_MAX} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.within()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.within()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key_seed(Name)? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            let value = members.next_value_seed(inside)?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{JSON_DEPTH_MAX, read};

    #[test]
    fn a_value_is_read_as_it_is_written() {
        let text = r#"{"a":[1,-2,3.5,"x\n",null,true],"b":{"c":18446744073709551615}}"#;
        assert_eq!(
            read(text.as_bytes()).expect("JSON"),
            serde_json::from_str::<serde_json::Value>(text).expect("JSON")
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"b":{"c":1,"c":1}}]"#] {
            let why = read(text.as_bytes()).expect_err("a member twice").to_string();
            assert!(why.contains("twice"), "{why}");
        }
        for text in ["{} {}", "{}x", "", "{", "[1,]", "nul", "1e999", "\u{feff}{}"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(deep(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let why = read(deep(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("too deep").to_string();
        assert!(why.starts_with("nested deeper than 120 levels"), "{why}");
        assert!(read(format!("[{}]", vec!["[]"; JSON_DEPTH_MAX].join(",")).as_bytes()).is_ok());
        assert!(read(b"\"\xff\"").is_err());
    }
}
