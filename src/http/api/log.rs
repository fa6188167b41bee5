//! `GET /api/jobs/{id}/log`: what the attempts of a job logged, in pages.

use hyper::{Response, StatusCode};
use serde_json::json;

use super::json as answer;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::{Code, Problem};
use crate::http::query::Query;
use crate::job::JobId;

/// Lines of a page without `limit`, as of events (contract 5).
const LIMIT: usize = 500;
/// Most lines of a page.
const LIMIT_MAX: usize = 1_000;

/// One page, from the beginning or from a cursor on.
///
/// # Errors
/// `bad_filter`, `bad_cursor`; what `Service::job` and `Service::log` refuse.
pub async fn page(app: &App, caller: &Caller, id: JobId, query: &Query) -> Result<Response<Body>, Problem> {
    query.only(Code::BadFilter, &["limit", "cursor"])?;
    let number = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    let limit = query.read(Code::BadFilter, "limit", "a number from 1 to 1000", number)?;
    let cursor = query.read(Code::BadCursor, "cursor", "the cursor of a page of this log", |text| text.parse().ok())?;
    let head = app.service.job(&caller.viewer, id).await?;
    let page = app.service.log(&head, cursor.unwrap_or_default(), limit.unwrap_or(LIMIT)).await?;
    let cursor = page.cursor.to_string();
    Ok(answer(StatusCode::OK, &json!({ "lines": page.lines, "cursor": cursor, "hasMore": page.has_more })))
}
