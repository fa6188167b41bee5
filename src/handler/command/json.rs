//! JSON text on one line, its numbers and strings as they were written.
//!
//! In: valid JSON. Out: the same without the space between. Never parses numbers, so none loses a digit.

use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::job::JSON_DEPTH_MAX;

/// Why a value is not kept, for whoever wrote the program.
pub const UNSOUND: &str = "it is nested too deeply, or holds half a surrogate pair or a number beyond all readers";

/// The same value, compact; `None` if it is nested beyond `JSON_DEPTH_MAX`, or is what strict readers refuse: half a surrogate
/// pair, a number beyond a double's range. One such value in the log would end every client that reads it.
pub fn compact(text: &str) -> Option<String> {
    let (squeezed, depth) = squeezed(text.into()).ok()?;
    (depth <= JSON_DEPTH_MAX).then(|| String::from_utf8(squeezed.into()).ok())?
}

/// The same for a text that may be large: it is made compact where it lies. Also says how deeply it is nested, and leaves it to the
/// caller how deep is too deep.
///
/// # Errors
/// What is wrong with it.
pub fn squeezed(mut text: Vec<u8>) -> Result<(Bytes, usize), String> {
    // Keeps nothing of it, whatever its size.
    serde_json::from_slice::<IgnoredAny>(&text).map_err(|why| why.to_string())?;
    let mut depth = Depth::default();
    let (mut read, mut written) = (0, 0);
    while let Some(&byte) = text.get(read) {
        let token = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                read += 1;
                continue;
            }
            b'"' => string(&text[read..]).ok_or(UNSOUND)?,
            b'-' | b'0'..=b'9' => number(&text[read..]).ok_or(UNSOUND)?,
            _ => 1,
        };
        depth.see(byte);
        if read > written {
            text.copy_within(read..read + token, written);
        }
        read += token;
        written += token;
    }
    text.truncate(written);
    Ok((text.into(), depth.most))
}

#[derive(Default)]
struct Depth {
    now: usize,
    most: usize,
}

impl Depth {
    fn see(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.now += 1,
            b'}' | b']' => self.now = self.now.saturating_sub(1),
            _ => {}
        }
        self.most = self.most.max(self.now);
    }
}

/// How long the string is that this text begins with; `None` if it holds half a surrogate pair.
fn string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += match &text[at..] {
            [_, b'u', rest @ ..] => match (unit(rest)?, rest.get(4..)) {
                (0xD800..=0xDBFF, Some([b'\\', b'u', low @ ..])) if matches!(unit(low)?, 0xDC00..=0xDFFF) => 12,
                (0xD800..=0xDFFF, _) => return None,
                _ => 6,
            },
            _ => 2,
        };
    }
}

/// The code unit that four hex digits name.
fn unit(digits: &[u8]) -> Option<u16> {
    u16::from_str_radix(std::str::from_utf8(digits.get(..4)?).ok()?, 16).ok()
}

/// How long the number is that this text begins with; `None` if it is beyond a double's range.
fn number(text: &[u8]) -> Option<usize> {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let length = text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len());
    // Fewer digits than the largest double has.
    const PLAIN_MAX: usize = 300;
    let digits = &text[..length];
    if length <= PLAIN_MAX && !digits.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return Some(length);
    }
    let value: f64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    value.is_finite().then_some(length)
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
        assert!(compact(&nested(JSON_DEPTH_MAX)).is_some());
        assert_eq!(compact(&nested(JSON_DEPTH_MAX + 1)), None);
        let many = format!("[{}]", vec!["[]"; JSON_DEPTH_MAX + 1].join(","));
        assert!(compact(&many).is_some());
    }
}
