//! Delivers one subscription's events: from its watermark on, each until it is acknowledged or given up.
//!
//! In: the log. Out: attempts, and a watermark that is kept. Events are first tried in the log's order; one that fails waits for its next try
//! while others go on, up to a limit. What was not acknowledged when the process ended is told again: at least once, never silently less.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::super::super::standing::next;
use super::super::kinds::Wanted;
use super::super::{is_older, push_occurrence};
use super::record::Live;
use super::{Webhooks, envelope, outcome};
use crate::events::{self, Label, Scope, Seen, Start, Tail};
use crate::job::{EventId, Position, Timestamp};
use crate::service::Viewer;

/// How long after the first, second, third and fourth failure an event is tried again; after the fifth it is given up.
pub const RETRY_AFTER: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(180), Duration::from_secs(480)];
/// Most events of one subscription that wait for another try; then the log is not read on.
pub const RETRYING_MAX: usize = 16;
/// A watermark that moves is written at most so often; what is told twice after a crash is what moved since.
pub const SAVE_EVERY: Duration = Duration::from_secs(1);
/// And where nothing passes, so often.
pub const QUIET_SAVE_EVERY: Duration = Duration::from_secs(60);
/// A gap that could not be told is told again after so long.
const GAP_AGAIN: Duration = Duration::from_secs(60);

/// An event on its way.
struct Parcel {
    id: EventId,
    message: String,
    body: Bytes,
    failures: usize,
}

/// One subscription's deliveries.
pub(super) struct Delivery {
    hooks: Arc<Webhooks>,
    live: Arc<Live>,
    wanted: Wanted,
    oldest: Option<Timestamp>,
    tail: Tail,
    fresh: VecDeque<Parcel>,
    /// By when they are due; the position tells those of one moment apart.
    waiting: BTreeMap<(Instant, Position), Parcel>,
    /// Something was lost, which is to be told by then.
    gap: Option<Instant>,
    /// The watermark that was written last, and when.
    saved: (EventId, Instant),
    /// Something was tried since.
    is_dirty: bool,
}

impl Delivery {
    /// Deliveries from the watermark on; `None` if that cannot be done, which is logged.
    pub(super) async fn open(hooks: &Arc<Webhooks>, live: &Arc<Live>, viewer: &Viewer) -> Option<Self> {
        let (key, cursor, oldest) = live.with(|record| (record.key.clone(), record.cursor(), record.oldest));
        let arguments = serde_json::from_str(&key.arguments).ok();
        let wanted = Wanted::of(&hooks.dialect, &key.name, arguments).ok()?;
        let cursor = cursor?;
        let tail = hooks.service.tail(viewer, Scope::Feed(wanted.filter()), Start::After(cursor)).await.ok()?;
        Some(Self {
            hooks: hooks.clone(),
            live: live.clone(),
            wanted,
            oldest: oldest.map(Timestamp),
            tail,
            fresh: VecDeque::new(),
            waiting: BTreeMap::new(),
            gap: None,
            saved: (cursor, Instant::now()),
            is_dirty: false,
        })
    }

