//! `resources/*`: configured resources, and every job as a resource.
//!
//! In: a call. Out: the members of a result, the same in every revision but for the fields of caches. Another principal's job looks like
//! one that never was.

use serde_json::{Value, json};

use super::era::Revision;
use super::modern::LIST_TTL_MS;
use super::reply::Members;
use super::rpc::{self, Error, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use super::tools::Call;
use super::{Endpoint, app};

mod job;
mod stock;
pub(super) mod uri;

pub use job::{JOBS_LISTED_MAX, RESULT_MAX};
pub(super) use stock::TooLarge;
pub use stock::{Content, Label, Resource, Stock, Template};
pub(in crate::mcp) use uri::is_uri;
pub use uri::{Pattern, URI_MAX, is_free};

use uri::Part;

/// Configured entries on one page of a list.
pub const PAGE_MAX: usize = 100;
/// How long a client may keep what changes while it looks, in milliseconds: jobs, and lists of them.
const CHANGING_TTL_MS: u64 = 0;

/// `resources/list`: the configured resources, and behind the last of them the caller's newest jobs.
///
/// # Errors
/// -32602 for a cursor that is not one of this list's; -32603 if the jobs cannot be read.
pub(super) async fn list(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let all = &endpoint.shown().stock.resources;
    let page = Page::read(call, all.len())?;
    let mut entries: Vec<Value> = page.of(all).map(Resource::entry).collect();
    if page.next.is_none() {
        entries.extend(job::entries(endpoint, call.viewer).await?);
    }
    Ok(page.members(call.revision, "resources", &entries, CHANGING_TTL_MS))
}

/// `resources/templates/list`: those of jobs, then the configured ones.
///
/// # Errors
/// -32602 for a cursor that is not one of this list's.
pub(super) fn templates(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let own = Part::ALL.map(job::template);
    let shown = endpoint.shown();
    let configured = shown.stock.templates.iter().map(Template::entry);
    let all: Vec<Value> = own.into_iter().chain(configured).collect();
    let page = Page::read(call, all.len())?;
    let entries: Vec<&Value> = page.of(&all).collect();
    Ok(page.members(call.revision, "resourceTemplates", &entries, LIST_TTL_MS))
}

/// `resources/read`.
///
/// # Errors
/// -32602 without a URI; not found (-32002, from 2026-07-28 on -32602 with `data.uri`) for what there is not, for this caller or at all;
/// -32603 if a job cannot be read.
pub(super) async fn read(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let Some(uri) = call.params.uri.and_then(rpc::text) else {
        return Err(Error::answered(INVALID_PARAMS, "params.uri must be a string: the URI of a resource"));
    };
    let (contents, ttl_ms) = match uri::job(&uri) {
        Some((id, part)) => job::read(endpoint, call, &uri, id, part).await?,
        None if *uri == *app::URI && endpoint.helpers.is_some() => (app::contents(), LIST_TTL_MS),
        None => match endpoint.shown().stock.read(&uri).filter(|_| uri.len() <= URI_MAX) {
            Some(Ok(contents)) => (contents, LIST_TTL_MS),
            Some(Err(TooLarge)) => return Err(Error::answered(INVALID_PARAMS, "the filled in resource is too large")),
            None => return Err(not_found(call.revision, &uri, None)),
        },
    };
    let mut json = b"\"contents\":".to_vec();
    rpc::push_value(&mut json, &[contents]);
    push_caching(&mut json, call.revision, ttl_ms);
    Ok(Members { json, ..Members::default() })
}

/// There is no such resource, or not yet: `why` says more.
fn not_found(revision: Revision, uri: &str, why: Option<&str>) -> Error {
    let shown = crate::job::cut(uri, URI_MAX);
    let text = why.map_or_else(|| format!("there is no resource {}", crate::job::cut(uri, 200)), str::to_owned);
    let code = if revision.is_modern() { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    Error { data: Some(Box::new(json!({ "uri": shown }))), ..Error::answered(code, text) }
}

/// Adds the fields that tell caches of 2026-07-28 how long; nothing in older revisions.
pub(super) fn push_caching(json: &mut Vec<u8>, revision: Revision, ttl_ms: u64) {
    if revision.is_modern() {
        json.extend_from_slice(format!(",\"ttlMs\":{ttl_ms},\"cacheScope\":\"private\"").as_bytes());
    }
}

/// Which part of a list a cursor asks for. Cursors are the numbers of the entries that pages begin with.
pub(super) struct Page {
    from: usize,
    next: Option<usize>,
}

impl Page {
    /// The page that the call asks for, of a list of `total` entries.
    ///
    /// # Errors
    /// -32602 for a cursor that no page of this list has given out.
    pub(super) fn read(call: &Call<'_>, total: usize) -> Result<Self, Error> {
        let from = match call.params.cursor.filter(|cursor| cursor.get() != "null").map(rpc::text) {
            None => 0,
            Some(cursor) => cursor.and_then(|cursor| begin(&cursor, total)).ok_or_else(|| {
                let text = "params.cursor is not the nextCursor of a page of this list; leave it out to begin again";
                Error::answered(INVALID_PARAMS, text)
            })?,
        };
        let next = Some(from + PAGE_MAX).filter(|next| *next < total);
        Ok(Self { from, next })
    }

    /// Its entries.
    pub(super) fn of<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        all.iter().skip(self.from).take(PAGE_MAX)
    }

    /// The page as the members of a result.
    pub(super) fn members(
        &self,
        revision: Revision,
        key: &str,
        entries: &impl serde::Serialize,
        ttl_ms: u64,
    ) -> Members {
        let mut json = format!("\"{key}\":").into_bytes();
        rpc::push_value(&mut json, entries);
        if let Some(next) = self.next {
            json.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
        }
        push_caching(&mut json, revision, ttl_ms);
        Members { json, ..Members::default() }
    }
}

fn begin(cursor: &str, total: usize) -> Option<usize> {
    let from: usize = cursor.parse().ok()?;
    (from > 0 && from < total && from.is_multiple_of(PAGE_MAX) && cursor == from.to_string()).then_some(from)
}
