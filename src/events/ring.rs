//! The recent log in memory: the frames of each commit, serialised once, shared by every reader.
//!
//! In: what was committed, in order. Out: slices of it after a cursor. Knows neither readers nor the store; a cursor
//! older than what it holds is told so. One lock, held to copy out two pointers or to put one block in.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use super::Filter;
use super::frame::Writer;
use crate::job::{JobId, Logged, Position};

/// Bytes of frames that are held; the oldest go first. Readers further behind read the store.
pub const RING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Visible entries that are held, likewise.
pub const RING_ENTRIES_MAX: usize = 65_536;
/// Most bytes that one step gives to one reader. A single larger frame goes alone.
pub const SLICE_MAX: usize = 64 * 1024;
/// Entries that a filtered reader looks at in one step.
pub const SCAN_MAX: usize = 4_096;

/// A visible entry in the ring: what a filter asks for, and where its frame is.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Where it stands in the log.
    pub position: Position,
    /// Whose it is.
    pub job: JobId,
    /// The job's type.
    pub job_type: Arc<str>,
    /// The job's owner.
    pub owner: Arc<str>,
    /// The job's tags.
    pub tags: Arc<[Arc<str>]>,
    /// The event's type.
    pub event_type: &'static str,
    /// The job has ended with it.
    pub is_terminal: bool,
    start: u32,
    end: u32,
}

/// Consecutive frames in one piece. Quiet entries after the last of them belong to it.
#[derive(Debug, Clone)]
struct Block {
    bytes: Bytes,
    slots: Arc<[Slot]>,
    last: Position,
}

impl Block {
    /// These slots' frames. A small part is copied, so that a reader that holds it does not hold the whole block.
    fn cut(&self, slots: Range<usize>) -> Bytes {
        let (first, last) = (&self.slots[slots.start], &self.slots[slots.end - 1]);
        let range = first.start as usize..last.end as usize;
        if range.len() * 4 < self.bytes.len() {
            Bytes::copy_from_slice(&self.bytes[range])
        } else {
            self.bytes.slice(range)
        }
    }

    fn frame(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.start as usize..slot.end as usize]
    }

    /// The slots after `from` whose frames fit one slice, at least one.
    fn fitting(&self, from: usize) -> usize {
        let limit = self.slots[from].start as usize + SLICE_MAX;
        let fits = self.slots[from..].partition_point(|slot| slot.end as usize <= limit);
        from + fits.max(1)
    }
}

/// What a feed reader gets for its cursor.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Frames, the position of the first, and the cursor after them.
    Frames {
        /// Whole frames.
        bytes: Bytes,
        /// Position of the first of them.
        first: Position,
        /// Where to go on.
        cursor: Position,
    },
    /// Nothing up to here passed the filter; there is more to look at.
    Moved(Position),
    /// There is nothing (more) up to here, the watermark.
    End(Position),
    /// The ring begins after the cursor: read the store.
    Behind,
}

/// What the ring says about one position.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Its frame, and whether the job has ended with it.
    Frame(Bytes, bool),
    /// A quiet entry.
    Quiet,
    /// Not published yet.
    Ahead,
    /// Older than the ring.
    Behind,
}

#[derive(Default)]
struct Inner {
    blocks: VecDeque<Block>,
    bytes: usize,
    entries: usize,
    /// Everything after this position, up to `last`, is held.
    start: Position,
    last: Position,
}

/// See the module.
pub struct Ring {
    inner: RwLock<Inner>,
    /// `Inner::last`, for those who only ask whether there is anything new.
    last: AtomicU64,
    bytes_max: usize,
    entries_max: usize,
}

impl Ring {
    /// An empty ring at the watermark `last`.
    pub fn new(last: Position, bytes_max: usize, entries_max: usize) -> Self {
        let inner = Inner { start: last, last, ..Inner::default() };
        Self { inner: RwLock::new(inner), last: AtomicU64::new(last.0), bytes_max, entries_max }
    }

    /// The watermark: the position of the last entry that was put in.
    pub fn last(&self) -> Position {
        Position(self.last.load(Ordering::SeqCst))
    }

    /// Puts a commit's entries in; they rise from the last ones. Returns how many are visible. One writer at a time.
    pub fn push(&self, entries: &[Logged], writer: &mut Writer) -> usize {
        let Some(newest) = entries.last() else { return 0 };
        let blocks = blocks(entries, writer);
        let visible = blocks.iter().map(|block| block.slots.len()).sum();
        {
            let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
            for block in blocks {
                inner.bytes += block.bytes.len();
                inner.entries += block.slots.len();
                inner.blocks.push_back(block);
            }
            inner.last = newest.position;
            if let Some(block) = inner.blocks.back_mut() {
                block.last = newest.position;
            }
            while inner.bytes > self.bytes_max || inner.entries > self.entries_max {
                inner.drop_oldest();
            }
            // Within the lock: whoever is told of an entry by `since` must be given it by `take`.
            self.last.store(newest.position.0, Ordering::SeqCst);
        }
        visible
    }

