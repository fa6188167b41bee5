//! Retention: ended jobs go when they are too old or too many, in small groups beside normal work.
//!
//! In: the time, and what the store says is oldest. Out: `forget`s. It knows when the next job comes of age and waits
//! for that; it never looks in vain.

use super::thread::{Core, Fatal};
use crate::job::{Job, JobId, Millis, Status, Timestamp};

/// Most jobs forgotten between two groups of commands.
pub const SWEEP_MAX: usize = 64;

/// How long ended jobs are kept, and how many (contract 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Completed and canceled jobs, from their end.
    pub keep: Millis,
    /// Failed jobs, from their end.
    pub keep_failed: Millis,
    /// All ended jobs together: beyond this the oldest go.
    pub max_jobs: u64,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Self { keep: Millis::seconds(7 * DAY), keep_failed: Millis::seconds(30 * DAY), max_jobs: 1_000_000 }
    }
}

impl Retention {
    const fn term(&self, failed: bool) -> Millis {
        if failed { self.keep_failed } else { self.keep }
    }
}

/// When there is something to sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    due: Option<Timestamp>,
    is_primed: bool,
}

impl Sweep {
    /// When to look next.
    pub fn due(&self) -> Option<Timestamp> {
        if self.is_primed { self.due } else { Some(Timestamp::default()) }
    }

    /// A job has ended: it comes of age some day.
    pub fn ended(&mut self, job: &Job, retention: &Retention) {
        let of_age = job.updated_at.plus(retention.term(job.status() == Status::Failed));
        self.due = Some(self.due.map_or(of_age, |due| due.min(of_age)));
    }
}

impl Core {
    /// Forgets some of what is too old or too many, if anything is.
    pub fn sweep_some(&mut self) -> Result<(), Fatal> {
        let now = self.parts.clock.now();
        let kept = self.parts.store.totals().ended;
        let excess = kept.saturating_sub(self.options.retention.max_jobs);
        // Under load the excess is let grow to a group's worth; an idle core sweeps the rest.
        let is_idle = self.inner.is_empty() && self.submit.is_empty();
        let too_many = if is_idle { excess > 0 } else { excess >= SWEEP_MAX as u64 };
        let is_due = self.sweep.due().is_some_and(|due| due <= now);
        if !too_many && !is_due {
            return Ok(());
        }
        let mut old = if is_due { self.of_age(now)? } else { Vec::new() };
        if too_many && (old.len() as u64) < excess {
            let more = usize::try_from(excess).unwrap_or(SWEEP_MAX).min(SWEEP_MAX) - old.len().min(SWEEP_MAX);
            old.extend(self.oldest(more)?);
            old.sort_unstable();
            old.dedup();
        }
        if !old.is_empty() {
            self.forget(&old)?;
        }
        self.sweep.is_primed = true;
        self.sweep.due = if old.len() >= SWEEP_MAX || self.still_too_many() { Some(now) } else { self.next_of_age()? };
        Ok(())
    }

    fn forget(&self, ids: &[JobId]) -> Result<(), Fatal> {
        self.parts.store.forget(ids).map_err(Fatal::Store)?;
        self.parts.published.raise_floor(self.parts.store.bounds().floor);
        self.parts.published.forget_heads(ids);
        Ok(())
    }

    fn still_too_many(&self) -> bool {
        self.parts.store.totals().ended > self.options.retention.max_jobs
    }

    fn of_age(&self, now: Timestamp) -> Result<Vec<JobId>, Fatal> {
        let mut old = Vec::new();
        for failed in [false, true] {
            let ended_by = Timestamp(now.0.saturating_sub_unsigned(self.options.retention.term(failed).0));
            let before = ended_by.plus(Millis(1));
            let room = SWEEP_MAX - old.len();
            old.extend(self.parts.store.ended_before(failed, before, room).map_err(Fatal::Store)?);
        }
        Ok(old)
    }

    /// The oldest of both terms, by age of the job.
    fn oldest(&self, count: usize) -> Result<Vec<JobId>, Fatal> {
        let mut old = Vec::new();
        for failed in [false, true] {
            old.extend(self.parts.store.ended_before(failed, Timestamp(i64::MAX), count).map_err(Fatal::Store)?);
        }
        old.sort_unstable();
        old.truncate(count);
        Ok(old)
    }

    fn next_of_age(&self) -> Result<Option<Timestamp>, Fatal> {
        let mut next: Option<Timestamp> = None;
        for failed in [false, true] {
            let first = self.parts.store.ended_before(failed, Timestamp(i64::MAX), 1).map_err(Fatal::Store)?;
            let Some(head) = first.first().map(|id| self.parts.store.job(*id)).transpose().map_err(Fatal::Store)?
            else {
                continue;
            };
            let ended = head.and_then(|head| head.job.finished_at);
            let of_age = ended.map(|at| at.plus(self.options.retention.term(failed)));
            next = next.into_iter().chain(of_age).min();
        }
        Ok(next)
    }
}
