//! One subscription of a callback, as it is kept.
//!
//! In: what a client asked for. Out: a cell and back. What identifies it never changes; the rest does, under one lock, and is written by one
//! writer at a time, so that what is on the disk is never older than what was written there before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::envelope::Secret;
use crate::job::{EventId, Millis, Timestamp};
use crate::service::{CellChange, Refused, Service};

/// What the names of the cells begin with.
pub(super) const PREFIX: &str = "webhook/";
/// So long deliveries are signed with the secret before the newest too.
pub const SECRET_GRACE: Millis = Millis::seconds(5 * 60);

/// A subscription of which nothing was acknowledged for so long,
pub const SUSPEND_AFTER: Millis = Millis::seconds(3_600);
/// and in so many attempts, is delivered to no more until it is refreshed. Both at least.
pub const SUSPEND_FAILURES: u32 = 100;

/// What tells one subscription from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// Whose it is.
    pub principal: Arc<str>,
    /// Where deliveries go, as it was written.
    pub url: Box<str>,
    /// The type of event.
    pub name: Box<str>,
    /// RFC 8785.
    pub arguments: Box<str>,
}

impl Key {
    /// Its id: the same for the same key, whatever was restarted in between.
    pub(super) fn id(&self) -> Arc<str> {
        let mut hash = Sha256::new();
        for part in [&*self.principal, &*self.url, &*self.name, &*self.arguments] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        let hex = digest[..16].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        format!("sub_{hex}").into()
    }
}

/// What may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// See `Key`.
    pub key: Key,
    /// The principal saw every job when it subscribed.
    pub sees_all: bool,
    /// What deliveries are signed with.
    pub secret: Secret,
    /// The one before it, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<(Secret, i64)>,
    /// It is gone after that.
    pub expires: i64,
    /// What happened before that is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<i64>,
    /// Everything up to here was acknowledged or abandoned: an `EventId`.
    pub watermark: Box<str>,
    /// When something was acknowledged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<i64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// Since when nothing was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_since: Option<i64>,
    /// How often it went wrong since.
    #[serde(default)]
    pub failures: u32,
    /// Nothing is delivered until its client comes back.
    #[serde(default)]
    pub suspended: bool,
}

impl Record {
    /// The secrets that are good now, newest first.
    pub(super) fn secrets(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let earlier = self.earlier.as_ref().filter(|(_, until)| now.0 < *until).map(|(secret, _)| secret);
        std::iter::once(&self.secret).chain(earlier)
    }

    /// Takes over a newer secret; the one before stays good for a while.
    pub(super) fn renew(&mut self, secret: Secret, now: Timestamp) {
        if self.secret != secret {
            let earlier = std::mem::replace(&mut self.secret, secret);
            self.earlier = Some((earlier, now.plus(SECRET_GRACE).0));
        }
    }

    /// Something was acknowledged.
    pub(super) fn accepted(&mut self, now: Timestamp) {
        (self.delivered, self.error) = (Some(now.0), None);
        self.resume();
    }

    /// Something went wrong; for too long and too often, and it is suspended.
    pub(super) fn failed(&mut self, category: &str, now: Timestamp) {
        self.error = Some(category.into());
        let since = *self.failed_since.get_or_insert(now.0);
        self.failures = self.failures.saturating_add(1);
        self.suspended |= self.failures >= SUSPEND_FAILURES && now.since(Timestamp(since)) >= SUSPEND_AFTER;
    }

    /// What went wrong before does not count any more.
    pub(super) fn resume(&mut self) {
        (self.failed_since, self.failures, self.suspended) = (None, 0, false);
    }

    /// Where to go on; `None` for a cell that somebody else has written.
    pub(super) fn cursor(&self) -> Option<EventId> {
        self.watermark.parse().ok()
    }
}

/// A subscription that is not over.
#[derive(Debug)]
pub(super) struct Live {
    /// See `Key::id`.
    pub id: Arc<str>,
    record: Mutex<(Record, bool)>,
    /// Told when it has changed or ended.
    pub changed: Notify,
    /// Held while it is written.
    writing: tokio::sync::Mutex<()>,
}

impl Live {
    /// The subscription with this record.
    pub(super) fn new(record: Record) -> Self {
        let id = record.key.id();
        Self { id, record: Mutex::new((record, false)), changed: Notify::new(), writing: tokio::sync::Mutex::default() }
    }

    /// What a cell holds.
    pub(super) fn of_cell(name: &str, value: &[u8]) -> Option<Self> {
        let record: Record = serde_json::from_slice(value).ok()?;
        let live = Self::new(record);
        let is_whole = name.strip_prefix(PREFIX) == Some(&*live.id) && live.with(|record| record.cursor().is_some());
        is_whole.then_some(live)
    }

