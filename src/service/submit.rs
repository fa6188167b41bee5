//! From a submit to a job: everything that is checked before a job exists.
//!
//! In: what a caller sent. Out: a `Creation` for the core, or each thing that is wrong with it. Writes nothing itself but a
//! large payload, which is on disk before the core hears of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Catalogue, Known, Refused, Service, Submit, Submitted, Tool, Viewer, Violation};
use crate::core::{Creation, ReplayRefusal, Room, SubmitRefusal};
use crate::job::{
    BODY_SMALL_MAX, Body, BodyRef, Carried, Head, JobId, KEY_MAX, Key, Millis, PRIORITY, Part, Spec, State,
    TAG_CHARS_MAX, TAGS_BYTES_MAX, TAGS_MAX, TRACEPARENT_MAX, Timestamp, canonical,
};
use crate::store::{self, Store};

/// Types that are named to a caller whose own there is not.
const TYPES_MAX: usize = 5;

/// Farthest that a delay, a `runAt` or an expiry may lie ahead.
pub const AHEAD_MAX: Millis = Millis::seconds(366 * 24 * 60 * 60);

/// How a key begins that was made of a payload.
const DERIVED: &str = "arguments:";

impl Service {
    /// Creates a job, or finds the one that its key names. Durable when it returns.
    ///
    /// # Errors
    /// Any `Refused` but those about an existing job.
    pub async fn submit(&self, viewer: &Viewer, submit: Submit) -> Result<Submitted, Refused> {
        let catalogue = self.catalogue();
        let tool = tool_of(&catalogue, &submit.job_type)?;
        let payload = one_line(&submit.payload);
        let value = super::json::read(&payload).map_err(|why| Refused::BadJson(why.to_string()))?;
        if !value.is_object() {
            return Err(Refused::BadJson("the payload must be a JSON object".into()));
        }
        let violations = self.field_violations(&submit);
        if !violations.is_empty() {
            return Err(Refused::BadField(violations));
        }
        let violations = catalogue.check_input(&submit.job_type, &value);
        if !violations.is_empty() {
            return Err(Refused::Schema(violations));
        }
        let now = self.clock.now();
        let run_at = submit.run_at.or_else(|| submit.delay.map(|delay| now.plus(millis(delay))));
        let expires_in = submit.expires_in.map(millis).or(tool.expires_in);
        let key = key(tool, submit.key, &value).map(Arc::new);
        let spec = Spec {
            id: self.clock.job_id(),
            job_type: tool.job_type.clone(),
            owner: viewer.principal.clone(),
            payload: BodyRef::of(Part::Payload, 0, &payload),
            carried: Carried::default(),
            priority: i8::try_from(submit.priority).unwrap_or_default(),
            max_attempts: tool.rules.retry.max_attempts,
            created_at: now,
            expires_at: expires_in.map(|length| now.plus(length)),
            key,
            tags: submit.tags.into_iter().map(Arc::from).collect(),
            traceparent: submit.traceparent.map(Arc::from),
            replay_of: None,
        };
        let creation = self.creation(spec, run_at, payload).await?;
        let answer = self.core.submit(creation).await.map_err(Refused::from)?;
        answer.map(|(head, is_new)| Submitted { head, is_new }).map_err(Refused::from)
    }

    /// Makes a new job from a dead letter; both are durable when it returns.
    ///
    /// # Errors
    /// `NoSuchJob`, `NotDeadLettered`, `AlreadyReplayed`, and what `submit` refuses.
    pub async fn retry(&self, viewer: &Viewer, id: JobId) -> Result<Arc<Head>, Refused> {
        let dead = self.job(viewer, id).await?;
        replayable(&dead)?;
        let old = &dead.job.spec;
        let catalogue = self.catalogue();
        let tool = tool_of(&catalogue, &old.job_type)?;
        let payload = self.body(id, old.payload, 0, usize::MAX).await?;
        let now = self.clock.now();
        let spec = Spec {
            id: self.clock.job_id(),
            max_attempts: tool.rules.retry.max_attempts,
            created_at: now,
            expires_at: tool.expires_in.map(|length| now.plus(length)),
            key: None,
            replay_of: Some(id),
            ..Spec::clone(old)
        };
        let creation = self.creation(spec, None, payload).await?;
        match self.core.replay(id, creation).await? {
            Ok(head) => Ok(head),
            Err(ReplayRefusal::Submit(refusal)) => Err(refusal.into()),
            // Somebody else came first: what they made of it is durable by now.
            Err(ReplayRefusal::Refused(_)) => {
                replayable(&*self.job(viewer, id).await?)?;
                Err(Refused::Busy)
            }
        }
    }

    async fn creation(&self, spec: Spec, run_at: Option<Timestamp>, payload: Bytes) -> Result<Box<Creation>, Refused> {
        let name = spec.payload;
        if payload.len() <= BODY_SMALL_MAX {
            return Ok(Box::new(Creation { spec, run_at, payload: Body { name, bytes: Some(payload) } }));
        }
        let id = spec.id;
        let core = self.core.clone();
        let bring = move |store: &dyn Store| {
            if core.room(&store.health()?) < Room::Ample {
                return Err(store::Error::Full("store.disk_reserve is reached".into()));
            }
            store.bring(id, name, &payload)
        };
        self.ask(bring).await?.map_err(|error| match error {
            store::Error::Full(_) => Refused::DiskFull,
            store::Error::Unavailable(_)
            | store::Error::Corrupt { .. }
            | store::Error::Body { .. }
            | store::Error::Locked(_) => self.failed(&error),
        })?;
        Ok(Box::new(Creation { spec, run_at, payload: Body { name, bytes: None } }))
    }

