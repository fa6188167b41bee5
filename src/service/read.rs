//! Reading jobs: from the heads in memory, else through the reader threads from the store.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::answer::open_questions;
use super::{Bodies, Detail, JobView, Links, RESULT_INLINE_MAX, Refused, Service, Viewer};
use crate::events::{Filter, Page, Published, Scope, Start, Tail};
use crate::job::{BodyRef, Head, JobId, State, Timestamp};
use crate::store::{self, Listing, Query, Store};

/// Most jobs that one list holds (contract 5).
pub const LIST_MAX: usize = 1_000;
/// Ids that a "did you mean" looks at, the viewer's newest.
const NEAR_LOOKED_AT: usize = 200;
/// Ids that a "did you mean" names.
const NEAR_NAMED: usize = 3;

impl Service {
    /// The job, as last synced.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Unhealthy`.
    pub async fn job(&self, viewer: &Viewer, id: JobId) -> Result<Arc<Head>, Refused> {
        let head = match self.published.heads.get(id) {
            Some(head) => Some(head),
            None => self.ask(move |store| store.job(id)).await?.map_err(|error| self.failed(&error))?,
        };
        head.filter(|head| viewer.sees(&head.job.spec.owner)).ok_or(Refused::NoSuchJob)
    }

    /// Until when an ended job is kept, unless `retention.max_jobs` takes it sooner; `None` while it has not ended.
    pub fn kept_until(&self, head: &Head) -> Option<Timestamp> {
        self.core.kept_until(&head.job)
    }

    /// Jobs newest first, unfinished and ended merged, restricted to what the viewer sees. Stable under inserts.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn jobs(&self, viewer: &Viewer, mut query: Query) -> Result<Listing, Refused> {
        if !viewer.sees_all {
            if query.owner.as_ref().is_some_and(|owner| **owner != *viewer.principal) {
                return Ok(Listing::default());
            }
            query.owner = Some(viewer.principal.clone());
        }
        query.limit = query.limit.clamp(1, LIST_MAX);
        let published = self.published.clone();
        self.ask(move |store| list(&published, store, &query)).await?.map_err(|error| self.failed(&error))
    }

    /// Bytes `offset..offset + limit` of a body that the job's record names.
    ///
    /// # Errors
    /// `NoSuchJob` if it has been forgotten meanwhile; `Busy`, `Unhealthy`.
    pub async fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Bytes, Refused> {
        let body = self.ask(move |store| store.body(job, name, offset, limit)).await?;
        body.map_err(|error| self.failed(&error))?.ok_or(Refused::NoSuchJob)
    }

    /// The job as JSON (contract 1), with its bodies as far as they are small enough.
    ///
    /// # Errors
    /// `NoSuchJob` if it has been forgotten meanwhile; `Busy`, `Unhealthy`.
    pub async fn view(&self, head: &Arc<Head>, links: &Links) -> Result<JobView, Refused> {
        let wanted = head.clone();
        let detail = links.detail;
        if detail == Detail::Line {
            return Ok(JobView::new(head, Bodies::default(), links));
        }
        let bodies = self.ask(move |store| bodies(store, &wanted, detail)).await?;
        let bodies = bodies.map_err(|error| self.failed(&error))?;
        Ok(JobView::new(head, bodies, links))
    }

    /// A reader of the feed or of one job's stream.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Unhealthy`.
    pub async fn tail(&self, viewer: &Viewer, scope: Scope, start: Start) -> Result<Tail, Refused> {
        match scope {
            Scope::Feed(filter) => Ok(Tail::feed(&self.published, visible(viewer, filter), start)),
            Scope::Job(id) => Ok(Tail::job(&self.published, &self.job(viewer, id).await?, start).await?),
        }
    }

    /// The log in pages.
    ///
    /// # Errors
    /// As `tail`.
    pub async fn page(&self, viewer: &Viewer, scope: Scope, start: Start, limit: usize) -> Result<Page, Refused> {
        match scope {
            Scope::Feed(filter) => Ok(self.published.feed_page(visible(viewer, filter), start, limit).await?),
            Scope::Job(id) => Ok(self.published.job_page(&self.job(viewer, id).await?, start, limit).await?),
        }
    }

    /// Up to three of the viewer's own jobs whose ids look like `text`.
    pub async fn near_misses(&self, viewer: &Viewer, text: &str) -> Vec<JobId> {
        let query = Query { limit: NEAR_LOOKED_AT, owner: Some(viewer.principal.clone()), ..Query::default() };
        let jobs = self.jobs(viewer, query).await.map(|listing| listing.jobs).unwrap_or_default();
        let text: String = text.chars().take(64).collect();
        let score = |head: &Arc<Head>| (strsim::levenshtein(&head.job.id().to_string(), &text), head.job.id());
        let mut near: Vec<(usize, JobId)> = jobs.iter().map(score).collect();
        near.sort_unstable();
        near.into_iter().take(NEAR_NAMED).map(|(_, id)| id).collect()
    }
}

