//! What a program wrote last to stderr, as the failure of one that ended badly quotes it.
//!
//! In: lines. Out: the last that says something, as one short line of plain text.

/// Most of it that is quoted, in characters.
pub const SAID_MAX: usize = 200;

/// The last line so far.
#[derive(Debug, Default)]
pub struct Said(Option<String>);

impl Said {
    /// Takes the next line.
    pub fn hear(&mut self, line: &str) {
        // What a terminal would show: a carriage return writes over what was there.
        let words = line.rsplit('\r').map(plain).find(|words| !words.is_empty());
        self.0 = words.or(self.0.take());
    }

    /// What it said; `None` if nothing.
    pub fn into_words(self) -> Option<String> {
        self.0
    }
}

/// The beginning of the text without what is no text: colours, control characters, and what turns the direction of writing or breaks lines.
fn plain(text: &str) -> String {
    let (mut out, mut count, mut rest) = (String::new(), 0, text.trim().chars());
    while let Some(character) = rest.next() {
        match if character == '\t' { ' ' } else { character } {
            '\u{1b}' if rest.as_str().starts_with('[') => {
                // From `[` to the letter that ends it.
                let _ = rest.next().and_then(|_| rest.find(|character| ('@'..='~').contains(character)));
                continue;
            }
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => continue,
            hidden if hidden.is_control() => continue,
            _ if count == SAID_MAX => {
                out.push('…');
                break;
            }
            shown => out.push(shown),
        }
        count += 1;
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Option<String> {
        let mut said = Said::default();
        lines.iter().for_each(|line| said.hear(line));
        said.into_words()
    }

    #[test]
    fn the_last_line_that_says_something_is_quoted_as_plain_text() {
        for (lines, words) in [
            (&["warning: a", "error: b", "", "  \t "][..], Some("error: b")),
            (&["\u{1b}[1;31merror\u{1b}[0m: no\tcolumn\u{7} 'c'", "\u{1b}[0m"], Some("error: no column 'c'")),
            (&["10 %\r20 %\rno space left\r"], Some("no space left")),
            (&["a\u{2028}b\u{202e}c\u{1b}"], Some("abc")),
            (&["", "\u{1b}[2K"], None),
            (&[], None),
        ] {
            assert_eq!(said(lines).as_deref(), words, "{lines:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let whole = "é".repeat(SAID_MAX);
        assert_eq!(said(&[&whole]), Some(whole.clone()));
        assert_eq!(said(&[&format!("{whole}é")]), Some(format!("{whole}…")));
    }
}