    /// Drops what lies wholly below the floor: readers that far behind are told so by the store.
    pub fn trim(&self, floor: Position) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        while inner.blocks.front().is_some_and(|block| block.last < floor) {
            inner.drop_oldest();
        }
    }

    /// What follows the cursor, for a reader with this filter. Looks at `SCAN_MAX` entries at most.
    pub fn take(&self, cursor: Position, filter: &Filter) -> Taken {
        if filter.admits_all() { self.take_all(cursor) } else { self.take_admitted(cursor, filter) }
    }

    fn take_all(&self, mut cursor: Position) -> Taken {
        loop {
            let block = match self.block_after(cursor) {
                Ok(block) => block,
                Err(taken) => return taken,
            };
            let from = block.slots.partition_point(|slot| slot.position <= cursor);
            if from == block.slots.len() {
                // The cursor lies among the quiet entries at its end.
                cursor = block.last;
                continue;
            }
            let to = block.fitting(from);
            let cursor = if to == block.slots.len() { block.last } else { block.slots[to - 1].position };
            return Taken::Frames { bytes: block.cut(from..to), first: block.slots[from].position, cursor };
        }
    }

    fn take_admitted(&self, mut cursor: Position, filter: &Filter) -> Taken {
        let mut frames = Vec::new();
        let mut first = Position::ZERO;
        let mut looked_at = 0;
        while looked_at < SCAN_MAX {
            let block = match self.block_after(cursor) {
                Ok(block) => block,
                Err(taken) if frames.is_empty() => return taken,
                Err(_) => break,
            };
            let from = block.slots.partition_point(|slot| slot.position <= cursor);
            for slot in &block.slots[from..] {
                if filter.admits(slot) {
                    let frame = block.frame(slot);
                    if !frames.is_empty() && frames.len() + frame.len() > SLICE_MAX {
                        return Taken::Frames { bytes: frames.into(), first, cursor };
                    }
                    if frames.is_empty() {
                        first = slot.position;
                    }
                    frames.extend_from_slice(frame);
                }
                cursor = slot.position;
            }
            looked_at += block.slots.len() - from;
            cursor = block.last;
        }
        if frames.is_empty() { Taken::Moved(cursor) } else { Taken::Frames { bytes: frames.into(), first, cursor } }
    }

    /// The block in which to look for what follows the cursor, or why there is none.
    fn block_after(&self, cursor: Position) -> Result<Block, Taken> {
        if cursor >= self.last() {
            return Err(Taken::End(cursor));
        }
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        if cursor < inner.start {
            return Err(Taken::Behind);
        }
        let at = inner.blocks.partition_point(|block| block.last <= cursor);
        inner.blocks.get(at).cloned().ok_or(Taken::End(inner.last.max(cursor)))
    }

    /// What stands at one position.
    pub fn find(&self, position: Position) -> Found {
        let block = {
            let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
            if position <= inner.start {
                return Found::Behind;
            }
            if position > inner.last {
                return Found::Ahead;
            }
            let at = inner.blocks.partition_point(|block| block.last < position);
            inner.blocks.get(at).cloned()
        };
        // Quiet entries before the first visible one have no block.
        let Some(block) = block else { return Found::Quiet };
        match block.slots.binary_search_by_key(&position, |slot| slot.position) {
            Ok(at) => Found::Frame(block.cut(at..at + 1), block.slots[at].is_terminal),
            Err(_) => Found::Quiet,
        }
    }

    /// The visible entries after `after`, some before it perhaps, and the watermark up to which they are all; `None` if
    /// the ring begins later.
    pub fn since(&self, after: Position) -> (Option<Vec<Arc<[Slot]>>>, Position) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        if after < inner.start {
            return (None, inner.last);
        }
        let at = inner.blocks.partition_point(|block| block.last <= after);
        (Some(inner.blocks.range(at..).map(|block| block.slots.clone()).collect()), inner.last)
    }
}

impl Inner {
    fn drop_oldest(&mut self) {
        if let Some(block) = self.blocks.pop_front() {
            self.bytes -= block.bytes.len();
            self.entries -= block.slots.len();
            self.start = block.last;
        }
    }
}

/// The entries' frames in blocks of at most `SLICE_MAX` bytes (a single larger frame is a block of its own).
fn blocks(entries: &[Logged], writer: &mut Writer) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut bytes, mut slots) = (Vec::with_capacity(entries.len() * 384), Vec::with_capacity(entries.len()));
    for logged in entries {
        let Some(written) = writer.write(logged, &mut bytes) else { continue };
        let mut start = written.frame.start;
        if start > 0 && bytes.len() > SLICE_MAX {
            blocks.push(close(&bytes[..start], std::mem::take(&mut slots)));
            bytes.drain(..start);
            start = 0;
        }
        slots.push(Slot::of(logged, start, bytes.len()));
    }
    if !slots.is_empty() {
        blocks.push(close(&bytes, slots));
    }
    blocks
}

fn close(bytes: &[u8], slots: Vec<Slot>) -> Block {
    let last = slots.last().map_or(Position::ZERO, |slot| slot.position);
    Block { bytes: Bytes::copy_from_slice(bytes), slots: slots.into(), last }
}

impl Slot {
    fn of(logged: &Logged, start: usize, end: usize) -> Self {
        let offset = |at: usize| u32::try_from(at).expect("a block is one slice or one frame, far below 4 GiB");
        Self {
            position: logged.position,
            job: logged.job,
            job_type: logged.job_type.clone(),
            owner: logged.owner.clone(),
            tags: logged.tags.clone(),
            event_type: logged.entry.event_type().unwrap_or_default(),
            is_terminal: logged.entry.is_terminal(),
            start: offset(start),
            end: offset(end),
        }
    }
}
