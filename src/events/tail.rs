//! A reader: a scope and a cursor, and nothing queued. Live and replay are one loop.
//!
//! In: polls. Out: slices of frames that follow the cursor, each entry once, in order; where something is missing, that
//! is said first. Takes from the ring, and further behind asks a reader thread; never blocks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::readers::Answer;
use super::registry::Wait;
use super::replay::{self, FeedStep, Limits, Step};
use super::ring::{Found, SCAN_MAX, SLICE_MAX, Taken};
use super::{Error, Filter, Published, Reset, ResetReason, Start, frame};
use crate::job::{EventId, Head, JobId, Position};

/// A reader of the feed or of one job's stream. Cheap: it holds no frames.
pub struct Tail {
    published: Arc<Published>,
    follows: Follows,
    cursor: Position,
    wait: Wait,
    /// Said before anything else.
    reset: Option<ResetReason>,
    is_over: bool,
    /// It has read everything since it was last woken: then the registry knows how far there is nothing for it.
    is_idle: bool,
}

enum Follows {
    Feed { filter: Arc<Filter>, reading: Option<Answer<Result<FeedStep, Error>>> },
    Job { id: JobId, passed: u64, reading: Option<Answer<Result<Step, Error>>> },
}

/// What one turn of the loop came to.
enum Turn {
    /// Frames, and the position of the first.
    Frames(Bytes, Position),
    /// Nothing yet; go on.
    Again,
    /// Everything is read: wait.
    End,
}

impl Tail {
    /// A reader of the feed. The first poll says what is missing, if the start does not connect.
    pub fn feed(published: &Arc<Published>, filter: Filter, start: Start) -> Self {
        let filter = Arc::new(filter);
        let wait = published.registry.feed(&filter);
        let (cursor, reset) = published.feed_start(start);
        Self::new(published, wait, cursor, reset, Follows::Feed { filter, reading: None })
    }

    /// A reader of this job's stream. Asks the store only if the cursor lies beyond what the head remembers.
    ///
    /// # Errors
    /// `Busy`, `Unreadable`.
    pub async fn job(published: &Arc<Published>, head: &Arc<Head>, start: Start) -> Result<Self, Error> {
        let id = head.job.id();
        let wait = published.registry.job(id);
        // Again after registering: it may have moved on meanwhile.
        let head = published.heads.get(id).unwrap_or_else(|| head.clone());
        let (cursor, reset) = published.job_start(start);
        let passed = published.passed(&head, cursor).await?;
        let mut tail = Self::new(published, wait, cursor, reset, Follows::Job { id, passed, reading: None });
        tail.is_over = replay::is_over(&head, passed);
        Ok(tail)
    }

    fn new(
        published: &Arc<Published>,
        wait: Wait,
        cursor: Position,
        reset: Option<ResetReason>,
        follows: Follows,
    ) -> Self {
        published.counters.streams.fetch_add(1, Ordering::Relaxed);
        Self { published: published.clone(), follows, cursor, wait, reset, is_over: false, is_idle: false }
    }

    /// The job has ended and nothing follows the cursor, ever: nothing will come (HTTP 204).
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Everything that passes up to here has been given out.
    pub fn cursor(&self) -> EventId {
        EventId { epoch: self.published.epoch, position: self.cursor }
    }

    /// What it gives out follows the cursor it was given; false: a reset is due first.
    pub fn connects(&self) -> bool {
        self.reset.is_none()
    }

    /// On the feed entries are passed over that the client never hears of, so its cursor has to be told (design 6).
    pub fn is_filtered(&self) -> bool {
        match &self.follows {
            Follows::Feed { filter, .. } => !filter.admits_all(),
            Follows::Job { .. } => false,
        }
    }

    /// It reads the feed, not one job's stream.
    pub fn is_feed(&self) -> bool {
        match &self.follows {
            Follows::Feed { .. } => true,
            Follows::Job { .. } => false,
        }
    }

