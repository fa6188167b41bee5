//! What a job is from its first entry to its last: the part that never changes.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::written::{stamp, stamp_if};
use super::{BodyRef, Carried, JobId, Timestamp};

/// Most tags on a job (contract 1).
pub const TAGS_MAX: usize = 16;
/// Longest tag, in characters (contract 1).
pub const TAG_CHARS_MAX: usize = 64;
/// All tags of a job together, in bytes, so that the record stays within 4 KiB (design 5.4).
pub const TAGS_BYTES_MAX: usize = 1_024;
/// Longest idempotency key: visible ASCII (contract 5).
pub const KEY_MAX: usize = 255;
/// Longest `traceparent`, in bytes.
pub const TRACEPARENT_MAX: usize = 128;
/// Least and greatest priority (contract 1).
pub const PRIORITY: std::ops::RangeInclusive<i8> = -100..=100;

/// The caller's key, and what "the same payload" is judged by.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// As submitted.
    pub text: Arc<str>,
    /// SHA-256 of the payload's canonical JSON (`job::canonical`).
    #[serde(with = "super::written::hex")]
    pub digest: [u8; 32],
}

/// The unchanging part of a job, shared by every copy of its head.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The job.
    pub id: JobId,
    /// Its type; one tool per type.
    pub job_type: Arc<str>,
    /// The principal it belongs to; `local` when no tokens are configured.
    pub owner: Arc<str>,
    /// Its arguments, a JSON object.
    pub payload: BodyRef,
    /// The arguments themselves, where they are a few bytes.
    #[serde(skip)]
    pub carried: Carried,
    /// -100..100.
    pub priority: i8,
    /// Runs in all, counting those that failed or timed out.
    pub max_attempts: u32,
    /// When it was submitted.
    #[serde(with = "stamp")]
    pub created_at: Timestamp,
    /// When it is canceled with reason `timeout`.
    #[serde(with = "stamp_if", default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The caller's idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<Key>>,
    /// As submitted.
    pub tags: Arc<[Arc<str>]>,
    /// W3C trace context, as submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Arc<str>>,
    /// The dead letter it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<JobId>,
}

impl Spec {
    /// The payload, where the record carries it.
    pub fn carried(&self) -> Option<&Bytes> {
        self.carried.bytes(self.payload)
    }
}
