//! How parts of an entry are written in a backup, where their usual JSON would lose something.
//!
//! In: serde's calls. Out: text that reads back as exactly the same value. What clients see (RFC 3339, JSON numbers) is made
//! elsewhere: this is for entries as a whole.

/// An instant, as whole milliseconds since 1970: RFC 3339 ends with the year 9999.
pub mod stamp {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::job::Timestamp;

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(at.0)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp)
    }
}

/// An instant that may be missing.
pub mod stamp_if {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::job::Timestamp;

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        at.map(|at| at.0).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<i64>::deserialize(from)?.map(Timestamp))
    }
}

/// A finite number that may be missing, as text: JSON readers may round its last bit.
pub mod exact_if {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(|number| number.to_string()).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no finite number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        let Some(text) = Option::<Cow<'de, str>>::deserialize(from)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| D::Error::custom("no finite number"))
    }
}

/// A digest, as hex digits.
pub mod hex {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(digest: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&text)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is not 64 hex digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        let wrong = || D::Error::custom("not 64 hex digits");
        let mut digest = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (n, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).map_err(|_| wrong())?;
        }
        Ok(digest)
    }
}