    /// Whole frames that follow, at most 64 KiB unless a single one is larger. `None` once the job has ended and all is
    /// given out. After an error there is nothing more.
    ///
    /// Between two polls it may lie idle for as long as it likes: what it misses it reads from the store.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.skip_checked();
        loop {
            let turn = match ready!(self.poll_turn(cx)) {
                Ok(turn) => turn,
                Err(error) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            match turn {
                Turn::Frames(bytes, first) => {
                    let bytes = self.with_reset(bytes, first);
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Turn::Again | Turn::End if self.reset.is_some() => {
                    let bytes = self.with_reset(Bytes::new(), self.cursor.next());
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Turn::Again => {
                    // Others' turn: looking for what passes a filter can take long.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::End if self.is_over => return Poll::Ready(None),
                Turn::End => {
                    self.is_idle = true;
                    ready!(self.wait.poll_woken(cx));
                    self.is_idle = false;
                }
            }
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Turn, Error>> {
        match &self.follows {
            _ if self.is_over && self.reset.is_none() => Poll::Ready(Ok(Turn::End)),
            Follows::Feed { .. } => self.poll_feed(cx),
            Follows::Job { .. } => self.poll_job(cx),
        }
    }

    fn poll_feed(&mut self, cx: &mut Context<'_>) -> Poll<Result<Turn, Error>> {
        let Follows::Feed { filter, reading } = &mut self.follows else { return Poll::Ready(Ok(Turn::End)) };
        if reading.is_none() {
            match self.published.ring.take(self.cursor, filter) {
                Taken::Frames { bytes, first, cursor } => {
                    self.cursor = cursor;
                    return Poll::Ready(Ok(Turn::Frames(bytes, first)));
                }
                Taken::Moved(cursor) => {
                    self.cursor = cursor;
                    return Poll::Ready(Ok(Turn::Again));
                }
                Taken::End(cursor) => {
                    self.cursor = cursor;
                    return Poll::Ready(Ok(Turn::End));
                }
                Taken::Behind => {
                    let (writer, cursor, limits) = (&self.published.writer, self.cursor, limits(&self.published));
                    let answer = self.published.readers.poll_ask(cx, || {
                        let (mut writer, filter) = (writer.clone(), filter.clone());
                        move |store| replay::feed(store, &mut writer, &filter, cursor, &limits)
                    });
                    *reading = Some(ready!(answer));
                }
            }
        }
        let Some(answer) = reading else { return Poll::Ready(Ok(Turn::Again)) };
        let step = ready!(Pin::new(answer).poll(cx));
        *reading = None;
        Poll::Ready(Ok(match step?? {
            FeedStep::Follows(step) => self.follow(step),
            FeedStep::Trimmed(floor) => {
                self.cursor = Position(floor.0 - 1);
                self.reset = self.reset.or(Some(ResetReason::Trimmed));
                // Not `Again`: the reset names what follows, which has to be read first.
                return self.poll_feed(cx);
            }
        }))
    }

    fn poll_job(&mut self, cx: &mut Context<'_>) -> Poll<Result<Turn, Error>> {
        let Follows::Job { id, passed, reading } = &mut self.follows else { return Poll::Ready(Ok(Turn::End)) };
        if reading.is_none() {
            if let Some(head) = self.published.heads.get(*id)
                && let Some((turn, cursor)) = from_ring(&self.published, &head, passed)
            {
                self.cursor = cursor.unwrap_or(self.cursor);
                self.is_over = replay::is_over(&head, *passed);
                return Poll::Ready(Ok(turn));
            }
            let (writer, limits, job, passed) = (&self.published.writer, limits(&self.published), *id, *passed);
            let answer = self.published.readers.poll_ask(cx, || {
                let mut writer = writer.clone();
                move |store| replay::job(store, &mut writer, job, passed, &limits)
            });
            *reading = Some(ready!(answer));
        }
        let Some(answer) = reading else { return Poll::Ready(Ok(Turn::Again)) };
        let step = ready!(Pin::new(answer).poll(cx));
        *reading = None;
        let step = step??;
        self.is_over = step.is_over;
        *passed = step.passed;
        Poll::Ready(Ok(self.follow(step)))
    }

    /// Takes over what a reader thread found.
    fn follow(&mut self, step: Step) -> Turn {
        let has_moved = step.cursor > self.cursor;
        self.cursor = self.cursor.max(step.cursor);
        match step.first {
            Some(first) => Turn::Frames(step.bytes.into(), first),
            None if has_moved => Turn::Again,
            None => Turn::End,
        }
    }

    /// The frames, after the reset if one is due. When nothing follows it yet, the client gets the cursor all the same:
    /// its own is worth nothing.
    fn with_reset(&mut self, frames: Bytes, first: Position) -> Bytes {
        let Some(reason) = self.reset.take() else { return frames };
        self.published.counters.resets.fetch_add(1, Ordering::Relaxed);
        let epoch = self.published.epoch;
        let first_event_id = EventId { epoch, position: first };
        let mut bytes = frame::reset(&Reset { reason, first_event_id });
        bytes.extend_from_slice(&frames);
        if frames.is_empty() {
            bytes.extend_from_slice(&frame::cursor(self.cursor()));
        }
        bytes.into()
    }

    /// A feed reader that had read everything and was not woken since has nothing to read as far as the registry has
    /// checked: its cursor moves on without a look.
    fn skip_checked(&mut self) {
        // In this order: a wake is marked before the check counts.
        let checked = self.published.registry.checked();
        if self.is_idle && self.is_feed() && !self.wait.is_woken() {
            self.cursor = self.cursor.max(checked);
        }
        self.is_idle = false;
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.published.counters.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What follows the first `passed` entries of a job whose head is in memory, if the ring has it; moves `passed` on.
fn from_ring(published: &Published, head: &Head, passed: &mut u64) -> Option<(Turn, Option<Position>)> {
    let mut cursor = None;
    loop {
        let at = passed.checked_sub(replay::count(head) - head.trail.recent.len() as u64)?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(position) = head.trail.recent.get(at).copied() else { return Some((Turn::End, cursor)) };
        match published.ring.find(position) {
            Found::Frame(bytes, _) => {
                *passed += 1;
                return Some((Turn::Frames(bytes, position), Some(position)));
            }
            Found::Quiet => {
                *passed += 1;
                cursor = Some(position);
            }
            // The heads are published a moment before the ring; a wake follows.
            Found::Ahead => return Some((Turn::End, cursor)),
            Found::Behind => return None,
        }
    }
}

fn limits(published: &Published) -> Limits {
    Limits { upto: published.ring.last(), bytes: SLICE_MAX, events: usize::MAX, scan: SCAN_MAX }
}
