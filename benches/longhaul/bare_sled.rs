//! sled doing only the unavoidable: the same operations and bytes in the same groups, each made durable in the same way.
//!
//! In: the shape of the rows that a real store holds. Out: how fast sled alone commits such rows. Encodes, decides and
//! answers nothing.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use longhaul::clock::{Clock, System};
use sled::transaction::{ConflictableTransactionError, TransactionError};
use sled::{Batch, Transactional, Tree};

use crate::Result;

/// Trees, in the order of their places in a commit.
const TREES: [&str; 5] = ["live", "jobs", "bodies", "index", "events"];
const LIVE: usize = 0;
const JOBS: usize = 1;
const BODIES: usize = 2;
const INDEX: usize = 3;
const EVENTS: usize = 4;
/// What the keys of rows of ends begin with.
const BY_END: u8 = 2;
/// Largest value that holds entries.
const CHUNK: usize = 6_000;
/// Jobs in each of the four steps that one group of 128 makes.
const BLOCK: usize = 32;

/// Sizes of values, in bytes, as a real store holds them.
pub struct Shape {
    /// A job's record.
    record: usize,
    /// Its payload; 0 if the record carries it.
    body: usize,
    /// Its row in the index.
    row: usize,
    /// Its share of a row of ends.
    end: usize,
    /// Its entries.
    entries: usize,
    /// Keys and values of all rows together.
    pub data_bytes: f64,
}

impl Shape {
    /// Of the closed store in this directory. Reads all of it.
    pub fn of(directory: &Path) -> Result<Self> {
        let db = sled::Config::new().path(directory).flush_every_ms(None).open()?;
        let mut sums = [(0, 0, 0); TREES.len()];
        let (mut owned, mut ends) = (0, 0);
        for (sum, name) in sums.iter_mut().zip(TREES) {
            for row in &db.open_tree(name)? {
                let (key, value) = row?;
                *sum = (sum.0 + 1, sum.1 + key.len(), sum.2 + value.len());
                if name == TREES[INDEX] {
                    let of_family = if key[0] == BY_END { &mut ends } else { &mut owned };
                    *of_family += value.len();
                }
            }
        }
        let mean = |tree: usize| sums[tree].2 / sums[tree].0.max(1);
        let jobs = (sums[LIVE].0 + sums[JOBS].0).max(1);
        Ok(Self {
            record: (sums[LIVE].2 + sums[JOBS].2) / jobs,
            body: mean(BODIES),
            row: owned / jobs,
            end: ends / jobs,
            entries: sums[EVENTS].2 / jobs,
            data_bytes: sums.iter().map(|(_, keys, values)| (keys + values) as f64).sum(),
        })
    }
}

/// A group of writes.
#[derive(Default)]
struct Group {
    piles: [(Batch, usize); TREES.len()],
}

impl Group {
    fn put(&mut self, tree: usize, key: &[u8], value: usize) {
        let (batch, count) = &mut self.piles[tree];
        batch.insert(key, vec![7; value]);
        *count += 1;
    }

    fn remove(&mut self, tree: usize, key: &[u8]) {
        let (batch, count) = &mut self.piles[tree];
        batch.remove(key);
        *count += 1;
    }
}

/// An open database.
pub struct Bare {
    db: sled::Db,
    trees: Vec<Tree>,
    file: File,
    shape: Shape,
    position: u64,
    /// Operations so far.
    pub operations: u64,
    /// Jobs that were created, started and progressed, oldest last.
    under_way: VecDeque<Vec<[u8; 16]>>,
}

impl Bare {
    /// A new database in this directory, for rows of this shape.
    pub fn create(directory: &Path, shape: Shape) -> Result<Self> {
        let db = sled::Config::new().path(directory).cache_capacity(64 << 20).flush_every_ms(None).open()?;
        let trees = TREES.iter().map(|name| db.open_tree(name)).collect::<std::result::Result<_, _>>()?;
        db.flush()?;
        let file = File::options().write(true).open(directory.join("db"))?;
        Ok(Self { db, trees, file, shape, position: 1, operations: 0, under_way: VecDeque::new() })
    }

    /// Commits groups of so many submits until the time is over; submits a second.
    pub fn submits(&mut self, group: usize, length: Duration) -> Result<f64> {
        let begin = Instant::now();
        let mut submits = 0;
        while begin.elapsed() < length {
            self.submit(group)?;
            submits += group;
        }
        Ok(submits as f64 / begin.elapsed().as_secs_f64())
    }

