//! Whether a tree holds exactly what the records say it should, without looking anything up: two sums are compared.
//!
//! In: things, in any order. Out: sums that are the same for the same things, and for others but with a chance of one in 2^64.
//! Where they differ, the walks look everything up and name what it is.

use std::hash::{DefaultHasher, Hasher};

use super::super::commit::{key_row, owner_row};
use super::super::{ends, keys};
use crate::job::{BODY_SMALL_MAX, Head, Job, JobId, Position};

/// A number of things, and the sum of their digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    count: u64,
    digests: u64,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write_usize(key.len());
        hasher.write(key);
        hasher.write(value);
        self.count += 1;
        self.digests = self.digests.wrapping_add(hasher.finish());
    }

    /// One more entry of the log.
    pub fn add_entry(&mut self, position: Position, job: JobId) {
        self.add(&position.0.to_be_bytes(), &keys::job(job));
    }
}

/// What the records say should be there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// Positions, and whose entry is there.
    pub log: Sum,
    /// Rows of `index`, one of an end for each job.
    pub index: Sum,
    /// Rows of `keys`.
    pub keys: Sum,
    /// Keys of `bodies`.
    pub bodies: Sum,
}

impl Expected {
    /// All that this job should have. `number`: of its type.
    pub fn add(&mut self, head: &Head, positions: &[Position], number: Option<keys::TypeNumber>) {
        let job = &head.job;
        positions.iter().for_each(|position| self.log.add_entry(*position, job.id()));
        if job.status().is_terminal() {
            self.index.add(&keys::owned(&job.spec.owner, job.id()), &owner_row(job));
            number.iter().for_each(|number| self.index.add(&keys::ended(ends::shared(*number, job), job.id()), b""));
            if job.is_dead_letter() {
                self.index.add(&keys::dead(job.id()), b"");
            }
        }
        if let Some(row) = key_row(job) {
            self.keys.add(&row, &keys::job(job.id()));
        }
        self.add_bodies(job);
        (0..head.trail.blocks).for_each(|number| self.bodies.add(&keys::block(job.id(), number), b""));
    }

    fn add_bodies(&mut self, job: &Job) {
        for name in job.bodies_beside().filter(|name| name.len <= BODY_SMALL_MAX as u64) {
            (0..keys::pieces(name.len)).for_each(|number| self.bodies.add(&keys::piece(job.id(), name, number), b""));
        }
    }
}
