//! The log in pages: the same envelopes as on a stream, byte for byte, for those who do not hold a connection.
//!
//! In: a scope and a cursor. Out: one page and the cursor of the next. Always read from the store, by a reader thread.

use std::sync::Arc;

use bytes::Bytes;

use super::replay::{self, FeedStep, Limits, Step};
use super::{Error, Filter, Published, Reset, ResetReason, Start};
use crate::job::{EventId, Head, Position};
use crate::store::Store;

/// Most events on a page; asking for more gets so many.
pub const PAGE_MAX: usize = 1_000;
/// A page ends early when its frames would take more bytes than this.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A page ends early, even without an event, after so many entries were looked at.
pub const PAGE_SCAN_MAX: usize = 20_000;

/// A page of the log as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Event envelopes, each one line of JSON.
    pub events: Vec<Bytes>,
    /// Where the next page begins.
    pub cursor: EventId,
    /// More is there already, or there is more to look at.
    pub has_more: bool,
    /// The `reset` object, where one is due.
    pub reset: Option<Reset>,
}

/// A step, and the reset that is due before it.
type Read = (Step, Option<ResetReason>);

impl Published {
    /// A page of the feed.
    ///
    /// # Errors
    /// `Busy`, `Unreadable`.
    pub async fn feed_page(&self, filter: Filter, start: Start, limit: usize) -> Result<Page, Error> {
        let (after, reset) = self.feed_start(start);
        let mut writer = self.writer.clone();
        let read = move |store: &dyn Store| {
            let limits = page_limits(store, limit);
            let (mut after, mut reset) = (after, reset);
            loop {
                match replay::feed(store, &mut writer, &filter, after, &limits)? {
                    FeedStep::Follows(step) => {
                        return Ok::<Read, Error>((step, reset));
                    }
                    FeedStep::Trimmed(floor) => {
                        after = Position(floor.0 - 1);
                        reset = reset.or(Some(ResetReason::Trimmed));
                    }
                }
            }
        };
        let (step, reset) = self.readers.ask(read).await??;
        Ok(self.page(step, reset))
    }

    /// A page of a job's stream.
    ///
    /// # Errors
    /// `Busy`, `Forgotten`, `Unreadable`.
    pub async fn job_page(&self, head: &Arc<Head>, start: Start, limit: usize) -> Result<Page, Error> {
        let (after, reset) = self.job_start(start);
        let (mut writer, id) = (self.writer.clone(), head.job.id());
        let read = move |store: &dyn Store| {
            let limits = page_limits(store, limit);
            let passed = replay::passed(store, &*store.job(id)?.ok_or(Error::Forgotten)?, after)?;
            let mut step = replay::job(store, &mut writer, id, passed, &limits)?;
            // Another job's entry may have been the cursor: it stays one where nothing follows.
            step.cursor = step.cursor.max(after);
            Ok::<Read, Error>((step, reset))
        };
        let (step, reset) = self.readers.ask(read).await??;
        Ok(self.page(step, reset))
    }

    fn page(&self, step: Step, reset: Option<ResetReason>) -> Page {
        self.paged_to(step.cursor);
        let id = |position| EventId { epoch: self.epoch, position };
        let first = step.first.unwrap_or_else(|| step.cursor.next());
        let reset = reset.map(|reason| Reset { reason, first_event_id: id(first) });
        let bytes = Bytes::from(step.bytes);
        let events = step.frames.into_iter().map(|frame| bytes.slice(frame.envelope)).collect();
        Page { events, cursor: id(step.cursor), has_more: step.has_more, reset }
    }
}

/// Up to the store's own watermark: whatever state of a job its caller was shown before, a page holds what led to it, also
/// in the moment between a sync and its publication.
fn page_limits(store: &dyn Store, limit: usize) -> Limits {
    let events = limit.clamp(1, PAGE_MAX);
    Limits { upto: store.bounds().last, bytes: PAGE_BYTES_MAX, events, scan: PAGE_SCAN_MAX }
}
