//! A tail as a stream of server-sent events (design 6), and the cursor that a request brings.
//!
//! In: a `Tail`; headers and query. Out: a body that hyper polls, which holds no frames and has no task of its own.
//! Never decides what a reader may see: `service` made the tail.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::{Body, Broken};
use super::heartbeat::Heartbeat;
use super::problem::{Code, Problem};
use super::query::Query;
use crate::events::{self, Start, Tail};
use crate::shutdown::{Phase, Shutdown};

/// The header with which a client resumes.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The parameter with which it resumes; the header wins.
pub const LAST_EVENT_ID_PARAMETER: &str = "last_event_id";
/// The cursor before everything that is kept.
pub const EARLIEST: &str = "earliest";

/// Names under which other servers take a cursor. Here each is refused with the right one, not passed over in silence.
const STRANGE_CURSORS: [&str; 12] = [
    "lastEventId",
    "lastEventID",
    "LastEventId",
    "lasteventid",
    "last-event-id",
    "Last-Event-ID",
    "cursor",
    "since",
    "since_id",
    "after",
    "from",
    "offset",
];

/// Shortest delay after which a client that lost its stream is told to come back; chance adds as much again.
pub const RETRY_MIN: Duration = Duration::from_millis(1_000);

/// Where the request wants to start; `None` if it does not say. `others`: the parameters that the call knows beside the
/// cursor.
///
/// # Errors
/// `bad_cursor` for a malformed cursor, or one under another name; `bad_filter` for parameters that nobody knows.
pub fn start(headers: &HeaderMap, query: &Query, others: &[&str]) -> Result<Option<Start>, Problem> {
    for name in STRANGE_CURSORS.into_iter().filter(|name| !others.contains(name)) {
        if query.all(name).next().is_some() {
            let message = "is no cursor here: use last_event_id, or the header Last-Event-ID";
            return Err(Problem::of_field(Code::BadCursor, name, message));
        }
    }
    let known: Vec<&str> = others.iter().copied().chain([LAST_EVENT_ID_PARAMETER]).collect();
    query.only(Code::BadFilter, &known)?;
    match from_header(headers)? {
        Some(start) => Ok(Some(start)),
        None => match query.one(Code::BadCursor, LAST_EVENT_ID_PARAMETER)? {
            Some(text) => parse(text, LAST_EVENT_ID_PARAMETER),
            None => Ok(None),
        },
    }
}

fn from_header(headers: &HeaderMap) -> Result<Option<Start>, Problem> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = "Last-Event-ID";
    if values.any(|other| other != value) {
        return Err(Problem::of_field(Code::BadCursor, name, "is there more than once"));
    }
    let text = value.to_str().map_err(|_| malformed(name))?;
    parse(text, name)
}

fn parse(text: &str, name: &str) -> Result<Option<Start>, Problem> {
    match text {
        "" => Ok(None),
        EARLIEST => Ok(Some(Start::Earliest)),
        id => id.parse().map(|id| Some(Start::After(id))).map_err(|_| malformed(name)),
    }
}

fn malformed(name: &str) -> Problem {
    Problem::of_field(Code::BadCursor, name, "must be the id of an event, such as 0a1b2c3d-42, or `earliest`")
}

