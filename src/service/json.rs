//! Reading a caller's JSON into a value, with nothing left to interpretation.
//!
//! In: bytes. Out: a value, or why it is none. An object that names a member twice is refused: who validates it and who runs
//! with it might each believe another one of the two.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one JSON value. Nested deeper than 128 is refused, by serde_json.
pub(super) fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

struct Strict;

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
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key_seed(Name)? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            let value = members.next_value_seed(Strict)?;
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
    use super::read;

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
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(read(deep.as_bytes()).is_err());
        assert!(read(b"\"\xff\"").is_err());
    }
}
