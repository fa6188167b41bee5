//! Retention: ended jobs go with all that belongs to them, and the floor rises past their last entry.
//!
//! In: ids, a small group at a time. Out: nothing, once it is durable. The floor rises for readers first, then all goes in
//! one step; chunks stay as far as entries of other jobs are in them.

use std::collections::{BTreeMap, HashSet};

use super::super::Error;
use super::super::chunk::Chunk;
use super::commit::key_row;
use super::writer::{Piles, Writer};
use super::{Sled, Trees, failure, keys, read};
use crate::fault::{self, Breach, Point, Step, Steps};
use crate::job::{BODY_SMALL_MAX, BodyRef, Head, JobId, Position};

impl Sled {
    pub(super) fn forget_group(&self, trees: &Trees, writer: &mut Writer, ids: &[JobId]) -> Result<(), Error> {
        let mut leaving: BTreeMap<JobId, Head> = BTreeMap::new();
        for id in ids {
            leaving.extend(self.read_ended(trees, *id)?.map(|head| (*id, head)));
        }
        if leaving.is_empty() {
            return Ok(());
        }
        let mut piles = Piles::default();
        let mut changed = HashSet::new();
        let mut positions = Vec::new();
        let mut ended = Vec::with_capacity(leaving.len());
        for (id, head) in &leaving {
            positions.extend(self.positions(trees, *id, head)?);
            let row = writer.type_row(&head.job.spec.job_type);
            row.kept.remove(&head.job);
            remove_rows(head, &mut piles);
            ended.push((row.number, head));
            changed.insert(head.job.spec.job_type.clone());
        }
        positions.sort_unstable();
        let old_floor = writer.floor;
        writer.floor = writer.floor.max(positions.last().copied().unwrap_or(Position::ZERO).next());
        self.remove_ends(trees, ended.into_iter(), &mut piles.index)?;
        self.thin_out(trees, &positions, &leaving, &mut piles)?;
        writer.put_types(&changed, &mut piles);
        {
            let mut shown = self.shown();
            shown.bounds.floor = writer.floor;
            shown.types = writer.shown_types();
        }
        let steps = || Steps::from_iter([Step::Trim]);
        if fault::is_broken(Breach::FloorAfterRemoval) {
            piles.cells.put(keys::STANDING, writer.standing(old_floor));
            self.write_through(trees, &std::mem::take(&mut piles), steps)?;
            fault::point(Point::BeforeFloor);
        }
        piles.cells.put(keys::STANDING, writer.standing(writer.floor));
        self.write_through(trees, &piles, steps)?;
        for (id, head) in &leaving {
            large_bodies(head).for_each(|name| self.remove_body_file(*id, name));
        }
        Ok(())
    }

    /// All positions of a job's entries.
    fn positions(&self, trees: &Trees, id: JobId, head: &Head) -> Result<Vec<Position>, Error> {
        let mut positions = Vec::with_capacity(head.trail.recent.len());
        for number in 0..head.trail.blocks {
            positions.extend(self.read_block(trees, id, number)?);
        }
        positions.extend(&head.trail.recent);
        Ok(positions)
    }

    /// Takes the entries of the leaving jobs, which stand at these positions, out of their chunks.
    fn thin_out(
        &self,
        trees: &Trees,
        positions: &[Position],
        leaving: &BTreeMap<JobId, Head>,
        piles: &mut Piles,
    ) -> Result<(), Error> {
        // Everything up to here has been dealt with.
        let mut done = Position::ZERO;
        for position in positions {
            if *position <= done {
                continue;
            }
            self.count(1);
            let found = trees.events.get_lt(keys::chunk(position.next())).map_err(failure)?;
            let Some((key, bytes)) = found else { continue };
            let (first, chunk) = read::chunk(&key, &bytes)?;
            done = chunk.entries.last().map_or(*position, |last| last.position);
            match Chunk::without(chunk, first, |job| leaving.contains_key(&job)) {
                Some(rest) => piles.events.put(&key, rest),
                None => piles.events.remove(&key),
            }
        }
        Ok(())
    }
}

/// Everything of the job outside the log that it shares with no other.
fn remove_rows(head: &Head, piles: &mut Piles) {
    let job = &head.job;
    let id = job.id();
    piles.jobs.remove(&keys::job(id));
    piles.index.remove(&keys::owned(&job.spec.owner, id));
    if job.is_dead_letter() {
        piles.index.remove(&keys::dead(id));
    }
    if let Some(row) = key_row(job) {
        piles.keys.remove(&row);
    }
    for name in job.bodies_beside().filter(|name| name.len <= BODY_SMALL_MAX as u64) {
        (0..keys::pieces(name.len)).for_each(|number| piles.bodies.remove(&keys::piece(id, name, number)));
    }
    (0..head.trail.blocks).for_each(|number| piles.bodies.remove(&keys::block(id, number)));
}

fn large_bodies(head: &Head) -> impl Iterator<Item = BodyRef> {
    head.job.bodies().filter(|name| name.len > BODY_SMALL_MAX as u64)
}
