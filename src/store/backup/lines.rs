//! Lines with their sums, on the way out and on the way in.
//!
//! In: values, or bytes. Out: bytes, or a value that stands where it was written. A line is `{"kind":{…},"sum":"1a2b3c4d"}`;
//! the sum covers every byte of the file before it.

use std::io::Write;

use sha2::{Digest, Sha256};

use super::Line;

/// What stands before the digits of a sum.
const BEFORE: &[u8] = b",\"sum\":\"";
/// The digits of a sum.
const DIGITS: usize = 8;
/// From the end of a line's value to the end of the line.
const TAIL: usize = BEFORE.len() + DIGITS + 3;

/// The sums of everything so far.
#[derive(Default, Clone)]
pub struct Sums {
    crc: crc32fast::Hasher,
    sha: Sha256,
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.sha.update(bytes);
    }

    /// SHA-256 of all lines so far.
    pub fn sha256(&self) -> String {
        self.sha.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn digits(&self) -> String {
        format!("{:08x}", self.crc.clone().finalize())
    }

    /// Writes a line with its sum.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&mut self, line: &Line, to: &mut impl Write) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        // The brace that closes the line comes after the sum.
        text.pop();
        self.add(&text);
        text.extend_from_slice(BEFORE);
        text.extend_from_slice(self.digits().as_bytes());
        text.extend_from_slice(b"\"}\n");
        self.add(&text[text.len() - TAIL..]);
        to.write_all(&text)
    }

    /// The value of a line, which has its newline, if it stands where it was written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, String> {
        let text = line.strip_suffix(b"\"}\n").ok_or("it does not end with a sum")?;
        let (text, digits) = text.split_at_checked(text.len().saturating_sub(DIGITS)).ok_or("it has no sum")?;
        let value = text.strip_suffix(BEFORE).ok_or("it does not end with a sum")?;
        self.add(value);
        if self.digits().as_bytes() != digits {
            return Err("its sum does not match: it, or a line before it, is not as it was written".into());
        }
        self.add(&line[value.len()..]);
        let mut whole = Vec::with_capacity(value.len() + 1);
        whole.extend_from_slice(value);
        whole.push(b'}');
        serde_json::from_slice(&whole).map_err(|why| format!("it makes no sense: {why}"))
    }
}
