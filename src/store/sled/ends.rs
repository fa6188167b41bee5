//! The rows of ends: which jobs of a type ended when, so that retention finds the longest ended without their records.
//!
//! In: ended jobs. Out: rows of `index`, and from them the jobs by the time of their end. Those of a type that one commit ended at one
//! time share a row, which costs sled what a row of each would: its key says the first of them, its value the others.
//! Format 1 had a row for each, which is the same row with nobody else in it.

use std::collections::{BTreeMap, HashSet};

use ::sled::IVec;

use super::super::Error;
use super::super::codec::{self, Damage, Kind};
use super::keys::{self, EndRow, SharedEnd, TypeNumber};
use super::writer::Pile;
use super::{Sled, Trees, failure};
use crate::job::{Head, Job, JobId, Status, Timestamp};

/// Most jobs in a row, which is then some 2 KB.
const ROW_MAX: usize = 128;

/// The ends of one commit.
#[derive(Default)]
pub struct Ends(BTreeMap<SharedEnd, Vec<JobId>>);

impl Ends {
    /// One more. `number`: of its type.
    pub fn add(&mut self, number: TypeNumber, job: &Job) {
        self.0.entry(shared(number, job)).or_default().push(job.id());
    }

    /// Writes them down.
    pub fn put(self, index: &mut Pile) {
        for (shared, mut ids) in self.0 {
            ids.sort_unstable();
            ids.chunks(ROW_MAX).for_each(|ids| put(shared, ids, index));
        }
    }
}

fn put(shared: SharedEnd, ids: &[JobId], index: &mut Pile) {
    let Some((first, others)) = ids.split_first() else { return };
    let others = if others.is_empty() { IVec::default() } else { codec::encode(Kind::Ends, &others).into() };
    index.put(&keys::ended(shared, *first), others);
}

/// What an ended job shares with those in its row.
pub fn shared(number: TypeNumber, job: &Job) -> SharedEnd {
    keys::end(number, job.status() == Status::Failed, job.finished_at.unwrap_or(job.updated_at))
}

/// The jobs of a row, by id.
///
/// # Errors
/// `Damage` if it is none.
pub fn jobs(key: &[u8], others: &[u8]) -> Result<Vec<JobId>, Damage> {
    let is_row = key.len() == size_of::<EndRow>();
    let first = keys::row_id(key).filter(|_| is_row).ok_or_else(|| Damage::Content("its key is none".into()))?;
    let mut jobs = vec![first];
    if !others.is_empty() {
        jobs.extend(codec::decode::<Vec<JobId>>(Kind::Ends, others)?);
    }
    match jobs.is_sorted_by(|one, next| one < next) {
        true => Ok(jobs),
        false => Err(Damage::Content("its jobs are not in order".into())),
    }
}

/// Whether the job stands in a row of those that share this.
pub fn is_in(trees: &Trees, shared: SharedEnd, job: JobId) -> Result<bool, Error> {
    for row in trees.index.scan_prefix(shared) {
        let (key, others) = row.map_err(failure)?;
        if jobs(&key, &others).is_ok_and(|jobs| jobs.contains(&job)) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Sled {
    pub(super) fn read_ends(
        &self,
        trees: &Trees,
        number: TypeNumber,
        failed: bool,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, Error> {
        let mut ends = Vec::new();
        let from = keys::end(number, failed, Timestamp(i64::MIN));
        for row in trees.index.range(from..keys::end(number, failed, before)) {
            self.count(1);
            let (key, others) = row.map_err(failure)?;
            let at = keys::end_time(&key).unwrap_or_default();
            ends.extend(row_jobs(&key, &others)?.into_iter().filter(|id| self.is_shown(*id)).map(|id| (at, id)));
            if ends.len() >= limit {
                ends.truncate(limit);
                break;
            }
        }
        Ok(ends)
    }

    /// One that ends with the commit in flight has not ended yet.
    fn is_shown(&self, id: JobId) -> bool {
        self.shown().head_before(id).is_none_or(|head| head.is_some_and(|head| head.job.status().is_terminal()))
    }

    /// Takes leaving jobs, each with the number of its type, out of their rows.
    pub(super) fn remove_ends<'a>(
        &self,
        trees: &Trees,
        leaving: impl Iterator<Item = (TypeNumber, &'a Head)>,
        index: &mut Pile,
    ) -> Result<(), Error> {
        let mut gone: BTreeMap<SharedEnd, HashSet<JobId>> = BTreeMap::new();
        for (number, head) in leaving {
            gone.entry(shared(number, &head.job)).or_default().insert(head.job.id());
        }
        for (shared, gone) in gone {
            for row in trees.index.scan_prefix(shared) {
                self.count(1);
                let (key, others) = row.map_err(failure)?;
                let mut rest = row_jobs(&key, &others)?;
                let before = rest.len();
                rest.retain(|id| !gone.contains(id));
                if rest.len() < before {
                    index.remove(&key);
                    put(shared, &rest, index);
                }
            }
        }
        Ok(())
    }
}

/// The jobs of a row, with its place in case it is damaged.
fn row_jobs(key: &IVec, others: &IVec) -> Result<Vec<JobId>, Error> {
    jobs(key, others).map_err(|damage| damage.at(format!("the index row {:02x?}", &key[..])))
}
