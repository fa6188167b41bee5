//! One job: shown, waited for, canceled, replayed, ticketed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode, header};
use serde_json::json;

use super::fields::Fields;
use super::{Media, bodies, is_known, json as answer, media_type, put, show as show_job};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{Body, collect};
use crate::http::problem::{Code, Problem};
use crate::http::query::{Query, flag, length};
use crate::job::{Head, JobId, REASON_MAX};
use crate::service::Detail;
use crate::shutdown::Phase;

/// Longest `?wait=`; a longer one is answered after this, with the job as it is then.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The job as it is, or once it has ended or asks something (`?wait=30s`); 304 if the caller has it (`If-None-Match`): then its open
/// questions are waited past.
///
/// # Errors
/// `bad_request` for its parameters; what `Service::wait` and `Service::view` refuse.
pub async fn show(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Parts,
    query: &Query,
) -> Result<Response<Body>, Problem> {
    query.only(Code::BadRequest, &["wait", "inline", "ticket"])?;
    let wait = query.read(Code::BadRequest, "wait", "a length such as 30s", length)?;
    let whole = query.read(Code::BadRequest, "inline", "true or false", flag)?.unwrap_or(false);
    let (detail, mark) = if whole { (Detail::Whole, "w") } else { (Detail::Small, "") };
    let tag_of = |job: &Head| format!("\"r{}{mark}\"", job.job.revision);
    let has_seen = |job: &Head| is_known(&head.headers, &tag_of(job));
    let job = match wait {
        Some(wait) => tokio::select! {
            biased;
            job = app.service.wait(&caller.viewer, id, wait.min(WAIT_MAX), has_seen) => job?,
            // What has not ended by now goes on with the next server.
            () = app.shutdown.reached(Phase::Releasing) => app.service.job(&caller.viewer, id).await?,
        },
        None => app.service.job(&caller.viewer, id).await?,
    };
    // As the log: for the owner.
    let job = if caller.is_ticket { Arc::new(job.without_stderr()) } else { job };
    let tag = tag_of(&job);
    let mut response = if is_known(&head.headers, &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else if let Some(result) = bodies::large_result(&job).filter(|_| whole) {
        bodies::inlined(app, &job, result).await?
    } else {
        show_job(app, StatusCode::OK, &job, detail).await?
    };
    put(&mut response, header::ETAG, &tag);
    Ok(response)
}

/// Cancels it: 202 while an attempt is being stopped, else 200.
///
/// # Errors
/// `bad_json`, `bad_request`, `media_type`, `too_large`; what `Service::cancel` refuses.
pub async fn cancel(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Parts,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let body = small_body(app, head, body).await?;
    let reason = reason(&body)?;
    let canceling = app.service.cancel(&caller.viewer, id, reason).await?;
    let status = if canceling.under_way { StatusCode::ACCEPTED } else { StatusCode::OK };
    show_job(app, status, &canceling.head, Detail::Small).await
}

/// Makes a new job from a dead letter.
///
/// # Errors
/// `bad_json`, `bad_request`, `media_type`, `too_large`; what `Service::retry` refuses.
pub async fn retry(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Parts,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let body = small_body(app, head, body).await?;
    if !body.is_empty() {
        Fields::read(&body, &[])?.finish()?;
    }
    let made = app.service.retry(&caller.viewer, id).await?;
    let mut response = show_job(app, StatusCode::CREATED, &made, Detail::Small).await?;
    put(&mut response, header::LOCATION, &app.links(Detail::Small).status_url(made.job.id()));
    Ok(response)
}

/// A ticket to read it with.
///
/// # Errors
/// What `Service::job` refuses.
pub async fn ticket(app: &App, caller: &Caller, id: JobId) -> Result<Response<Body>, Problem> {
    app.service.job(&caller.viewer, id).await?;
    let ticket = app.tickets.issue(id, &caller.viewer.principal, app.clock.now());
    let links = app.links(Detail::Small);
    let with_ticket = |url: String| format!("{url}?ticket={}", ticket.text);
    let made = json!({
        "ticket": ticket.text,
        "expiresAt": ticket.expires_at,
        "statusUrl": with_ticket(links.status_url(id)),
        "eventsUrl": with_ticket(links.events_url(id)),
        "resultUrl": with_ticket(links.result_url(id)),
    });
    Ok(answer(StatusCode::OK, &made))
}

/// A body that may be absent.
pub(super) async fn small_body(app: &App, head: &Parts, body: Incoming) -> Result<Bytes, Problem> {
    let media = Media::of(&head.headers)?;
    let body = collect(body, app.max_body).await?;
    match media {
        Some(Media::Json) => Ok(body),
        None if body.is_empty() => Ok(body),
        Some(Media::Lines) | None => Err(media_type()),
    }
}

fn reason(body: &[u8]) -> Result<Option<String>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let mut fields = Fields::read(body, &["reason"])?;
    let reason: Option<String> = fields.take("reason", "a string");
    if reason.as_ref().is_some_and(|text| text.len() > REASON_MAX) {
        fields.complain("reason", format!("is longer than {REASON_MAX} bytes"));
    }
    fields.finish()?;
    Ok(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_cancel_is_optional_and_short() {
        let code = |body: &str| reason(body.as_bytes()).map_err(|problem| problem.code);
        assert_eq!(code(""), Ok(None));
        assert_eq!(code("{}"), Ok(None));
        assert_eq!(code(r#"{"reason":"too slow"}"#), Ok(Some("too slow".into())));
        assert_eq!(code(&format!(r#"{{"reason":"{}"}}"#, "x".repeat(REASON_MAX + 1))), Err(Code::BadRequest));
        assert_eq!(code(r#"{"why":"x"}"#), Err(Code::BadRequest));
        assert_eq!(code("x"), Err(Code::BadJson));
    }
}
