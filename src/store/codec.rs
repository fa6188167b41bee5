//! Stored records as bytes and back: bincode behind a version byte, a length and a checksum.
//!
//! In: values, or bytes that may be anything. Out: bytes, or a value, or what is wrong with them. Foreign bytes never
//! panic here, and never make more than `DECODED_MAX` be allocated, whatever lengths they claim.

use std::sync::Arc;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use bincode::{Decode, Encode};

use super::Error;
use crate::job::{Carried, Head, Job, Question, Questions, Status};

/// Most bytes that decoding one record may read or allocate; a record that claims more is damage. The largest honest
/// one, a chunk, has some 6,000.
pub const DECODED_MAX: usize = 64 * 1024;

const CONFIG: Configuration<LittleEndian, Varint, Limit<DECODED_MAX>> =
    bincode::config::standard().with_limit::<DECODED_MAX>();

/// What a record is, and in which version of its layout: its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A job that was never asked anything, and its trail.
    Head = 0x11,
    /// A job, its trail, and its questions.
    Asked = 0x12,
    /// A job, its trail, its questions if any, and its payload.
    Carrying = 0x15,
    /// The entries of one commit.
    Chunk = 0x21,
    /// A row of the index.
    Row = 0x31,
    /// The other jobs of a row of ends.
    Ends = 0x32,
    /// The job that an idempotency key names.
    Key = 0x41,
    /// A full block of a job's older positions.
    Block = 0x51,
    /// One of the store's own cells.
    Own = 0x61,
}

/// What is wrong with stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Another kind of record, or one written by another version of longhaul.
    Foreign {
        /// Its first byte.
        found: u8,
        /// What it should be.
        wanted: Kind,
    },
    /// Shorter or longer than it says.
    Length,
    /// Some bytes have changed.
    Checksum,
    /// The bytes are as they were written, and still no such record.
    Content(String),
}

impl Damage {
    /// The damage as the store's error, with the place.
    pub fn at(self, place: impl Into<String>) -> Error {
        let why = match self {
            Self::Foreign { found, wanted } => {
                format!("version byte {found:#04x} where {:#04x} ({wanted:?}) belongs", wanted as u8)
            }
            Self::Length => "its length is not what it says".to_owned(),
            Self::Checksum => "its checksum does not match".to_owned(),
            Self::Content(why) => why,
        };
        Error::Corrupt { at: place.into(), why }
    }
}

/// Version byte, length, checksum.
pub const ENVELOPE: usize = 1 + 4 + 4;

/// Bytes being written. Never fails.
#[derive(Default, Debug)]
pub struct Buffer(pub Vec<u8>);

impl Writer for Buffer {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Buffer {
    /// Appends a value without an envelope.
    pub fn put(&mut self, value: &impl Encode) {
        bincode::encode_into_writer(value, self, CONFIG).expect("a growing buffer takes everything our types can say");
    }

    /// Replaces what the buffer holds by one whole record.
    pub fn seal(&mut self, kind: Kind, write: impl FnOnce(&mut Self)) -> &[u8] {
        self.0.clear();
        self.0.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0, 0, 0, 0]);
        write(self);
        let length = u32::try_from(self.0.len() - ENVELOPE).unwrap_or(u32::MAX);
        let checksum = crc32fast::hash(&self.0[ENVELOPE..]);
        self.0[1..5].copy_from_slice(&length.to_le_bytes());
        self.0[5..9].copy_from_slice(&checksum.to_le_bytes());
        &self.0
    }

    /// A job's record.
    pub fn head(&mut self, job: &Job, trail: &crate::job::Trail) -> &[u8] {
        match (job.spec.carried(), job.questions.all()) {
            (Some(payload), questions) => {
                self.seal(Kind::Carrying, |to| to.put(&(job, trail, questions, &payload[..])))
            }
            (None, []) => self.seal(Kind::Head, |to| to.put(&(job, trail))),
            (None, questions) => self.seal(Kind::Asked, |to| to.put(&(job, trail, questions))),
        }
    }
}

