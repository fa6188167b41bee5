//! JSON text on one line, its numbers and strings as they were written.
//!
//! In: valid JSON. Out: the same without the space between. Never parses numbers, so none loses a digit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Deepest nesting that is kept: what others parse without complaint. Beyond, the value is refused.
pub const DEPTH_MAX: usize = 120;

/// Why a value is not kept, for whoever wrote the program.
pub const UNSOUND: &str = "it is nested too deeply, or holds half a surrogate pair or a number beyond all readers";

/// The same value, compact; `None` if it is nested beyond `DEPTH_MAX`, or is what strict readers refuse: half a surrogate
/// pair, a number beyond a double's range. One such value in the log would end every client that reads it.
pub fn compact(text: &str) -> Option<String> {
    serde_json::from_str::<Sound>(text).ok()?;
    let mut compact = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut depth) = (false, false, 0usize);
    let mut kept_to = 0;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                compact.push_str(&text[kept_to..at]);
                kept_to = at + 1;
            }
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return None;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    compact.push_str(&text[kept_to..]);
    Some(compact)
}

/// Reads a whole value as strictly as a client would, and keeps nothing of it.
struct Sound;

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Sound {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compacting_drops_the_space_between_and_nothing_else() {
        let text = " { \"a \\\" b\" :\t[ 1.50 ,\r\n 123456789012345678901234567890, \"\\\\\" , \"ü \" ] } \n";
        let expected = "{\"a \\\" b\":[1.50,123456789012345678901234567890,\"\\\\\",\"ü \"]}";
        assert_eq!(compact(text).as_deref(), Some(expected));
    }

    #[test]
    fn what_strict_readers_refuse_is_refused() {
        for text in [r#""\ud800""#, r#"{"\udc00":1}"#, r#"[{"a":1e400}]"#] {
            assert_eq!(compact(text), None, "{text}");
        }
        assert!(compact(r#"["\ud83d\ude00", 123456789012345678901234567890, -1e-400]"#).is_some());
    }

    #[test]
    fn a_value_nested_too_deeply_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(compact(&nested(DEPTH_MAX)).is_some());
        assert_eq!(compact(&nested(DEPTH_MAX + 1)), None);
        let many = format!("[{}]", vec!["[]"; DEPTH_MAX + 1].join(","));
        assert!(compact(&many).is_some());
    }
}
