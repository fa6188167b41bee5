//! Reading a backup line by line. It may be anything: torn, edited, made to do harm.
//!
//! In: bytes, compressed or as plain lines. Out: each line once it is known to stand where it was written, or which line
//! is wrong. Never holds more than one line of at most `LINE_MAX`, however much comes out of how few bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::GzDecoder;

use super::lines::Sums;
use super::{Header, LINE_MAX, Line, Trailer, VERSION};

/// How a compressed stream begins.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// Why a backup is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The line that is wrong, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Refusal {}

enum Source<R: Read> {
    Packed(BufReader<GzDecoder<BufReader<R>>>),
    Plain(BufReader<R>),
}

/// See the head of this file.
pub struct Reader<R: Read> {
    source: Source<R>,
    sums: Sums,
    line: Vec<u8>,
    number: u64,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is no backup, or one of another version, or cannot be read.
    pub fn open(input: R) -> Result<(Self, Header), Refusal> {
        let mut input = BufReader::with_capacity(BUFFER, input);
        let start = input.fill_buf().map_err(|why| refusal(1, unreadable(&why)))?;
        let source = if start.starts_with(GZIP) {
            Source::Packed(BufReader::with_capacity(BUFFER, GzDecoder::new(input)))
        } else if start.starts_with(b"{") {
            Source::Plain(input)
        } else {
            return Err(refusal(1, "this is no backup of longhaul"));
        };
        let mut reader = Self { source, sums: Sums::default(), line: Vec::new(), number: 0, is_over: false };
        match reader.next()? {
            Line::Header(header) if header.version == VERSION => Ok((reader, header)),
            Line::Header(header) => {
                let Header { version, program, .. } = header;
                Err(refusal(1, format!("version {version}, by longhaul {program}; this one reads version {VERSION}")))
            }
            Line::Entry(_) | Line::Body(_) | Line::Trailer(_) => Err(refusal(1, "a header belongs here")),
        }
    }

    /// The number of the line that was read last.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A refusal of the line that was read last.
    pub fn refuse(&self, why: impl Into<String>) -> Refusal {
        refusal(self.number, why)
    }

    /// The next line. A trailer comes only if it is the end of the file and covers all before it; nothing comes after it.
    ///
    /// # Errors
    /// The line is missing, too long, not as it was written, or makes no sense.
    #[expect(clippy::should_implement_trait, reason = "there is no end but the trailer")]
    pub fn next(&mut self) -> Result<Line, Refusal> {
        if self.is_over {
            return Err(refusal(self.number + 1, "nothing comes after the trailer"));
        }
        self.number += 1;
        self.read_line().map_err(|why| self.refuse(why))?;
        let before = self.sums.clone();
        let line = self.sums.read(&self.line).map_err(|why| self.refuse(why))?;
        if let Line::Trailer(trailer) = &line {
            self.check_end(trailer, &before.sha256())?;
        }
        Ok(line)
    }

    fn check_end(&mut self, trailer: &Trailer, sha256: &str) -> Result<(), Refusal> {
        if trailer.sha256 != sha256 {
            return Err(self.refuse("its SHA-256 is not that of the lines before it"));
        }
        self.is_over = true;
        let more = match &mut self.source {
            Source::Plain(input) => has_more(input),
            // The rest of the compressed stream has its own checksum; behind it nothing may follow.
            Source::Packed(input) => has_more(input).and_then(|more| Ok(more || has_more(input.get_mut().get_mut())?)),
        };
        match more {
            Ok(false) => Ok(()),
            Ok(true) => Err(refusal(self.number + 1, "something follows the trailer")),
            Err(why) => Err(refusal(self.number + 1, unreadable(&why))),
        }
    }

    fn read_line(&mut self) -> Result<(), String> {
        self.line.clear();
        let read = match &mut self.source {
            Source::Packed(input) => input.take(LINE_MAX as u64).read_until(b'\n', &mut self.line),
            Source::Plain(input) => input.take(LINE_MAX as u64).read_until(b'\n', &mut self.line),
        };
        match read {
            Err(why) => Err(unreadable(&why)),
            Ok(0) => Err("the file ends here, without a trailer".into()),
            Ok(_) if self.line.ends_with(b"\n") => Ok(()),
            Ok(LINE_MAX) => Err(format!("it is longer than {LINE_MAX} bytes")),
            Ok(_) => Err("the file ends in the middle of it".into()),
        }
    }
}

fn has_more(input: &mut impl BufRead) -> std::io::Result<bool> {
    Ok(!input.fill_buf()?.is_empty())
}

fn refusal(line: u64, why: impl Into<String>) -> Refusal {
    Refusal { line, why: why.into() }
}

fn unreadable(why: &std::io::Error) -> String {
    match why.kind() {
        ErrorKind::UnexpectedEof => "the file ends in the middle of it".into(),
        ErrorKind::InvalidData | ErrorKind::InvalidInput => format!("the compressed file is damaged here: {why}"),
        _ => format!("the file cannot be read: {why}"),
    }
}
