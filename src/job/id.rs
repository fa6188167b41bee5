//! The names of things: job ids, positions in the log, epochs, event ids, claim numbers.
//!
//! Pure values with a strict text form. What cannot be written back exactly as it was read is malformed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A UUID v7 whose 74 free bits are random: rises with time, cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, bincode::Encode, bincode::Decode)]
pub struct JobId(u128);

impl JobId {
    /// The id with this value; minting one is the clock's business.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Big-endian when written as bytes, so keys sort by age.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        f.pad(uuid::Uuid::from_u128(self.0).hyphenated().encode_lower(&mut text))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not the one way to write such a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl FromStr for JobId {
    type Err = Malformed;

    /// Only the hyphenated lower-case form.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let id = Self(uuid::Uuid::try_parse(text).map_err(|_| Malformed)?.as_u128());
        if text.len() == uuid::fmt::Hyphenated::LENGTH && !text.bytes().any(|b| b.is_ascii_uppercase()) {
            Ok(id)
        } else {
            Err(Malformed)
        }
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(|Malformed| serde::de::Error::custom("no job id"))
    }
}

/// Where an entry stands in the log. Rises strictly, never issued twice; the first entry of a log has 1, and 0 is before all.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    bincode::Encode,
    bincode::Decode,
    Serialize,
    Deserialize,
)]
pub struct Position(pub u64);

impl Position {
    /// Before every entry.
    pub const ZERO: Self = Self(0);

    /// The position right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// `n` positions further on.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }
}

/// Minted when a log is created or restored: tells one history from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, bincode::Encode, bincode::Decode)]
pub struct Epoch(pub u32);

/// `<epoch>-<position>`: at once the SSE id, the cursor and the MCP event id (contract 2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventId {
    /// Which history.
    pub epoch: Epoch,
    /// Where in it.
    pub position: Position,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.epoch.0, self.position.0)
    }
}

impl FromStr for EventId {
    type Err = Malformed;

    /// Eight lower-case hex digits, a hyphen, a decimal without leading zeros.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (epoch, position) = text.split_once('-').ok_or(Malformed)?;
        let hex = epoch.len() == 8 && epoch.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let decimal = !position.is_empty()
            && position.bytes().all(|b| b.is_ascii_digit())
            && (position == "0" || !position.starts_with('0'));
        if !hex || !decimal {
            return Err(Malformed);
        }
        Ok(Self {
            epoch: Epoch(u32::from_str_radix(epoch, 16).map_err(|_| Malformed)?),
            position: Position(position.parse().map_err(|_| Malformed)?),
        })
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The fencing token: the n-th claim of its job, from 1, never reused (contract 3).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    bincode::Encode,
    bincode::Decode,
    Serialize,
    Deserialize,
)]
pub struct ClaimNo(pub u64);
