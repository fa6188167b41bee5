//! Chunks: the entries of one commit as one value of at most 6,000 bytes (design 5.3), and back.
//!
//! In: entries in order. Out: sealed values, each keyed by the position of its first entry. What entries share (type,
//! owner, tags) stands once in a chunk; a `Created` entry's own spec says it again for nothing, so it is left out there.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::codec::{self, Buffer, Damage, ENVELOPE, Kind, Reader};
use crate::job::{Entry, JobId, Logged, Position, Timestamp};

/// Largest chunk, in bytes; a commit that needs more writes several. An entry that alone is larger has one to itself.
pub const CHUNK_MAX: usize = 6_000;

/// Room for the numbers at the front of a chunk.
const FRONT_MAX: usize = ENVELOPE + 4 * 10;

/// Who an entry is about, for those that do not carry their job's spec.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Label {
    job_type: Arc<str>,
    owner: Arc<str>,
    tags: Arc<[Arc<str>]>,
}

/// An entry on its way into a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Where it stands.
    pub position: Position,
    /// When it was decided.
    pub at: Timestamp,
    /// Whose it is.
    pub job: JobId,
    /// The job's type.
    pub job_type: &'a Arc<str>,
    /// The job's owner.
    pub owner: &'a Arc<str>,
    /// The job's tags.
    pub tags: &'a Arc<[Arc<str>]>,
    /// What happened.
    pub entry: &'a Entry,
}

impl<'a> From<&'a Logged> for Item<'a> {
    fn from(logged: &'a Logged) -> Self {
        let Logged { position, at, job, job_type, owner, tags, entry } = logged;
        Self { position: *position, at: *at, job: *job, job_type, owner, tags, entry }
    }
}

/// A chunk being filled.
struct Part {
    first: Position,
    next: Position,
    base: Timestamp,
    count: u64,
    labels: Vec<Label>,
    label_bytes: Buffer,
    entries: Buffer,
}

impl Part {
    fn new(first: Position, base: Timestamp) -> Self {
        let (label_bytes, entries) = (Buffer::default(), Buffer(Vec::with_capacity(CHUNK_MAX)));
        Self { first, next: first, base, count: 0, labels: Vec::new(), label_bytes, entries }
    }

    /// Adds the item, or leaves the part as it was and says `false` if it would grow too large.
    fn add(&mut self, item: &Item<'_>) -> bool {
        let before = (self.labels.len(), self.label_bytes.0.len(), self.entries.0.len(), self.next);
        self.put(item);
        let fits = FRONT_MAX + self.label_bytes.0.len() + self.entries.0.len() <= CHUNK_MAX;
        if !fits && self.count > 1 {
            self.count -= 1;
            self.labels.truncate(before.0);
            self.label_bytes.0.truncate(before.1);
            self.entries.0.truncate(before.2);
            self.next = before.3;
            return false;
        }
        true
    }

    /// Adds the item, however large the part grows.
    fn put(&mut self, item: &Item<'_>) {
        let label = if matches!(item.entry, Entry::Created { .. }) { 0 } else { self.label(item) };
        let gap = item.position.0.saturating_sub(self.next.0);
        self.entries.put(&(gap, label, item.at.0.wrapping_sub(self.base.0)));
        if label != 0 {
            self.entries.put(&item.job.as_u128().to_be_bytes());
        }
        self.entries.put(item.entry);
        self.count += 1;
        self.next = item.position.next();
    }

    /// The number of the item's label in this chunk, from 1.
    fn label(&mut self, item: &Item<'_>) -> u64 {
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        let found = self.labels.iter().position(|label| {
            same(&label.job_type, item.job_type)
                && same(&label.owner, item.owner)
                && (Arc::ptr_eq(&label.tags, item.tags) || label.tags == *item.tags)
        });
        let index = found.unwrap_or_else(|| {
            let label = Label {
                job_type: Arc::clone(item.job_type),
                owner: Arc::clone(item.owner),
                tags: Arc::clone(item.tags),
            };
            self.label_bytes.put(&label);
            self.labels.push(label);
            self.labels.len() - 1
        });
        index as u64 + 1
    }

