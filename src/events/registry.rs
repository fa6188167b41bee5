//! Who waits for what. A commit wakes those it concerns, and nobody else (design 6).
//!
//! In: waiters, under a job or under a filter of the feed; and what was published. Out: wake-ups, which carry nothing:
//! whoever is woken reads the heads, the ring or the store. No lock is held while somebody is woken.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::Filter;
use super::ring::Slot;
use crate::job::{JobId, Position};

const SHARDS: usize = 64;

/// How often one announcement holds an entry against a filter before it gives up and wakes every feed reader.
pub const LOOKS_MAX: usize = 100_000;

type Cells = Slab<Arc<Cell>>;

/// One waiter: woken is set first, then the waker called; so it cannot be missed.
#[derive(Default)]
struct Cell {
    is_woken: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Cell {
    /// Marks it woken; its waker, if it is to be called.
    fn mark(&self) -> Option<Waker> {
        self.is_woken.store(true, Ordering::SeqCst);
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Default)]
struct Feed {
    groups: Slab<Group>,
    by_filter: HashMap<Arc<Filter>, usize>,
    /// Groups by the one thing that tells most: a job of the filter, else its owner, else nothing.
    by_job: HashMap<JobId, Vec<usize>>,
    by_owner: HashMap<Arc<str>, Vec<usize>>,
    open: Vec<usize>,
}

/// Feed readers with the same filter.
struct Group {
    filter: Arc<Filter>,
    cells: Cells,
}

/// See the module. Shared; every method is short.
pub struct Registry {
    jobs: Box<[Mutex<HashMap<JobId, Cells>>]>,
    job_waiters: AtomicUsize,
    feed: Mutex<Feed>,
    feed_waiters: AtomicUsize,
    /// Feed readers not woken so far have nothing to read up to here.
    checked: AtomicU64,
    wakes: AtomicU64,
}

impl Registry {
    /// A registry without waiters, at the watermark.
    pub fn new(last: Position) -> Arc<Self> {
        Arc::new(Self {
            jobs: (0..SHARDS).map(|_| Mutex::default()).collect(),
            job_waiters: AtomicUsize::new(0),
            feed: Mutex::default(),
            feed_waiters: AtomicUsize::new(0),
            checked: AtomicU64::new(last.0),
            wakes: AtomicU64::new(0),
        })
    }

    /// Waits for entries of a job. Register before you read: then nothing slips between.
    pub fn job(self: &Arc<Self>, job: JobId) -> Wait {
        let cell = Arc::<Cell>::default();
        self.job_waiters.fetch_add(1, Ordering::SeqCst);
        let slot = lock(self.shard(job)).entry(job).or_default().insert(cell.clone());
        Wait { registry: self.clone(), place: Place::Job(job, slot), cell }
    }

    /// Waits for entries of the feed that pass the filter. Register before you read.
    pub fn feed(self: &Arc<Self>, filter: &Arc<Filter>) -> Wait {
        let cell = Arc::<Cell>::default();
        self.feed_waiters.fetch_add(1, Ordering::SeqCst);
        let place = {
            let mut feed = lock(&self.feed);
            let group = feed.group(filter);
            Place::Feed(group, feed.groups[group].cells.insert(cell.clone()))
        };
        Wait { registry: self.clone(), place, cell }
    }

    /// Wakes who waits for these jobs. O(concerned).
    pub fn wake_jobs(&self, jobs: impl Iterator<Item = JobId>) {
        if self.job_waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut wakers = Vec::new();
        for job in jobs {
            if let Some(cells) = lock(self.shard(job)).get(&job) {
                wakers.extend(cells.iter().filter_map(|(_, cell)| cell.mark()));
            }
        }
        self.call(wakers);
    }

    /// Whether anybody waits for the feed.
    pub fn feed_waits(&self) -> bool {
        self.feed_waiters.load(Ordering::SeqCst) > 0
    }

    /// Wakes feed readers whose filter one of these entries passes (`None`: too many to look at, all of them), those
    /// looked at before apart, and settles that the others have nothing to read up to `last`. Returns how many were woken.
    pub fn announce(&self, entries: Option<&[Arc<[Slot]>]>, last: Position) -> usize {
        let checked = self.checked();
        let wakers = {
            let feed = lock(&self.feed);
            let concerned = entries.and_then(|entries| feed.concerned(entries, checked));
            let concerned: &mut dyn Iterator<Item = usize> = match &concerned {
                Some(groups) => &mut groups.iter().copied(),
                None => &mut feed.groups.iter().map(|(at, _)| at),
            };
            let cells = concerned.flat_map(|at| feed.groups[at].cells.iter());
            cells.filter_map(|(_, cell)| cell.mark()).collect()
        };
        self.checked.fetch_max(last.0, Ordering::SeqCst);
        self.call(wakers)
    }

