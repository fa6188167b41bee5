//! What the core's thread tells the world after each commit, and what readers are handed.
//!
//! In: heads and entries that are synced. Out: heads, ring and watermark, in that order, and then the wake-ups: whoever
//! is woken, and whoever sees an event, finds everything that belongs to it. Never blocks the core on a reader.

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::frame::Writer;
use super::heads::{ENDED_MAX, Heads};
use super::readers::Readers;
use super::registry::Registry;
use super::ring::{RING_BYTES_MAX, RING_ENTRIES_MAX, Ring};
use super::{Error, ResetReason, Start, replay};
use crate::job::{Epoch, Head, JobId, Logged, Position};
use crate::store::{self, Bounds, Store};

/// Entries that the ring takes from the store at start, so that clients that come back after a restart, all at once and
/// near the end of the log, do not each read it.
pub const PRELOAD_MAX: u64 = 4_096;

/// Pause of the announcer after it woke 1,000 feed readers; more take as much longer (a wake costs 6.7 µs).
pub const PAUSE_PER_1000: Duration = Duration::from_millis(5);

/// How much of the recent past stays in memory.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Bytes of frames in the ring.
    pub ring_bytes: usize,
    /// Visible entries in the ring.
    pub ring_entries: usize,
    /// Heads of ended jobs.
    pub ended: usize,
    /// Entries that are taken from the store at start.
    pub preload: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        let (ring_bytes, ring_entries) = (RING_BYTES_MAX, RING_ENTRIES_MAX);
        Self { ring_bytes, ring_entries, ended: ENDED_MAX, preload: PRELOAD_MAX }
    }
}

/// Counts for `/metrics`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Streams that are open.
    pub streams: AtomicUsize,
    /// Resets that were sent on streams.
    pub resets: AtomicU64,
    /// Visible entries published.
    pub events: AtomicU64,
}

/// See the module. One for the process, shared.
pub struct Published {
    /// Heads of unfinished and lately ended jobs.
    pub heads: Heads,
    /// Who waits.
    pub registry: Arc<Registry>,
    /// The way to the store for async code.
    pub readers: Readers,
    /// For `/metrics`.
    pub counters: Counters,
    pub(super) epoch: Epoch,
    pub(super) ring: Ring,
    /// Copied by those who write frames elsewhere.
    pub(super) writer: Writer,
    /// The core's own.
    live_writer: Mutex<Writer>,
    floor: AtomicU64,
    /// How far pages have reached: they may be a commit ahead of the ring.
    paged: AtomicU64,
    news: Notify,
}

impl Published {
    /// What the store holds, as published. `live`: the heads of all unfinished jobs. `base_url` stands before paths in
    /// payloads (`public_url` without a slash at its end; empty: they are paths). Reads the store; starts threads.
    ///
    /// # Errors
    /// `Unreadable`.
    pub fn new(store: &Arc<dyn Store>, live: Vec<Arc<Head>>, base_url: &str) -> Result<Arc<Self>, Error> {
        Self::with_sizes(store, live, base_url, Sizes::default())
    }

    /// As `new`, with other sizes.
    ///
    /// # Errors
    /// `Unreadable`.
    pub fn with_sizes(
        store: &Arc<dyn Store>,
        live: Vec<Arc<Head>>,
        base_url: &str,
        sizes: Sizes,
    ) -> Result<Arc<Self>, Error> {
        let Bounds { epoch, floor, last } = store.bounds();
        let mut writer = Writer::new(epoch, base_url);
        let start = Position(last.0.saturating_sub(sizes.preload).max(floor.0 - 1));
        let ring = Ring::new(start, sizes.ring_bytes, sizes.ring_entries);
        preload(&**store, &ring, last, &mut writer)?;
        let readers = Readers::start(store).map_err(|why| store::Error::Unavailable(why.to_string()))?;
        Ok(Arc::new(Self {
            heads: Heads::new(live, sizes.ended),
            registry: Registry::new(last),
            readers,
            counters: Counters::default(),
            epoch,
            ring,
            live_writer: Mutex::new(writer.clone()),
            writer,
            floor: AtomicU64::new(floor.0),
            paged: AtomicU64::new(last.0),
            news: Notify::new(),
        }))
    }

