//! Names of the bytes that are kept beside a record: payloads, results, partials, logs.

/// Which bytes of a job.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    bincode::Encode,
    bincode::Decode,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The arguments: a JSON object. `seq` is 0.
    Payload,
    /// The result: one JSON value. `seq` is the claim number.
    Result,
    /// Ready MCP content blocks: a JSON array. `seq` is the claim number.
    Content,
    /// The last partial result: one JSON value. `seq` is claim number × 2^32 + the attempt's count of partials.
    Partial,
    /// What the attempt logged, as text lines. `seq` is the claim number.
    Log,
    /// The words of an open question: a JSON object. `seq` is claim number × 2^32 + the attempt's count of questions.
    Question,
    /// What was answered: a JSON object. `seq` is the question's.
    Answer,
}

/// A body as its record names it. Its bytes are written once and never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyRef {
    /// Which bytes.
    pub part: Part,
    /// Tells the bodies of one part apart; see `Part`.
    pub seq: u64,
    /// How many bytes.
    pub len: u64,
    /// CRC-32 (IEEE) of the bytes.
    pub crc: u32,
}

impl BodyRef {
    /// The name of these bytes.
    pub fn of(part: Part, seq: u64, bytes: &[u8]) -> Self {
        Self { part, seq, len: bytes.len() as u64, crc: crc32fast::hash(bytes) }
    }
}

/// A body on its way to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// Its name.
    pub name: BodyRef,
    /// Its bytes; `None` once the thread that brought them has put a large body on disk (`Store::bring`).
    pub bytes: Option<bytes::Bytes>,
}

/// Bodies above this go to files of their own, before the commit that names them (design 5.4).
pub const BODY_SMALL_MAX: usize = 64 * 1024;