/// The inside of a record, once version, length and checksum are right.
///
/// # Errors
/// `Damage` where they are not.
pub fn open(kind: Kind, bytes: &[u8]) -> Result<Reader<'_>, Damage> {
    let found = bytes.first().copied().unwrap_or(0);
    if found != kind as u8 {
        return Err(Damage::Foreign { found, wanted: kind });
    }
    let (envelope, inside) = bytes.split_at_checked(ENVELOPE).ok_or(Damage::Length)?;
    let number = |at: usize| u32::from_le_bytes([envelope[at], envelope[at + 1], envelope[at + 2], envelope[at + 3]]);
    if usize::try_from(number(1)) != Ok(inside.len()) {
        return Err(Damage::Length);
    }
    if number(5) != crc32fast::hash(inside) {
        return Err(Damage::Checksum);
    }
    Ok(Reader(inside))
}

/// Takes values off the front of the inside of a record.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// The next value.
    ///
    /// # Errors
    /// `Damage::Content` if there is none of that type.
    pub fn take<T: Decode<()>>(&mut self) -> Result<T, Damage> {
        let (value, used) =
            bincode::decode_from_slice(self.0, CONFIG).map_err(|e| Damage::Content(format!("no such record: {e}")))?;
        self.0 = &self.0[used..];
        Ok(value)
    }

    /// Says that everything was taken.
    ///
    /// # Errors
    /// `Damage::Content` if not.
    pub fn end(self) -> Result<(), Damage> {
        if self.0.is_empty() { Ok(()) } else { Err(Damage::Content(format!("{} bytes too many", self.0.len()))) }
    }
}

/// A whole record of one value.
///
/// # Errors
/// `Damage` if it is not.
pub fn decode<T: Decode<()>>(kind: Kind, bytes: &[u8]) -> Result<T, Damage> {
    let mut reader = open(kind, bytes)?;
    let value = reader.take()?;
    reader.end()?;
    Ok(value)
}

/// A whole record of one value, as bytes.
pub fn encode(kind: Kind, value: &impl Encode) -> Vec<u8> {
    let mut buffer = Buffer::default();
    buffer.seal(kind, |to| to.put(value));
    buffer.0
}

/// A job's record from its bytes.
///
/// # Errors
/// `Damage` if they are none.
pub fn head(bytes: &[u8]) -> Result<Head, Damage> {
    let first = bytes.first().copied();
    if first == Some(Kind::Carrying as u8) {
        return carrying(bytes);
    }
    if first != Some(Kind::Asked as u8) {
        let (job, trail) = decode(Kind::Head, bytes)?;
        return Ok(Head { job, trail });
    }
    let (mut job, trail, questions): (Job, _, Vec<Question>) = decode(Kind::Asked, bytes)?;
    // Its absence has another form: one record, one spelling.
    if questions.is_empty() {
        return Err(Damage::Content("a job with questions has none".into()));
    }
    job.questions = Questions::from(questions);
    Ok(Head { job, trail })
}

fn carrying(bytes: &[u8]) -> Result<Head, Damage> {
    let (mut job, trail, questions, payload): (Job, _, Vec<Question>, Vec<u8>) = decode(Kind::Carrying, bytes)?;
    job.questions = Questions::from(questions);
    Arc::make_mut(&mut job.spec).carried = Carried::of(&payload);
    if job.spec.carried().is_none() {
        return Err(Damage::Content("its payload is not the one that it names".into()));
    }
    Ok(Head { job, trail })
}

/// What the index says about an ended job, so that most filters need not look at its record.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Row {
    /// How it ended.
    pub status: Status,
    /// Failed and not replayed.
    pub dead_letter: bool,
    /// The job's type.
    pub job_type: Arc<str>,
}

#[cfg(test)]
mod tests;
