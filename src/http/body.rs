//! Bodies: requests collected within a limit, answers as one piece or as a stream.
//!
//! Never holds more of a request than its limit, nor waits for it longer than `READ_MAX`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};

use super::problem::{Code, Problem};

/// Longest time that a request's body may take; a bulk body: that one line may take. Then 400 and the connection ends.
pub const READ_MAX: Duration = Duration::from_secs(30);

/// An answer that cannot be finished: the connection is cut, so that the client sees that something is missing.
#[derive(Debug)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the rest of the answer could not be read")
    }
}

impl std::error::Error for Broken {}

/// What streams produce.
pub type Stream = dyn hyper::body::Body<Data = Bytes, Error = Broken> + Send;

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Streaming(Pin<Box<Stream>>),
}

impl Body {
    /// No bytes at all.
    pub const fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// These bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// Whatever comes, until it ends.
    pub fn streaming(stream: impl hyper::body::Body<Data = Bytes, Error = Broken> + Send + 'static) -> Self {
        Self(Kind::Streaming(Box::pin(stream)))
    }

    /// How many bytes, if that is known.
    pub fn len(&self) -> Option<u64> {
        hyper::body::Body::size_hint(self).exact()
    }

    /// Known to have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Streaming(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Streaming(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Streaming(stream) => stream.size_hint(),
        }
    }
}

/// The whole body of a request, if it has at most `max` bytes.
///
/// # Errors
/// `too_large`, known from `Content-Length` or once it is; `bad_request` if it breaks off or takes over `READ_MAX`.
pub async fn collect(mut incoming: Incoming, max: usize) -> Result<Bytes, Problem> {
    if hyper::body::Body::size_hint(&incoming).lower() > max as u64 {
        return Err(too_large(max));
    }
    match tokio::time::timeout(READ_MAX, gather(&mut incoming, max)).await {
        Ok(collected) => collected,
        Err(_) => Err(Problem::new(Code::BadRequest, format!("the body took longer than {} s", READ_MAX.as_secs()))),
    }
}

/// A body of one frame is handed on as it came; only more frames are copied together.
async fn gather(incoming: &mut Incoming, max: usize) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(data) = next_data(incoming).await? {
        if first.len() + rest.len() + data.len() > max {
            return Err(too_large(max));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// The next bytes of a body; `None` at its end.
///
/// # Errors
/// `bad_request` if it breaks off.
pub async fn next_data(incoming: &mut Incoming) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = incoming.frame().await {
        match frame {
            // Trailers carry nothing that we read.
            Ok(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                Ok(_) | Err(_) => {}
            },
            Err(_) => return Err(Problem::new(Code::BadRequest, "the body broke off")),
        }
    }
    Ok(None)
}

/// 413, with the limit named.
pub fn too_large(max: usize) -> Problem {
    Problem::new(Code::TooLarge, format!("more than server.max_body = {max} bytes"))
}
