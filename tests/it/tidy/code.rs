//! Rust source as far as the rules need it: code apart from strings and comments, tests apart from the rest, functions
//! with their lengths.
//!
//! In: text. Out: text of the same length and lines. Knows no types and no macros; what it cannot tell it leaves alone.

/// The text with every string, character and comment blanked.
pub fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => end_of_line(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => end_of_block(bytes, at),
            b'"' => end_of_string(bytes, at + 1),
            b'r' if !follows_word(bytes, at) && raw_string(bytes, at).is_some() => {
                raw_string(bytes, at).unwrap_or(at + 1)
            }
            b'b' | b'c' if !follows_word(bytes, at) && bytes.get(at + 1) == Some(&b'"') => end_of_string(bytes, at + 2),
            b'b' | b'c' if !follows_word(bytes, at) && raw_string(bytes, at + 1).is_some() => {
                raw_string(bytes, at + 1).unwrap_or(at + 1)
            }
            b'\'' => end_of_char(text, at),
            _ => {
                at += 1;
                continue;
            }
        };
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(out).expect("only whole characters are blanked")
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn end_of_block(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a raw string that begins with the `r` at `at`.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?.strip_prefix(b"r")?;
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    let body = rest[hashes..].strip_prefix(b"\"")?;
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let length = body.windows(close.len()).position(|window| window == close)?;
    Some(at + 1 + hashes + 1 + length + close.len())
}

/// The end of a character; of a lifetime only its quote.
fn end_of_char(text: &str, at: usize) -> usize {
    let rest = &text[at + 1..];
    if let Some(escaped) = rest.strip_prefix('\\') {
        let skip = escaped.chars().next().map_or(0, char::len_utf8);
        return escaped[skip..].find('\'').map_or(at + 1, |length| at + 2 + skip + length + 1);
    }
    let first = rest.chars().next().map_or(0, char::len_utf8);
    if first > 0 && rest[first..].starts_with('\'') { at + 1 + first + 1 } else { at + 1 }
}

/// What stands between the brace at or after `at` and its partner, both included; `None` if a `;` comes first.
pub fn block(code: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = code.as_bytes();
    let mut nested = 0_usize;
    let open = (at..bytes.len()).find(|at| match bytes[*at] {
        b'(' | b'[' => {
            nested += 1;
            false
        }
        b')' | b']' => {
            nested = nested.saturating_sub(1);
            false
        }
        b'{' | b';' => nested == 0,
        _ => false,
    })?;
    if bytes[open] == b';' {
        return None;
    }
    let mut depth = 0_usize;
    let close = (open..bytes.len()).find(|at| {
        match bytes[*at] {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some((open, close + 1))
}

/// The code without what is compiled for tests only; and the modules that are whole files of tests.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut rest = code.to_owned();
    let mut files = Vec::new();
    let marks: Vec<usize> =
        ["#[cfg(test)]", "#[cfg(all(test"].iter().flat_map(|mark| code.match_indices(mark).map(|(at, _)| at)).collect();
    for at in marks {
        let end = match block(code, code[at..].find(']').map_or(at, |length| at + length + 1)) {
            Some((_, close)) => close,
            None => {
                let end = code[at..].find(';').map_or(code.len(), |length| at + length + 1);
                let item = &code[at..end - 1];
                files.extend(item.split_once("mod ").map(|(_, name)| name.trim().to_owned()));
                end
            }
        };
        let blanked: String = code[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        if blanked.len() == end - at {
            rest.replace_range(at..end, &blanked);
        }
    }
    (rest, files)
}

/// Each function with the line it begins at and its lines.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let starts = code.match_indices("fn ").filter(|(at, _)| !follows_word(code.as_bytes(), *at));
    let lines = |to: usize| code[..to].matches('\n').count() + 1;
    let function = |(at, _): (usize, &str)| {
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let (_, close) = block(code, at).filter(|_| !name.is_empty())?;
        Some((name, lines(at), lines(close) - lines(at) + 1))
    };
    starts.filter_map(function).collect()
}

/// The first names of the paths that begin with `crate::`, also of a group in braces.
pub fn crate_paths(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices("crate::").filter(|(at, _)| !follows_word(code.as_bytes(), *at)) {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + path.len()..];
        let group = rest.strip_prefix('{').and_then(|_| block(code, at + path.len()));
        let names: Vec<&str> = match group {
            Some((open, close)) => top_level_names(&code[open + 1..close - 1]),
            None => vec![rest],
        };
        let name =
            |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        found.extend(names.into_iter().map(|text| (name(text), line)));
    }
    found
}

/// The parts of a group that no inner group holds.
fn top_level_names(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut names) = (0, 0, Vec::new());
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                names.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    names.push(&group[from..]);
    names.into_iter().filter(|name| !name.trim().is_empty()).collect()
}

#[test]
fn strings_characters_and_comments_are_blanked_and_nothing_else() {
    let cases = [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("}\"{", '{', '\'', x)"#, "f(       ,    ,     , x)"),
        (r##"f(r#"a"}"#, r"b{")"##, "f(         ,      )"),
        ("f(b\"}\", br\"{\", b'{')", "f(    ,      , b   )"),
        ("fn f<'a>(x: &'a str) {}", "fn f< a>(x: & a str) {}"),
        ("for_r\"x\"", "for_r   "),
        ("'é' 'x", "     x".trim_start_matches('!')),
    ];
    for (text, expected) in cases {
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len(), "{text}");
        assert_eq!(
            blanked.split_whitespace().collect::<Vec<_>>(),
            expected.split_whitespace().collect::<Vec<_>>(),
            "{text}"
        );
    }
}

#[test]
fn functions_are_measured_from_their_name_to_their_brace() {
    let code = "fn a() -> [u8; 2] {\n x\n}\ntrait T { fn b(&self);\n fn c(&self) { { } }\n}\nlet f: fn (u8);";
    assert_eq!(functions(code), [("a".to_owned(), 1, 3), ("c".to_owned(), 5, 1)]);
}

#[test]
fn test_code_is_left_out_with_the_files_it_names() {
    let code = "use a;\n#[cfg(test)]\nmod tests {\n use b;\n}\n#[cfg(test)]\nmod more;\nuse c;";
    let (rest, files) = without_tests(code);
    assert_eq!(rest.split_whitespace().collect::<Vec<_>>(), ["use", "a;", "use", "c;"]);
    assert_eq!((files, rest.lines().count()), (vec!["more".to_owned()], code.lines().count()));
}

#[test]
fn paths_are_found_in_groups_and_in_the_midst_of_code() {
    let code = "use crate::job::{a, b};\nuse crate::{clock, store::{self, x}, work};\nlet x = crate::http::y();";
    let names: Vec<String> = crate_paths(code).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["job", "clock", "store", "work", "http"]);
}
