//! `verify` on sled: walks every tree once, and looks up in the others what must be there.
//!
//! In: an open store that nobody else uses. Out: a report. Each walk streams; only small caches of what was just looked
//! up are kept.

mod jobs;
mod log;
mod rows;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::super::chunk::Chunk;
use super::super::codec::{self, Damage, Kind};
use super::super::verify::Report;
use super::super::{Durability, Error, Kept};
use super::reached::Standing;
use super::{Options, Sled, Trees, failure, keys, open};
use crate::job::{Head, JobId, Logged, Position};
use sums::Expected;

/// Chunks kept decoded: jobs that are near in age have entries in the same ones.
const CHUNKS_MAX: usize = 256;
/// Jobs kept known with their positions.
const KNOWN_MAX: usize = 2_048;
/// Bytes of pages that sled keeps in memory meanwhile.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Looks at the store in `dir`.
pub fn verify(dir: &Path) -> Result<Report, Error> {
    of(dir, Files::Too)
}

/// The same, with the files of large bodies or without.
pub fn of(dir: &Path, files: Files) -> Result<Report, Error> {
    let options = Options { dir: dir.to_path_buf(), cache_bytes: CACHE_BYTES, durability: Durability::Disk };
    let (store, doubts) = open::open_as_it_is(&options)?;
    let mut report = store.with_trees(|trees| look_through(&store, trees, files))?;
    if let Standing::Unknown(why) = doubts.standing {
        report.complain(dir.display().to_string(), format!("{why}: how far the log had reached is not known"));
    }
    super::super::Store::close(&store)?;
    Ok(report)
}

/// Whether the files of large bodies are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are.
    Too,
    /// They are not: what is wrong with them harms only their readers.
    Not,
}

/// Looks at all of an open store that nobody else uses yet.
pub fn look_through(store: &Sled, trees: &Trees, files: Files) -> Result<Report, Error> {
    let mut inquiry = Inquiry::new(store, trees, files);
    inquiry.walk_jobs()?;
    inquiry.walk_log()?;
    inquiry.walk_rows()?;
    inquiry.walk_bodies()?;
    inquiry.walk_cells()?;
    inquiry.walk_files()?;
    Ok(inquiry.report)
}

/// A job that was looked up, with all its positions.
struct Known {
    head: Head,
    positions: Vec<Position>,
}

/// A walk through a store.
struct Inquiry<'a> {
    store: &'a Sled,
    trees: &'a Trees,
    report: Report,
    files: Files,
    /// What the records looked at so far say should be elsewhere.
    expected: Expected,
    /// Decoded chunks by the position of their first entry, and the order in which they came.
    chunks: BTreeMap<Position, Arc<Chunk>>,
    chunk_order: VecDeque<Position>,
    known: HashMap<JobId, Option<Arc<Known>>>,
    /// Ended jobs by type, as counted.
    types: BTreeMap<Arc<str>, Kept>,
    /// The numbers of types.
    numbers: Arc<BTreeMap<Arc<str>, keys::TypeNumber>>,
}

/// What is wrong with a record's bytes, as words.
fn words(damage: Damage) -> String {
    match damage.at("") {
        Error::Corrupt { why, .. } => why,
        other @ (Error::Unavailable(_) | Error::Body { .. } | Error::Locked(_) | Error::Full(_)) => other.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<'a> Inquiry<'a> {
    fn new(store: &'a Sled, trees: &'a Trees, files: Files) -> Self {
        Self {
            files,
            store,
            trees,
            report: Report::default(),
            expected: Expected::default(),
            chunks: BTreeMap::new(),
            chunk_order: VecDeque::new(),
            known: HashMap::new(),
            types: BTreeMap::new(),
            numbers: Arc::clone(&store.shown().types.numbers),
        }
    }

    /// What a tree holds is not what the records say, by the sums; if nothing is found wrong with any one thing, then a walk
    /// does not meet what a look-up finds.
    fn complain_of_contradiction(&mut self, tree: &str) {
        if self.report.is_whole() {
            let why = "walks through it and the records, and look-ups in it, contradict each other";
            self.report.complain(format!("tree {tree}"), why);
        }
    }

    /// The job, wherever its record is; `None` if there is none that can be read.
    fn known(&mut self, id: JobId) -> Result<Option<Arc<Known>>, Error> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let live = self.trees.live.get(keys::job(id)).map_err(failure)?;
        let bytes = match live {
            Some(bytes) => Some(bytes),
            None => self.trees.jobs.get(keys::job(id)).map_err(failure)?,
        };
        let known = match bytes.map(|bytes| codec::head(&bytes)) {
            Some(Ok(head)) => {
                let (positions, _) = self.positions(&head)?;
                Some(Arc::new(Known { head, positions }))
            }
            Some(Err(_)) | None => None,
        };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(id, known.clone());
        Ok(known)
    }

    /// The positions that a job's trail says, and the numbers of blocks that are missing or damaged.
    fn positions(&self, head: &Head) -> Result<(Vec<Position>, Vec<u32>), Error> {
        let (mut positions, mut missing) = (Vec::new(), Vec::new());
        for number in 0..head.trail.blocks {
            let bytes = self.trees.bodies.get(keys::block(head.job.id(), number)).map_err(failure)?;
            match bytes.map(|bytes| codec::decode::<Vec<Position>>(Kind::Block, &bytes)) {
                Some(Ok(block)) => positions.extend(block),
                Some(Err(_)) | None => missing.push(number),
            }
            if missing.len() > crate::job::TRAIL_RECENT_MAX {
                break;
            }
        }
        positions.extend(&head.trail.recent);
        Ok((positions, missing))
    }

    /// The entry at a position, if there is one.
    fn entry(&mut self, position: Position) -> Result<Option<Logged>, Error> {
        let around = self.chunks.range(..=position).next_back().map(|(_, chunk)| chunk);
        let reaches = |chunk: &&Arc<Chunk>| chunk.entries.last().is_some_and(|last| last.position >= position);
        let chunk = match around.filter(reaches) {
            Some(chunk) => Arc::clone(chunk),
            None => {
                let found = self.trees.events.get_lt(keys::chunk(position.next())).map_err(failure)?;
                let Some((key, bytes)) = found else { return Ok(None) };
                let Some(first) = keys::position(&key) else { return Ok(None) };
                // A damaged chunk is named by the walk through the log.
                let Ok(chunk) = Chunk::decode(first, &bytes) else { return Ok(None) };
                self.remember(first, chunk)
            }
        };
        let at = chunk.entries.binary_search_by_key(&position, |logged| logged.position);
        Ok(at.ok().map(|at| chunk.entries[at].clone()))
    }

    fn remember(&mut self, first: Position, chunk: Chunk) -> Arc<Chunk> {
        if self.chunk_order.len() >= CHUNKS_MAX
            && let Some(oldest) = self.chunk_order.pop_front()
        {
            self.chunks.remove(&oldest);
        }
        let chunk = Arc::new(chunk);
        // One that does not reach the position that was asked for may be there already.
        if self.chunks.insert(first, Arc::clone(&chunk)).is_none() {
            self.chunk_order.push_back(first);
        }
        chunk
    }
}
