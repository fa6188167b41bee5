//! The guard around a socket: a peer that takes nothing of what is written, or says nothing at first, is let go.
//!
//! In: an accepted socket. Out: the same with two deadlines, which end it by an error, so that hyper closes the
//! connection: hyper itself waits for ever for a write that the peer does not take, and for the bytes by which it tells
//! HTTP/1.1 from HTTP/2. Never looks at what passes but for those.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// What the kernel holds of what a peer has not taken yet, asked for per socket. Linux doubles it.
pub const SEND_BUFFER: usize = 128 * 1024;

/// With what an HTTP/2 client begins. Until the bytes differ from it, or it is complete, the protocol is not known.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

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
}

impl<S> Guarded<S> {
    /// `first_bytes`: until the protocol is known; `write`: how long the peer may take nothing.
    pub fn new(socket: S, first_bytes: Duration, write: Duration) -> Self {
        Self { socket, first: Some((Box::pin(tokio::time::sleep(first_bytes)), 0)), write, stalled: None }
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

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.socket).poll_read(cx, buffer);
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.watch(cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write_vectored(cx, pieces);
        this.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_flush(cx);
        this.watch(cx, result)
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
