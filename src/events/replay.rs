//! Reading the log from the store: bounded steps that a reader thread does for a stream or a page.
//!
//! In: a store, a cursor, limits. Out: frames that follow it, and the cursor after them. Blocks on the disk: called by
//! `readers` only. Never reads past the watermark it is given.

use std::sync::Arc;

use super::frame::{Writer, Written};
use super::{Error, Filter};
use crate::job::{Head, JobId, Logged, Position, State, TRAIL_RECENT_MAX};
use crate::store::Store;

/// Where one step stops.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Not past this position: the watermark that the asker knows.
    pub upto: Position,
    /// Frames of so many bytes; a single larger one goes alone.
    pub bytes: usize,
    /// So many events.
    pub events: usize,
    /// So many entries looked at.
    pub scan: usize,
}

/// Entries that are read from the store at once.
pub const BATCH: usize = 256;

/// What one step found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whole frames.
    pub bytes: Vec<u8>,
    /// Where each is.
    pub frames: Vec<Written>,
    /// Position of the first of them.
    pub first: Option<Position>,
    /// Where to go on.
    pub cursor: Position,
    /// How many of the job's entries lie at or before the cursor; 0 for the feed.
    pub passed: u64,
    /// The job has ended and nothing visible follows.
    pub is_over: bool,
    /// More follows already, or is still to be looked at.
    pub has_more: bool,
}

/// What a step on the feed came to.
#[derive(Debug, PartialEq, Eq)]
pub enum FeedStep {
    /// What follows.
    Follows(Step),
    /// Something that followed has been trimmed; the log now begins here.
    Trimmed(Position),
}

impl Step {
    /// Appends the entry's frame. False: it does not fit any more, and the cursor stays before it.
    fn add(&mut self, logged: &Logged, writer: &mut Writer, limits: &Limits) -> bool {
        let before = self.bytes.len();
        if let Some(written) = writer.write(logged, &mut self.bytes) {
            let is_full = self.bytes.len() > limits.bytes || self.frames.len() == limits.events;
            if is_full && !self.frames.is_empty() {
                self.bytes.truncate(before);
                return false;
            }
            self.frames.push(written);
            self.first = self.first.or(Some(logged.position));
        }
        true
    }
}

/// What follows `after` on the feed.
///
/// # Errors
/// `Unreadable`.
pub fn feed(
    store: &dyn Store,
    writer: &mut Writer,
    filter: &Filter,
    after: Position,
    limits: &Limits,
) -> Result<FeedStep, Error> {
    let mut step = Step { cursor: after, ..Step::default() };
    let mut looked_at = 0;
    'step: while looked_at < limits.scan && step.cursor < limits.upto {
        let entries = store.events(step.cursor, BATCH.min(limits.scan))?;
        if entries.is_empty() {
            step.cursor = limits.upto;
        }
        looked_at += entries.len();
        for logged in &entries {
            if logged.position > limits.upto {
                step.cursor = limits.upto;
                break 'step;
            }
            if filter.admits(logged) && !step.add(logged, writer, limits) {
                break 'step;
            }
            step.cursor = logged.position;
        }
    }
    step.has_more = step.cursor < limits.upto;
    // Asked last: if the floor still lies there, nothing was missing while we read.
    let floor = store.bounds().floor;
    Ok(if floor > after.next() { FeedStep::Trimmed(floor) } else { FeedStep::Follows(step) })
}

/// What follows the first `passed` entries of a job.
///
/// # Errors
/// `Forgotten` if the job is not kept any more; `Unreadable`.
pub fn job(store: &dyn Store, writer: &mut Writer, job: JobId, passed: u64, limits: &Limits) -> Result<Step, Error> {
    let head = store.job(job)?.ok_or(Error::Forgotten)?;
    let mut step = Step { passed, ..Step::default() };
    let mut looked_at = 0;
    'step: while step.passed < count(&head) && looked_at < limits.scan {
        let positions = positions(store, &head, step.passed)?;
        let wanted = positions.partition_point(|position| *position <= limits.upto);
        let entries = store.entries(&positions[..wanted])?;
        if entries.len() != wanted || positions.is_empty() {
            return Err(Error::Forgotten);
        }
        looked_at += wanted;
        for logged in &entries {
            if !step.add(logged, writer, limits) {
                break 'step;
            }
            step.passed += 1;
            step.cursor = logged.position;
        }
        if wanted < positions.len() {
            break;
        }
    }
    step.is_over = is_over(&head, step.passed);
    step.has_more = step.passed < count(&head);
    Ok(step)
}

/// How many entries of the job lie at or before the position.
///
/// # Errors
/// `Unreadable`.
pub fn passed(store: &dyn Store, head: &Head, at: Position) -> Result<u64, Error> {
    if let Some(passed) = passed_in_memory(head, at) {
        return Ok(passed);
    }
    // The last block that begins at or before the position: looked for from the end in growing strides, because clients
    // come back near it, then between the last two.
    let begins_before = |number: u32| -> Result<bool, Error> {
        Ok(store.trail(head.job.id(), number)?.first().is_some_and(|first| *first <= at))
    };
    let (mut low, mut high, mut stride) = (0, head.trail.blocks, 1);
    while low < high {
        let probe = high.saturating_sub(stride).max(low + (high - low) / 2);
        if begins_before(probe)? {
            low = probe + 1;
        } else {
            (high, stride) = (probe, stride.saturating_mul(2));
        }
    }
    let Some(number) = low.checked_sub(1) else { return Ok(0) };
    let block = store.trail(head.job.id(), number)?;
    Ok(before(number) + block.partition_point(|position| *position <= at) as u64)
}

/// The same, if the head alone tells.
pub fn passed_in_memory(head: &Head, at: Position) -> Option<u64> {
    let recent = &head.trail.recent;
    if at == Position::ZERO {
        return Some(0);
    }
    let tells = head.trail.blocks == 0 || recent.first().is_some_and(|first| *first <= at);
    tells.then(|| before(head.trail.blocks) + recent.partition_point(|position| *position <= at) as u64)
}

/// How many entries the job has.
pub fn count(head: &Head) -> u64 {
    before(head.trail.blocks) + head.trail.recent.len() as u64
}

/// Whether nothing visible follows the first `passed` entries, ever. After its end a job has at most one more entry,
/// and that is quiet: a dead letter was replayed.
pub fn is_over(head: &Head, passed: u64) -> bool {
    let after_end = match &head.job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => return false,
        State::Completed(_) | State::Canceled { .. } | State::Failed { replayed_as: None } => 0,
        State::Failed { replayed_as: Some(_) } => 1,
    };
    passed + after_end >= count(head)
}

/// Entries in so many full blocks.
fn before(blocks: u32) -> u64 {
    u64::from(blocks) * TRAIL_RECENT_MAX as u64
}

/// Positions from the job's entry number `from` (counted from 0) to the end of its block.
fn positions(store: &dyn Store, head: &Arc<Head>, from: u64) -> Result<Vec<Position>, Error> {
    let number = from / TRAIL_RECENT_MAX as u64;
    let block = match u32::try_from(number) {
        Ok(number) if number < head.trail.blocks => store.trail(head.job.id(), number)?,
        _ => head.trail.recent.clone(),
    };
    let skip = usize::try_from(from % TRAIL_RECENT_MAX as u64).unwrap_or(usize::MAX);
    Ok(block.get(skip..).unwrap_or_default().to_vec())
}