/// The answer to a reader: its stream, or 204 if nothing will ever follow. `spread` is 0..1, by chance.
pub fn respond(tail: Tail, heartbeat: Duration, spread: f64, shutdown: &Shutdown) -> Response<Body> {
    let no_store = HeaderValue::from_static("no-store, no-transform");
    if tail.is_over() {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        return response;
    }
    let mut response = Response::new(Body::streaming(Stream::new(tail, heartbeat, spread, shutdown)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, no_store);
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The body of a stream.
struct Stream {
    tail: Tail,
    stage: Stage,
    heartbeat: Heartbeat,
    shutdown: Shutdown,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    retry_ms: u64,
}

#[derive(Clone, Copy)]
enum Stage {
    Opening,
    Following,
    Ended,
}

impl Stream {
    fn new(tail: Tail, heartbeat: Duration, spread: f64, shutdown: &Shutdown) -> Self {
        let closing = shutdown.clone();
        Self {
            tail,
            stage: Stage::Opening,
            heartbeat: Heartbeat::new(heartbeat),
            shutdown: shutdown.clone(),
            closing: Box::pin(async move { closing.reached(Phase::Closing).await }),
            retry_ms: u64::try_from(RETRY_MIN.mul_f64(1.0 + spread.clamp(0.0, 1.0)).as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What the client hears first. On the feed also its cursor, so that it has one before the first event.
    fn opening(&self) -> Vec<u8> {
        let mut text = format!("retry: {}\n: longhaul\n\n", self.retry_ms).into_bytes();
        if self.tail.is_feed() && self.tail.connects() {
            text.extend_from_slice(&events::cursor(self.tail.cursor()));
        }
        text
    }

    fn poll_following(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if self.shutdown.phase() >= Phase::Closing {
            return Poll::Ready(Some(Ok(self.farewell())));
        }
        if let Poll::Ready(next) = self.tail.poll_next(cx) {
            self.heartbeat.sent();
            return Poll::Ready(match next {
                Some(Ok(bytes)) => Some(Ok(bytes)),
                Some(Err(_)) => Some(Err(Broken)),
                None => None,
            });
        }
        if let Poll::Ready(beat) = self.poll_heartbeat(cx) {
            return Poll::Ready(Some(Ok(beat)));
        }
        match self.closing.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Ok(self.farewell()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        self.heartbeat.poll_due(cx).map(|()| {
            if self.tail.is_filtered() {
                events::cursor(self.tail.cursor()).into()
            } else {
                Bytes::from_static(b":\n\n")
            }
        })
    }

    /// The server ends: come back in a moment.
    fn farewell(&mut self) -> Bytes {
        self.stage = Stage::Ended;
        format!("retry: {}\n\n", self.retry_ms).into()
    }
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let stream = self.get_mut();
        match stream.stage {
            Stage::Opening => {
                stream.stage = Stage::Following;
                Poll::Ready(Some(Ok(Frame::data(stream.opening().into()))))
            }
            Stage::Following => {
                let next = std::task::ready!(stream.poll_following(cx));
                if !matches!(next, Some(Ok(_))) {
                    stream.stage = Stage::Ended;
                }
                Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
            }
            Stage::Ended => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use std::future::poll_fn;

    use hyper::body::Body as _;

    use super::*;
    use crate::events::tests::fixture::World;
    use crate::events::{Filter, Sizes};
    use crate::job::{EventId, JobId};

    const BEAT: Duration = Duration::from_secs(15);

    fn wish(header: Option<&[u8]>, query: &str) -> Result<Option<Start>, Code> {
        let mut headers = HeaderMap::new();
        if let Some(bytes) = header {
            headers.insert(LAST_EVENT_ID, HeaderValue::from_bytes(bytes).unwrap());
        }
        let query = Query::parse(Some(query)).unwrap();
        start(&headers, &query, &["type", "limit"]).map_err(|problem| problem.code)
    }

    fn after(id: &str) -> Result<Option<Start>, Code> {
        Ok(Some(Start::After(id.parse::<EventId>().unwrap())))
    }

    /// Clients sent the cursor under a name that the hub did not read: it was passed over in silence.
    #[test]
    fn case_18_the_cursor_has_two_names_the_header_wins_and_every_other_name_is_refused() {
        let (one, two) = ("0a1b2c3d-1", "0a1b2c3d-2");
        assert_eq!(wish(None, ""), Ok(None));
        assert_eq!(wish(Some(one.as_bytes()), ""), after(one));
        assert_eq!(wish(None, &format!("last_event_id={two}&type=x")), after(two));
        assert_eq!(wish(Some(one.as_bytes()), &format!("last_event_id={two}")), after(one));
        assert_eq!(wish(Some(b""), &format!("last_event_id={two}")), after(two), "empty is absent");
        assert_eq!(wish(Some(b""), "last_event_id="), Ok(None));
        assert_eq!(wish(None, "last_event_id=earliest"), Ok(Some(Start::Earliest)));
        assert_eq!(wish(Some(b"earliest"), ""), Ok(Some(Start::Earliest)));
        for name in STRANGE_CURSORS {
            assert_eq!(wish(None, &format!("{name}={one}")), Err(Code::BadCursor), "{name}");
            assert_eq!(wish(Some(two.as_bytes()), &format!("{name}={one}")), Err(Code::BadCursor), "{name}");
        }
        assert_eq!(wish(None, "types=x"), Err(Code::BadFilter));
        assert_eq!(wish(None, &format!("last_event_id={one}&last_event_id={two}")), Err(Code::BadCursor));
    }

    /// A malformed id is said to be one; it neither crashes nor means "from the beginning".
    #[test]
    fn case_02_a_malformed_cursor_is_a_bad_request() {
        for text in [
            "random",
            "-5",
            "0a1b2c3d--5",
            "0a1b2c3d-",
            "-",
            "0A1B2C3D-1",
            "0a1b2c3d-01",
            "0a1b2c3d-1 ",
            " 0a1b2c3d-1",
            "0a1b2c3d-1x",
            "a1b2c3d-1",
            "0a1b2c3d-99999999999999999999",
            "0a1b2c3d-+1",
            "12345",
            "Earliest",
            "€",
            &"9".repeat(10_000),
        ] {
            assert_eq!(wish(Some(text.as_bytes()), ""), Err(Code::BadCursor), "{text}");
        }
        assert_eq!(wish(Some(b"0a1b2c3d-1\xff"), ""), Err(Code::BadCursor));
        assert_eq!(wish(None, "last_event_id=%00"), Err(Code::BadCursor));
        assert_eq!(wish(None, "last_event_id=0a1b2c3d-1%0d%0a"), Err(Code::BadCursor));
        let mut headers = HeaderMap::new();
        headers.append(LAST_EVENT_ID, HeaderValue::from_static("0a1b2c3d-1"));
        headers.append(LAST_EVENT_ID, HeaderValue::from_static("0a1b2c3d-2"));
        assert_eq!(start(&headers, &Query::default(), &[]).unwrap_err().code, Code::BadCursor);
    }

    async fn next(body: &mut Body) -> Option<String> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    }

    fn feed(world: &World, filter: Filter, shutdown: &Shutdown) -> Body {
        let tail = Tail::feed(&world.published, filter, Start::Now);
        respond(tail, BEAT, 0.5, shutdown).into_body()
    }

    fn nobody() -> Filter {
        Filter { jobs: vec![JobId::from_u128(7)], ..Filter::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_begins_with_when_to_come_back_and_the_cursor_and_no_proxy_may_hold_it() {
        let mut world = World::new(Sizes::default());
        let job = world.create("t", "o", &[]);
        let tail = Tail::feed(&world.published, Filter::default(), Start::Now);
        let response = respond(tail, BEAT, 0.5, &Shutdown::default());
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header("content-type"), "text/event-stream; charset=utf-8");
        assert_eq!(header("cache-control"), "no-store, no-transform");
        assert_eq!(header("x-accel-buffering"), "no");
        let cursor = world.id(world.last());
        let opening = next(&mut response.into_body()).await;
        assert_eq!(opening, Some(format!("retry: 1500\n: longhaul\n\nid: {cursor}\n\n")));
        let tail = Tail::job(&world.published, &world.head(job), Start::Earliest).await.unwrap();
        let mut body = respond(tail, BEAT, 0.0, &Shutdown::default()).into_body();
        assert_eq!(next(&mut body).await.as_deref(), Some("retry: 1000\n: longhaul\n\n"));
        assert!(next(&mut body).await.unwrap().contains("event: job.created\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_is_broken_by_a_comment_or_on_a_filtered_feed_by_the_cursor() {
        let mut world = World::new(Sizes::default());
        let shutdown = Shutdown::default();
        let began = Instant::now();
        let (mut all, mut filtered) = (feed(&world, Filter::default(), &shutdown), feed(&world, nobody(), &shutdown));
        next(&mut all).await;
        next(&mut filtered).await;
        assert_eq!(next(&mut all).await.as_deref(), Some(":\n\n"));
        assert_eq!(began.elapsed().as_secs(), 15);
        // What was sent since puts the next one off.
        tokio::time::advance(Duration::from_secs(10)).await;
        let job = world.create("t", "o", &[]);
        world.published.announce();
        assert!(next(&mut all).await.unwrap().contains(&job.to_string()));
        assert_eq!(next(&mut all).await.as_deref(), Some(":\n\n"));
        assert_eq!(began.elapsed().as_secs(), 40);
        let cursor = world.id(world.last());
        assert_eq!(next(&mut filtered).await, Some(format!("id: {cursor}\n\n")), "past what does not concern it");
    }

    /// Graceful shutdown waited for ever while an event stream was open.
    #[tokio::test(start_paused = true)]
    async fn case_14_open_streams_end_at_once_with_a_retry_hint() {
        let world = World::new(Sizes::default());
        let shutdown = Shutdown::default();
        let mut idle = feed(&world, Filter::default(), &shutdown);
        next(&mut idle).await;
        shutdown.advance(Phase::Draining);
        let ends = async {
            tokio::task::yield_now().await;
            shutdown.advance(Phase::Closing);
        };
        let began = Instant::now();
        let (last, ()) = tokio::join!(next(&mut idle), ends);
        assert_eq!(last.as_deref(), Some("retry: 1500\n\n"));
        assert_eq!(next(&mut idle).await, None);
        assert!(began.elapsed().is_zero());
        let mut late = feed(&world, Filter::default(), &shutdown);
        next(&mut late).await;
        assert_eq!(next(&mut late).await.as_deref(), Some("retry: 1500\n\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_its_job_and_a_reconnect_is_told_that_nothing_follows() {
        let mut world = World::new(Sizes::default());
        let job = world.create("t", "o", &[]);
        world.start(job);
        world.complete(job);
        let tail = async |start| Tail::job(&world.published, &world.head(job), start).await.unwrap();
        let mut body = respond(tail(Start::Earliest).await, BEAT, 0.0, &Shutdown::default()).into_body();
        let mut text = String::new();
        while let Some(more) = next(&mut body).await {
            text.push_str(&more);
        }
        assert!(text.contains("event: job.completed\n"));
        let response = respond(tail(world.after(world.last())).await, BEAT, 0.0, &Shutdown::default());
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        assert!(response.body().is_end_stream());
    }
}
