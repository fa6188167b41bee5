//! Cuts a stream of bytes into lines, whatever pieces it comes in.
//!
//! In: bytes as they were read. Out: whole lines without their end. Never holds more than one line, and that bounded.

/// What happens to a line that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// It comes in pieces, cut at characters.
    Cut,
    /// It is an error.
    Refuse,
}

/// A line was longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The beginning of a line whose end is still to come.
#[derive(Debug)]
pub struct Lines {
    held: Vec<u8>,
    max: usize,
    long: Long,
}

impl Lines {
    /// Lines of at most `max` bytes.
    pub fn new(max: usize, long: Long) -> Self {
        Self { held: Vec::new(), max, long }
    }

    /// Takes bytes, calls `each` for every line that they complete.
    ///
    /// # Errors
    /// What `each` says, or that a line is longer than `max` and that is not allowed.
    pub fn push<E: From<TooLong>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.hold(&rest[..end], &mut each)?;
            let line = std::mem::take(&mut self.held);
            each(line.strip_suffix(b"\r").unwrap_or(&line))?;
            rest = &rest[end + 1..];
        }
        self.hold(rest, &mut each)
    }

    /// The last line, if it had no end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.held)).filter(|line| !line.is_empty())
    }

    fn hold<E: From<TooLong>>(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.long == Long::Refuse && self.held.len() + bytes.len() > self.max {
            return Err(TooLong.into());
        }
        self.held.extend_from_slice(bytes);
        while self.held.len() > self.max {
            let cut = character_before(&self.held, self.max);
            each(&self.held[..cut])?;
            self.held.drain(..cut);
        }
        Ok(())
    }
}

/// The last place at or before `at` that is not within a UTF-8 character; `at` itself if these bytes are no text.
fn character_before(bytes: &[u8], at: usize) -> usize {
    let is_start = |index: &usize| bytes[*index] & 0b1100_0000 != 0b1000_0000;
    (at.saturating_sub(3)..=at).rev().find(is_start).filter(|cut| *cut > 0).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(lines: &mut Lines, pieces: &[&[u8]]) -> Result<Vec<String>, TooLong> {
        let mut got = Vec::new();
        for piece in pieces {
            lines.push::<TooLong>(piece, |line| {
                got.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            })?;
        }
        got.extend(lines.finish().map(|line| String::from_utf8_lossy(&line).into_owned()));
        Ok(got)
    }

    #[test]
    fn lines_are_the_same_in_whatever_pieces_they_come() {
        let text = "eins €\r\n\nzwei 😀\nrest";
        let bytewise: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let expected = ["eins €", "", "zwei 😀", "rest"];
        assert_eq!(lines_of(&mut Lines::new(20, Long::Refuse), &[text.as_bytes()]).expect("short"), expected);
        assert_eq!(lines_of(&mut Lines::new(20, Long::Cut), &bytewise).expect("short"), expected);
    }

    #[test]
    fn a_long_line_is_refused_or_cut_at_a_character() {
        assert_eq!(lines_of(&mut Lines::new(4, Long::Refuse), &[b"1234\n12345"]), Err(TooLong));
        let got = lines_of(&mut Lines::new(4, Long::Cut), &["12€45".as_bytes(), "€".as_bytes()]).expect("cut");
        assert_eq!(got, ["12", "€4", "5€"]);
        let binary = lines_of(&mut Lines::new(4, Long::Cut), &[&[0x80; 9]]).expect("cut");
        assert_eq!(binary.concat().chars().count(), 9);
    }
}
