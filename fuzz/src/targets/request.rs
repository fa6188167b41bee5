//! An input as one request: a line of marks, header lines, an empty line, a body.
//!
//! In: text in sections, so that a seed can be read and a dictionary helps. Out: its parts, still bytes.

/// What the bytes say.
pub struct Sections<'a> {
    /// The first line.
    pub marks: &'a [u8],
    /// Name and value of each line up to the empty one; what has no colon is left out.
    pub headers: Vec<(String, &'a [u8])>,
    /// The rest.
    pub body: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Takes the bytes apart. Carriage returns at the ends of lines are passed over.
    pub fn read(bytes: &'a [u8]) -> Self {
        let (marks, mut rest) = line(bytes);
        let mut headers = Vec::new();
        while !rest.is_empty() {
            let (found, behind) = line(rest);
            rest = behind;
            if found.is_empty() {
                break;
            }
            let Some(colon) = found.iter().position(|byte| *byte == b':') else { continue };
            let name = String::from_utf8_lossy(&found[..colon]).trim().to_ascii_lowercase();
            headers.push((name, found[colon + 1..].trim_ascii()));
        }
        Self { marks, headers, body: rest }
    }
}

/// The first line without its end, and what follows.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = &bytes[..at];
    (line.strip_suffix(b"\r").unwrap_or(line), bytes.get(at + 1..).unwrap_or_default())
}
