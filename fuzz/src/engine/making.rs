//! Values for steps: specs, bodies, failures. Sizes lie on both sides of each of the store's limits.

use std::sync::Arc;

use bytes::Bytes;
use longhaul::job::{
    BODY_SMALL_MAX, Body, BodyRef, Carried, Class, End, Failing, Failure, INLINE_MAX, JobId, Json, Key, Millis,
    OnInterrupt, Part, RetryPolicy, Rules, Spec, Timestamp,
};

use super::step::Creation;

/// The names of the job types; each has rules of its own.
pub const TYPES: [&str; 4] = ["echo", "sum", "once", "a type with a rather long name, as some tools have"];
/// The principals.
pub const OWNERS: [&str; 2] = ["local", "ann"];

/// The rules of a type.
pub fn rules(job_type: &str) -> Rules {
    match job_type {
        "sum" => Rules { on_interrupt: OnInterrupt::Fail, ..Rules::default() },
        "once" => Rules { retry: RetryPolicy { max_interruptions: 1, ..RetryPolicy::default() }, ..Rules::default() },
        _ => Rules::default(),
    }
}

/// The `number`-th job. Ids rise with the number, but for those that are made older than all others.
pub fn spec(number: usize, creation: &Creation, payload: BodyRef, bytes: &[u8], now: Timestamp) -> Spec {
    let age = if creation.older { 0 } else { 1_u128 << 100 };
    let tag = |n: u8| Arc::from(format!("{n}{}", "t".repeat(usize::from(creation.tags) % 64)));
    let job_type = TYPES[usize::from(creation.job_type)];
    Spec {
        id: JobId::from_u128(age | (number as u128) << 64 | 0x7abc),
        job_type: job_type.into(),
        owner: OWNERS[usize::from(creation.owner)].into(),
        payload,
        carried: Carried::of(bytes),
        priority: (creation.tags % 7) as i8 - 3,
        max_attempts: if job_type == "once" { 1 } else { 3 },
        created_at: now,
        expires_at: creation.expires.then(|| now.plus(Millis(90_000))),
        key: creation.key.map(|key| Arc::new(Key { text: key_text(key).into(), digest: [key; 32] })),
        tags: (0..creation.tags % 17).map(tag).collect(),
        traceparent: (creation.tags & 64 != 0)
            .then(|| "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        replay_of: None,
    }
}

/// The text of a key.
pub fn key_text(key: u8) -> String {
    format!("key {key}")
}

/// A body of one of the sizes that matter: without its bytes if it is so large that it is brought apart.
pub fn body(part: Part, seq: u64, size: u8) -> (Body, Bytes) {
    const SIZES: [usize; 10] =
        [2, 60, INLINE_MAX, 4_096, 4_097, 9_000, 0, BODY_SMALL_MAX, BODY_SMALL_MAX + 1, 2 * BODY_SMALL_MAX + 77];
    let len = SIZES[usize::from(size) % SIZES.len()];
    let bytes: Bytes = (0..len).map(|at| (at * 7 + at / 251 + usize::from(size)) as u8).collect();
    let name = BodyRef::of(part, seq, &bytes);
    (Body { name, bytes: (len <= BODY_SMALL_MAX).then(|| bytes.clone()) }, bytes)
}

/// What an event carries of such a body.
pub fn inline(name: BodyRef) -> Option<Json> {
    let len = usize::try_from(name.len).ok().filter(|len| *len <= INLINE_MAX)?;
    Some(Json("7".repeat(len).into()))
}

/// A way to fail.
pub fn failing(class: u8, after: bool) -> Failing {
    let classes = [Class::Transient, Class::Transient, Class::Permanent, Class::Fatal];
    let message = "it broke ".repeat(usize::from(class));
    Failing {
        failure: Failure::new(classes[usize::from(class % 4)], (class & 4 != 0).then_some("exit_3"), &message),
        end: if class & 8 == 0 { End::Failed } else { End::TimedOut },
        retry_after: after.then_some(Millis(2_000_000)),
    }
}
