//! `/mcp` over HTTP: hands a request to `crate::mcp` and its answer back.
//!
//! Bounds the body; everything else about MCP, `Accept` and `Content-Type` included, is judged there.

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};

use super::body::{Body, collect};
use super::problem::Problem;
use crate::mcp::{Answer, Endpoint, Headers, Request};
use crate::service::Viewer;

struct Sent<'a>(&'a HeaderMap);

impl Headers for Sent<'_> {
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        self.0.get_all(name).iter().for_each(|value| see(value.as_bytes()));
    }
}

/// Answers one request. Dropping the future tells `mcp` that the client went away.
///
/// # Errors
/// `too_large`, `bad_request`: the body could not be had.
pub async fn answer(
    endpoint: &Endpoint,
    head: &Head,
    body: Incoming,
    viewer: Viewer,
    max_body: usize,
) -> Result<Response<Body>, Problem> {
    let body = collect(body, max_body).await?;
    let request = Request { verb: head.method.as_str(), headers: &Sent(&head.headers), body, viewer };
    Ok(response(endpoint.handle(request).await))
}

fn response(answer: Answer) -> Response<Body> {
    let Answer { status, content_type, headers, body } = answer;
    let mut response = Response::new(Body::whole(body));
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
