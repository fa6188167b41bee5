//! `GET /api/backup`: everything as of now, as one compressed file, while all goes on.
//!
//! In: an operator's wish. Out: a stream that is cut if it cannot be whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{self, HeaderValue};

use super::put;
use crate::http::app::App;
use crate::http::body::{Body, Broken};
use crate::http::problem::Problem;
use crate::job::EventId;
use crate::service::Backup;

/// Takes a backup; for `HEAD`, only says what one would be.
///
/// # Errors
/// What `Service::backup` refuses.
pub async fn take(app: &App, is_head: bool) -> Result<Response<Body>, Problem> {
    if is_head {
        return Ok(response(Body::empty(), app.service.bounds().epoch, app.service.bounds().last));
    }
    let backup = app.service.backup().await?;
    let bounds = backup.pin.bounds;
    Ok(response(Body::streaming(Pages(Some(backup))), bounds.epoch, bounds.last))
}

fn response(body: Body, epoch: crate::job::Epoch, position: crate::job::Position) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/gzip"));
    let name = format!("attachment; filename=\"longhaul-{}.ndjson.gz\"", EventId { epoch, position });
    put(&mut response, header::CONTENT_DISPOSITION, &name);
    response
}

/// The pages; let go of once the last is out.
struct Pages(Option<Backup>);

impl hyper::body::Body for Pages {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(backup) = &mut self.0 else { return Poll::Ready(None) };
        let page = ready!(backup.poll_next(cx));
        match page {
            Some(Ok(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Err(error)) => {
                tracing::error!(%error, "a backup breaks off");
                self.0 = None;
                Poll::Ready(Some(Err(Broken)))
            }
            None => {
                self.0 = None;
                Poll::Ready(None)
            }
        }
    }
}
