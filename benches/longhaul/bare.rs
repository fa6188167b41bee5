//! The bare servers: hyper doing only the unavoidable. Each is this program again, as a child of the one that measures.
//!
//! `constant N` answers every request with the same N bytes. `stream` sends what is posted to it to everybody who reads,
//! from one shared ring, woken no more often than the real server wakes. Neither checks, parses or stores anything.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::{Result, report};

/// What a bare server does with one request.
#[derive(Clone)]
enum Role {
    /// Answers this.
    Constant(Bytes),
    /// Keeps what is posted for those who read.
    Stream(Arc<Ring>),
}

/// Serves in the role named until the process is killed.
pub fn serve(role: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let role = match role {
            [name, size] if name == "constant" => Role::Constant(vec![b'x'; size.parse()?].into()),
            [name] if name == "stream" => {
                let ring = Arc::new(Ring::default());
                tokio::spawn(announce(ring.clone()));
                Role::Stream(ring)
            }
            _ => return Err("no such bare server".into()),
        };
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        report::address(listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let role = role.clone();
            let service = service_fn(move |request| answer(role.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move {
                // A peer that goes away is no news.
                let _ = connection.await;
            });
        }
    })
}

async fn answer(role: Role, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>> {
    let is_post = request.method() == Method::POST;
    let body = request.into_body().collect().await?.to_bytes();
    let (content_type, body) = match role {
        Role::Constant(bytes) => ("application/json", Full::new(bytes).boxed()),
        Role::Stream(ring) if is_post => {
            ring.lock().fresh.extend_from_slice(&body);
            ring.news.notify_one();
            ("application/json", Full::new(body).boxed())
        }
        Role::Stream(ring) => {
            let at = ring.lock().end();
            ("text/event-stream", Reader { ring, at }.boxed())
        }
    };
    Ok(Response::builder().header(CONTENT_TYPE, content_type).body(body)?)
}

/// Pieces that are kept: more than any reader is ever behind, as the generator waits for them.
const PIECES_MAX: usize = 64;

/// What was posted, in pieces that are shared by all readers.
#[derive(Default)]
struct Ring {
    state: Mutex<State>,
    news: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    first: usize,
    pieces: VecDeque<Bytes>,
    fresh: BytesMut,
    waiting: Vec<Waker>,
}

impl State {
    fn end(&self) -> usize {
        self.first + self.pieces.len()
    }
}

impl Ring {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a piece of what is new and wakes everybody, with the real server's pauses.
async fn announce(ring: Arc<Ring>) {
    loop {
        ring.news.notified().await;
        let waiting = {
            let mut state = ring.lock();
            let piece = state.fresh.split().freeze();
            state.pieces.push_back(piece);
            if state.pieces.len() > PIECES_MAX {
                state.pieces.pop_front();
                state.first += 1;
            }
            std::mem::take(&mut state.waiting)
        };
        let woken = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        waiting.into_iter().for_each(Waker::wake);
        tokio::time::sleep(Duration::from_millis(5) * woken / 1_000).await;
    }
}

/// The body of one reader: where it is.
struct Reader {
    ring: Arc<Ring>,
    at: usize,
}

impl hyper::body::Body for Reader {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        let ring = self.ring.clone();
        let mut state = ring.lock();
        let Some(piece) = self.at.checked_sub(state.first).and_then(|at| state.pieces.get(at)) else {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        };
        self.at += 1;
        Poll::Ready(Some(Ok(Frame::data(piece.clone()))))
    }
}
