//! When a failed job is tried again, and whom a crash is charged to (contract 3).
//!
//! In: a policy, counts, a chance. Out: lengths of time and verdicts. Never overflows, never asks for the time.

use super::{JobId, Millis, RetryPolicy};

/// A server's `Retry-After` is honoured up to this; a longer one counts as this.
pub const RETRY_AFTER_MAX: Millis = Millis::seconds(3_600);

/// A job with so many charged interruptions is a suspect: suspects run one at a time.
pub const SUSPECT_AT: u32 = 2;

/// Delay before the attempt after the `failures`-th failure (from 1): the plain delay `base_delay × 2^(failures - 1)`, at
/// most `max_delay`, plus up to its `jitter` share by `spread`, a chance of 0 to 1. Never shorter than the plain delay.
pub fn backoff(policy: &RetryPolicy, failures: u32, spread: f64) -> Millis {
    let doubled = 2u64.saturating_pow(failures.saturating_sub(1));
    let plain = policy.base_delay.0.saturating_mul(doubled).min(policy.max_delay.0);
    let share = policy.jitter.clamp(0.0, 1.0) * spread.clamp(0.0, 1.0);
    // A cast from a float saturates, and takes a NaN from senseless settings for zero.
    Millis(plain.saturating_add((plain as f64 * share) as u64))
}

/// The delay before the next attempt: the backoff, or the wait that a server asked for if that is longer.
pub fn delay(policy: &RetryPolicy, failures: u32, retry_after: Option<Millis>, spread: f64) -> Millis {
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    backoff(policy, failures, spread).max(asked)
}

/// Whether a job with so many charged interruptions is suspected of killing the server.
pub const fn is_suspect(interruptions: u32) -> bool {
    interruptions >= SUSPECT_AT
}

/// Whom a crash is charged to: every job that was running, given with its charged interruptions so far, unless a suspect
/// was among them: then it alone (suspects run one at a time). Those not charged come first: if the next crash comes when
/// only the first of them are committed, the suspect is still there to be charged.
pub fn charges(running: &[(JobId, u32)]) -> Vec<(JobId, bool)> {
    let suspected = running.iter().any(|(_, interruptions)| is_suspect(*interruptions));
    let charge = |(id, interruptions): &(JobId, u32)| (*id, !suspected || is_suspect(*interruptions));
    let mut charges: Vec<_> = running.iter().map(charge).collect();
    charges.sort_by_key(|(_, charged)| *charged);
    charges
}
