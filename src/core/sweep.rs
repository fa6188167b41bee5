//! Retention: ended jobs go when they are too old, too many or too large, in small groups beside normal work.
//!
//! In: the time, and what the store says of the types of ended jobs. Out: `forget`s. It knows when the next job comes of
//! age and waits for that; it never looks in vain.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::thread::{Core, Fatal};
use crate::job::{Job, JobId, Millis, Status, Timestamp};
use crate::store::{Kept, Store, Totals};

/// Most jobs forgotten between two groups of commands.
pub const SWEEP_MAX: usize = 256;

/// How many ended jobs are kept, and how large they may be together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// Beyond this many the longest ended go.
    pub max_jobs: Option<u64>,
    /// Beyond this many bytes (`Job::kept_bytes`) the longest ended go.
    pub max_bytes: Option<u64>,
}

impl Bound {
    /// How much more there is than may be.
    fn excess(&self, kept: Kept) -> Excess {
        let over = |is: u64, most: Option<u64>| most.map_or(0, |most| is.saturating_sub(most));
        Excess { jobs: over(kept.jobs, self.max_jobs), bytes: over(kept.bytes, self.max_bytes) }
    }
}

/// How long ended jobs of a type are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Completed and canceled jobs, from their end.
    pub keep: Millis,
    /// Failed jobs, from their end.
    pub keep_failed: Millis,
    /// All of the type.
    pub bound: Bound,
}

impl Default for Keep {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Self { keep: Millis::seconds(7 * DAY), keep_failed: Millis::seconds(30 * DAY), bound: Bound::default() }
    }
}

impl Keep {
    const fn term(&self, failed: bool) -> Millis {
        if failed { self.keep_failed } else { self.keep }
    }
}

/// `retention.*`, and what tools say of their own (contract 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Types that say nothing.
    pub plain: Keep,
    /// Types that do.
    pub types: HashMap<Arc<str>, Keep>,
    /// All ended jobs together.
    pub all: Bound,
}

impl Default for Retention {
    fn default() -> Self {
        let all = Bound { max_jobs: Some(1_000_000), max_bytes: None };
        Self { plain: Keep::default(), types: HashMap::new(), all }
    }
}

impl Retention {
    /// When an ended job comes of age; a bound on how many are kept may take it sooner.
    pub fn of_age(&self, job: &Job) -> Timestamp {
        job.updated_at.plus(self.of(&job.spec.job_type).term(job.status() == Status::Failed))
    }

    fn of(&self, job_type: &str) -> &Keep {
        self.types.get(job_type).unwrap_or(&self.plain)
    }
}

/// How much must go: of each at least so much.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    jobs: u64,
    bytes: u64,
}

impl Excess {
    const fn is_none(self) -> bool {
        self.jobs == 0 && self.bytes == 0
    }

    const fn without(&mut self, bytes: u64) {
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The longest ended jobs of a type, failed ones apart.
#[derive(Debug, Default)]
struct Front {
    next: VecDeque<(Timestamp, JobId)>,
    /// The store may hold more than `next`.
    has_more: bool,
}

/// A type, and whether its failed jobs are meant.
type Line = (Arc<str>, bool);

/// When there is something to sweep, and what comes first.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    due: Option<Timestamp>,
    is_primed: bool,
    fronts: BTreeMap<Line, Front>,
}

impl Sweep {
    /// When to look next.
    pub fn due(&self) -> Option<Timestamp> {
        if self.is_primed { self.due } else { Some(Timestamp::default()) }
    }

    /// A job has ended: it comes of age some day.
    pub fn ended(&mut self, job: &Job, retention: &Retention) {
        let (job_type, failed) = (&job.spec.job_type, job.status() == Status::Failed);
        let of_age = retention.of_age(job);
        self.due = Some(self.due.map_or(of_age, |due| due.min(of_age)));
        self.fronts.entry((job_type.clone(), failed)).or_default().has_more = true;
    }

    /// The lines of the types that ended before this start.
    fn prime(&mut self, totals: &Totals) {
        for (job_type, failed) in totals.types.keys().flat_map(|job_type| [(job_type, false), (job_type, true)]) {
            self.fronts.entry((job_type.clone(), failed)).or_default().has_more = true;
        }
    }

    /// Reads what comes next wherever nothing is known of it.
    fn refill(&mut self, store: &dyn Store) -> Result<(), Fatal> {
        for ((job_type, failed), front) in &mut self.fronts {
            if front.next.is_empty() && front.has_more {
                let ends = store.ends(job_type, *failed, Timestamp(i64::MAX), SWEEP_MAX).map_err(Fatal::Store)?;
                front.has_more = ends.len() == SWEEP_MAX;
                front.next = ends.into();
            }
        }
        Ok(())
    }

    /// The line whose first job ended longest ago, of one type or of all.
    fn longest_ended(&self, job_type: Option<&Arc<str>>) -> Option<Line> {
        let fronts = self.fronts.iter().filter(|((of, _), _)| job_type.is_none_or(|wanted| wanted == of));
        let firsts = fronts.filter_map(|(line, front)| front.next.front().map(|first| (first, line)));
        firsts.min().map(|(_, line)| line.clone())
    }

    fn take(&mut self, line: &Line) -> Option<JobId> {
        self.fronts.get_mut(line)?.next.pop_front().map(|(_, id)| id)
    }

