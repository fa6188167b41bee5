//! Configured texts with places that a request fills: `{name}`.
//!
//! In: a text and the names of its places, at start; then values. Out: the text with the values, escaped for what it is, within a bound.
//! Braces around anything but one of the names stay as they are, so that JSON can be written plainly.

/// Most bytes that filled texts of one answer have together; beyond, the request is refused.
pub const FILLED_MAX: usize = 4 * 1024 * 1024;

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fillable {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Plain(String),
    /// The value with this number.
    Place(usize),
}

impl Fillable {
    /// Finds the places. Values are given later in the order of these names.
    pub fn new(text: &str, names: &[&str]) -> Self {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(open) = rest.find('{') {
            let inside = &rest[open + 1..];
            let place = inside.find('}').and_then(|close| {
                let at = names.iter().position(|name| *name == &inside[..close])?;
                Some((at, &inside[close + 1..]))
            });
            match place {
                Some((at, behind)) => {
                    plain.push_str(&rest[..open]);
                    pieces.extend([Piece::Plain(std::mem::take(&mut plain)), Piece::Place(at)]);
                    rest = behind;
                }
                None => {
                    plain.push_str(&rest[..=open]);
                    rest = inside;
                }
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Plain(plain));
        Self { pieces }
    }

    /// What looks like a place in a text and is none: `{word}`, of a word that is not one of these names.
    pub fn strays<'t>(text: &'t str, names: &[&str]) -> Vec<&'t str> {
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        };
        let inside = text.split('{').skip(1).filter_map(|behind| Some(behind.split_once('}')?.0));
        let mut strays: Vec<&str> = inside.filter(|word| is_word(word) && !names.contains(word)).collect();
        strays.sort_unstable();
        strays.dedup();
        strays
    }

    /// The text with these values; `None` if it would be longer than `room`, which it shortens.
    pub(super) fn fill(&self, values: &[String], escape: Escape, room: &mut usize) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(plain) => text.push_str(plain),
                Piece::Place(at) => escape.push(&mut text, values.get(*at).map_or("", String::as_str)),
            }
            if text.len() > *room {
                return None;
            }
        }
        *room -= text.len();
        Some(text)
    }
}

/// What a value must not break out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Plain text: nothing.
    Nothing,
    /// A JSON string.
    Json,
    /// HTML or XML: text or an attribute in quotes.
    Markup,
}

impl Escape {
    /// What a text of this type needs.
    pub(super) fn of(mime_type: &str) -> Self {
        let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            json if json.ends_with("/json") || json.ends_with("+json") => Self::Json,
            markup if markup == "text/html" || markup.ends_with("/xml") || markup.ends_with("+xml") => Self::Markup,
            _ => Self::Nothing,
        }
    }

    fn push(self, text: &mut String, value: &str) {
        match self {
            Self::Nothing => text.push_str(value),
            Self::Json => {
                let quoted = serde_json::Value::from(value).to_string();
                text.push_str(&quoted[1..quoted.len() - 1]);
            }
            Self::Markup => value.chars().for_each(|char| match char {
                '&' => text.push_str("&amp;"),
                '<' => text.push_str("&lt;"),
                '>' => text.push_str("&gt;"),
                '"' => text.push_str("&quot;"),
                '\'' => text.push_str("&#39;"),
                other => text.push(other),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, escape: Escape, values: &[&str]) -> Option<String> {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        Fillable::new(text, &["id", "other"]).fill(&values, escape, &mut 100)
    }

    #[test]
    fn only_the_named_places_are_filled() {
        for (text, expected) in [
            ("", ""),
            ("{id}", "7"),
            ("{id}{id}{other}", "77x"),
            (r#"{"id":"{id}"}"#, r#"{"id":"7"}"#),
            ("{{id}}", "{7}"),
            ("{ id} {ID} {} {id", "{ id} {ID} {} {id"),
            ("語{id}語", "語7語"),
        ] {
            assert_eq!(filled(text, Escape::Nothing, &["7", "x"]).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_word_in_braces_that_is_no_place_is_a_stray() {
        let strays = |text: &'static str| Fillable::strays(text, &["id", "other"]);
        assert_eq!(strays("{id} {other} { x } {\"a\":1} {} {3} {b c} {open"), [""; 0]);
        assert_eq!(strays("{ids} {{Id}} {a-b.c_1}{ids}"), ["Id", "a-b.c_1", "ids"]);
    }

    #[test]
    fn a_value_does_not_break_out_of_what_it_is_put_in() {
        let hostile = "\"},{\"a\":\"\\\n<script>&'{other}";
        let json = filled(r#"{"id":"{id}"}"#, Escape::of("application/json"), &[hostile, "x"]).expect("fits");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["id"], hostile);
        let html = filled("<p title=\"{id}\">", Escape::of("text/html; charset=utf-8"), &["\"><b>&'", ""]);
        assert_eq!(html.as_deref(), Some("<p title=\"&quot;&gt;&lt;b&gt;&amp;&#39;\">"));
        // A value that looks like a place is not filled again.
        assert_eq!(filled("{id}", Escape::Nothing, &["{other}", "x"]).as_deref(), Some("{other}"));
    }

    #[test]
    fn filling_stops_at_the_bound() {
        let long = "y".repeat(60);
        assert_eq!(filled("{id}{id}", Escape::Nothing, &[&long]), None);
        assert_eq!(filled("{id}", Escape::Nothing, &[&long]).map(|text| text.len()), Some(60));
    }

    #[test]
    fn the_type_of_a_text_tells_what_is_escaped() {
        for (mime_type, escape) in [
            ("application/json", Escape::Json),
            ("Application/JSON; charset=utf-8", Escape::Json),
            ("application/ld+json", Escape::Json),
            ("image/svg+xml", Escape::Markup),
            ("application/xml", Escape::Markup),
            ("text/plain", Escape::Nothing),
            ("", Escape::Nothing),
        ] {
            assert_eq!(Escape::of(mime_type), escape, "{mime_type}");
        }
    }
}