    /// Up to here the feed readers that were not woken have nothing to read.
    pub fn checked(&self) -> Position {
        Position(self.checked.load(Ordering::SeqCst))
    }

    /// How many wake-ups there were.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    fn call(&self, wakers: Vec<Waker>) -> usize {
        let woken = wakers.len();
        self.wakes.fetch_add(woken as u64, Ordering::Relaxed);
        wakers.into_iter().for_each(Waker::wake);
        woken
    }

    fn shard(&self, job: JobId) -> &Mutex<HashMap<JobId, Cells>> {
        &self.jobs[(job.as_u128() % SHARDS as u128) as usize]
    }

    fn leave(&self, place: Place) {
        match place {
            Place::Job(job, slot) => {
                let mut shard = lock(self.shard(job));
                if let Some(cells) = shard.get_mut(&job) {
                    cells.try_remove(slot);
                    if cells.is_empty() {
                        shard.remove(&job);
                    }
                }
                self.job_waiters.fetch_sub(1, Ordering::SeqCst);
            }
            Place::Feed(group, slot) => {
                lock(&self.feed).leave(group, slot);
                self.feed_waiters.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

impl Feed {
    fn group(&mut self, filter: &Arc<Filter>) -> usize {
        if let Some(group) = self.by_filter.get(filter) {
            return *group;
        }
        let group = self.groups.insert(Group { filter: filter.clone(), cells: Cells::new() });
        self.by_filter.insert(filter.clone(), group);
        self.each_index(filter, |groups| groups.push(group));
        group
    }

    fn leave(&mut self, at: usize, slot: usize) {
        let group = &mut self.groups[at];
        group.cells.try_remove(slot);
        if !group.cells.is_empty() {
            return;
        }
        let filter = self.groups.remove(at).filter;
        self.by_filter.remove(&filter);
        self.each_index(&filter, |groups| groups.retain(|group| *group != at));
        for job in &filter.jobs {
            if self.by_job.get(job).is_some_and(Vec::is_empty) {
                self.by_job.remove(job);
            }
        }
        if let Some(owner) = &filter.owner
            && self.by_owner.get(owner).is_some_and(Vec::is_empty)
        {
            self.by_owner.remove(owner);
        }
    }

    /// The lists in which a group with this filter stands.
    fn each_index(&mut self, filter: &Filter, mut change: impl FnMut(&mut Vec<usize>)) {
        match (&filter.jobs[..], &filter.owner) {
            ([], None) => change(&mut self.open),
            ([], Some(owner)) => change(self.by_owner.entry(owner.clone()).or_default()),
            (jobs, _) => jobs.iter().for_each(|job| change(self.by_job.entry(*job).or_default())),
        }
    }

    /// The groups that one of the entries after `checked` concerns; `None` if finding out would take too long.
    fn concerned(&self, entries: &[Arc<[Slot]>], checked: Position) -> Option<Vec<usize>> {
        let mut concerned = Vec::new();
        let mut is_concerned = vec![false; self.groups.capacity()];
        let mut looks = 0;
        for slot in entries.iter().flat_map(|slots| slots.iter()).filter(|slot| slot.position > checked) {
            let lists = [self.by_job.get(&slot.job), self.by_owner.get(&slot.owner), Some(&self.open)];
            for group in lists.into_iter().flatten().flatten().copied() {
                looks += 1;
                if !is_concerned[group] && self.groups[group].filter.admits(slot) {
                    is_concerned[group] = true;
                    concerned.push(group);
                }
            }
            if concerned.len() == self.groups.len() {
                break;
            }
            if looks > LOOKS_MAX {
                return None;
            }
        }
        Some(concerned)
    }
}

#[derive(Clone, Copy)]
enum Place {
    Job(JobId, usize),
    Feed(usize, usize),
}

/// A place in the registry; given up when dropped.
///
/// ```text
/// let wait = registry.job(id);          // before the read
/// loop {
///     if let Some(found) = read() { return found }
///     wait.woken().await;
/// }
/// ```
pub struct Wait {
    registry: Arc<Registry>,
    place: Place,
    cell: Arc<Cell>,
}

impl Wait {
    /// Ready if something concerned it since it was registered or last ready; else the waker is called when it does.
    pub fn poll_woken(&self, cx: &Context<'_>) -> Poll<()> {
        if self.cell.is_woken.swap(false, Ordering::SeqCst) {
            return Poll::Ready(());
        }
        {
            let mut waker = self.cell.waker.lock().unwrap_or_else(PoisonError::into_inner);
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        if self.cell.is_woken.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until something concerns it.
    pub async fn woken(&self) {
        poll_fn(|cx| self.poll_woken(cx)).await;
    }

    /// Whether something concerned it and has not been asked for yet.
    pub fn is_woken(&self) -> bool {
        self.cell.is_woken.load(Ordering::SeqCst)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.registry.leave(self.place);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
