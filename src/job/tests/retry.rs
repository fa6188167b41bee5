//! When a failed job is tried again.

use proptest::prelude::*;

use super::*;
use crate::job::RetryPolicy;
use crate::job::retry::{RETRY_AFTER_MAX, backoff, charges, delay};

#[test]
fn the_plain_delay_doubles_up_to_its_maximum() {
    let policy = RetryPolicy::default();
    let delays: Vec<u64> = [1, 2, 3, 8, 9, 10, 100].map(|failures| backoff(&policy, failures, 0.0).0).into();
    assert_eq!(delays, [1_000, 2_000, 4_000, 128_000, 256_000, 300_000, 300_000]);
    assert_eq!(backoff(&policy, 1, 1.0), Millis(1_200), "chance adds up to a fifth");
}

#[test]
fn a_server_that_asks_for_a_wait_is_heeded_up_to_an_hour() {
    let policy = RetryPolicy::default();
    for (asked, waits) in
        [(0, 1_000), (999, 1_000), (60_000, 60_000), (3_600_000, 3_600_000), (u64::MAX, RETRY_AFTER_MAX.0)]
    {
        assert_eq!(delay(&policy, 1, Some(Millis(asked)), 0.0), Millis(waits));
    }
}

#[test]
fn senseless_settings_and_chances_neither_panic_nor_shorten_a_delay() {
    for wild in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
        let policy = RetryPolicy { jitter: wild, ..RetryPolicy::default() };
        assert!((1_000..=2_000).contains(&backoff(&policy, 1, 1.0).0));
        assert!((1_000..=1_200).contains(&backoff(&RetryPolicy::default(), 1, wild).0));
    }
    let endless = RetryPolicy { base_delay: Millis(u64::MAX), max_delay: Millis(u64::MAX), ..RetryPolicy::default() };
    assert_eq!(backoff(&endless, u32::MAX, 1.0), Millis(u64::MAX));
    assert_eq!(Timestamp(i64::MAX - 5).plus(backoff(&endless, 2, 1.0)), Timestamp(i64::MAX));
}

/// A fixed back-off without jitter sent a thousand failed jobs back at the same moment.
#[test]
fn case_42_jobs_that_fail_together_come_back_spread_out_never_early_and_without_overflow() {
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..1_000_u32 {
        let mut life = Life::of(Spec { max_attempts: 101, ..spec(u128::from(n)) });
        life.spread = f64::from(n) / 1_000.0;
        for failures in 1..=100 {
            life.start();
            life.fail(Class::Transient);
            let waits = life.job.run_at.since(life.now).0;
            let plain = (1_000_u64 << (failures - 1).min(20)).min(300_000);
            assert!((plain..=plain + plain / 5).contains(&waits), "failure {failures} waits {waits}");
            life.now = life.job.run_at;
            if failures == 5 {
                seen.insert(waits);
            }
        }
        assert_eq!(life.job.attempts, 100);
    }
    assert!(seen.len() > 900, "only {} different delays", seen.len());
}

#[test]
fn a_crash_is_charged_to_the_suspect_that_ran_else_to_all() {
    let [a, b, c] = [1, 2, 3].map(JobId::from_u128);
    assert_eq!(charges(&[(a, 0), (b, 1)]), [(a, true), (b, true)]);
    assert_eq!(charges(&[(a, 0), (b, 2), (c, 1)]), [(a, false), (c, false), (b, true)]);
    assert_eq!(charges(&[]), []);
}

proptest! {
    #[test]
    fn a_delay_lies_between_the_plain_one_and_its_jitter_and_never_before_what_was_asked(
        base in 0..u64::MAX,
        max in 0..u64::MAX,
        jitter in 0.0..=1.0,
        spread in 0.0..=1.0,
        failures in 0..200_u32,
        asked in proptest::option::of(0..=u64::MAX),
    ) {
        let policy = RetryPolicy { base_delay: Millis(base), max_delay: Millis(max), jitter, ..RetryPolicy::default() };
        // By doubling step by step, in numbers that hold it.
        let mut plain = u128::from(base);
        for _ in 1..failures {
            plain = (plain * 2).min(u128::from(u64::MAX));
        }
        let plain = plain.min(u128::from(max)) as u64;
        let waits = backoff(&policy, failures, spread).0;
        prop_assert!(waits >= plain);
        prop_assert!(waits as f64 <= plain as f64 * (1.0 + jitter) * (1.0 + 1e-9) + 1.0);
        let asked = asked.map(Millis);
        let with = delay(&policy, failures, asked, spread);
        prop_assert!(with.0 >= waits && with >= asked.unwrap_or_default().min(RETRY_AFTER_MAX));
        prop_assert!(with.0 == waits || Some(with) == asked.map(|asked| asked.min(RETRY_AFTER_MAX)));
    }
}