/// The filter, restricted to what the viewer sees.
fn visible(viewer: &Viewer, mut filter: Filter) -> Filter {
    if !viewer.sees_all {
        filter.owner = Some(viewer.principal.clone());
    }
    filter
}

/// Unfinished jobs are looked up before ended ones: one that ends in between is seen twice, never missed.
fn list(published: &Published, store: &dyn Store, query: &Query) -> Result<Listing, store::Error> {
    let wants_live = query.status.is_none_or(|status| !status.is_terminal());
    let live = if wants_live { published.heads.live(|head| query.admits(&head.job)) } else { Vec::new() };
    let ended = store.jobs(query)?;
    // Below this id the store has not looked yet.
    let looked_to = ended.next;
    let mut jobs: HashMap<JobId, Arc<Head>> = live.into_iter().map(|head| (head.job.id(), head)).collect();
    jobs.retain(|id, _| looked_to.is_none_or(|looked_to| *id >= looked_to));
    jobs.extend(ended.jobs.into_iter().map(|head| (head.job.id(), head)));
    let mut jobs: Vec<Arc<Head>> = jobs.into_values().collect();
    jobs.sort_unstable_by_key(|head| std::cmp::Reverse(head.job.id()));
    let is_cut = jobs.len() > query.limit;
    jobs.truncate(query.limit);
    let next = if is_cut { jobs.last().map(|head| head.job.id()) } else { looked_to };
    Ok(Listing { jobs, next })
}

fn bodies(store: &dyn Store, head: &Head, detail: Detail) -> Result<Bodies, store::Error> {
    let is_small = |name: &BodyRef| name.len <= RESULT_INLINE_MAX;
    let fits = |name: &BodyRef| detail == Detail::Whole || is_small(name);
    let result = match &head.job.state {
        State::Completed(completion) => completion.result.filter(is_small),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Failed { .. }
        | State::Canceled { .. } => None,
    };
    let id = head.job.id();
    let load = |name: BodyRef| json(store, id, name);
    Ok(Bodies {
        payload: match head.job.spec.carried() {
            Some(carried) => Some(text(id, head.job.spec.payload, carried.clone())?),
            None => load(head.job.spec.payload)?,
        },
        result: result.map(load).transpose()?.flatten(),
        partial: head.job.partial.filter(fits).map(load).transpose()?.flatten(),
        questions: open_questions(store, &head.job)?,
    })
}

/// A body as JSON text; `None` if it is gone (the job was forgotten in between, or a newer partial took its place).
fn json(store: &dyn Store, job: JobId, name: BodyRef) -> Result<Option<Box<RawValue>>, store::Error> {
    store.body(job, name, 0, usize::MAX)?.map(|bytes| text(job, name, bytes)).transpose()
}

fn text(job: JobId, name: BodyRef, bytes: Bytes) -> Result<Box<RawValue>, store::Error> {
    let damaged = |why: String| store::Error::Corrupt { at: format!("body {name:?} of job {job}"), why };
    let text = String::from_utf8(bytes.into()).map_err(|why| damaged(why.to_string()))?;
    RawValue::from_string(text).map_err(|why| damaged(why.to_string()))
}