    /// Every field that breaks its rule, by name.
    fn field_violations(&self, submit: &Submit) -> Vec<Violation> {
        let ahead = |when: Timestamp| when.since(self.clock.now()) > AHEAD_MAX;
        let too_long = |length: Option<Duration>| length.is_some_and(|length| millis(length) > AHEAD_MAX);
        let tags_bytes: usize = submit.tags.iter().map(String::len).sum();
        let key_fits = |key: &String| (1..=KEY_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
        let rules = [
            (submit.run_at.is_some() && submit.delay.is_some(), "/runAt", "give runAt or delayMs, not both"),
            (submit.run_at.is_some_and(ahead), "/runAt", "at most 366 days ahead"),
            (too_long(submit.delay), "/delayMs", "at most 366 days"),
            (too_long(submit.expires_in), "/expiresInMs", "at most 366 days"),
            (submit.expires_in == Some(Duration::ZERO), "/expiresInMs", "must be more than 0"),
            (!priority_fits(submit.priority), "/priority", "must be a whole number from -100 to 100"),
            (submit.tags.len() > TAGS_MAX, "/tags", "at most 16 tags"),
            (tags_bytes > TAGS_BYTES_MAX, "/tags", "at most 1,024 bytes in all"),
            (!submit.tags.iter().all(|tag| tag_fits(tag)), "/tags", "each tag: 1 to 64 characters, none of control"),
            (
                submit.key.as_ref().is_some_and(|key| !key_fits(key)),
                "/idempotencyKey",
                "must be 1 to 255 visible ASCII characters",
            ),
            (
                submit.traceparent.as_ref().is_some_and(|t| t.len() > TRACEPARENT_MAX || !t.is_ascii()),
                "/traceparent",
                "at most 128 ASCII characters",
            ),
        ];
        let broken = rules.into_iter().filter(|(is_broken, ..)| *is_broken);
        broken.map(|(_, pointer, message)| Violation { pointer: pointer.into(), message: message.into() }).collect()
    }
}

/// The tool that makes jobs of this type.
fn tool_of<'a>(catalogue: &'a Catalogue, job_type: &str) -> Result<&'a Tool, Refused> {
    catalogue.of_type(job_type).ok_or_else(|| Refused::NoSuchType(known_types(catalogue, job_type)))
}

/// What there is, for a caller who may submit: who may, may see every tool.
fn known_types(catalogue: &Catalogue, job_type: &str) -> Known {
    let near = |tool: &Tool| (strsim::jaro_winkler(&tool.job_type, job_type), tool.job_type.to_string());
    let mut types: Vec<(f64, String)> = catalogue.tools().map(near).collect();
    types.sort_by(|one, other| other.0.total_cmp(&one.0));
    let meant = types.first().filter(|best| best.0 > 0.7).map(|best| best.1.clone());
    let others = types.len().saturating_sub(TYPES_MAX);
    Known { meant, nearest: types.into_iter().take(TYPES_MAX).map(|(_, name)| name).collect(), others }
}

/// The caller's key; else, of a tool that asks for it, one that equal payloads share.
fn key(tool: &Tool, own: Option<String>, payload: &serde_json::Value) -> Option<Key> {
    if own.is_none() && !tool.derive_key {
        return None;
    }
    let digest = canonical::digest(payload);
    let derived = || digest.iter().fold(DERIVED.to_owned(), |text, byte| text + &format!("{byte:02x}"));
    Some(Key { text: own.unwrap_or_else(derived).into(), digest })
}

/// Only a dead letter that was not replayed can be.
fn replayable(head: &Head) -> Result<(), Refused> {
    match head.job.state {
        State::Failed { replayed_as: None } => Ok(()),
        State::Failed { replayed_as: Some(new) } => Err(Refused::AlreadyReplayed(new)),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Completed(_)
        | State::Canceled { .. } => Err(Refused::NotDeadLettered),
    }
}

fn priority_fits(priority: i64) -> bool {
    i8::try_from(priority).is_ok_and(|priority| PRIORITY.contains(&priority))
}

fn tag_fits(tag: &str) -> bool {
    (1..=TAG_CHARS_MAX).contains(&tag.chars().count()) && !tag.chars().any(char::is_control)
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// JSON text on one line: raw line breaks can only stand between its tokens.
pub(super) fn one_line(json: &Bytes) -> Bytes {
    if !json.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return json.clone();
    }
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

impl From<SubmitRefusal> for Refused {
    fn from(refusal: SubmitRefusal) -> Self {
        match refusal {
            SubmitRefusal::KeyConflict(id) => Self::IdempotencyConflict(id),
            SubmitRefusal::Full(limit) => Self::TooMany(limit),
            SubmitRefusal::DiskFull => Self::DiskFull,
            SubmitRefusal::Draining => Self::Draining,
        }
    }
}
