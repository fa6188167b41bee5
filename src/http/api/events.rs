//! The feed and the stream of one job: as server-sent events, or as JSON pages of the same log.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Method, Response, StatusCode};

use crate::events::{Filter, Page, Scope, Start};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{Body, Broken};
use crate::http::problem::{Code, Problem};
use crate::http::query::Query;
use crate::http::sse;
use crate::http::streams::Permit;
use crate::job::JobId;

/// Events of a page without `limit` (contract 5).
const LIMIT: usize = 500;
/// Most events of a page (contract 5).
const LIMIT_MAX: usize = 1_000;
/// Most values of one filter of the feed.
pub const FILTER_MAX: usize = 100;

/// How the events are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Stream,
    Page,
}

/// `GET /api/events`: all that the caller may see, from now on.
///
/// # Errors
/// `not_acceptable`, `bad_cursor`, `bad_filter`, `too_many`; what `Service::tail` and `Service::page` refuse.
pub async fn feed(app: &App, caller: &Caller, head: &Head, query: &Query) -> Result<Response<Body>, Problem> {
    let form = form(&head.headers)?;
    let start = sse::start(&head.headers, query, &["type", "job", "tag", "limit"])?;
    let scope = Scope::Feed(filter(query)?);
    answer(app, caller, head, query, Wish { form, scope, start, default: Start::Now }).await
}

