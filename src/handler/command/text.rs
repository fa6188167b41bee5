//! Text as a program writes it, piece by piece, and as JSON has it.
//!
//! In: bytes cut anywhere. Out: whole characters; or the JSON string that says them, made as they come, so that a large text is held
//! once and never copied as a whole.

use crate::job::cut;

/// Turns bytes into text as `String::from_utf8_lossy` does, whatever pieces they come in.
#[derive(Default)]
pub struct Decoder {
    /// The beginning of a character whose rest is still to come.
    held: Vec<u8>,
    lossy: bool,
}

impl Decoder {
    /// Takes bytes and calls `each` with the text that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        if self.held.is_empty() {
            return self.decode(bytes, &mut each);
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.decode(&joined, &mut each);
    }

    /// The end: a character that is not whole is replaced. Says whether anything was.
    pub fn finish(self, each: impl FnOnce(&str)) -> bool {
        if !self.held.is_empty() {
            each(REPLACED);
        }
        self.lossy || !self.held.is_empty()
    }

    fn decode(&mut self, bytes: &[u8], each: &mut impl FnMut(&str)) {
        let mut rest = bytes;
        loop {
            let (valid, broken) = match std::str::from_utf8(rest) {
                Ok(text) => return each(text),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            let (text, after) = rest.split_at(valid);
            each(std::str::from_utf8(text).unwrap_or_default());
            let Some(length) = broken else {
                self.held.extend_from_slice(after);
                return;
            };
            self.lossy = true;
            each(REPLACED);
            rest = &after[length..];
        }
    }
}

/// What stands for bytes that are no text.
const REPLACED: &str = "\u{fffd}";

/// Most text that is escaped at once, in bytes.
const PIECE: usize = 64 * 1024;

/// A JSON string in the making.
pub struct Quoted {
    json: Vec<u8>,
    most: usize,
}

impl Quoted {
    /// Says nothing yet; will say about `most` bytes at most.
    pub fn new(most: usize) -> Self {
        Self { json: vec![b'"'], most }
    }

    /// Adds text, escaped.
    pub fn push(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(cut(rest, PIECE).len());
            let quoted = serde_json::Value::from(some).to_string();
            let escaped = quoted.strip_prefix('"').and_then(|piece| piece.strip_suffix('"')).unwrap_or_default();
            append(&mut self.json, escaped.as_bytes(), self.most);
            rest = others;
        }
    }

    /// Takes one `\n` or `\r\n` off the end; further ones are the text's own.
    pub fn drop_line_end(&mut self) {
        if self.drop_escape(b'n') {
            self.drop_escape(b'r');
        }
    }

    /// Takes the escape with this letter off the end, if it is there.
    fn drop_escape(&mut self, letter: u8) -> bool {
        let Some((&last, before)) = self.json.split_last() else { return false };
        // An even number of backslashes says backslashes, and the letter is one.
        let is_there = last == letter && before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        if is_there {
            self.json.truncate(self.json.len() - 2);
        }
        is_there
    }

    /// The whole string, quotes included.
    pub fn finish(mut self) -> Vec<u8> {
        append(&mut self.json, b"\"", self.most);
        self.json
    }
}

/// From so many bytes on, a text gets all the address space at once that it may need (memory that it does not fill costs nothing):
/// one that grows by being moved is there twice for a moment.
const GROWN_MAX: usize = 1024 * 1024;

/// Most that is taken at once.
const AT_ONCE_MAX: usize = 256 * 1024 * 1024;

/// Adds to a text of which about `most` bytes are expected at most.
pub fn append(text: &mut Vec<u8>, more: &[u8], most: usize) {
    let needed = text.len() + more.len();
    if needed > text.capacity() && needed > GROWN_MAX {
        // With the quotes, and what ends a line. Where there is no such room, it grows as it can.
        let whole = most.saturating_add(PIECE).min(AT_ONCE_MAX);
        let _ = text.try_reserve_exact(whole.saturating_sub(text.len()));
    }
    text.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&[u8]]) -> (String, bool) {
        let (mut decoder, mut text) = (Decoder::default(), String::new());
        for piece in pieces {
            decoder.push(piece, |some| text.push_str(some));
        }
        let lossy = decoder.finish(|last| text.push_str(last));
        (text, lossy)
    }

    #[test]
    fn text_is_the_same_in_whatever_pieces_it_comes() {
        let texts: [&[u8]; 8] = [
            b"",
            "a€😀z".as_bytes(),
            b"\xff",
            b"a\xe2\x82",
            b"\xe2\x82\xe2\x82\xac!",
            b"\xf0\x9f\x98\xf0\x9f\x98\x80\x80",
            b"\xed\xa0\x80",
            b"\xc3(\xf5\x80\xc3",
        ];
        for text in texts {
            let expected = String::from_utf8_lossy(text);
            let is_lossy = std::str::from_utf8(text).is_err();
            for size in 1..=text.len().max(1) {
                let pieces: Vec<&[u8]> = text.chunks(size).collect();
                assert_eq!(decoded(&pieces), (expected.clone().into_owned(), is_lossy), "{text:x?} by {size}");
            }
        }
    }

    #[test]
    fn one_line_end_comes_off_the_end_and_nothing_that_looks_like_one() {
        for (text, expected) in [
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            ("a\r", "a\r"),
            ("a\\n", "a\\n"),
            ("a\\\n", "a\\"),
            ("a\\r\n", "a\\r"),
            ("n", "n"),
            ("\n", ""),
            ("", ""),
        ] {
            let mut quoted = Quoted::new(0);
            quoted.push(text);
            quoted.drop_line_end();
            assert_eq!(quoted.finish(), serde_json::to_vec(expected).expect("JSON"), "{text:?}");
        }
    }

    #[test]
    fn a_string_says_what_was_added() {
        let mut quoted = Quoted::new(0);
        let pieces = ["a\"b\\", "", "\n\u{1}\u{7f}", "€😀\u{2028}"];
        for piece in pieces {
            quoted.push(piece);
        }
        assert_eq!(quoted.finish(), serde_json::to_vec(&pieces.concat()).expect("JSON"));
        let long = "\"€".repeat(2 * GROWN_MAX / 5);
        let mut quoted = Quoted::new(2 * GROWN_MAX);
        quoted.push(&long);
        assert_eq!(quoted.finish(), serde_json::to_vec(&long).expect("JSON"));
    }
}
