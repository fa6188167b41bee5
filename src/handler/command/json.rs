//! JSON text on one line, its numbers and strings as they were written.
//!
//! In: valid JSON. Out: the same without the space between. Never parses numbers, so none loses a digit.

/// Deepest nesting that is kept: what others parse without complaint. Beyond, the value is refused.
pub const DEPTH_MAX: usize = 120;

/// The same value, compact; `None` if it is nested beyond `DEPTH_MAX`. Text that is no JSON stays none.
pub fn compact(text: &str) -> Option<String> {
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
    fn a_value_nested_too_deeply_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(compact(&nested(DEPTH_MAX)).is_some());
        assert_eq!(compact(&nested(DEPTH_MAX + 1)), None);
        assert!(compact(&"[]".repeat(DEPTH_MAX + 1)).is_some());
    }
}
