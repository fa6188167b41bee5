//! The settings of a tool that decisions depend on. Values only; `config` reads them, the core hands them in.

use super::Millis;

/// Retry arithmetic of contract 3.
#[derive(Clone, PartialEq, Debug)]
pub struct RetryPolicy {
    /// Runs in all.
    pub max_attempts: u32,
    /// Delay after the first failure.
    pub base_delay: Millis,
    /// Longest plain delay.
    pub max_delay: Millis,
    /// Share of the delay that chance may add, 0 to 1.
    pub jitter: f64,
    /// Charged interruptions after which the job fails.
    pub max_interruptions: u32,
}

impl Default for RetryPolicy {
    /// The defaults of contract 7.
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base_delay: Millis::seconds(1),
            max_delay: Millis::seconds(300),
            jitter: 0.2,
            max_interruptions: 3,
        }
    }
}

/// What happens to a job whose attempt was cut short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnInterrupt {
    /// It runs again.
    #[default]
    Retry,
    /// It fails as `outcome_unknown`.
    Fail,
}

/// The rules for jobs of one type.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// Delays and limits.
    pub retry: RetryPolicy,
    /// After a crash.
    pub on_interrupt: OnInterrupt,
    /// Longest run of one attempt.
    pub timeout: Millis,
    /// Most attempts of this type at once; `None`: as many as there are workers.
    pub concurrency: Option<u32>,
}

impl Default for Rules {
    /// The defaults of contract 7; also for a type that is no longer configured.
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            on_interrupt: OnInterrupt::Retry,
            timeout: Millis::seconds(600),
            concurrency: None,
        }
    }
}

/// How often progress is news (design 3, contract 7).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throttle {
    /// At most one progress per job in this time, unless step or message changed.
    pub min_interval: Millis,
    /// Or the percentage moved by this.
    pub min_delta: f64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { min_interval: Millis(500), min_delta: 10.0 }
    }
}
