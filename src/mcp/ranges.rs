//! Ranges of long texts, cut where a reader can go on: never within a character, never within a JSON escape.
//!
//! In: the bodies that make up a text, an offset and a limit in bytes. Out: a piece, and where the next one begins. Reads no more of a body
//! than the piece, however long the body is.

use crate::job::{BodyRef, JobId};
use crate::service::{Refused, Service};

/// Bytes of a result or log that an answer holds when nobody asks for more; the rest is read in ranges.
pub const TEXT_DEFAULT: u64 = 20_000;
/// Most bytes of one range. More is answered as this many.
pub const TEXT_MAX: u64 = 64 * 1024;
/// Fewest bytes of one range, so that each goes on by a character.
pub const TEXT_MIN: u64 = 16;
/// A character or an escape that begins within the limit may end so much later.
const SLACK: u64 = 16;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The piece.
    pub text: String,
    /// Where it begins, in bytes of the whole.
    pub offset: u64,
    /// Where the next one begins; `None` at the end.
    pub next: Option<u64>,
    /// Bytes of the whole.
    pub total: u64,
}

/// Reads a text that is kept in these bodies, one after the other.
pub(super) async fn lines(
    service: &Service,
    job: JobId,
    bodies: &[BodyRef],
    offset: u64,
    limit: u64,
) -> Result<Range, Refused> {
    let total = bodies.iter().map(|body| body.len).sum();
    let limit = limit.clamp(TEXT_MIN, TEXT_MAX);
    let mut bytes = Vec::new();
    let mut start = 0;
    for body in bodies {
        let from = (offset + bytes.len() as u64).saturating_sub(start);
        let wanted = limit + SLACK - bytes.len() as u64;
        if from < body.len && wanted > 0 {
            bytes.extend_from_slice(&service.body(job, *body, from, cap(wanted.min(body.len - from))).await?);
        }
        start += body.len;
    }
    Ok(piece(&bytes, offset.min(total), limit, total, &PLAIN))
}

/// Reads the JSON text of a value. The pieces of a string are what it says, without quotes and escapes; offsets still count the JSON text.
pub(super) async fn json(
    service: &Service,
    job: JobId,
    body: BodyRef,
    offset: u64,
    limit: u64,
) -> Result<Range, Refused> {
    let limit = limit.clamp(TEXT_MIN, TEXT_MAX);
    let is_string = service.body(job, body, 0, 1).await?.first() == Some(&b'"');
    let offset = offset.min(body.len).max(u64::from(is_string));
    let bytes = service.body(job, body, offset, cap(limit + SLACK)).await?;
    Ok(piece(&bytes, offset, limit, body.len, if is_string { &ESCAPED } else { &PLAIN }))
}

fn cap(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// How a text is stepped through and shown.
struct Manner {
    /// Bytes at the end that belong to no piece.
    tail: u64,
    /// Bytes of the character or escape that begins here.
    step: fn(&[u8]) -> usize,
    /// What a piece says.
    show: fn(&[u8]) -> String,
}

const PLAIN: Manner = Manner { tail: 0, step: character, show: |bytes| String::from_utf8_lossy(bytes).into_owned() };
const ESCAPED: Manner = Manner { tail: 1, step: escape, show: unescaped };

/// Cuts a piece out of the bytes that were read from `offset` on.
fn piece(bytes: &[u8], offset: u64, limit: u64, total: u64, manner: &Manner) -> Range {
    let end = total.saturating_sub(manner.tail);
    let here = cap(end.saturating_sub(offset)).min(bytes.len());
    let bytes = &bytes[..here];
    // An offset within a character: the piece begins at the next one.
    let skipped = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    let mut length = skipped;
    while length < here.min(cap(limit)) {
        let next = length + (manner.step)(&bytes[length..]);
        if next > here || (next > cap(limit) && length > skipped) {
            break;
        }
        length = next;
    }
    // What makes no sense at the very end is shown as it is, so that reading ends.
    let is_stuck = length == skipped && here > skipped;
    let length = if is_stuck { here } else { length };
    let next = offset + length as u64;
    Range {
        text: (manner.show)(&bytes[skipped..length]),
        offset: offset + skipped as u64,
        next: (next < end).then_some(next),
        total,
    }
}

fn character(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xFF) => 4,
        Some(_) | None => 1,
    }
}

/// One character of a JSON string as written; a pair of surrogates is one.
fn escape(bytes: &[u8]) -> usize {
    match bytes {
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => 12,
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        _ => character(bytes),
    }
}

fn unescaped(bytes: &[u8]) -> String {
    let quoted = [b"\"", bytes, b"\""].concat();
    // A lone surrogate is no text: then it is shown as written.
    serde_json::from_slice(&quoted).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of `text` in pieces of about `limit` bytes.
    fn read_all(text: &str, limit: u64, manner: &Manner, first: u64) -> String {
        let (mut all, mut offset, total) = (String::new(), first, text.len() as u64);
        for _ in 0..=text.len() {
            let end = text.len().min(cap(offset + limit + SLACK));
            let range = piece(&text.as_bytes()[cap(offset)..end], offset, limit, total, manner);
            assert!(range.text.len() <= cap(limit + SLACK));
            all.push_str(&range.text);
            match range.next {
                Some(next) => offset = next,
                None => return all,
            }
        }
        panic!("reading {text} does not end");
    }

    #[test]
    fn case_36_pieces_of_a_text_join_without_a_broken_character() {
        for text in ["", "a", "日本語のテキスト", "€x€y😀z", &"語😀a".repeat(50)] {
            for limit in 1..=20 {
                assert_eq!(read_all(text, limit, &PLAIN, 0), text, "limit {limit}");
            }
        }
    }

    #[test]
    fn pieces_of_a_string_join_to_what_it_says() {
        for text in ["", "a\nb\"c\\d", "語\t😀\u{1}", &"\n\\😀".repeat(40)] {
            let json = serde_json::to_string(text).expect("is JSON");
            let escaped = json.replace('😀', r"\ud83d\ude00");
            for limit in 1..=20 {
                assert_eq!(read_all(&json, limit, &ESCAPED, 1), text, "limit {limit}");
                assert_eq!(read_all(&escaped, limit, &ESCAPED, 1), text, "limit {limit}");
            }
        }
        // A lone surrogate is shown as written, and reading goes on.
        assert!(read_all(r#""a\ud800""#, 16, &ESCAPED, 1).starts_with('a'));
    }

    #[test]
    fn an_offset_within_a_character_begins_at_the_next() {
        let text = "語a";
        let range = piece(&text.as_bytes()[1..], 1, 16, 4, &PLAIN);
        assert_eq!(range, Range { text: "a".into(), offset: 3, next: None, total: 4 });
    }
}
