//! A payload of a few bytes on its way with its job: the record carries it, so that it costs the store no write, no read and no
//! removal of its own.
//!
//! It is what `Spec::payload` names, and no part of what the log says: it is compared, written and read by whoever keeps
//! the record, and nobody else.

use bincode::de::{BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Decode, Encode};
use bytes::Bytes;

use super::BodyRef;

/// Largest payload that is carried, in bytes: with it a record stays well within a page of the store, and a million
/// waiting jobs within the memory that they took before.
pub const CARRIED_MAX: usize = 256;

/// The payload itself, or nothing.
#[derive(Clone, Default, Debug)]
pub struct Carried(Option<Bytes>);

impl Carried {
    /// This payload, if it is small enough. Copied: nothing larger is kept alive by it.
    pub fn of(payload: &[u8]) -> Self {
        Self((payload.len() <= CARRIED_MAX).then(|| Bytes::copy_from_slice(payload)))
    }

    /// What is carried, if it is what that name names.
    pub fn bytes(&self, name: BodyRef) -> Option<&Bytes> {
        self.0.as_ref().filter(|bytes| BodyRef::of(name.part, name.seq, bytes) == name)
    }
}

/// Two jobs with the same name for their payload have the same payload, carried or not.
impl PartialEq for Carried {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Carried {}

impl Encode for Carried {
    fn encode<E: Encoder>(&self, _: &mut E) -> Result<(), EncodeError> {
        Ok(())
    }
}

impl<C> Decode<C> for Carried {
    fn decode<D: Decoder<Context = C>>(_: &mut D) -> Result<Self, DecodeError> {
        Ok(Self::default())
    }
}

impl<'de, C> BorrowDecode<'de, C> for Carried {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(_: &mut D) -> Result<Self, DecodeError> {
        Ok(Self::default())
    }
}
