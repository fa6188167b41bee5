//! What readers get: from the trees first, then corrected by what is in flight (`shown`), so that nothing is seen that
//! is not synced.
//!
//! In: names, positions, filters. Out: values. Never waits for a commit longer than sled's own lock makes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::sled::IVec;
use bytes::Bytes;

use super::super::chunk::Chunk;
use super::super::codec::{self, Kind, Row};
use super::super::{Error, Listing, Query, SCAN_MAX};
use super::{Sled, Trees, failure, keys};
use crate::job::{Head, JobId, Logged, Position};

/// A record, with its place in case it is damaged.
pub fn head(id: JobId, bytes: &[u8]) -> Result<Head, Error> {
    codec::head(bytes).map_err(|damage| damage.at(format!("the record of job {id}")))
}

/// A chunk, with its place in case it is damaged.
pub fn chunk(key: &[u8], bytes: &[u8]) -> Result<(Position, Chunk), Error> {
    let odd = || Error::Corrupt { at: "the log".into(), why: format!("a chunk has the key {key:02x?}") };
    let first = keys::position(key).ok_or_else(odd)?;
    let chunk =
        Chunk::decode(first, bytes).map_err(|damage| damage.at(format!("the chunk at position {}", first.0)))?;
    Ok((first, chunk))
}

/// The id in a key, with its place in case it is none.
pub fn id_in(tree: &str, key: &[u8], id: Option<JobId>) -> Result<JobId, Error> {
    id.ok_or_else(|| Error::Corrupt { at: format!("tree {tree}"), why: format!("there is a key {key:02x?}") })
}

impl Sled {
    pub(super) fn read_live(&self, trees: &Trees) -> Result<Vec<Head>, Error> {
        let mut heads = Vec::new();
        for row in &trees.live {
            let (key, bytes) = row.map_err(failure)?;
            heads.push(head(id_in("live", &key, keys::job_id(&key))?, &bytes)?);
        }
        self.count(heads.len());
        Ok(heads)
    }

    /// The record of an ended job, in flight or not: for the committing thread, and for readers who look again.
    pub(super) fn read_ended(&self, trees: &Trees, id: JobId) -> Result<Option<Head>, Error> {
        self.count(1);
        trees.jobs.get(keys::job(id)).map_err(failure)?.map(|bytes| head(id, &bytes)).transpose()
    }

    pub(super) fn read_job(&self, trees: &Trees, id: JobId) -> Result<Option<Arc<Head>>, Error> {
        // Unfinished ones first: a job that ends in between is then found among the ended.
        self.count(1);
        let live = trees.live.get(keys::job(id)).map_err(failure)?;
        let found = match live {
            Some(bytes) => Some(head(id, &bytes)?),
            None => self.read_ended(trees, id)?,
        };
        Ok(self.shown().head(id, found.map(Arc::new)))
    }

    pub(super) fn read_key(&self, trees: &Trees, row: keys::KeyRow) -> Result<Option<JobId>, Error> {
        self.count(1);
        let Some(bytes) = trees.keys.get(row).map_err(failure)? else { return Ok(None) };
        let id = codec::decode(Kind::Key, &bytes).map_err(|damage| damage.at(format!("the key row {row:02x?}")))?;
        let is_new = matches!(self.shown().head_before(id), Some(None));
        Ok((!is_new).then_some(id))
    }

    pub(super) fn read_block(&self, trees: &Trees, id: JobId, number: u32) -> Result<Vec<Position>, Error> {
        self.count(1);
        let Some(bytes) = trees.bodies.get(keys::block(id, number)).map_err(failure)? else { return Ok(Vec::new()) };
        let block = codec::decode(Kind::Block, &bytes)
            .map_err(|damage| damage.at(format!("block {number} of the trail of job {id}")))?;
        let is_new = |before: Option<Arc<Head>>| before.is_none_or(|head| head.trail.blocks <= number);
        Ok(if self.shown().head_before(id).is_some_and(is_new) { Vec::new() } else { block })
    }

    pub(super) fn read_cells(&self, trees: &Trees, prefix: &str) -> Result<Vec<(String, Bytes)>, Error> {
        let mut found = BTreeMap::new();
        for row in trees.cells.scan_prefix(prefix) {
            let (key, value) = row.map_err(failure)?;
            if key.first() == Some(&keys::OWN) {
                continue;
            }
            let name = String::from_utf8(key.to_vec())
                .map_err(|e| Error::Corrupt { at: "tree cells".into(), why: format!("a name is no text: {e}") })?;
            found.insert(name, Bytes::copy_from_slice(&value));
        }
        self.count(found.len().max(1));
        self.shown().cells(prefix, &mut found);
        Ok(found.into_iter().collect())
    }
}

/// Entries.
impl Sled {
    /// The last chunk that begins at or before `position`.
    fn chunk_around(&self, trees: &Trees, position: Position) -> Result<Option<(Position, Chunk)>, Error> {
        self.count(1);
        let found = trees.events.get_lt(keys::chunk(position.next())).map_err(failure)?;
        found.map(|(key, bytes)| chunk(&key, &bytes)).transpose()
    }

    pub(super) fn read_events(&self, trees: &Trees, after: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        loop {
            let from = after.next().max(self.shown().bounds.floor);
            let mut found = self.page(trees, from, limit)?;
            let bounds = self.shown().bounds;
            found.retain(|logged| logged.position <= bounds.last);
            // The floor rose meanwhile: what was read may have holes below it.
            if bounds.floor > from && found.first().is_some_and(|logged| logged.position < bounds.floor) {
                continue;
            }
            return Ok(found);
        }
    }

