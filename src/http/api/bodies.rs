//! `/result` and `/partial`: the bodies of a job, whole or in ranges, streamed so that memory stays flat.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};

use super::{is_known, put};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{Body, Broken};
use crate::http::problem::{Code, Problem};
use crate::http::query::Query;
use crate::job::{BodyRef, Head as Job, JobId, State, Status};
use crate::service::{Detail, RESULT_INLINE_MAX, Refused, Service};

/// Bytes that are read from the store at a time.
const PIECE: usize = 256 * 1024;

/// The result of a completed job.
///
/// # Errors
/// `no_such_path` while there is none; `range`; what `Service::job` refuses.
pub async fn result(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Problem> {
    query.only(Code::BadRequest, &["ticket"])?;
    let job = app.service.job(&caller.viewer, id).await?;
    match &job.job.state {
        State::Completed(completion) => match completion.result {
            Some(name) => piece_of(app, id, name, &head.headers).await,
            None => Ok(typed(Response::new(Body::whole("null")))),
        },
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Failed { .. }
        | State::Canceled { .. } => Err(missing("result", job.job.status())),
    }
}

/// The last partial result.
///
/// # Errors
/// `no_such_path` while there is none; `range`; what `Service::job` refuses.
pub async fn partial(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Problem> {
    query.only(Code::BadRequest, &["ticket"])?;
    let job = app.service.job(&caller.viewer, id).await?;
    match job.job.partial {
        Some(name) => piece_of(app, id, name, &head.headers).await,
        None => Err(missing("partial result", job.job.status())),
    }
}

/// The job as the answer with all of its result, which is read as the client takes it.
///
/// # Errors
/// What `Service::view` and `Service::body` refuse.
pub async fn inlined(app: &App, job: &Arc<Job>, result: BodyRef) -> Result<Response<Body>, Problem> {
    let mut view = app.service.view(job, &app.links(Detail::Whole)).await?;
    view.result_url = None;
    let mut pieces = Pieces::begin(app.service.clone(), job.job.id(), result, (0, result.len)).await?;
    let mut text = serde_json::to_vec(&view).unwrap_or_default();
    // Before the brace that ends it.
    text.pop();
    text.extend_from_slice(b",\"result\":");
    pieces.before = text.into();
    pieces.after = Bytes::from_static(b"}");
    Ok(typed(Response::new(Body::streaming(pieces))))
}

/// The result that is too large for a place among the job's other fields.
pub fn large_result(job: &Job) -> Option<BodyRef> {
    match &job.job.state {
        State::Completed(completion) => completion.result.filter(|name| name.len > RESULT_INLINE_MAX),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Failed { .. }
        | State::Canceled { .. } => None,
    }
}

fn missing(what: &str, status: Status) -> Problem {
    Problem::new(Code::NoSuchPath, format!("this job has no {what}; its status is {}", status.name()))
}

/// The body, the range of it that is asked for, 304 or 416.
async fn piece_of(app: &App, id: JobId, name: BodyRef, headers: &HeaderMap) -> Result<Response<Body>, Problem> {
    let tag = format!("\"b{}-{:08x}\"", name.seq, name.crc);
    let range = range(headers, &tag, name.len);
    let (status, from, to) = match range {
        Range::Whole => (StatusCode::OK, 0, name.len),
        Range::Part { from, to } => (StatusCode::PARTIAL_CONTENT, from, to),
        Range::Outside => return Ok(outside(name.len)),
    };
    let mut response = if is_known(headers, &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let pieces = Pieces::begin(app.service.clone(), id, name, (from, to)).await?;
        let mut response = typed(Response::new(Body::streaming(pieces)));
        *response.status_mut() = status;
        response
    };
    if response.status() == StatusCode::PARTIAL_CONTENT {
        put(&mut response, header::CONTENT_RANGE, &format!("bytes {from}-{}/{}", to - 1, name.len));
    }
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    put(&mut response, header::ETAG, &tag);
    Ok(response)
}

fn typed(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn outside(len: u64) -> Response<Body> {
    let problem = Problem::new(Code::Range, format!("the body has {len} bytes"));
    let mut response = problem.into_response();
    put(&mut response, header::CONTENT_RANGE, &format!("bytes */{len}"));
    response
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    Whole,
    /// Never empty; `to` is exclusive.
    Part {
        from: u64,
        to: u64,
    },
    Outside,
}

/// One range of bytes is honoured; several, other units and broken ones are ignored, as RFC 9110 allows.
fn range(headers: &HeaderMap, tag: &str, len: u64) -> Range {
    let is_current = headers.get(header::IF_RANGE).is_none_or(|known| known.as_bytes() == tag.as_bytes());
    let asked = headers.get(header::RANGE).filter(|_| is_current).and_then(|range| range.to_str().ok());
    let Some((first, last)) = asked.and_then(|text| text.strip_prefix("bytes=")).and_then(|r| r.trim().split_once('-'))
    else {
        return Range::Whole;
    };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (number(first), last, number(last)) {
        (Some(from), _, Some(to)) if from > to => Range::Whole,
        (Some(from), "", _) | (Some(from), _, Some(_)) if from >= len => Range::Outside,
        (Some(from), "", _) => Range::Part { from, to: len },
        (Some(from), _, Some(to)) => Range::Part { from, to: to.saturating_add(1).min(len) },
        (None, _, Some(suffix)) if first.is_empty() && (suffix == 0 || len == 0) => Range::Outside,
        (None, _, Some(suffix)) if first.is_empty() => Range::Part { from: len.saturating_sub(suffix), to: len },
        (_, _, _) => Range::Whole,
    }
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Refused>> + Send>>;

/// Bytes `at..end` of a body, read piece by piece as the client takes them, and what stands around them.
struct Pieces {
    before: Bytes,
    after: Bytes,
    service: Arc<Service>,
    job: JobId,
    name: BodyRef,
    at: u64,
    end: u64,
    reading: Option<Reading>,
}

impl Pieces {
    /// The first piece is read before the answer begins, so that a body that cannot be read is said with a status.
    async fn begin(service: Arc<Service>, job: JobId, name: BodyRef, (at, end): (u64, u64)) -> Result<Self, Refused> {
        let (before, after) = (Bytes::new(), Bytes::new());
        let mut pieces = Self { before, after, service, job, name, at, end, reading: None };
        let first = pieces.read().await?;
        pieces.reading = Some(Box::pin(std::future::ready(Ok(first))));
        Ok(pieces)
    }

    /// What stands here besides the body.
    fn frame(&mut self) -> Option<Bytes> {
        let here = if self.at < self.end || !self.before.is_empty() { &mut self.before } else { &mut self.after };
        Some(std::mem::take(here)).filter(|bytes| !bytes.is_empty())
    }

    fn read(&self) -> Reading {
        let (service, job, name, at) = (self.service.clone(), self.job, self.name, self.at);
        let limit = usize::try_from(self.end - at).unwrap_or(PIECE).min(PIECE);
        Box::pin(async move { service.body(job, name, at, limit).await })
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(bytes) = self.frame() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if self.at >= self.end {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let Poll::Ready(read) = reading.as_mut().poll(cx) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        match read {
            Ok(bytes) if !bytes.is_empty() => {
                self.at += bytes.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            // It was forgotten in between, or the store is in trouble: less than was promised.
            Ok(_) | Err(_) => {
                self.at = self.end;
                self.after.clear();
                Poll::Ready(Some(Err(Broken)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.end && self.before.is_empty() && self.after.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.at + (self.before.len() + self.after.len()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str, len: u64) -> Range {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_str(value).unwrap());
        range(&headers, "\"b1\"", len)
    }

    #[test]
    fn one_range_of_bytes_is_honoured() {
        assert_eq!(asked("bytes=0-0", 10), Range::Part { from: 0, to: 1 });
        assert_eq!(asked("bytes=3-5", 10), Range::Part { from: 3, to: 6 });
        assert_eq!(asked("bytes=3-", 10), Range::Part { from: 3, to: 10 });
        assert_eq!(asked("bytes=3-99", 10), Range::Part { from: 3, to: 10 });
        assert_eq!(asked("bytes=-4", 10), Range::Part { from: 6, to: 10 });
        assert_eq!(asked("bytes=-99", 10), Range::Part { from: 0, to: 10 });
        assert_eq!(asked("bytes=0-18446744073709551615", 10), Range::Part { from: 0, to: 10 });
    }

    #[test]
    fn what_lies_outside_is_said_and_what_makes_no_sense_is_ignored() {
        for value in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(asked(value, 10), Range::Outside, "{value}");
        }
        for value in [
            "bytes=5-3",
            "bytes=a-b",
            "bytes=1-2,4-5",
            "items=1-2",
            "bytes=",
            "bytes=-",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(asked(value, 10), Range::Whole, "{value}");
        }
    }

    #[test]
    fn a_range_of_an_older_body_is_answered_with_the_whole() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=3-5"));
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"b0\""));
        assert_eq!(range(&headers, "\"b1\"", 10), Range::Whole);
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"b1\""));
        assert_eq!(range(&headers, "\"b1\"", 10), Range::Part { from: 3, to: 6 });
    }
}