    /// When the next of all comes of age.
    fn next_of_age(&self, retention: &Retention) -> Option<Timestamp> {
        let of_age = |((job_type, failed), front): (&Line, &Front)| {
            front.next.front().map(|(at, _)| at.plus(retention.of(job_type).term(*failed)))
        };
        self.fronts.iter().filter_map(of_age).min()
    }
}

impl Core {
    /// Forgets some of what is too old, too many or too large, if anything is.
    pub fn sweep_some(&mut self) -> Result<(), Fatal> {
        if self.pinning.is_on() {
            return Ok(());
        }
        let now = self.parts.clock.now();
        let totals = self.parts.store.totals();
        let is_due = self.sweep.due().is_some_and(|due| due <= now);
        if !is_due && !self.is_too_much(&totals) {
            return Ok(());
        }
        if !self.sweep.is_primed {
            self.sweep.prime(&totals);
            self.sweep.is_primed = true;
        }
        let old = self.choose(now, &totals)?;
        if !old.is_empty() {
            self.forget(&old)?;
        }
        self.sweep.refill(&*self.parts.store)?;
        let next = self.sweep.next_of_age(&self.options.retention);
        let is_more = old.len() >= SWEEP_MAX || !self.excesses(&self.parts.store.totals()).is_empty();
        self.sweep.due = if is_more { Some(now) } else { next };
        Ok(())
    }

    /// Whether there is more than may be. Under load the excess is let grow to a group's worth; an idle core sweeps the
    /// rest.
    fn is_too_much(&self, totals: &Totals) -> bool {
        let is_idle = self.inner.is_empty() && self.submit.is_empty();
        let enough = if is_idle { 1 } else { SWEEP_MAX as u64 };
        self.excesses(totals).iter().any(|(job_type, excess)| {
            let kept = job_type.as_ref().map_or_else(|| totals.all(), |of| totals.types[of]);
            let usual = kept.bytes / kept.jobs.max(1);
            excess.jobs >= enough || (excess.bytes > 0 && excess.bytes >= (enough - 1).saturating_mul(usual))
        })
    }

    /// The bounds that are passed: of types, then of all together.
    fn excesses(&self, totals: &Totals) -> Vec<(Option<Arc<str>>, Excess)> {
        let retention = &self.options.retention;
        let types = totals.types.iter().map(|(of, kept)| (Some(of.clone()), retention.of(of).bound.excess(*kept)));
        let all = (None, retention.all.excess(totals.all()));
        types.chain([all]).filter(|(_, excess)| !excess.is_none()).collect()
    }

    /// At most `SWEEP_MAX` jobs that must go.
    fn choose(&mut self, now: Timestamp, totals: &Totals) -> Result<Vec<JobId>, Fatal> {
        let mut chosen = Choice { ids: Vec::new(), totals: totals.clone() };
        let lines: Vec<Line> = self.sweep.fronts.keys().cloned().collect();
        for line in lines {
            let term = self.options.retention.of(&line.0).term(line.1);
            while chosen.has_room() {
                self.sweep.refill(&*self.parts.store)?;
                let first = self.sweep.fronts[&line].next.front();
                if first.is_none_or(|(at, _)| at.plus(term) > now) {
                    break;
                }
                self.choose_first_of(&line, &mut chosen)?;
            }
        }
        for (of, mut excess) in self.excesses(&chosen.totals) {
            while chosen.has_room() && !excess.is_none() {
                self.sweep.refill(&*self.parts.store)?;
                let Some(line) = self.sweep.longest_ended(of.as_ref()) else { break };
                excess.without(self.choose_first_of(&line, &mut chosen)?);
            }
        }
        Ok(chosen.ids)
    }

    /// Chooses the first of a line. Answers its bytes.
    fn choose_first_of(&mut self, line: &Line, chosen: &mut Choice) -> Result<u64, Fatal> {
        let Some(id) = self.sweep.take(line) else { return Ok(0) };
        let bounds = [&self.options.retention.all, &self.options.retention.of(&line.0).bound];
        // Only a bound in bytes needs to know each job's.
        let bytes = match bounds.iter().any(|bound| bound.max_bytes.is_some()) {
            true => self.parts.store.job(id).map_err(Fatal::Store)?.map_or(0, |head| head.job.kept_bytes()),
            false => 0,
        };
        chosen.add(&line.0, id, bytes);
        Ok(bytes)
    }

    fn forget(&self, ids: &[JobId]) -> Result<(), Fatal> {
        self.parts.store.forget(ids).map_err(Fatal::Store)?;
        self.parts.published.raise_floor(self.parts.store.bounds().floor);
        self.parts.published.forget_heads(ids);
        Ok(())
    }
}

/// The jobs chosen so far, and what is kept without them.
struct Choice {
    ids: Vec<JobId>,
    totals: Totals,
}

impl Choice {
    const fn has_room(&self) -> bool {
        self.ids.len() < SWEEP_MAX
    }

    fn add(&mut self, job_type: &Arc<str>, id: JobId, bytes: u64) {
        self.ids.push(id);
        if let Some(kept) = self.totals.types.get_mut(job_type) {
            kept.jobs = kept.jobs.saturating_sub(1);
            kept.bytes = kept.bytes.saturating_sub(bytes);
        }
    }
}
