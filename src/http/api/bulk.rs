//! `POST /api/jobs` with lines: a job on each, answered line by line, in order, while the rest still comes.
//!
//! A bad line costs only itself. At most `AT_ONCE` lines are under way; then the reading waits, so memory has a bound. The
//! client has to read answers while it writes: who does neither for long is cut off like any stalled peer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::Response;
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::submit::{below_payload, header_key, read, traceparent};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{Body, Broken, READ_MAX, next_data, too_large};
use crate::http::problem::{Code, Problem};
use crate::service::{Service, Viewer};

/// Most lines of one request that are being submitted at once.
pub const AT_ONCE: usize = 128;
/// Answers are sent in pieces of about this many bytes, or sooner when there is nothing to wait for.
const PIECE: usize = 16 * 1024;

/// Creates a job for each line of the body.
///
/// # Errors
/// `bad_request` for an `Idempotency-Key` header; whatever else is wrong is said in the lines.
pub fn create(app: &App, caller: &Caller, head: &Head, body: Incoming) -> Result<Response<Body>, Problem> {
    if header_key(&head.headers)?.is_some() {
        let message = "each line has its own idempotencyKey; one header cannot name them all";
        return Err(Problem::of_field(Code::BadRequest, "/idempotencyKey", message));
    }
    let mut shared = HeaderMap::new();
    if let Some(trace) = traceparent(&head.headers).and_then(|trace| HeaderValue::try_from(trace).ok()) {
        shared.insert("traceparent", trace);
    }
    let submitter =
        Arc::new(Submitter { service: app.service.clone(), viewer: caller.viewer.clone(), headers: shared });
    let (sender, under_way) = mpsc::channel(AT_ONCE);
    let lines = Lines { rest: BytesMut::new(), number: 0, skipping: false, max: app.max_body };
    tokio::spawn(pump(body, lines, submitter, sender));
    let mut response = Response::new(Body::streaming(Answers { under_way, current: None, piece: BytesMut::new() }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

struct Submitter {
    service: Arc<Service>,
    viewer: Viewer,
    headers: HeaderMap,
}

impl Submitter {
    async fn submit(&self, number: u64, line: Result<Bytes, Problem>) -> Bytes {
        let mut answer = match self.try_submit(line).await {
            Ok(answer) => answer,
            Err(problem) => problem.to_json(),
        };
        answer["line"] = number.into();
        format!("{answer}\n").into()
    }

    async fn try_submit(&self, line: Result<Bytes, Problem>) -> Result<serde_json::Value, Problem> {
        let submitted = self.service.submit(&self.viewer, read(&line?, &self.headers)?).await.map_err(below_payload)?;
        let id = submitted.head.job.id();
        Ok(json!({ "status": if submitted.is_new { 201 } else { 200 }, "id": id }))
    }
}

/// Reads lines and hands their submits on, in order. Ends when the body or the interest in its answers ends.
async fn pump(
    mut body: Incoming,
    mut lines: Lines,
    submitter: Arc<Submitter>,
    answers: mpsc::Sender<JoinHandle<Bytes>>,
) {
    loop {
        let data = match tokio::time::timeout(READ_MAX, next_data(&mut body)).await {
            Ok(data) => data,
            Err(_) => Err(Problem::new(Code::BadRequest, format!("no line came for {} s", READ_MAX.as_secs()))),
        };
        let (found, is_last) = match data {
            Ok(Some(data)) => (lines.add(&data), false),
            Ok(None) => (lines.finish(), true),
            Err(problem) => (vec![(lines.number + 1, Err(problem))], true),
        };
        for (number, line) in found {
            let Ok(place) = answers.reserve().await else { return };
            let submitter = submitter.clone();
            let mut submit = Box::pin(async move { submitter.submit(number, line).await });
            // Its first poll hands it to the core: lines take effect in their order, and only their answers are awaited
            // side by side.
            let answer = match poll_fn(|cx| Poll::Ready(submit.as_mut().poll(cx))).await {
                Poll::Ready(answer) => tokio::spawn(std::future::ready(answer)),
                Poll::Pending => tokio::spawn(submit),
            };
            place.send(answer);
        }
        if is_last {
            return;
        }
    }
}

type Line = (u64, Result<Bytes, Problem>);

/// Cuts a body into lines. Blank ones are passed over, but counted.
struct Lines {
    rest: BytesMut,
    number: u64,
    skipping: bool,
    max: usize,
}

impl Lines {
    fn add(&mut self, data: &[u8]) -> Vec<Line> {
        let mut found = Vec::new();
        let mut pieces = data.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            self.extend(piece, &mut found);
            if pieces.peek().is_some() {
                found.extend(self.end_line());
            }
        }
        found
    }

    fn finish(&mut self) -> Vec<Line> {
        self.end_line().into_iter().collect()
    }

    /// A line over the limit is answered once, then skipped to its end.
    fn extend(&mut self, piece: &[u8], found: &mut Vec<Line>) {
        if self.skipping {
            return;
        }
        if self.rest.len() + piece.len() > self.max {
            self.skipping = true;
            self.rest = BytesMut::new();
            found.push((self.number + 1, Err(too_large(self.max))));
        } else {
            self.rest.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) -> Option<Line> {
        self.number += 1;
        let was_skipped = std::mem::take(&mut self.skipping);
        let line = self.rest.split().freeze();
        (!was_skipped && !line.trim_ascii().is_empty()).then_some((self.number, Ok(line)))
    }
}

/// The answers, each awaited in its turn, gathered into pieces.
struct Answers {
    under_way: mpsc::Receiver<JoinHandle<Bytes>>,
    current: Option<JoinHandle<Bytes>>,
    piece: BytesMut,
}

impl Answers {
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if self.current.is_none() {
            self.current = ready!(self.under_way.poll_recv(cx));
        }
        let Some(current) = &mut self.current else { return Poll::Ready(None) };
        let answer = ready!(Pin::new(current).poll(cx));
        self.current = None;
        // A submit that panicked leaves a line without an answer: the count would be wrong from here on.
        Poll::Ready(Some(answer.map_err(|_| Broken)))
    }
}

impl hyper::body::Body for Answers {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        while self.piece.len() < PIECE {
            match self.poll_answer(cx) {
                Poll::Ready(Some(Ok(answer))) => self.piece.extend_from_slice(&answer),
                Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
                Poll::Pending if self.piece.is_empty() => return Poll::Pending,
                Poll::Ready(None) if self.piece.is_empty() => return Poll::Ready(None),
                Poll::Pending | Poll::Ready(None) => break,
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece.split().freeze()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(max: usize, pieces: &[&str]) -> Vec<(u64, Result<String, Code>)> {
        let mut lines = Lines { rest: BytesMut::new(), number: 0, skipping: false, max };
        let mut found: Vec<Line> = pieces.iter().flat_map(|piece| lines.add(piece.as_bytes())).collect();
        found.extend(lines.finish());
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        found.into_iter().map(|(n, line)| (n, line.map(text).map_err(|problem| problem.code))).collect()
    }

    fn ok(number: u64, line: &str) -> (u64, Result<String, Code>) {
        (number, Ok(line.into()))
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let expected = vec![ok(1, "a"), ok(3, "bc\r"), ok(4, "d")];
        assert_eq!(cut(10, &["a\n\nbc\r\nd"]), expected);
        assert_eq!(cut(10, &["a", "\n", "\n", "b", "c\r", "\nd"]), expected);
        assert_eq!(cut(10, &["a\n\nbc\r\nd\n"]), expected);
        assert_eq!(cut(10, &["", "\n"]), vec![]);
    }

    #[test]
    fn a_line_over_the_limit_costs_only_itself_and_is_not_kept() {
        let expected = vec![ok(1, "aaa"), (2, Err(Code::TooLarge)), ok(3, "c")];
        assert_eq!(cut(3, &["aaa\nbbbb\nc"]), expected);
        assert_eq!(cut(3, &["aaa\nbb", "bb", "bbbb", "\nc\n"]), expected);
        assert_eq!(cut(3, &["aaaa"]), vec![(1, Err(Code::TooLarge))]);
    }
}