    fn seal(&self) -> Vec<u8> {
        let mut chunk = Buffer(Vec::with_capacity(FRONT_MAX + self.label_bytes.0.len() + self.entries.0.len()));
        chunk.seal(Kind::Chunk, |to| {
            to.put(&(self.base.0, self.labels.len() as u64, self.count));
            to.0.extend_from_slice(&self.label_bytes.0);
            to.0.extend_from_slice(&self.entries.0);
        });
        chunk.0
    }
}

/// The chunks of one commit.
#[derive(Default)]
pub struct Chunks {
    parts: Vec<Part>,
}

impl Chunks {
    /// Adds an entry; positions must rise.
    pub fn push(&mut self, item: &Item<'_>) {
        if let Some(part) = self.parts.last_mut()
            && part.add(item)
        {
            return;
        }
        let mut part = Part::new(item.position, item.at);
        part.add(item);
        self.parts.push(part);
    }

    /// Each chunk with its key.
    pub fn finish(self) -> impl Iterator<Item = (Position, Vec<u8>)> {
        self.parts.into_iter().map(|part| (part.first, part.seal()))
    }
}

/// A chunk read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Its entries, by position. None are missing between the first and the last unless their jobs were forgotten.
    pub entries: Vec<Logged>,
}

impl Chunk {
    /// The chunk that stands at `first`.
    ///
    /// # Errors
    /// `Damage` if the bytes are none.
    pub fn decode(first: Position, bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = codec::open(Kind::Chunk, bytes)?;
        let (base, labels, count): (i64, u64, u64) = reader.take()?;
        // One at a time: a claimed number allocates nothing.
        let labels = (0..labels).map(|_| reader.take()).collect::<Result<Vec<Label>, _>>()?;
        let mut entries = Vec::new();
        let mut next = first;
        for _ in 0..count {
            let logged = take(&mut reader, next, base, &labels)?;
            next = logged.position.next();
            entries.push(logged);
        }
        reader.end()?;
        Ok(Self { entries })
    }

    /// The same chunk without the entries of some jobs, or nothing if none are left.
    pub fn without(mut self, first: Position, gone: impl Fn(JobId) -> bool) -> Option<Vec<u8>> {
        self.entries.retain(|logged| !gone(logged.job));
        let base = self.entries.first()?.at;
        let mut part = Part::new(first, base);
        self.entries.iter().for_each(|logged| part.put(&Item::from(logged)));
        Some(part.seal())
    }
}

fn take(reader: &mut Reader<'_>, next: Position, base: i64, labels: &[Label]) -> Result<Logged, Damage> {
    let (gap, label, after): (u64, u64, i64) = reader.take()?;
    let (position, at) = (next.plus(gap), Timestamp(base.wrapping_add(after)));
    let Some(index) = label.checked_sub(1) else {
        let entry: Entry = reader.take()?;
        let Entry::Created { spec, .. } = &entry else {
            return Err(Damage::Content(format!("the entry at {} has no label", position.0)));
        };
        let spec = Arc::clone(spec);
        let (job_type, owner, tags) = (Arc::clone(&spec.job_type), Arc::clone(&spec.owner), Arc::clone(&spec.tags));
        return Ok(Logged { position, at, job: spec.id, job_type, owner, tags, entry });
    };
    let label = usize::try_from(index).ok().and_then(|index| labels.get(index));
    let Label { job_type, owner, tags } =
        label.cloned().ok_or_else(|| Damage::Content(format!("the entry at {} has no label", position.0)))?;
    let job = JobId::from_u128(u128::from_be_bytes(reader.take()?));
    Ok(Logged { position, at, job, job_type, owner, tags, entry: reader.take()? })
}
