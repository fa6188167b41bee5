//! The time, and chance: the system's, or moved by hand.
//!
//! The only file that reads the system clock. Everything else is handed a `Clock`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::job::{JobId, Millis, Timestamp};

/// Where time and ids come from.
pub trait Clock: Send + Sync {
    /// The time of day. May jump either way when somebody sets the clock.
    fn now(&self) -> Timestamp;

    /// Time since some moment in the past, never going back: for measuring lengths.
    fn tick(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now().0).unwrap_or(0))
    }

    /// How long until `when`, for a timer; zero if it has come.
    fn until(&self, when: Timestamp) -> Millis {
        when.since(self.now())
    }

    /// A receiver that hears when `when` has come.
    fn at(&self, when: Timestamp) -> crossbeam_channel::Receiver<Instant>;

    /// A fresh job id: UUID v7 of now with 74 random bits.
    fn job_id(&self) -> JobId;

    /// A number from 0 up to 1, by chance.
    fn chance(&self) -> f64 {
        // The last 53 bits of an id are random and fill a float's precision.
        let bits = u64::try_from(self.job_id().as_u128() & ((1 << 53) - 1)).unwrap_or(0);
        bits as f64 / (1u64 << 53) as f64
    }
}

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct System;

/// A wait for the time of day looks again at least this often, in case the clock was set.
const LOOK_AGAIN: Millis = Millis::seconds(60);

impl Clock for System {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn tick(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    fn at(&self, when: Timestamp) -> crossbeam_channel::Receiver<Instant> {
        crossbeam_channel::after(self.until(when).min(LOOK_AGAIN).duration())
    }

    fn job_id(&self) -> JobId {
        // `now_v7` shares bits within a millisecond and leaves 32 random ones (design 10).
        JobId::from_u128(uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).as_u128())
    }
}

/// A clock that stands still until it is moved: tests run a year in a millisecond.
#[derive(Clone, Default)]
pub struct Manual {
    state: Arc<Mutex<ManualState>>,
}

#[derive(Default)]
struct ManualState {
    now: Timestamp,
    ids: u64,
    waiting: BTreeMap<Timestamp, Vec<crossbeam_channel::Sender<Instant>>>,
}

impl Manual {
    /// A clock that shows `now`.
    pub fn at_time(now: Timestamp) -> Self {
        Self { state: Arc::new(Mutex::new(ManualState { now, ..ManualState::default() })) }
    }

    /// How many wait for it to be moved.
    pub fn timers(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.values().map(Vec::len).sum()
    }

    /// Moves on by `length` and wakes whom that concerns.
    pub fn advance(&self, length: Millis) {
        let target = self.now().plus(length);
        self.set(target);
    }

    /// Shows `now`, earlier or later than before.
    pub fn set(&self, now: Timestamp) {
        let due = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.now = now;
            let later = state.waiting.split_off(&Timestamp(now.0.saturating_add(1)));
            std::mem::replace(&mut state.waiting, later)
        };
        for sender in due.into_values().flatten() {
            // Nobody waits there any more: nothing to do.
            let _ = sender.try_send(Instant::now());
        }
    }
}

impl Clock for Manual {
    fn now(&self) -> Timestamp {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    fn at(&self, when: Timestamp) -> crossbeam_channel::Receiver<Instant> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if when <= state.now {
            let _ = sender.try_send(Instant::now());
        } else {
            state.waiting.entry(when).or_default().push(sender);
        }
        receiver
    }

    fn job_id(&self) -> JobId {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ids += 1;
        let millis = u64::try_from(state.now.0).unwrap_or(0);
        let random = u128::from(state.ids).to_be_bytes();
        let mut tail = [0; 10];
        tail.copy_from_slice(&random[6..]);
        JobId::from_u128(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid().as_u128())
    }
}
