//! Which form an answer may have: what Accept allows, and whether the body claims to be JSON.
//!
//! In: headers. Out: `Form`, or nothing acceptable. Kind to clients that list one of the two types, none, or list them oddly.

use super::headers::{Headers, value};

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `application/json`.
    Json,
    /// `text/event-stream` of one message.
    Sse,
}

/// What a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    /// How one message is written.
    pub form: Form,
    /// It named `text/event-stream`, and so can follow a stream.
    pub streams: bool,
    /// It would take a stream where there is nothing else.
    pub takes_streams: bool,
}

/// What the client takes, one message as JSON rather than SSE; JSON without an Accept header; `None` if it takes neither.
pub(super) fn accepts(headers: &dyn Headers) -> Option<Accepts> {
    let mut ranges = Ranges::default();
    let mut present = false;
    headers.each("accept", &mut |line| {
        present = true;
        String::from_utf8_lossy(line).split(',').for_each(|range| ranges.note(range));
    });
    let form = if !present || ranges.allow(ranges.json, ranges.application) {
        Form::Json
    } else if ranges.allow(ranges.sse, ranges.text) {
        Form::Sse
    } else {
        return None;
    };
    let takes_streams = !present || ranges.allow(ranges.sse, ranges.text);
    Some(Accepts { form, streams: ranges.sse == Some(true), takes_streams })
}

/// What was said about our two types and the ranges that cover them: acceptable or refused (`q=0`).
#[derive(Default)]
struct Ranges {
    json: Option<bool>,
    sse: Option<bool>,
    application: Option<bool>,
    text: Option<bool>,
    all: Option<bool>,
}

impl Ranges {
    fn note(&mut self, range: &str) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let slot = [
            ("application/json", &mut self.json),
            ("text/event-stream", &mut self.sse),
            ("application/*", &mut self.application),
            ("text/*", &mut self.text),
            ("*/*", &mut self.all),
        ]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some((_, slot)) = slot {
            *slot = Some(slot.unwrap_or(false) || !parts.any(is_refusal));
        }
    }

    /// The most specific range that was listed decides.
    fn allow(&self, exact: Option<bool>, family: Option<bool>) -> bool {
        exact.or(family).or(self.all).unwrap_or(false)
    }
}

/// `q=0`, `q=0.000`, in either case.
fn is_refusal(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q") && weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0)
}

/// Whether `Content-Type` is JSON, whatever its parameters.
pub(super) fn is_json(headers: &dyn Headers) -> bool {
    value(headers, "content-type").is_some_and(|found| {
        let name = found.split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"application/json")
    })
}

#[cfg(test)]
mod tests {
    use super::super::headers::fake::List;
    use super::*;

    #[test]
    fn case_28_an_answer_comes_in_any_form_that_the_client_accepts() {
        let check = |lines: &[&str], expected| {
            let list: Vec<_> = lines.iter().map(|line| ("accept", line.as_bytes())).collect();
            assert_eq!(accepts(&List(&list)).map(|accepts| accepts.form), expected, "{lines:?}");
        };
        check(&[], Some(Form::Json));
        check(&["*/*"], Some(Form::Json));
        check(&["application/json, text/event-stream"], Some(Form::Json));
        check(&["text/event-stream,application/json"], Some(Form::Json));
        check(&["application/json"], Some(Form::Json));
        check(&["text/event-stream"], Some(Form::Sse));
        check(&["TEXT/EVENT-STREAM , Application/JSON"], Some(Form::Json));
        check(&["  text/event-stream ; q=0.5 ;v=1 "], Some(Form::Sse));
        check(&["text/html", "application/json;q=0.1"], Some(Form::Json));
        check(&["text/html", "text/event-stream"], Some(Form::Sse));
        check(&["application/json;q=0, */*;q=0.1"], Some(Form::Sse));
        check(&["application/*"], Some(Form::Json));
        check(&["text/*"], Some(Form::Sse));
        check(&["text/html"], None);
        check(&["application/json;Q=0.000, text/event-stream; q=0"], None);
        check(&["application/jsonp"], None);
        check(&[""], None);
    }

    #[test]
    fn only_json_is_read_as_json() {
        let check = |value: &str| is_json(&List(&[("content-type", value.as_bytes())]));
        assert!(check("application/json"));
        assert!(check("Application/JSON ; charset=utf-8"));
        assert!(!check("text/plain"));
        assert!(!check("application/json-patch+json"));
        assert!(!is_json(&List(&[])));
    }
}