    /// About `limit` entries from `from` on, in flight or not.
    pub(super) fn page(&self, trees: &Trees, from: Position, limit: usize) -> Result<Vec<Logged>, Error> {
        let mut found = Vec::new();
        let start = self.chunk_around(trees, from)?;
        let next = start.as_ref().map_or(Position::ZERO, |(first, _)| first.next());
        found.extend(start.into_iter().flat_map(|(_, chunk)| chunk.entries).filter(|logged| logged.position >= from));
        if found.len() >= limit.max(1) {
            return Ok(found);
        }
        for row in trees.events.range(keys::chunk(next)..) {
            self.count(1);
            let (key, bytes) = row.map_err(failure)?;
            found.extend(chunk(&key, &bytes)?.1.entries);
            if found.len() >= limit.max(1) {
                break;
            }
        }
        Ok(found)
    }

    pub(super) fn read_entries(&self, trees: &Trees, positions: &[Position]) -> Result<Vec<Logged>, Error> {
        let mut found: Vec<Logged> = Vec::with_capacity(positions.len());
        let mut here: std::collections::VecDeque<Logged> = std::collections::VecDeque::new();
        for position in positions {
            while here.front().is_some_and(|logged| logged.position < *position) {
                here.pop_front();
            }
            if here.is_empty() {
                let chunk = self.chunk_around(trees, *position)?;
                here = chunk.map(|(_, chunk)| chunk.entries.into()).unwrap_or_default();
                here.retain(|logged| logged.position >= *position);
            }
            if here.front().is_some_and(|logged| logged.position == *position) {
                found.extend(here.pop_front());
            }
        }
        let last = self.shown().bounds.last;
        found.retain(|logged| logged.position <= last);
        Ok(found)
    }
}

/// Lists.
impl Sled {
    pub(super) fn list(&self, trees: &Trees, query: &Query) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        if !query.admits_ended() {
            return Ok(listing);
        }
        let before = query.before.unwrap_or(JobId::from_u128(u128::MAX));
        let none = JobId::from_u128(0);
        let rows = match (&query.owner, query.dead_lettered) {
            (_, Some(true)) => trees.index.range(keys::dead(none)..keys::dead(before)),
            (Some(owner), _) => trees.index.range(keys::owned(owner, none)..keys::owned(owner, before)),
            (None, _) => trees.jobs.range(keys::job(none)..keys::job(before)),
        };
        let mut rest = None;
        for (looked, row) in rows.rev().enumerate() {
            if listing.jobs.len() >= query.limit || looked == SCAN_MAX {
                rest = listing.next;
                break;
            }
            let (key, bytes) = row.map_err(failure)?;
            let id = id_in("index", &key, keys::row_id(&key))?;
            listing.next = Some(id);
            listing.jobs.extend(self.listed(trees, query, id, &key, &bytes)?);
        }
        listing.next = rest;
        self.count(listing.jobs.len().max(1));
        if query.dead_lettered == Some(true) {
            self.list_again(query, &mut listing);
        }
        Ok(listing)
    }

    /// Dead letters that the commit in flight replays have lost their rows, and are shown still.
    fn list_again(&self, query: &Query, listing: &mut Listing) {
        let end = listing.next.unwrap_or(JobId::from_u128(0));
        let shown = self.shown();
        let heads = shown.in_flight.iter().flat_map(|in_flight| &in_flight.heads);
        for head in heads.filter_map(|(id, head)| head.as_ref().filter(|_| *id >= end)) {
            if query.admits(&head.job) && !listing.jobs.iter().any(|listed| listed.job.id() == head.job.id()) {
                listing.jobs.push(Arc::clone(head));
            }
        }
        listing.jobs.sort_by_key(|head| std::cmp::Reverse(head.job.id()));
        if listing.jobs.len() > query.limit {
            listing.jobs.truncate(query.limit);
            listing.next = listing.jobs.last().map(|head| head.job.id());
        }
    }

    /// The job of a row, if it belongs in the list.
    fn listed(
        &self,
        trees: &Trees,
        query: &Query,
        id: JobId,
        key: &IVec,
        bytes: &IVec,
    ) -> Result<Option<Arc<Head>>, Error> {
        let found = if key.len() == keys::job(id).len() {
            Some(head(id, bytes)?)
        } else if key.first() == Some(&keys::BY_OWNER) && !may_admit(query, id, bytes)? {
            None
        } else {
            self.read_ended(trees, id)?
        };
        let ended = |head: &Arc<Head>| head.job.status().is_terminal() && query.admits(&head.job);
        Ok(found.and_then(|found| self.shown().head(id, Some(Arc::new(found)))).filter(ended))
    }
}

/// Whether a job whose row says this may belong in the list.
fn may_admit(query: &Query, id: JobId, bytes: &[u8]) -> Result<bool, Error> {
    let row: Row = codec::decode(Kind::Row, bytes).map_err(|damage| damage.at(format!("the row of job {id}")))?;
    Ok(query.status.is_none_or(|status| status == row.status)
        && query.job_type.as_ref().is_none_or(|job_type| *job_type == row.job_type)
        && query.dead_lettered.is_none_or(|dead| dead == row.dead_letter))
}
