//! `/mcp` over HTTP: hands a request to `crate::mcp` and its answer back.
//!
//! Bounds the body; everything else about MCP, `Accept` and `Content-Type` included, is judged there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};

use super::app::App;
use super::auth::{Caller, Scope};
use super::body::{Body, Broken, collect};
use super::heartbeat::Heartbeat;
use super::problem::Problem;
use super::streams::Permit;
use crate::mcp::{Answer, Endpoint, Headers, Request, Rights, Stream};
use crate::shutdown::Phase;

struct Sent<'a> {
    headers: &'a HeaderMap,
    /// Its principal may open no more streams: then it takes JSON alone.
    is_full: bool,
}

impl Headers for Sent<'_> {
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        match name {
            "accept" if self.is_full => see(b"application/json"),
            _ => self.headers.get_all(name).iter().for_each(|value| see(value.as_bytes())),
        }
    }
}

/// Answers one request. Dropping the future tells `mcp` that the client went away.
///
/// # Errors
/// `too_large`, `bad_request`: the body could not be had. `too_many`: this principal has too many streams open.
pub async fn answer(
    app: &App,
    endpoint: &Arc<Endpoint>,
    head: &Head,
    body: Incoming,
    caller: Caller,
) -> Result<Response<Body>, Problem> {
    let body = collect(body, app.max_body).await?;
    let Caller { viewer, scopes, is_ticket: _ } = caller;
    let rights = Rights { reads: scopes.has(Scope::Read), submits: scopes.has(Scope::Submit) };
    let principal = viewer.principal.clone();
    // Before anything is started: a call must not be refused for want of a stream when it runs already.
    let permit = app.streams.enter(&principal);
    let headers = Sent { headers: &head.headers, is_full: permit.is_err() };
    let request = Request { verb: head.method.as_str(), headers: &headers, body, viewer, rights };
    let mut answer = endpoint.handle(request).await;
    match (answer.stream.take(), permit) {
        (Some(stream), Ok(permit)) => Ok(response(answer, Body::streaming(Pieces::new(app, stream, permit)))),
        (_, Err(problem)) if answer.status == StatusCode::NOT_ACCEPTABLE => Err(problem),
        _ => {
            let body = Body::whole(std::mem::take(&mut answer.body));
            Ok(response(answer, body))
        }
    }
}

fn response(answer: Answer, body: Body) -> Response<Body> {
    let Answer { status, content_type, headers, .. } = answer;
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    if let Some(content_type) = content_type {
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in headers {
        // A value that HTTP cannot carry is left out; the answer stands without it.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// A stream as a body: its pieces as they come, a comment where it is quiet for long, and its end with the server's.
struct Pieces {
    stream: Stream,
    heartbeat: Heartbeat,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_closed: bool,
    _permit: Permit,
}

impl Pieces {
    fn new(app: &App, stream: Stream, permit: Permit) -> Self {
        let shutdown = app.shutdown.clone();
        let closing = Box::pin(async move { shutdown.reached(Phase::Closing).await });
        Self { stream, heartbeat: Heartbeat::new(app.heartbeat), closing, is_closed: false, _permit: permit }
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        if !this.is_closed && this.closing.as_mut().poll(cx).is_ready() {
            this.is_closed = true;
            this.stream.close();
        }
        if let Poll::Ready(piece) = this.stream.poll_next(cx) {
            this.heartbeat.sent();
            return Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))));
        }
        this.heartbeat.poll_due(cx).map(|()| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}
