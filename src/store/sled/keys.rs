//! The keys of each tree: big-endian, fixed-width, so that their order is the order things are asked for in.
//!
//! In: names. Out: bytes, and names again. Keys of up to 22 bytes cost sled no allocation.

use sha2::{Digest, Sha256};

use crate::job::{BodyRef, JobId, Part, Position, Timestamp};

/// `live`, `jobs`: the id, so that age is the order.
pub fn job(id: JobId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// The id that a key of `live` or `jobs` says.
pub fn job_id(key: &[u8]) -> Option<JobId> {
    Some(JobId::from_u128(u128::from_be_bytes(key.try_into().ok()?)))
}

/// `events`: the position of a chunk's first entry.
pub fn chunk(first: Position) -> [u8; 8] {
    first.0.to_be_bytes()
}

/// The position that a key of `events` says.
pub fn position(key: &[u8]) -> Option<Position> {
    Some(Position(u64::from_be_bytes(key.try_into().ok()?)))
}

/// Small bodies are kept in pieces of this size.
pub const PIECE: usize = 4 * 1024;

/// The part number under which `bodies` keeps blocks of a job's older positions.
pub const BLOCK: u8 = 255;

/// The number of a part; stored, so it never changes.
pub const fn part(part: Part) -> u8 {
    match part {
        Part::Payload => 0,
        Part::Result => 1,
        Part::Content => 2,
        Part::Partial => 3,
        Part::Log => 4,
        Part::Question => 5,
        Part::Answer => 6,
    }
}

/// The part with that number.
pub fn part_numbered(number: u8) -> Option<Part> {
    let all = [Part::Payload, Part::Result, Part::Content, Part::Partial, Part::Log, Part::Question, Part::Answer];
    all.into_iter().find(|p| part(*p) == number)
}

/// `bodies`: id, part, seq, piece.
pub type BodyKey = [u8; 26];

fn body_key(id: JobId, part: u8, seq: u64, piece: u8) -> BodyKey {
    let mut key = [0; 26];
    key[..16].copy_from_slice(&job(id));
    key[16] = part;
    key[17..25].copy_from_slice(&seq.to_be_bytes());
    key[25] = piece;
    key
}

/// A piece of a small body.
pub fn piece(id: JobId, name: BodyRef, number: usize) -> BodyKey {
    body_key(id, part(name.part), name.seq, u8::try_from(number).unwrap_or(u8::MAX))
}

/// A block of older positions.
pub fn block(id: JobId, number: u32) -> BodyKey {
    body_key(id, BLOCK, u64::from(number), 0)
}

/// What a key of `bodies` says: id, part number, seq, piece.
pub fn body_named(key: &[u8]) -> Option<(JobId, u8, u64, u8)> {
    let key: &BodyKey = key.try_into().ok()?;
    let seq = u64::from_be_bytes(key[17..25].try_into().ok()?);
    Some((job_id(&key[..16])?, key[16], seq, key[25]))
}

/// How many pieces a small body of that length has; an empty one has one, so that it is there.
pub fn pieces(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX).div_ceil(PIECE).max(1)
}

/// `keys`: a digest of owner, type and key, each with its length.
pub type KeyRow = [u8; 20];

/// The row of an idempotency key.
pub fn key(owner: &str, job_type: &str, key: &str) -> KeyRow {
    let mut digest = Sha256::new();
    for part in [owner, job_type, key] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut row = [0; 20];
    row.copy_from_slice(&digest.finalize()[..20]);
    row
}

/// `index`, first family: ended jobs of an owner by age. A checksum stands for the owner; whoever reads compares.
pub const BY_OWNER: u8 = 1;
/// `index`, second family: ended jobs of a type by the time of their end, failed ones apart; see `ends`.
pub const BY_END: u8 = 2;
/// `index`, third family: dead letters by age.
pub const BY_DEATH: u8 = 3;

/// The beginning of an owner's rows.
pub fn owner(owner: &str) -> [u8; 5] {
    let mut row = [BY_OWNER; 5];
    row[1..].copy_from_slice(&crc32fast::hash(owner.as_bytes()).to_be_bytes());
    row
}

/// An owner's row of an ended job.
pub fn owned(owner_name: &str, id: JobId) -> [u8; 21] {
    let mut row = [0; 21];
    row[..5].copy_from_slice(&owner(owner_name));
    row[5..].copy_from_slice(&job(id));
    row
}

/// The number of a job type within a store; given once, with its first ended job.
pub type TypeNumber = u32;

/// What rows of ends begin with: type, failed ones apart, and time.
pub type SharedEnd = [u8; 14];
/// A row of ends: that, and a job.
pub type EndRow = [u8; 30];

/// The beginning of the rows of jobs of a type that ended at that time.
pub fn end(number: TypeNumber, failed: bool, at: Timestamp) -> SharedEnd {
    let mut row = [BY_END; 14];
    row[1..5].copy_from_slice(&number.to_be_bytes());
    row[5] = u8::from(failed);
    // The sign turned over: what is earlier sorts first, before 1970 too.
    row[6..].copy_from_slice(&(at.0.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    row
}

/// The time of the end that a row says.
pub fn end_time(row: &[u8]) -> Option<Timestamp> {
    let row: &EndRow = row.try_into().ok()?;
    let at = u64::from_be_bytes(row[6..14].try_into().ok()?);
    Some(Timestamp((at ^ (1 << 63)).cast_signed()))
}

/// The row of ends that begins so, with this job first.
pub fn ended(shared: SharedEnd, id: JobId) -> EndRow {
    let mut row = [0; 30];
    row[..14].copy_from_slice(&shared);
    row[14..].copy_from_slice(&job(id));
    row
}

/// The row of a dead letter.
pub fn dead(id: JobId) -> [u8; 17] {
    let mut row = [BY_DEATH; 17];
    row[1..].copy_from_slice(&job(id));
    row
}

/// The job that a row of any family is about: its last sixteen bytes.
pub fn row_id(row: &[u8]) -> Option<JobId> {
    job_id(row.last_chunk::<16>()?)
}

/// The store's own cells begin with a byte that no name of anybody else has.
pub const OWN: u8 = 0;
/// The layout's version; written once.
pub const FORMAT: &[u8] = b"\0format";
/// Which history; written once.
pub const EPOCH: &[u8] = b"\0epoch";
/// Floor and last position, as of the last time jobs were forgotten.
pub const STANDING: &[u8] = b"\0standing";
/// The number of a type and what is kept of its ended jobs: this and the type.
pub const TYPE: &[u8] = b"\0type/";
