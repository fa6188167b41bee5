//! The guard around a socket: a peer that takes nothing of what is written, or says nothing at first, is let go.
//!
//! In: an accepted socket. Out: the same with two deadlines, which end it by an error, so that hyper closes the
//! connection: hyper itself waits for ever for a write that the peer does not take, and for the bytes by which it tells
//! HTTP/1.1 from HTTP/2. Never looks at what passes but for those. A peer that goes away while its request is answered is noticed
//! here too: hyper looks for its end only while it holds no bytes of a next request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// What the kernel holds of what a peer has not taken yet, asked for per socket. Linux doubles it.
pub const SEND_BUFFER: usize = 128 * 1024;

/// With what an HTTP/2 client begins. Until the bytes differ from it, or it is complete, the protocol is not known.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of further requests that are read while one is answered, beside those that hyper holds, to see whether the peer has gone
/// behind them. With more, that shows at the next write, or when the answer ends.
pub const AHEAD_MAX: usize = 16 * 1024;

/// Sets an accepted socket up and guards it.
///
/// # Errors
/// What the system says to the options.
pub fn guard(socket: TcpStream, first_bytes: Duration, write: Duration) -> io::Result<Guarded<TcpStream>> {
    socket.set_nodelay(true)?;
    socket2::SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER)?;
    give_up_unacknowledged(&socket, write)?;
    Ok(Guarded::new(socket, first_bytes, write))
}

/// A half-open peer takes heartbeats for ever, as far as the socket shows: the kernel has to notice that none is
/// acknowledged.
#[cfg(target_os = "linux")]
fn give_up_unacknowledged(socket: &TcpStream, after: Duration) -> io::Result<()> {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket, millis)?)
}

#[cfg(not(target_os = "linux"))]
fn give_up_unacknowledged(_: &TcpStream, _: Duration) -> io::Result<()> {
    Ok(())
}

/// A socket with deadlines. Its timers exist only while they run.
pub struct Guarded<S> {
    socket: S,
    /// Until the protocol is known: the timer, and how much of the preface has come.
    first: Option<(Pin<Box<Sleep>>, usize)>,
    write: Duration,
    /// Runs while a write waits for the peer.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whoever reads is waiting for bytes, and sees the end itself.
    is_awaited: bool,
    /// What was read ahead of it.
    ahead: BytesMut,
    /// The peer's end was read ahead.
    is_ended: bool,
    /// Nothing was read or written since.
    is_still: bool,
}

impl<S> Guarded<S> {
    /// `first_bytes`: until the protocol is known; `write`: how long the peer may take nothing.
    pub fn new(socket: S, first_bytes: Duration, write: Duration) -> Self {
        Self {
            socket,
            first: Some((Box::pin(tokio::time::sleep(first_bytes)), 0)),
            write,
            stalled: None,
            is_awaited: false,
            ahead: BytesMut::new(),
            is_ended: false,
            is_still: false,
        }
    }

    /// Looks whether these bytes settle the protocol.
    fn sniff(&mut self, bytes: &[u8]) {
        if let Some((_, seen)) = &mut self.first {
            let expected = &PREFACE[*seen..];
            let same = bytes.iter().zip(expected).take_while(|(byte, expected)| byte == expected).count();
            *seen += same;
            // End of input settles it too.
            if same < bytes.len() || *seen == PREFACE.len() || bytes.is_empty() {
                self.first = None;
            }
        }
    }

