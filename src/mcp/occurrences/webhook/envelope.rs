//! What a callback is sent: bodies, and the headers that prove who sent them (Standard Webhooks).
//!
//! In: secrets, an id, a time, a body. Out: headers. A secret is never shown: neither in an answer, nor in a log, nor by `Debug`.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::job::Timestamp;

/// Before a secret as clients write it.
const PREFIX: &str = "whsec_";
/// Shortest secret, in bytes.
pub const SECRET_MIN: usize = 24;
/// Longest secret, in bytes.
pub const SECRET_MAX: usize = 64;

/// Base64 with padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What deliveries are signed with: the bytes that the client's text stands for.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(Box<[u8]>);

impl Secret {
    /// Reads `whsec_` and Base64 of 24 to 64 bytes.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = LENIENT.decode(text.strip_prefix(PREFIX)?).ok()?;
        (SECRET_MIN..=SECRET_MAX).contains(&bytes.len()).then(|| Self(bytes.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0)))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::of(&text).ok_or_else(|| D::Error::custom("no secret"))
    }
}

/// The headers of one attempt.
pub(super) fn headers<'a>(
    secrets: impl Iterator<Item = &'a Secret>,
    message: &str,
    subscription: &str,
    now: Timestamp,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    let seconds = now.0.div_euclid(1_000);
    let signatures: Vec<_> = secrets.map(|secret| signature(secret, message, seconds, body)).collect();
    vec![
        ("webhook-id", message.to_owned()),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", signatures.join(" ")),
        ("x-mcp-subscription-id", subscription.to_owned()),
    ]
}

fn signature(secret: &Secret, message: &str, seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes a key of any length");
    mac.update(format!("{message}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

/// Asks the endpoint to prove that it wants deliveries.
pub(super) fn verification(challenge: &str) -> Bytes {
    bytes(&json!({ "type": "verification", "challenge": challenge }))
}

/// Events were lost; what follows this cursor was not.
pub(super) fn gap(cursor: &str) -> Bytes {
    bytes(&json!({ "type": "gap", "cursor": cursor }))
}

/// The subscription is over.
pub(super) fn terminated(error: &Value) -> Bytes {
    bytes(&json!({ "type": "terminated", "error": error }))
}

fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_test_vector_of_standard_webhooks_is_signed_as_it_should_be() {
        let secret = Secret::of(TEXT).expect("is one");
        let body = br#"{"test": 2432232314}"#;
        let found = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(found, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = [secret.clone(), secret];
        let headers = headers(both.iter(), "m", "sub_1", Timestamp(1_999), body);
        assert_eq!(headers[1], ("webhook-timestamp", "1".to_owned()));
        assert_eq!(headers[2].1.split(' ').count(), 2);
    }

    #[test]
    fn a_secret_has_its_form_and_is_not_shown() {
        let secret = Secret::of(TEXT).expect("is one");
        assert_eq!(format!("{secret:?}"), "Secret");
        let kept = serde_json::to_string(&secret).expect("is JSON");
        assert_eq!(serde_json::from_str::<Secret>(&kept).expect("is one"), secret);
        let of_len = |len: usize| format!("{PREFIX}{}", BASE64_STANDARD.encode(vec![7; len]));
        for (text, is_one) in [
            (of_len(SECRET_MIN), true),
            (of_len(SECRET_MAX), true),
            (of_len(25).trim_end_matches('=').to_owned(), true),
            (of_len(SECRET_MIN - 1), false),
            (of_len(SECRET_MAX + 1), false),
            (TEXT.trim_start_matches(PREFIX).to_owned(), false),
            (format!("{PREFIX}!!!!"), false),
            (String::new(), false),
        ] {
            assert_eq!(Secret::of(&text).is_some(), is_one, "{text}");
        }
    }
}