    /// Delivers until the subscription is over or the server stops.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            if self.live.is_over() {
                return;
            }
            if self.live.is_expired(self.hooks.clock.now()) {
                return self.hooks.drop_live(&self.live).await;
            }
            if *stop.borrow() {
                return self.save().await;
            }
            let is_stopped = tokio::select! {
                biased;
                stopped = stop.wait_for(|stop| *stop) => stopped.is_err(),
                is_broken = self.step() => is_broken,
            };
            if is_stopped {
                return self.save().await;
            }
        }
    }

    /// One attempt, or a wait for something to do. Dropping it gives an attempt up, but no event. True: the log cannot be read.
    async fn step(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.save_due() {
            if self.is_dirty || self.watermark() != self.saved.0 {
                self.save().await;
            }
            self.saved.1 = now;
            return false;
        }
        if self.live.with(|record| record.suspended) {
            self.rest(now).await;
            return false;
        }
        if self.gap.is_some_and(|due| due <= now) {
            self.tell_gap().await;
            return false;
        }
        let retry = self.waiting.first_key_value().map(|((due, _), _)| *due);
        if retry.is_some_and(|due| due <= now) || !self.fresh.is_empty() {
            self.attempt(retry.is_some_and(|due| due <= now)).await;
            return false;
        }
        let has_room = self.waiting.len() < RETRYING_MAX;
        let due = [retry, self.gap, Some(self.save_due())].into_iter().flatten().fold(self.expiry(now), Instant::min);
        tokio::select! {
            biased;
            () = self.live.changed.notified() => {}
            frames = next(&mut self.tail), if has_room => match frames {
                Some(Ok(frames)) => self.take(&frames),
                Some(Err(_)) | None => return true,
            },
            () = sleep_until(due) => {}
        }
        false
    }

    /// Does nothing until its client comes back. What waits for another try waits on, and the log is not read.
    async fn rest(&self, now: Instant) {
        tokio::select! {
            () = self.live.changed.notified() => {}
            () = sleep_until(self.expiry(now).min(self.save_due())) => {}
        }
    }

    fn expiry(&self, now: Instant) -> Instant {
        now + self.hooks.clock.until(Timestamp(self.live.with(|record| record.expires))).duration()
    }

    /// Everything up to here was acknowledged or given up.
    fn watermark(&self) -> EventId {
        let open = self.fresh.iter().chain(self.waiting.values()).map(|parcel| parcel.id.position).min();
        let done = self.tail.cursor();
        open.map_or(done, |open| EventId { position: Position(open.0.saturating_sub(1)), ..done })
    }

    /// When the watermark is to be written, if it has moved.
    fn save_due(&self) -> Instant {
        self.saved.1 + if self.is_dirty { SAVE_EVERY } else { QUIET_SAVE_EVERY }
    }

    async fn save(&mut self) {
        let watermark = self.watermark();
        self.live.with(|record| record.watermark = watermark.to_string().into());
        if let Err(refused) = self.live.save(&self.hooks.service).await {
            tracing::debug!(?refused, "a watermark is not written; what follows it may be told twice");
        }
        (self.saved, self.is_dirty) = ((watermark, Instant::now()), false);
    }

    /// Takes what the log gave out.
    fn take(&mut self, frames: &[u8]) {
        for seen in events::split(frames) {
            let envelope = match seen {
                Seen::Event { envelope, .. } => envelope.as_bytes(),
                Seen::Reset => {
                    self.gap = Some(Instant::now());
                    continue;
                }
                Seen::Cursor(_) => continue,
            };
            let label = events::label(envelope).filter(|label| self.wanted.admits(label));
            if let Some(label) = label.filter(|label| !is_older(label, self.oldest)) {
                let parcel = self.parcel(&label, envelope);
                self.fresh.push_back(parcel);
            }
        }
    }

    fn parcel(&self, label: &Label<'_>, envelope: &[u8]) -> Parcel {
        let mut body = b"{".to_vec();
        push_occurrence(&mut body, self.wanted.name, label, envelope);
        // What everybody else has acknowledged so far: safe to come back with.
        let safe = self.live.with(|record| record.watermark.clone());
        body.extend_from_slice(format!(",\"cursor\":\"{safe}\"}}").as_bytes());
        Parcel { id: label.id, message: self.hooks.message_id(label.id), body: body.into(), failures: 0 }
    }

    /// Tries the event that is due, or the next fresh one.
    async fn attempt(&mut self, is_retry: bool) {
        let (message, body) = {
            let next = if is_retry { self.waiting.values().next() } else { self.fresh.front() };
            let Some(parcel) = next else { return };
            (parcel.message.clone(), parcel.body.clone())
        };
        let Some(told) = self.hooks.send(&self.live, &message, body).await else { return };
        // Only now is it taken out: an attempt that is given up changes nothing.
        let taken = if is_retry { self.waiting.pop_first().map(|(_, parcel)| parcel) } else { self.fresh.pop_front() };
        let Some(mut parcel) = taken else { return };
        let now = self.hooks.clock.now();
        match outcome::of(&told) {
            Ok(()) => self.live.with(|record| record.accepted(now)),
            Err(failed) => {
                self.live.with(|record| record.failed(failed.category, now));
                parcel.failures += 1;
                match RETRY_AFTER.get(parcel.failures - 1) {
                    // The receiver does not want this one: nothing is lost that it would miss.
                    Some(_) if failed.is_final => {}
                    Some(after) => {
                        self.waiting.insert((Instant::now() + *after, parcel.id.position), parcel);
                    }
                    None => self.gap = Some(Instant::now()),
                }
            }
        }
        let watermark = self.watermark();
        self.live.with(|record| record.watermark = watermark.to_string().into());
        self.is_dirty = true;
    }

    async fn tell_gap(&mut self) {
        let (message, body) = (self.hooks.control_id("gap"), envelope::gap(&self.watermark().to_string()));
        let Some(told) = self.hooks.send(&self.live, &message, body).await else { return };
        self.gap = outcome::of(&told).is_err().then(|| Instant::now() + GAP_AGAIN);
    }
}
