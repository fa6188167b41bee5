//! `events/poll`: what follows a cursor, as far as one look goes. The server keeps nothing.
//!
//! In: a subscription and a cursor. Out: occurrences and the position that was looked at last, be there a match or not. Answers at once.

use std::sync::Arc;

use super::super::reply::Members;
use super::super::rpc::{Error, INVALID_PARAMS};
use super::super::{Endpoint, refusal};
use super::kinds::Wanted;
use super::{Asked, is_older, push_occurrence};
use crate::events::{self, Scope, Start};
use crate::job::EventId;
use crate::service::Viewer;

/// Most occurrences of one poll that does not say how many.
pub const EVENTS_DEFAULT: usize = 100;
/// Most occurrences of one poll; one that asks for more gets so many.
pub const EVENTS_MAX: usize = events::PAGE_MAX;
/// A job that is followed and goes on, or a feed that had something to tell, is asked for again after so many milliseconds.
const SOON_MS: u64 = 1_000;
/// A feed that had nothing to tell.
const LATER_MS: u64 = 5_000;
/// A job that has ended, or that is not there.
const SELDOM_MS: u64 = 30_000;

/// What a poll found.
struct Found {
    /// The occurrences, as the inside of an array.
    events: Vec<u8>,
    cursor: EventId,
    truncated: bool,
    has_more: bool,
}

/// Answers `events/poll`. Without a cursor: none, and the cursor of now.
///
/// # Errors
/// As `Wanted::of`; -32602 for no occurrences at all, -32603 as `Service::page`.
pub(super) async fn poll(endpoint: &Arc<Endpoint>, viewer: &Viewer, asked: &Asked<'_>) -> Result<Members, Error> {
    let wanted = Wanted::of(&endpoint.events.dialect, &asked.name, asked.arguments)?;
    if asked.max_events == Some(0) {
        return Err(Error::answered(INVALID_PARAMS, "params.maxEvents must be at least 1"));
    }
    let found = find(endpoint, viewer, asked, &wanted).await?;
    let next = next_poll(endpoint, viewer, &wanted, !found.events.is_empty()).await;
    let mut json = b"\"events\":[".to_vec();
    json.extend_from_slice(&found.events);
    let Found { cursor, truncated, has_more, .. } = found;
    json.extend_from_slice(
        format!("],\"cursor\":\"{cursor}\",\"truncated\":{truncated},\"hasMore\":{has_more},\"nextPollMs\":{next}")
            .as_bytes(),
    );
    Ok(Members { json, ..Members::default() })
}

async fn find(endpoint: &Arc<Endpoint>, viewer: &Viewer, asked: &Asked<'_>, wanted: &Wanted) -> Result<Found, Error> {
    let (start, is_lost) = asked.start();
    if start == Start::Now {
        let cursor = endpoint.service.last();
        return Ok(Found { events: Vec::new(), cursor, truncated: false, has_more: false });
    }
    let limit = asked.max_events.unwrap_or(EVENTS_DEFAULT).min(EVENTS_MAX);
    let page = endpoint.service.page(viewer, Scope::Feed(wanted.filter()), start, limit).await;
    let page = page.map_err(|refused| refusal::internal(&refused))?;
    let oldest = asked.oldest(endpoint.clock.now());
    let mut truncated = is_lost || page.reset.is_some();
    let mut events = Vec::new();
    for envelope in &page.events {
        let Some(label) = events::label(envelope).filter(|label| wanted.admits(label)) else { continue };
        if is_older(&label, oldest) {
            truncated = true;
            continue;
        }
        events.extend_from_slice(if events.is_empty() { b"{" } else { b",{" });
        push_occurrence(&mut events, wanted.name, &label, envelope);
        events.push(b'}');
    }
    Ok(Found { events, cursor: page.cursor, truncated, has_more: page.has_more })
}

/// When to ask again, in milliseconds.
async fn next_poll(endpoint: &Endpoint, viewer: &Viewer, wanted: &Wanted, has_told: bool) -> u64 {
    let Some(job) = &wanted.job else { return if has_told { SOON_MS } else { LATER_MS } };
    let Ok(job) = job.parse() else { return SELDOM_MS };
    match endpoint.service.job(viewer, job).await {
        Ok(head) if !head.job.status().is_terminal() => SOON_MS,
        Ok(_) | Err(_) => SELDOM_MS,
    }
}
