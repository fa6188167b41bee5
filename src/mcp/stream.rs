//! An answer that comes in pieces: one future makes them, and writes each into a slot when the one before was taken.
//!
//! In: a future that speaks through an `Outlet`. Out: pieces, when polled. Nothing is queued, and there is no task: whoever takes the pieces
//! drives the maker, and dropping the stream drops it. Knows no messages.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;

/// What maker and taker share. They are polled by one task, so neither has to wake the other.
#[derive(Default)]
struct Slot {
    piece: Option<Bytes>,
    is_closing: bool,
}

/// The maker's end.
#[derive(Clone, Default)]
pub(super) struct Outlet(Arc<Mutex<Slot>>);

impl Outlet {
    /// Hands on a piece, once the one before was taken.
    pub(super) async fn send(&self, piece: Vec<u8>) {
        let mut piece = Some(Bytes::from(piece));
        poll_fn(|_| {
            let mut slot = self.slot();
            if slot.piece.is_some() {
                return Poll::Pending;
            }
            slot.piece = piece.take();
            Poll::Ready(())
        })
        .await;
    }

    /// Returns when the stream is to end: what is sent from then on is its last.
    pub(super) async fn closing(&self) {
        poll_fn(|_| if self.slot().is_closing { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a test looks at pieces with.
#[cfg(test)]
type Watcher = Box<dyn Fn(&[u8]) + Send>;

/// The taker's end: server-sent events, each piece some whole ones.
pub struct Stream {
    outlet: Outlet,
    maker: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Sees every piece.
    #[cfg(test)]
    watcher: Option<Watcher>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("is_over", &self.maker.is_none()).finish_non_exhaustive()
    }
}

impl Stream {
    /// What the future says through this outlet.
    pub(super) fn new(outlet: Outlet, maker: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            outlet,
            maker: Some(Box::pin(maker)),
            #[cfg(test)]
            watcher: None,
        }
    }

    /// Shows every piece to this first.
    #[cfg(test)]
    pub(super) fn watched(self, watcher: impl Fn(&[u8]) + Send + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..self }
    }

    /// The next piece; `None` after the last.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(piece) = self.take() {
            return Poll::Ready(Some(piece));
        }
        let Some(maker) = &mut self.maker else { return Poll::Ready(None) };
        if maker.as_mut().poll(cx).is_ready() {
            self.maker = None;
            return Poll::Ready(self.take());
        }
        match self.take() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if self.outlet.slot().is_closing => {
                self.maker = None;
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }

    /// The server ends: what the maker has to say to that is still given out, and then the stream ends, whatever it waits for.
    pub fn close(&mut self) {
        self.outlet.slot().is_closing = true;
    }

    fn take(&self) -> Option<Bytes> {
        let piece = self.outlet.slot().piece.take();
        #[cfg(test)]
        if let (Some(piece), Some(watcher)) = (&piece, &self.watcher) {
            watcher(piece);
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(stream: &mut Stream) -> Option<Bytes> {
        poll_fn(|cx| stream.poll_next(cx)).await
    }

    #[tokio::test]
    async fn pieces_come_in_order_and_one_at_a_time() {
        let outlet = Outlet::default();
        let made = Arc::new(Mutex::new(0));
        let (mine, count) = (outlet.clone(), made.clone());
        let mut stream = Stream::new(outlet, async move {
            for piece in ["a", "b", "c"] {
                mine.send(piece.into()).await;
                *count.lock().unwrap() += 1;
            }
        });
        for piece in ["a", "b", "c"] {
            assert_eq!(next(&mut stream).await.as_deref(), Some(piece.as_bytes()));
            assert!(*made.lock().unwrap() <= 3);
        }
        assert_eq!(next(&mut stream).await, None);
        assert_eq!(next(&mut stream).await, None);
    }

    #[tokio::test]
    async fn a_closed_stream_still_says_its_last_word_and_ends_even_if_its_maker_waits_for_ever() {
        let outlet = Outlet::default();
        let mine = outlet.clone();
        let mut stream = Stream::new(outlet, async move {
            mine.closing().await;
            mine.send(b"bye".to_vec()).await;
            std::future::pending::<()>().await;
        });
        stream.close();
        assert_eq!(next(&mut stream).await.as_deref(), Some(&b"bye"[..]));
        assert_eq!(next(&mut stream).await, None);
    }
}