/// `GET /api/jobs/{id}/events`: from the job's beginning to its end.
///
/// # Errors
/// As `feed`, and `no_such_job`.
pub async fn of_job(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Problem> {
    let form = form(&head.headers)?;
    let start = sse::start(&head.headers, query, &["ticket", "limit"])?;
    answer(app, caller, head, query, Wish { form, scope: Scope::Job(id), start, default: Start::Earliest }).await
}

struct Wish {
    form: Form,
    scope: Scope,
    start: Option<Start>,
    default: Start,
}

async fn answer(app: &App, caller: &Caller, head: &Head, query: &Query, wish: Wish) -> Result<Response<Body>, Problem> {
    let number = |text: &str| text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    let limit = query.read(Code::BadFilter, "limit", "a number from 1 to 1000", number)?;
    match wish.form {
        Form::Page => {
            let start = wish.start.unwrap_or(Start::Earliest);
            let page = app.service.page(&caller.viewer, wish.scope, start, limit.unwrap_or(LIMIT)).await?;
            Ok(written(&page))
        }
        Form::Stream if limit.is_some() => {
            Err(Problem::of_field(Code::BadFilter, "limit", "is for pages: ask with Accept: application/json"))
        }
        Form::Stream => {
            let permit = app.streams.enter(&caller.viewer.principal)?;
            let tail = app.service.tail(&caller.viewer, wish.scope, wish.start.unwrap_or(wish.default)).await?;
            let response = sse::respond(tail, app.heartbeat, app.clock.chance(), &app.shutdown);
            // A stream that nobody will read is not begun.
            if head.method == Method::HEAD {
                return Ok(response.map(|_| Body::empty()));
            }
            Ok(response.map(|stream| if stream.is_end_stream() { stream } else { held(stream, permit) }))
        }
    }
}

fn filter(query: &Query) -> Result<Filter, Problem> {
    for name in ["type", "job", "tag"] {
        if query.all(name).count() > FILTER_MAX {
            return Err(Problem::of_field(Code::BadFilter, name, format!("is there more than {FILTER_MAX} times")));
        }
    }
    let jobs = query
        .all("job")
        .map(|text| text.parse().map_err(|_| Problem::of_field(Code::BadFilter, "job", "must be the id of a job")));
    Ok(Filter {
        owner: None,
        types: query.all("type").map(Into::into).collect(),
        jobs: jobs.collect::<Result<_, _>>()?,
        tags: query.all("tag").map(Into::into).collect(),
    })
}

/// A page, its events as they are in the log.
fn written(page: &Page) -> Response<Body> {
    let size: usize = page.events.iter().map(|event| event.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 160);
    text.extend_from_slice(b"{\"events\":[");
    for (n, event) in page.events.iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        text.extend_from_slice(event);
    }
    text.extend_from_slice(format!("],\"cursor\":\"{}\",\"hasMore\":{}", page.cursor, page.has_more).as_bytes());
    if let Some(reset) = page.reset.and_then(|reset| serde_json::to_vec(&reset).ok()) {
        text.extend_from_slice(b",\"reset\":");
        text.extend_from_slice(&reset);
    }
    text.push(b'}');
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Which form `Accept` prefers; a stream where it does not care.
///
/// # Errors
/// `not_acceptable` if it wants neither.
fn form(headers: &HeaderMap) -> Result<Form, Problem> {
    let fields = headers.get_all(header::ACCEPT);
    if fields.iter().next().is_none() {
        return Ok(Form::Stream);
    }
    let lists: Vec<&str> = fields.iter().filter_map(|field| field.to_str().ok()).collect();
    let stream = weight(&lists, "text/event-stream");
    let page = weight(&lists, "application/json");
    match stream.total_cmp(&page) {
        _ if stream <= 0.0 && page <= 0.0 => {
            let forms = "events come as text/event-stream or application/json";
            Err(Problem::new(Code::NotAcceptable, forms))
        }
        std::cmp::Ordering::Less => Ok(Form::Page),
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => Ok(Form::Stream),
    }
}

/// How much a type is wanted, 0 to 1: the most specific range decides (RFC 9110, 12.5.1).
fn weight(lists: &[&str], wanted: &str) -> f32 {
    let family = wanted.split('/').next().unwrap_or_default();
    let mut best = (0, 0.0);
    for range in lists.iter().flat_map(|list| list.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let rank = match name.split_once('/') {
            _ if name.eq_ignore_ascii_case(wanted) => 3,
            Some((major, "*")) if major.eq_ignore_ascii_case(family) => 2,
            Some(("*", "*")) => 1,
            Some(_) | None => continue,
        };
        let q = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let q = q.map_or(1.0, |q| q.trim().parse().unwrap_or(0.0));
        if rank > best.0 {
            best = (rank, q);
        }
    }
    best.1
}

/// The stream, holding its place in the count of open ones.
fn held(stream: Body, permit: Permit) -> Body {
    Body::streaming(Held { stream, _permit: permit })
}

struct Held {
    stream: Body,
    _permit: Permit,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Pin::new(&mut self.stream).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.stream.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Reset, ResetReason};
    use crate::job::{Epoch, EventId, Position};

    fn asked(fields: &[&'static str]) -> Result<Form, Code> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::ACCEPT, HeaderValue::from_static(field));
        }
        form(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn the_form_is_the_one_that_accept_prefers() {
        for fields in [
            &[][..],
            &["*/*"],
            &["text/event-stream"],
            &["Text/Event-Stream; charset=utf-8"],
            &["text/*"],
            &["application/json, text/event-stream"],
            &["application/json;q=0.5", "text/event-stream"],
            &["application/json;q=0, */*;q=0.1"],
        ] {
            assert_eq!(asked(fields), Ok(Form::Stream), "{fields:?}");
        }
        for fields in [
            &["application/json"][..],
            &["application/*"],
            &["application/json, */*;q=0.1"],
            &["text/html, application/json;q=0.2"],
            &["text/event-stream;q=0, */*"],
        ] {
            assert_eq!(asked(fields), Ok(Form::Page), "{fields:?}");
        }
        for fields in [&["text/html"][..], &[""], &["application/json;q=0"], &["*/*;q=0"]] {
            assert_eq!(asked(fields), Err(Code::NotAcceptable), "{fields:?}");
        }
    }

    #[test]
    fn filters_may_be_repeated_but_not_without_end() {
        let asked = |query: &str| filter(&Query::parse(Some(query)).unwrap()).map_err(|problem| problem.code);
        let id = "0193a5d0-7c00-7000-8000-000000000001";
        let filter = asked(&format!("type=a&type=b&job={id}&tag=t")).unwrap();
        assert_eq!((filter.types.len(), filter.jobs.len(), filter.tags.len()), (2, 1, 1));
        assert_eq!(asked("job=x"), Err(Code::BadFilter));
        assert_eq!(asked(&"tag=t&".repeat(FILTER_MAX + 1)), Err(Code::BadFilter));
    }

    #[tokio::test]
    async fn a_page_is_one_json_object_around_the_events_of_the_log() {
        let id = EventId { epoch: Epoch(0xab), position: Position(7) };
        let events = vec![Bytes::from_static(b"{\"a\":1}"), Bytes::from_static(b"{\"b\":2}")];
        let reset = Some(Reset { reason: ResetReason::Trimmed, first_event_id: id });
        let page = Page { events, cursor: id, has_more: true, reset };
        let body = http_body_util::BodyExt::collect(written(&page).into_body()).await.unwrap().to_bytes();
        let expected = r#"{"events":[{"a":1},{"b":2}],"cursor":"000000ab-7","hasMore":true,"reset":{"reason":"trimmed","firstEventId":"000000ab-7"}}"#;
        assert_eq!(body, expected);
    }
}
