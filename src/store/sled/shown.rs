//! What readers may see: the watermark, and how things stood before the commit that is not synced yet.
//!
//! A reader looks into the trees first and here afterwards. Whatever a commit in flight has touched is listed here with
//! its previous state, from before the transaction until after the sync; so nobody sees what a power cut could undo.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::{Bounds, Totals};
use super::keys::TypeNumber;
use crate::job::{BodyRef, Head, JobId, Part};

/// A commit between its transaction and its sync, as what was there before it. Short lists, looked through by the few
/// who read at that moment. The first mention of a subject counts: a group may change one several times.
#[derive(Default, Debug)]
pub struct InFlight {
    /// Jobs, with their heads before; `None` for a new one.
    pub heads: Vec<(JobId, Option<Arc<Head>>)>,
    /// Bodies, with their bytes before; `None` for a new one.
    pub bodies: Vec<(JobId, Part, u64, Option<Bytes>)>,
    /// Cells, with their values before.
    pub cells: Vec<(String, Option<Bytes>)>,
}

/// What readers may know of the types of which jobs have ended.
#[derive(Debug, Clone)]
pub struct ShownTypes {
    /// Their numbers in the rows of ends.
    pub numbers: Arc<BTreeMap<Arc<str>, TypeNumber>>,
    /// What is kept of them.
    pub totals: Arc<Totals>,
}

/// The readers' side of the store.
#[derive(Debug)]
pub struct Shown {
    /// The log as far as it is durable.
    pub bounds: Bounds,
    /// The types as of the same commit.
    pub types: ShownTypes,
    /// The commit under way, if any.
    pub in_flight: Option<InFlight>,
}

impl Shown {
    /// The job's head before the commit under way, if that touches it.
    pub fn head_before(&self, id: JobId) -> Option<Option<Arc<Head>>> {
        let heads = &self.in_flight.as_ref()?.heads;
        heads.iter().find(|(job, _)| *job == id).map(|(_, head)| head.clone())
    }

    /// The head to show where the trees hold `found`.
    pub fn head(&self, id: JobId, found: Option<Arc<Head>>) -> Option<Arc<Head>> {
        self.head_before(id).unwrap_or(found)
    }

    /// The body's bytes before the commit under way, if that touches it.
    pub fn body_before(&self, id: JobId, name: BodyRef) -> Option<Option<Bytes>> {
        let bodies = &self.in_flight.as_ref()?.bodies;
        let same = |(job, part, seq, _): &&(JobId, Part, u64, Option<Bytes>)| {
            *job == id && *part == name.part && *seq == name.seq
        };
        bodies.iter().find(same).map(|(.., bytes)| bytes.clone())
    }

    /// The cells to show where the trees hold `found`: those with this prefix, by name.
    pub fn cells(&self, prefix: &str, found: &mut BTreeMap<String, Bytes>) {
        let Some(in_flight) = &self.in_flight else { return };
        // Backwards, so that the first mention has the last word.
        for (name, value) in in_flight.cells.iter().rev().filter(|(name, _)| name.starts_with(prefix)) {
            match value {
                Some(value) => found.insert(name.clone(), value.clone()),
                None => found.remove(name),
            };
        }
    }
}
