//! Stored records read from any bytes and written again: what the fuzz target of the codec may know of it.
//!
//! In: bytes. Out: the bytes that the same value has when it is written anew, or the damage. Not part of a release build.

use super::Error;
use super::chunk::Chunk;
use super::codec::{self, Damage, Kind, Row};
pub use super::codec::{DECODED_MAX, ENVELOPE};
use super::sled::TypeRow;
use crate::job::{Epoch, JobId, Position};

/// What the bytes are to be read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A job that was never asked anything, and its trail.
    Head,
    /// A job, its trail, and its questions.
    Asked,
    /// A job, its trail, its questions, and its payload.
    Carrying,
    /// The chunk that stands at this position.
    Chunk(Position),
    /// A row of the index.
    Row,
    /// The other jobs of a row of ends.
    Ends,
    /// The job that an idempotency key names.
    Key,
    /// A full block of a job's older positions.
    Block,
    /// The cell of the epoch.
    Epoch,
    /// The cell of the floor.
    Standing,
    /// The cell of a job type.
    Type,
}

impl Record {
    /// The version byte that such a record begins with.
    pub const fn version(self) -> u8 {
        self.kind() as u8
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Head => Kind::Head,
            Self::Asked => Kind::Asked,
            Self::Carrying => Kind::Carrying,
            Self::Chunk(_) => Kind::Chunk,
            Self::Row => Kind::Row,
            Self::Ends => Kind::Ends,
            Self::Key => Kind::Key,
            Self::Block => Kind::Block,
            Self::Epoch | Self::Standing | Self::Type => Kind::Own,
        }
    }

    /// Reads the bytes as such a record, and writes what was read. A chunk without entries is written as nothing.
    ///
    /// # Errors
    /// `Error::Corrupt` if they are none.
    pub fn reread(self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        self.written(bytes).map_err(|damage| damage.at("these bytes"))
    }

    fn written(self, bytes: &[u8]) -> Result<Vec<u8>, Damage> {
        fn same<T: bincode::Decode<()> + bincode::Encode>(kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Damage> {
            codec::decode::<T>(kind, bytes).map(|value| codec::encode(kind, &value))
        }
        let kind = self.kind();
        match self {
            Self::Head | Self::Asked | Self::Carrying => {
                codec::open(kind, bytes)?;
                let head = codec::head(bytes)?;
                Ok(codec::Buffer::default().head(&head.job, &head.trail).to_vec())
            }
            Self::Chunk(first) => Ok(Chunk::decode(first, bytes)?.without(first, |_| false).unwrap_or_default()),
            Self::Row => same::<Row>(kind, bytes),
            Self::Ends => same::<Vec<JobId>>(kind, bytes),
            Self::Key => same::<JobId>(kind, bytes),
            Self::Block => same::<Vec<Position>>(kind, bytes),
            Self::Epoch => same::<Epoch>(kind, bytes),
            Self::Standing => same::<(u64, u64)>(kind, bytes),
            Self::Type => same::<TypeRow>(kind, bytes),
        }
    }
}