    /// Makes a synced commit visible: the heads as they are now, and the entries in order, quiet ones included. Called by
    /// one thread, the core's; takes time for the entries and for those who wait for these jobs, not for other readers.
    pub fn publish(&self, changed: Vec<Arc<Head>>, entries: &[Logged]) {
        let jobs: Vec<JobId> = changed.iter().map(|head| head.job.id()).collect();
        for head in changed {
            self.heads.set(head);
        }
        let visible = {
            let mut writer = self.live_writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.ring.push(entries, &mut writer)
        };
        self.counters.events.fetch_add(visible as u64, Ordering::Relaxed);
        self.registry.wake_jobs(jobs.into_iter());
        if visible > 0 && self.registry.feed_waits() {
            self.news.notify_one();
        }
    }

    /// The task that wakes feed readers: at once after a quiet time, else as often as `PAUSE_PER_1000` allows. Runs
    /// until it is dropped; to be spawned once, since without it the feed is silent.
    pub fn announcer(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let published = self.clone();
        async move {
            loop {
                published.news.notified().await;
                let woken = u32::try_from(published.announce()).unwrap_or(u32::MAX);
                let pause = PAUSE_PER_1000.saturating_mul(woken) / 1_000;
                if pause.is_zero() {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Wakes the feed readers that what was published since the last call concerns. Returns how many.
    pub fn announce(&self) -> usize {
        let (entries, last) = self.ring.since(self.registry.checked());
        self.registry.announce(entries.as_deref(), last)
    }

    /// The log as far as it is published.
    pub fn bounds(&self) -> Bounds {
        Bounds { epoch: self.epoch, floor: Position(self.floor.load(Ordering::SeqCst)), last: self.ring.last() }
    }

    /// A page has reached so far.
    pub(super) fn paged_to(&self, last: Position) {
        self.paged.fetch_max(last.0, Ordering::SeqCst);
    }

    /// The last position that anybody can have been given.
    fn reach(&self) -> Position {
        self.ring.last().max(Position(self.paged.load(Ordering::SeqCst)))
    }

    /// The store has forgotten what lies below `floor`. Lower than before changes nothing.
    pub fn raise_floor(&self, floor: Position) {
        self.floor.fetch_max(floor.0, Ordering::SeqCst);
        self.ring.trim(floor);
    }

    /// The store has forgotten these jobs: their streams end.
    pub fn forget_heads(&self, jobs: &[JobId]) {
        self.heads.forget(jobs);
        self.registry.wake_jobs(jobs.iter().copied());
    }

    /// Where a feed reader begins, and what has to be said first.
    pub(super) fn feed_start(&self, start: Start) -> (Position, Option<ResetReason>) {
        let Bounds { floor, last, .. } = self.bounds();
        let earliest = Position(floor.0 - 1);
        match start {
            Start::Now => (last, None),
            Start::Earliest => (earliest, None),
            Start::After(id) if id.epoch != self.epoch => (earliest, Some(ResetReason::OtherLog)),
            Start::After(id) if id.position > self.reach() => (earliest, Some(ResetReason::Ahead)),
            Start::After(id) if id.position < earliest => (earliest, Some(ResetReason::Trimmed)),
            Start::After(id) => (id.position, None),
        }
    }

    /// The same for a job's stream, which knows no floor: what is kept of a job is kept whole.
    pub(super) fn job_start(&self, start: Start) -> (Position, Option<ResetReason>) {
        match start {
            Start::Now => (self.ring.last(), None),
            Start::Earliest => (Position::ZERO, None),
            Start::After(id) if id.epoch != self.epoch => (Position::ZERO, Some(ResetReason::OtherLog)),
            Start::After(id) if id.position > self.reach() => (Position::ZERO, Some(ResetReason::Ahead)),
            Start::After(id) => (id.position, None),
        }
    }

    /// How many of the job's entries lie at or before the position. What a page showed ahead of the ring, a head in memory
    /// may not know yet: the store does.
    pub(super) async fn passed(&self, head: &Arc<Head>, at: Position) -> Result<u64, Error> {
        let is_ahead = at > self.ring.last();
        if !is_ahead && let Some(passed) = replay::passed_in_memory(head, at) {
            return Ok(passed);
        }
        let head = head.clone();
        let read = move |store: &dyn Store| {
            let newer = if is_ahead { store.job(head.job.id())? } else { None };
            replay::passed(store, &newer.unwrap_or(head), at)
        };
        self.readers.ask(read).await?
    }
}

fn preload(store: &dyn Store, ring: &Ring, last: Position, writer: &mut Writer) -> Result<(), Error> {
    while ring.last() < last {
        let entries = store.events(ring.last(), replay::BATCH)?;
        if entries.is_empty() {
            break;
        }
        ring.push(&entries, writer);
    }
    Ok(())
}
