//! Pins: what a backup still has to read does not go while it reads.
//!
//! In: a pin, and the bodies that commits drop under it. Out: those bodies, until it is released. Jobs are kept by not
//! forgetting any. A body that is dropped becomes, or stays, a file of its own, which no record names: a crash leaves
//! nothing that the sweep of the next start does not remove, and memory holds names only. Costs a commit nothing unless a
//! body is dropped under a pin.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::super::{Error, JobChange, Pin};
use super::{Sled, Trees};
use crate::job::{BODY_SMALL_MAX, BodyRef, JobId, LOGS_MAX, Logged, Part, Position, Trail};

/// The pin that is on, if any.
#[derive(Debug, Default)]
pub struct Pins(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many there have been.
    number: u64,
    pinned: Option<Pinned>,
}

#[derive(Debug)]
struct Pinned {
    /// What it shows ends here.
    at: Position,
    /// Bodies that were dropped since and are kept as files.
    kept: HashMap<JobId, Vec<BodyRef>>,
}

impl Pinned {
    /// Whether the pin may have to show it. A job names one partial and `LOGS_MAX` logs at most, and the oldest are
    /// dropped first: what is dropped later came after the pin.
    fn wants(&self, trail: &Trail, job: JobId, name: BodyRef) -> bool {
        let is_younger = trail.blocks == 0 && trail.recent.first().is_none_or(|first| *first > self.at);
        let same = self.kept.get(&job).map_or(0, |kept| kept.iter().filter(|other| other.part == name.part).count());
        let most = if name.part == Part::Log { LOGS_MAX } else { 1 };
        !is_younger && same < most
    }
}

impl Pins {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one is on.
    pub fn is_on(&self) -> bool {
        self.state().pinned.is_some()
    }
}

impl Sled {
    pub(super) fn begin_pin(&self) -> Pin {
        self.end_pin();
        let bounds = self.shown().bounds;
        let mut state = self.pins.state();
        state.number += 1;
        state.pinned = Some(Pinned { at: bounds.last, kept: HashMap::new() });
        Pin { number: state.number, bounds }
    }

    pub(super) fn has_pin(&self, pin: &Pin) -> bool {
        let state = self.pins.state();
        state.pinned.is_some() && state.number == pin.number
    }

    /// Ends the pin that is on, if any.
    pub(super) fn end_pin(&self) {
        let pinned = self.pins.state().pinned.take();
        for (job, names) in pinned.into_iter().flat_map(|pinned| pinned.kept) {
            names.into_iter().for_each(|name| self.remove_body_file(job, name));
        }
    }

    /// A commit drops the body, a small one with these bytes: keeps it if the pin needs it. Says whether its file, if
    /// it has one, must stay.
    pub(super) fn keep_dropped(&self, change: &JobChange, name: BodyRef, small: Option<&Bytes>) -> bool {
        let id = change.after.id();
        let Some(before) = &change.before else { return false };
        let mut state = self.pins.state();
        let Some(pinned) = state.pinned.as_mut().filter(|pinned| pinned.wants(&before.trail, id, name)) else {
            return false;
        };
        pinned.kept.entry(id).or_default().push(name);
        drop(state);
        if let Some(bytes) = small
            && let Err(error) = self.spill_body(id, name, bytes)
        {
            // The backup breaks off; what the commit brings is not held up by it.
            tracing::warn!(%error, "the pin of a backup ends: what it needs cannot be kept");
            self.end_pin();
        }
        true
    }

    pub(super) fn read_pinned(
        &self,
        trees: &Trees,
        pin: &Pin,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Logged>, Error> {
        let mut found = self.page(trees, after.next(), limit)?;
        found.retain(|logged| logged.position <= pin.bounds.last);
        Ok(found)
    }

    pub(super) fn read_pinned_body(
        &self,
        trees: &Trees,
        job: JobId,
        name: BodyRef,
        offset: u64,
        limit: usize,
    ) -> Result<Option<Bytes>, Error> {
        match self.read_body(trees, job, name, offset, limit)? {
            Some(bytes) => Ok(Some(bytes)),
            None if name.len > BODY_SMALL_MAX as u64 => Ok(None),
            None => self.read_spilled(job, name, offset, limit),
        }
    }
}
