//! Instants and lengths in whole milliseconds, and their RFC 3339 form.
//!
//! Pure values: nobody here asks what time it is.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads RFC 3339 with any offset; what is below a millisecond is cut off.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
    }

    /// The instant `length` later.
    #[must_use]
    pub fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add(i64::try_from(length.0).unwrap_or(i64::MAX)))
    }

    /// The length from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// UTC, milliseconds, `Z` (contract 1); what RFC 3339 cannot say is written as the nearest that it can.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = jiff::Timestamp::MIN.as_millisecond();
        let most = jiff::Timestamp::MAX.as_millisecond();
        let time = jiff::Timestamp::from_millisecond(self.0.clamp(least, most)).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A length of time.
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
pub struct Millis(pub u64);

impl Millis {
    /// `n` seconds.
    pub const fn seconds(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// For the standard library's timers.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}
