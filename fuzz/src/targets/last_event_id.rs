//! `last_event_id`: the cursor of a stream, as header and as parameter.
//!
//! The bytes up to the first line end are the value of the header, what follows is the query of the URL. Each is judged here by the grammar
//! of contract 2, written down once more.

use hyper::header::{HeaderMap, HeaderValue};
use longhaul::events::Start;
use longhaul::http::problem::{Code, Problem};
use longhaul::http::query::Query;
use longhaul::http::sse;
use longhaul::job::{EventId, JobId};

/// Reads the bytes as cursors.
///
/// # Panics
/// When a cursor is read that is none, or one is refused, or does not come back as it was written.
pub fn run(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (header, rest) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    for text in [header, rest].into_iter().filter_map(|bytes| std::str::from_utf8(bytes).ok()) {
        names_come_back(text);
    }
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_bytes(header);
    if let Ok(value) = &value {
        headers.append(sse::LAST_EVENT_ID, value.clone());
    }
    let header = value.as_ref().ok().map(|value| value.as_bytes());
    cursor_is_judged(&headers, header);
    let Ok(query) = std::str::from_utf8(rest) else { return };
    match Query::parse(Some(query)) {
        Ok(query) => request_is_judged(&headers, header, &query),
        Err(problem) => assert_eq!(problem.code, Code::BadRequest, "{query:?}"),
    }
}

/// What is read is written as it stood; what is a name by the grammar is read.
fn names_come_back(text: &str) {
    let id = text.parse::<EventId>();
    assert_eq!(id.is_ok(), is_event_id(text), "{text:?}");
    if let Ok(id) = id {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(job) = text.parse::<JobId>() {
        assert_eq!(job.to_string(), text);
        assert!(text.len() == 36 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')));
    }
}

/// `<epoch>-<position>`, epoch 8 lower-case hex digits, position decimal without leading zeros, of 64 bits.
fn is_event_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((epoch, rest)) = bytes.split_at_checked(8) else { return false };
    let [b'-', digits @ ..] = rest else { return false };
    let is_number = digits.iter().all(u8::is_ascii_digit) && digits.len() <= 20;
    let value = |digits: &[u8]| digits.iter().fold(0_u128, |value, digit| value * 10 + u128::from(digit - b'0'));
    epoch.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && is_number
        && matches!(digits, [b'0'] | [b'1'..=b'9', ..])
        && value(digits) <= u128::from(u64::MAX)
}

/// What a cursor says, and whether it may be said at all.
fn expected(value: &[u8]) -> Result<Option<Start>, ()> {
    match std::str::from_utf8(value) {
        Ok("") => Ok(None),
        Ok("earliest") => Ok(Some(Start::Earliest)),
        Ok(text) if is_event_id(text) => Ok(Some(Start::After(text.parse().expect("it is one")))),
        Ok(_) | Err(_) => Err(()),
    }
}

fn is_refused(answer: &Result<Option<Start>, Problem>) -> bool {
    match answer {
        Ok(_) => false,
        Err(problem) => {
            assert!(matches!(problem.code, Code::BadCursor | Code::BadFilter), "{problem:?}");
            assert!(!problem.errors.is_empty(), "the field is named: {problem:?}");
            true
        }
    }
}

/// The header alone.
fn cursor_is_judged(headers: &HeaderMap, value: Option<&[u8]>) {
    let answer = sse::start(headers, &Query::default(), &[]);
    match expected(value.unwrap_or_default()) {
        Ok(start) => assert!(matches!(&answer, Ok(found) if *found == start), "{value:?}: {answer:?}"),
        Err(()) => assert!(is_refused(&answer), "{value:?}: {answer:?}"),
    }
    // Once more the same says the same; another beside it is refused.
    let Some(value) = headers.get(sse::LAST_EVENT_ID) else { return };
    let mut twice = headers.clone();
    twice.append(sse::LAST_EVENT_ID, value.clone());
    assert_eq!(sse::start(&twice, &Query::default(), &[]).is_ok(), answer.is_ok());
    twice.append(sse::LAST_EVENT_ID, HeaderValue::from_static("00000000-7"));
    assert_eq!(sse::start(&twice, &Query::default(), &[]).is_ok(), answer.is_ok() && value == "00000000-7");
}

/// Header and parameters together: the header wins, an empty one is none, and nothing unknown is passed over.
fn request_is_judged(headers: &HeaderMap, value: Option<&[u8]>, query: &Query) {
    let answer = sse::start(headers, query, &["type"]);
    let refused = is_refused(&answer);
    let mut cursors = query.all(sse::LAST_EVENT_ID_PARAMETER);
    let (first, second) = (cursors.next(), cursors.next());
    let Ok(start) = answer else { return };
    assert!(!refused);
    match expected(value.unwrap_or_default()) {
        Ok(Some(own)) => assert_eq!(start, Some(own), "the header wins"),
        Ok(None) => {
            assert!(second.is_none(), "two cursors");
            assert_eq!(Ok(start), expected(first.unwrap_or_default().as_bytes()));
        }
        Err(()) => panic!("{value:?} was taken for a cursor"),
    }
}