    /// Reads or changes the record.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Record) -> T) -> T {
        act(&mut self.locked().0)
    }

    /// Whether it has been ended.
    pub(super) fn is_over(&self) -> bool {
        self.locked().1
    }

    /// Whether its time is up.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.with(|record| record.expires <= now.0)
    }

    /// Writes the record as it is by then. Durable when it returns. Does nothing for one that is over.
    ///
    /// # Errors
    /// What `Service::put_cells` refuses.
    pub(super) async fn save(&self, service: &Service) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        if self.is_over() {
            return Ok(());
        }
        // Plain fields always serialise.
        let value = self.with(|record| serde_json::to_vec(record)).unwrap_or_default();
        service.put_cells(vec![self.cell(Some(value.into()))]).await
    }

    /// Ends it: from now on nothing is delivered; durable when it returns.
    ///
    /// # Errors
    /// What `Service::put_cells` refuses: it will be back after a restart.
    pub(super) async fn end(&self, service: &Service) -> Result<(), Refused> {
        self.locked().1 = true;
        self.changed.notify_one();
        let _writing = self.writing.lock().await;
        service.put_cells(vec![self.cell(None)]).await
    }

    fn cell(&self, value: Option<Bytes>) -> CellChange {
        CellChange { name: format!("{PREFIX}{}", self.id), expect: None, value }
    }

    fn locked(&self) -> MutexGuard<'_, (Record, bool)> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(url: &str, name: &str) -> Key {
        Key { principal: "ann".into(), url: url.into(), name: name.into(), arguments: "{}".into() }
    }

    fn record() -> Record {
        Record {
            key: key("https://a", "job.event"),
            sees_all: false,
            secret: Secret::of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("is one"),
            earlier: None,
            expires: 10,
            oldest: None,
            watermark: "00000001-7".into(),
            delivered: None,
            error: None,
            failed_since: None,
            failures: 0,
            suspended: false,
        }
    }

    #[test]
    fn a_subscription_is_suspended_only_after_long_and_many_failures_without_one_success() {
        let mut record = record();
        let often =
            |record: &mut Record, at: i64, times: u32| (0..times).for_each(|_| record.failed("timeout", Timestamp(at)));
        often(&mut record, 0, 1_000);
        assert!(!record.suspended, "often, not for long");
        record.accepted(Timestamp(1));
        often(&mut record, 2, 1);
        often(&mut record, 2 + SUSPEND_AFTER.0 as i64, SUSPEND_FAILURES - 2);
        assert!(!record.suspended, "for long, not often");
        often(&mut record, 2 + SUSPEND_AFTER.0 as i64, 1);
        assert!(record.suspended);
        let value = serde_json::to_vec(&record).expect("is JSON");
        let kept = Live::of_cell(&format!("{PREFIX}{}", record.key.id()), &value).expect("is one");
        assert!(kept.with(|record| record.suspended), "a restart changes nothing");
        record.resume();
        assert!(!record.suspended && record.error.is_some());
    }

    #[test]
    fn the_same_key_has_the_same_id_and_no_other_has_it() {
        assert_eq!(key("u", "n").id(), key("u", "n").id());
        assert_ne!(key("un", "").id(), key("u", "n").id(), "lengths count");
        assert!(key("u", "n").id().starts_with("sub_"));
    }

    #[test]
    fn a_record_comes_back_from_its_cell_and_anything_else_is_none() {
        let live = Live::new(record());
        let value = serde_json::to_vec(&record()).expect("is JSON");
        let again = Live::of_cell(&format!("{PREFIX}{}", live.id), &value).expect("is one");
        assert_eq!(again.with(|record| record.clone()), record());
        assert!(Live::of_cell("webhook/sub_other", &value).is_none());
        assert!(Live::of_cell(&format!("{PREFIX}{}", live.id), b"{}").is_none());
        assert!(!format!("{live:?}").contains("MfKQ9"));
    }

    #[test]
    fn for_a_while_both_secrets_are_good() {
        let mut record = record();
        let first = record.secret.clone();
        let second = Secret::of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("is one");
        record.renew(first.clone(), Timestamp(0));
        assert_eq!(record.secrets(Timestamp(0)).count(), 1, "the same one is no other");
        record.renew(second.clone(), Timestamp(0));
        assert_eq!(record.secrets(Timestamp(0)).collect::<Vec<_>>(), [&second, &first]);
        assert_eq!(record.secrets(Timestamp(0).plus(SECRET_GRACE)).collect::<Vec<_>>(), [&second]);
    }
}
