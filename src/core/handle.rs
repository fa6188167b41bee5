//! The way in: sends wishes to the core and hands back the wait for its answer.
//!
//! Async callers never block here: a full lane is `Busy`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::oneshot;

use super::disk::{Reserve, Room};
use super::inbox::{ActRefusal, CellsRefusal, Creation, Inner, ReplayRefusal, Submission, SubmitAnswer};
use super::pin::PinRefusal;
use super::sweep::Retention;
use crate::clock::Clock;
use crate::job::{Body, Command, Head, Job, JobId, Rules, Timestamp};
use crate::store::{CellChange, Health, Pin};

/// Why the core could not be asked, or did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// The lane is full right now: come back later.
    Full,
    /// The core has ended.
    Gone,
}

/// The core, to those who ask it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) inner: Sender<Inner>,
    pub(super) submit: Sender<Submission>,
    pub(super) signs: Arc<Signs>,
}

/// What the core shows of itself without being asked.
pub(super) struct Signs {
    draining: AtomicBool,
    held: AtomicBool,
    reserve: Reserve,
    retention: Retention,
    pub clock: Arc<dyn Clock>,
}

impl Signs {
    pub fn new(reserve: Reserve, retention: Retention, clock: Arc<dyn Clock>) -> Self {
        Self { draining: AtomicBool::new(false), held: AtomicBool::new(false), reserve, retention, clock }
    }

    /// Whether nothing is committed because the log has no room.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// How much room there is after `more` bytes.
    pub fn room(&self, disk: &Health, more: u64) -> Room {
        if self.is_held() { Room::None } else { self.reserve.room(disk, more) }
    }
}

impl Handle {
    /// Asks for a new job. The answer is durable when it comes.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn submit(&self, creation: Box<Creation>) -> Result<SubmitAnswer, Busy> {
        let (reply, answer) = oneshot::channel();
        self.submit.try_send(Submission { creation, reply }).map_err(|why| refused(&why))?;
        answer.await.map_err(|_| Busy::Gone)
    }

    /// Acts on an unfinished job. The answer, the head as it is then, is durable when it comes.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn act(&self, job: JobId, command: Command) -> Result<Result<Arc<Head>, ActRefusal>, Busy> {
        self.act_with(job, command, Vec::new()).await
    }

    /// The same, with the small bodies that the command names.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn act_with(
        &self,
        job: JobId,
        command: Command,
        bodies: Vec<Body>,
    ) -> Result<Result<Arc<Head>, ActRefusal>, Busy> {
        self.ask(|reply| Inner::Act { job, command, bodies, reply }).await
    }

    /// Makes a new job from a dead letter; the answer is the new job's head.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn replay(&self, of: JobId, creation: Box<Creation>) -> Result<Result<Arc<Head>, ReplayRefusal>, Busy> {
        self.ask(|reply| Inner::Replay { of, creation, reply }).await
    }

    /// Writes small named records, or none of them.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn cells(&self, cells: Vec<CellChange>) -> Result<Result<(), CellsRefusal>, Busy> {
        self.ask(|reply| Inner::Cells { cells, reply }).await
    }

    /// Keeps everything that there is now, for a backup, at most `PIN_MAX`.
    ///
    /// # Errors
    /// `Busy::Full`, `Busy::Gone`.
    pub async fn pin(&self) -> Result<Result<Pin, PinRefusal>, Busy> {
        self.ask(|reply| Inner::Pin { reply }).await
    }

    /// Ends a pin. Never blocks: if the lane is full, the pin ends by its time.
    pub fn unpin(&self, pin: Pin) {
        let _ = self.inner.try_send(Inner::Unpin(pin));
    }

    /// Whether new jobs are refused because the server shuts down.
    pub fn is_draining(&self) -> bool {
        self.signs.draining.load(Ordering::Relaxed)
    }

    /// How much room this disk has for what the core does.
    pub fn room(&self, disk: &Health) -> Room {
        self.signs.room(disk, 0)
    }

    /// Until when an ended job is kept, unless a bound on how many takes it sooner; `None` while it has not ended.
    pub fn kept_until(&self, job: &Job) -> Option<Timestamp> {
        job.status().is_terminal().then(|| self.signs.retention.of_age(job))
    }

    /// From now on jobs go by these rules, and jobs of other types wait until they have some. May block for room in the lane.
    pub fn configure(&self, rules: HashMap<Arc<str>, Rules>) {
        // A core that has ended goes by none.
        let _ = self.inner.send(Inner::Configure(rules));
    }

    /// From now on no job is accepted and no claim handed out. May block for room in the lane.
    pub fn drain(&self) {
        self.signs.draining.store(true, Ordering::Relaxed);
        // A core that has ended drains no more.
        let _ = self.inner.send(Inner::Drain);
    }

    /// Asks running attempts to come back uncounted. May block for room in the lane.
    pub fn release(&self) {
        let _ = self.inner.send(Inner::Release);
    }

    /// Ends the core: what still runs is released, the store closed. Its end is told by `Fatal`. May block.
    pub fn close(&self) {
        let _ = self.inner.send(Inner::Close);
    }

    async fn ask<T>(&self, wish: impl FnOnce(oneshot::Sender<T>) -> Inner) -> Result<T, Busy> {
        let (reply, answer) = oneshot::channel();
        self.inner.try_send(wish(reply)).map_err(|why| refused(&why))?;
        answer.await.map_err(|_| Busy::Gone)
    }
}

fn refused<T>(why: &TrySendError<T>) -> Busy {
    match why {
        TrySendError::Full(_) => Busy::Full,
        TrySendError::Disconnected(_) => Busy::Gone,
    }
}