    /// Commits one group of submits.
    pub fn submit(&mut self, jobs: usize) -> Result<()> {
        let mut group = Group::default();
        let ids = self.created(&mut group, jobs);
        self.logged(&mut group, ids.len() * self.shape.entries);
        self.commit(&group)
    }

    /// Commits the start of one job.
    pub fn start(&mut self) -> Result<()> {
        let mut group = Group::default();
        group.put(LIVE, &System.job_id().as_u128().to_be_bytes(), self.shape.record);
        self.logged(&mut group, self.shape.entries);
        self.commit(&group)
    }

    /// Commits so many lifecycles: each group creates some jobs, starts those of the group before, and so on.
    pub fn lifecycles(&mut self, jobs: usize) -> Result<()> {
        for block in 0..jobs.div_ceil(BLOCK) + 3 {
            let mut group = Group::default();
            let is_new = block * BLOCK < jobs;
            let ids = if is_new { self.created(&mut group, BLOCK) } else { Vec::new() };
            for older in self.under_way.iter().take(2) {
                older.iter().for_each(|id| group.put(LIVE, id, self.shape.record));
            }
            if self.under_way.len() == 3 {
                let ended = self.under_way.pop_back().unwrap_or_default();
                self.ended(&mut group, &ended);
            }
            self.under_way.push_front(ids);
            self.logged(&mut group, BLOCK * self.shape.entries);
            self.commit(&group)?;
        }
        self.under_way.clear();
        Ok(())
    }

    fn created(&self, group: &mut Group, jobs: usize) -> Vec<[u8; 16]> {
        let ids: Vec<_> = (0..jobs).map(|_| System.job_id().as_u128().to_be_bytes()).collect();
        for id in &ids {
            group.put(LIVE, id, self.shape.record);
            if self.shape.body > 0 {
                group.put(BODIES, &[id, &[0; 10][..]].concat(), self.shape.body);
            }
        }
        ids
    }

    fn ended(&self, group: &mut Group, ids: &[[u8; 16]]) {
        for id in ids {
            group.remove(LIVE, id);
            group.put(JOBS, id, self.shape.record);
            group.put(INDEX, &[&[1; 5][..], id].concat(), self.shape.row);
        }
        if let Some(first) = ids.first() {
            group.put(INDEX, &[&[BY_END; 14][..], first].concat(), self.shape.end * ids.len());
        }
    }

    fn logged(&mut self, group: &mut Group, mut bytes: usize) {
        while bytes > 0 {
            let chunk = bytes.min(CHUNK);
            group.put(EVENTS, &self.position.to_be_bytes(), chunk);
            self.position += 64;
            bytes -= chunk;
        }
    }

    fn commit(&mut self, group: &Group) -> Result<()> {
        let touched: Vec<_> = self.trees.iter().zip(&group.piles).filter(|(_, (_, count))| *count > 0).collect();
        let trees: Vec<&Tree> = touched.iter().map(|(tree, _)| *tree).collect();
        let done = Transactional::<()>::transaction(&trees[..], |views| {
            for (view, (_, (batch, _))) in views.iter().zip(&touched) {
                view.apply_batch(batch).map_err(ConflictableTransactionError::from)?;
            }
            Ok(())
        });
        match done {
            Ok(()) => {}
            Err(TransactionError::Storage(error)) => return Err(error.into()),
            Err(TransactionError::Abort(())) => return Err("a commit was called off".into()),
        }
        self.db.flush()?;
        self.file.sync_data()?;
        self.operations += touched.iter().map(|(_, (_, count))| *count as u64).sum::<u64>();
        Ok(())
    }
}

/// Opens the database in this directory, and says how long that took.
pub fn open_time(directory: &Path) -> Result<Duration> {
    let begin = Instant::now();
    let db = sled::Config::new().path(directory).cache_capacity(64 << 20).flush_every_ms(None).open()?;
    let length = begin.elapsed();
    drop(db);
    Ok(length)
}

/// Bytes of the files in a directory.
pub fn disk_bytes(directory: &Path) -> Result<f64> {
    let mut bytes = 0.0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { disk_bytes(&entry.path())? } else { entry.metadata()?.len() as f64 };
    }
    Ok(bytes)
}
