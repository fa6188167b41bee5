//! Ready jobs, sorted so that the next one to start is always first.
//!
//! Each type has a lane with two shelves: ordinary jobs, and suspects. A shelf whose jobs may start stands in line; one
//! that is empty or blocked stands nowhere, so that nobody looks at it. In line the highest priority comes first, and
//! among equals the shelf that was served longest ago.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::job::JobId;

/// Whether a job is suspected of killing the server (contract 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// No more than any other.
    Ordinary,
    /// Suspects run one at a time.
    Suspect,
}

/// A shelf's place in line: its best priority, when it was last served, its lane.
type Turn = (Reverse<i8>, u64, u32);

/// One type.
#[derive(Default)]
pub(super) struct Lane {
    limit: Option<u32>,
    running: u32,
    ordinary: Shelf,
    suspects: Shelf,
}

/// Ready jobs of one type and kind.
#[derive(Default)]
struct Shelf {
    /// By priority, the oldest first. No empty sets.
    ready: BTreeMap<Reverse<i8>, BTreeSet<JobId>>,
    /// Number of the take that served it last.
    served: u64,
    /// Where it stands in line.
    stands: Option<Turn>,
}

/// All ready jobs, and how many run of each type.
#[derive(Default)]
pub(super) struct Shelves {
    lanes: Vec<Lane>,
    by_type: HashMap<Arc<str>, u32>,
    ordinary: BTreeSet<Turn>,
    suspects: BTreeSet<Turn>,
    suspects_running: u32,
    takes: u64,
}

impl Lane {
    /// Jobs that run.
    pub(super) fn running(&self) -> usize {
        self.running as usize
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.running >= limit)
    }

    fn shelf(&mut self, kind: Kind) -> &mut Shelf {
        match kind {
            Kind::Ordinary => &mut self.ordinary,
            Kind::Suspect => &mut self.suspects,
        }
    }
}

impl Shelves {
    /// The number of the type's lane. A lane once made stays: there are as many as types.
    pub(super) fn lane(&mut self, job_type: &Arc<str>) -> u32 {
        if let Some(lane) = self.by_type.get(job_type) {
            return *lane;
        }
        let lane = u32::try_from(self.lanes.len()).expect("fewer types than four milliards");
        self.lanes.push(Lane::default());
        self.by_type.insert(job_type.clone(), lane);
        lane
    }

    /// The type's lane, if it has one.
    pub(super) fn named(&self, job_type: &str) -> Option<&Lane> {
        self.by_type.get(job_type).map(|lane| &self.lanes[*lane as usize])
    }

    /// At most so many of the lane run at once.
    pub(super) fn set_limit(&mut self, lane: u32, limit: Option<u32>) {
        self.lanes[lane as usize].limit = limit;
        self.line_up(lane);
    }

    /// The job is ready.
    pub(super) fn insert(&mut self, lane: u32, kind: Kind, priority: i8, id: JobId) {
        let shelf = self.lanes[lane as usize].shelf(kind);
        shelf.ready.entry(Reverse(priority)).or_default().insert(id);
        self.line_up(lane);
    }

    /// The job is ready no more.
    pub(super) fn remove(&mut self, lane: u32, kind: Kind, priority: i8, id: JobId) {
        let shelf = self.lanes[lane as usize].shelf(kind);
        if let Some(ids) = shelf.ready.get_mut(&Reverse(priority)) {
            ids.remove(&id);
            if ids.is_empty() {
                shelf.ready.remove(&Reverse(priority));
            }
        }
        self.line_up(lane);
    }

    /// A running job of the lane runs no more.
    pub(super) fn ended(&mut self, lane: u32, kind: Kind) {
        self.lanes[lane as usize].running -= 1;
        match kind {
            Kind::Ordinary => {}
            Kind::Suspect => self.suspects_running -= 1,
        }
        self.line_up(lane);
    }

    /// The next job, which runs from now on, and how many shelves were looked at for it.
    pub(super) fn take(&mut self) -> (Option<JobId>, usize) {
        let ordinary = self.ordinary.first().map(|turn| (*turn, Kind::Ordinary));
        let suspect = self.suspects.first().filter(|_| self.suspects_running == 0).map(|turn| (*turn, Kind::Suspect));
        let looks = usize::from(ordinary.is_some()) + usize::from(suspect.is_some());
        let Some(((priority, _, lane), kind)) = ordinary.into_iter().chain(suspect).min_by_key(|(turn, _)| *turn)
        else {
            return (None, looks);
        };
        self.takes += 1;
        let takes = self.takes;
        let shelf = self.lanes[lane as usize].shelf(kind);
        shelf.served = takes;
        let id = shelf.ready.get(&priority).and_then(|ids| ids.first().copied());
        self.lanes[lane as usize].running += 1;
        match kind {
            Kind::Ordinary => {}
            Kind::Suspect => self.suspects_running += 1,
        }
        if let Some(id) = id {
            self.remove(lane, kind, priority.0, id);
        }
        (id, looks)
    }

    /// Puts both shelves of a lane where they belong in line.
    fn line_up(&mut self, number: u32) {
        let lane = &mut self.lanes[number as usize];
        let is_full = lane.is_full();
        for (shelf, line) in [(&mut lane.ordinary, &mut self.ordinary), (&mut lane.suspects, &mut self.suspects)] {
            let best = shelf.ready.first_key_value().map(|(priority, _)| *priority).filter(|_| !is_full);
            let stands = best.map(|priority| (priority, shelf.served, number));
            if stands != shelf.stands {
                if let Some(turn) = shelf.stands.take() {
                    line.remove(&turn);
                }
                line.extend(stands);
                shelf.stands = stands;
            }
        }
    }
}
