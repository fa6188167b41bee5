//! `GET /api/jobs`: newest first, in pages that stay put while new jobs come.

use std::time::Duration;

use hyper::{Response, StatusCode};
use serde::Serialize;

use super::json;
use crate::http::app::App;
use crate::http::auth::{Caller, Scope};
use crate::http::body::Body;
use crate::http::problem::{Code, Problem};
use crate::http::query::{Query, flag, instant, length};
use crate::job::{JobId, Millis, Status, Timestamp};
use crate::service::{self, Detail, JobView};

/// Jobs of a page without `limit`.
const LIMIT: usize = 50;
/// Most jobs of a page (contract 5).
const LIMIT_MAX: usize = 1_000;

const FILTERS: &[&str] = &[
    "status",
    "type",
    "owner",
    "tag",
    "createdAfter",
    "createdBefore",
    "deadLettered",
    "pendingLongerThan",
    "limit",
    "cursor",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    jobs: Vec<JobView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<JobId>,
}

/// One page.
///
/// # Errors
/// `bad_filter`, `bad_cursor`; `forbidden` for `owner` without the scope `admin`; what `Service::jobs` refuses.
pub async fn list(app: &App, caller: &Caller, query: &Query) -> Result<Response<Body>, Problem> {
    let wish = wish(query, app.clock.now())?;
    if wish.owner.is_some() {
        caller.needs(Scope::Admin)?;
    }
    let listing = app.service.jobs(&caller.viewer, wish).await?;
    let links = app.links(Detail::Line);
    let mut jobs = Vec::with_capacity(listing.jobs.len());
    for head in &listing.jobs {
        jobs.push(app.service.view(head, &links).await?);
    }
    Ok(json(StatusCode::OK, &Page { jobs, next_cursor: listing.next }))
}

fn wish(query: &Query, now: Timestamp) -> Result<service::Query, Problem> {
    let code = Code::BadFilter;
    query.only(code, FILTERS)?;
    let named = format!("one of {}", Status::ALL.map(Status::name).join(", "));
    let time = "a time as in RFC 3339, such as 2027-01-31T12:00:00Z";
    let number = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    let long = query.read(code, "pendingLongerThan", "a length such as 5m", length)?;
    Ok(service::Query {
        before: query.read(Code::BadCursor, "cursor", "a nextCursor of an earlier page", |text| text.parse().ok())?,
        owner: query.one(code, "owner")?.map(Into::into),
        job_type: query.one(code, "type")?.map(Into::into),
        status: query.read(code, "status", &named, Status::named)?,
        tag: query.one(code, "tag")?.map(Into::into),
        created_after: query.read(code, "createdAfter", time, instant)?,
        created_before: query.read(code, "createdBefore", time, instant)?,
        dead_lettered: query.read(code, "deadLettered", "true or false", flag)?,
        ready_before: long.map(|long| earlier(now, long)),
        limit: query.read(code, "limit", "a number from 1 to 1000", number)?.unwrap_or(LIMIT),
    })
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = Millis(u64::try_from(by.as_millis()).unwrap_or(u64::MAX));
    Timestamp(now.0.saturating_sub(i64::try_from(by.0).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<service::Query, Code> {
        wish(&Query::parse(Some(query)).unwrap(), Timestamp(1_000_000)).map_err(|problem| problem.code)
    }

    #[test]
    fn every_filter_of_the_contract_is_read() {
        let id = "0193a5d0-7c00-7000-8000-000000000001";
        let query = asked(&format!(
            "status=in_progress&type=echo&owner=ann&tag=a%20b&createdAfter=1970-01-01T00:00:01Z&\
             createdBefore=1970-01-01T01:00:00%2B01:00&deadLettered=false&pendingLongerThan=5m&limit=7&cursor={id}"
        ))
        .unwrap();
        assert_eq!(query.status, Some(Status::InProgress));
        assert_eq!((query.job_type.as_deref(), query.owner.as_deref()), (Some("echo"), Some("ann")));
        assert_eq!((query.tag.as_deref(), query.limit), (Some("a b"), 7));
        assert_eq!((query.created_after, query.created_before), (Some(Timestamp(1_000)), Some(Timestamp(0))));
        assert_eq!((query.dead_lettered, query.ready_before), (Some(false), Some(Timestamp(700_000))));
        assert_eq!(query.before.map(|id| id.to_string()).as_deref(), Some(id));
        assert_eq!(asked("").unwrap().limit, LIMIT);
    }

    /// `input_required` was missing among those that were told.
    #[test]
    fn a_wrong_status_is_told_with_every_one_that_there_is() {
        let refused = wish(&Query::parse(Some("status=done")).unwrap(), Timestamp(0)).unwrap_err();
        assert_eq!(
            refused.detail,
            "status: must be one of pending, in_progress, input_required, completed, failed, canceled"
        );
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_refused() {
        for query in [
            "status=done",
            "status=pending&status=failed",
            "limit=0",
            "limit=1001",
            "limit=x",
            "deadLettered=1",
            "createdAfter=yesterday",
            "pendingLongerThan=5",
            "Status=pending",
            "offset=1",
        ] {
            assert_eq!(asked(query).map(|_| ()), Err(Code::BadFilter), "{query}");
        }
        assert_eq!(asked("cursor=x").map(|_| ()), Err(Code::BadCursor));
    }
}