    /// Hands on what was read ahead; whether there was any.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let count = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(count));
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
        count > 0
    }

    /// Passes a write's result on; a wait that has become too long becomes an error.
    fn watch<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let write = self.write;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + write)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing of what is written")))
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Reads ahead while nobody reads, until the peer has no more, or has gone. What is answered at once still gets its answer: the end
    /// counts when the next look finds that nothing has moved.
    fn look_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.is_ended && self.is_still {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the peer has gone while it was answered"));
        }
        while !self.is_ended && !self.is_awaited && self.first.is_none() && self.ahead.len() < AHEAD_MAX {
            let mut piece = [0; 1_024];
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => self.is_ended = true,
                Poll::Ready(Ok(())) => self.ahead.extend_from_slice(buffer.filled()),
            }
        }
        if self.is_ended {
            self.is_still = true;
            cx.waker().wake_by_ref();
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.is_still = false;
        // The end is read again, from the socket.
        if this.give(buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.socket).poll_read(cx, buffer);
        this.is_awaited = result.is_pending();
        match (&result, &mut this.first) {
            (_, None) | (Poll::Ready(Err(_)), Some(_)) => result,
            (Poll::Ready(Ok(())), Some(_)) => {
                this.sniff(&buffer.filled()[before..]);
                result
            }
            (Poll::Pending, Some((timer, _))) => {
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not begin to speak")))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.is_still = false;
        let result = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.watch(cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.is_still = false;
        let result = Pin::new(&mut this.socket).poll_write_vectored(cx, pieces);
        this.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_flush(cx);
        // hyper flushes whenever it has looked at everything else, also when there is nothing to write.
        ready!(this.watch(cx, result))?;
        Poll::Ready(this.look_ahead(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_shutdown(cx);
        this.watch(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const FIRST: Duration = Duration::from_secs(10);
    const WRITE: Duration = Duration::from_secs(30);

    fn pair(buffer: usize) -> (Guarded<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(buffer);
        (Guarded::new(ours, FIRST, WRITE), theirs)
    }

    fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
        result.err().map(|error| error.kind())
    }

    /// A stalled reader made the server hold what it would not take, for ever.
    #[tokio::test(start_paused = true)]
    async fn case_11_a_peer_that_takes_nothing_is_let_go_after_the_deadline() {
        let (mut guarded, _peer) = pair(64);
        let began = Instant::now();
        assert_eq!(kind(guarded.write_all(&[0; 65]).await), Some(io::ErrorKind::TimedOut));
        assert_eq!(began.elapsed(), WRITE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_is_kept_as_long_as_it_takes_something() {
        let (mut guarded, mut peer) = pair(64);
        let began = Instant::now();
        let slow = async {
            let mut taken = [0; 64];
            for _ in 0..10 {
                tokio::time::sleep(WRITE - Duration::from_secs(1)).await;
                peer.read_exact(&mut taken).await.unwrap();
            }
        };
        let write = async {
            let written = guarded.write_all(&[0; 640]).await;
            drop(guarded); // so that the peer does not wait for more
            written
        };
        let (written, ()) = tokio::join!(write, slow);
        assert_eq!(kind(written), None);
        assert!(began.elapsed() > WRITE * 9);
    }

    /// The protocol sniff waited for ever for a peer that says nothing, or stops within the preface.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_begin_to_speak_is_let_go() {
        for beginning in ["", "P", "PRI * HTTP/2.0\r\n"] {
            let (mut guarded, mut peer) = pair(64);
            peer.write_all(beginning.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut text = Vec::new();
            assert_eq!(kind(guarded.read_to_end(&mut text).await), Some(io::ErrorKind::TimedOut), "{beginning:?}");
            assert_eq!((text, began.elapsed()), (beginning.as_bytes().to_vec(), FIRST));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn once_the_protocol_is_known_reading_has_no_deadline_here() {
        for beginning in ["G", "POST", "PUT / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let (mut guarded, mut peer) = pair(64);
            let late = async {
                // Byte by byte: the preface may come in pieces.
                for byte in beginning.bytes() {
                    peer.write_u8(byte).await.unwrap();
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(FIRST * 10).await;
                peer.write_all(b"!").await.unwrap();
                drop(peer);
            };
            let mut text = Vec::new();
            let (read, ()) = tokio::join!(guarded.read_to_end(&mut text), late);
            assert_eq!(kind(read), None);
            assert_eq!(text, format!("{beginning}!").into_bytes());
        }
    }

    /// hyper looks for a peer's end only while it holds no bytes of a next request: who had sent some and went was answered on.
    #[tokio::test]
    async fn a_peer_that_goes_while_nobody_reads_is_noticed_by_the_next_flush() {
        let (mut guarded, mut peer) = pair(64);
        peer.write_all(b"one two").await.unwrap();
        let mut one = [0; 3];
        guarded.read_exact(&mut one).await.unwrap();
        guarded.flush().await.unwrap();
        peer.write_all(b" three").await.unwrap();
        guarded.flush().await.unwrap();
        drop(peer);
        guarded.flush().await.unwrap();
        // What is answered meanwhile is answered.
        assert_eq!(
            kind(guarded.write(b"x").await),
            Some(io::ErrorKind::BrokenPipe),
            "only since the other end is a pipe"
        );
        guarded.flush().await.unwrap();
        assert_eq!(kind(guarded.flush().await), Some(io::ErrorKind::BrokenPipe));
        let mut rest = String::new();
        guarded.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, " two three", "nothing is lost to who reads on");
    }

    #[tokio::test]
    async fn no_more_is_read_ahead_than_the_limit_and_none_while_somebody_reads() {
        let (mut guarded, mut peer) = pair(4 * AHEAD_MAX);
        peer.write_all(&vec![b'x'; 2 * AHEAD_MAX + 1]).await.unwrap();
        guarded.read_u8().await.unwrap();
        guarded.flush().await.unwrap();
        assert_eq!(guarded.ahead.len(), AHEAD_MAX);
        let mut all = vec![0; 2 * AHEAD_MAX];
        guarded.read_exact(&mut all).await.unwrap();
        let mut more = [0; 1];
        let waits = std::future::poll_fn(|cx| {
            let is_waiting = Pin::new(&mut guarded).poll_read(cx, &mut ReadBuf::new(&mut more)).is_pending();
            Poll::Ready(is_waiting)
        });
        assert!(waits.await);
        peer.write_all(b"y").await.unwrap();
        guarded.flush().await.unwrap();
        assert!(guarded.ahead.is_empty());
        assert_eq!(guarded.read_u8().await.unwrap(), b'y');
    }

    #[tokio::test]
    async fn an_accepted_socket_gets_its_options() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut guarded = guard(socket, FIRST, WRITE).unwrap();
        let options = socket2::SockRef::from(&guarded.socket);
        assert!(options.tcp_nodelay().unwrap());
        assert!(options.send_buffer_size().unwrap() >= SEND_BUFFER);
        guarded.write_all(b"hello").await.unwrap();
        assert!(guarded.is_write_vectored());
        drop((guarded, peer));
    }
}
