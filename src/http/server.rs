//! Sockets: bound, accepted, served over HTTP/1.1 or h2c, and let go at the end.
//!
//! Every connection is one task, every wait on a peer has a deadline, and the number of connections a limit. Knows
//! nothing of what is asked on them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::{App, Parts};
use super::io::guard;
use super::options::Options;
use crate::shutdown::{Phase, Shutdown};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 4_096;
/// After the end of all work, what open connections have to take their last bytes. Then they are dropped.
pub const FAREWELL: Duration = Duration::from_secs(2);
/// What hyper gathers for one connection before it waits for the peer; also the longest head of a request, in bytes.
const BUFFER_MAX: usize = 64 * 1024;
/// Most headers of a request. Beyond: 431.
const HEADERS_MAX: usize = 100;
/// Most requests at once on one HTTP/2 connection. Beyond, the peer is refused the stream.
const REQUESTS_MAX: u32 = 256;
/// All headers of an HTTP/2 request, in bytes. Beyond: 431.
const HEADER_LIST_MAX: u32 = 32 * 1024;
/// A silent HTTP/2 peer is asked whether it lives after this, and let go when it does not answer as long again.
const PING: Duration = Duration::from_secs(20);
/// Pause after the system refused to accept, for instance because there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Whether this address may be bound: anything but loopback needs credentials.
///
/// # Errors
/// What to do about it, for a person.
pub fn may_bind(listen: SocketAddr, has_tokens: bool) -> Result<(), String> {
    if listen.ip().to_canonical().is_loopback() || has_tokens {
        return Ok(());
    }
    Err(format!(
        "server.listen = {listen} can be reached from other machines, and no [[auth.tokens]] are configured: \
         everybody could run jobs here. Configure a token (longhaul token new), or listen on 127.0.0.1"
    ))
}

/// The bound port and what answers on it.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
    builder: Builder<TokioExecutor>,
    connections: Arc<Semaphore>,
    max_connections: u32,
    first_bytes: Duration,
    write_timeout: Duration,
    shutdown: Shutdown,
}

impl Server {
    /// Binds the port. Call it when recovery is done: from then on clients are answered, or wait in the backlog.
    ///
    /// # Errors
    /// The address is taken, may not be bound without tokens, or the store does not give the tickets' key.
    pub async fn bind(options: &Options, parts: Parts) -> io::Result<Self> {
        may_bind(options.listen, !options.tokens.is_empty()).map_err(io::Error::other)?;
        let shutdown = parts.shutdown.clone();
        allow_descriptors();
        let listener = listen(options.listen)?;
        let refused = |refused| io::Error::other(format!("the tickets' key cannot be read: {refused:?}"));
        let app = Arc::new(App::new(options, parts).await.map_err(refused)?);
        let max_connections = u32::try_from(options.max_connections.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Ok(Self {
            listener,
            app,
            builder: builder(options),
            connections: Arc::new(Semaphore::new(max_connections as usize)),
            max_connections,
            first_bytes: options.header_timeout,
            write_timeout: options.stream_write_timeout,
            shutdown,
        })
    }

    /// The address, with the port that the system chose if it was asked to.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the shutdown has closed everything: stops accepting when it drains, lets what is under way go on, ends
    /// streams at its end, and drops what is still open `FAREWELL` later.
    pub async fn run(self) {
        let drain = self.shutdown.clone();
        tokio::select! {
            () = self.accept() => {}
            () = drain.reached(Phase::Draining) => {}
        }
        let Self { listener, connections, max_connections, .. } = self;
        // From here on a new server may bind the port.
        drop(listener);
        let all_closed = connections.acquire_many(max_connections);
        tokio::select! {
            _ = all_closed => {}
            () = farewell(&drain) => {}
        }
    }

    async fn accept(&self) {
        loop {
            match self.listener.accept().await {
                // Beyond the limit the socket is closed at once: the peer sees that rather than silence.
                Ok((socket, _)) => {
                    if let Ok(place) = self.connections.clone().try_acquire_owned() {
                        self.serve(socket, place);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections right now");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, socket: TcpStream, place: OwnedSemaphorePermit) {
        // A peer that has gone already.
        let Ok(socket) = guard(socket, self.first_bytes, self.write_timeout) else { return };
        let (app, builder, shutdown) = (self.app.clone(), self.builder.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            connection(builder, TokioIo::new(socket), app, shutdown).await;
            drop(place);
        });
    }
}

/// One connection, from its first byte to its end.
pub(super) async fn connection<S>(
    builder: Builder<TokioExecutor>,
    socket: TokioIo<S>,
    app: Arc<App>,
    shutdown: Shutdown,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let app = app.clone();
        // In a box: hyper keeps room for this future as long as the connection is open, streams that only wait included.
        Box::pin(async move { Ok::<_, Infallible>(app.answer(request).await) })
    });
    let mut connection = std::pin::pin!(builder.serve_connection(socket, answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.reached(Phase::Draining) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = farewell(&shutdown) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The moment at which nobody is waited for any more.
async fn farewell(shutdown: &Shutdown) {
    shutdown.reached(Phase::Closing).await;
    tokio::time::sleep(FAREWELL).await;
}

/// Asks for as many descriptors as the system allows: the usual soft limit of 1,024 is far below `max_connections`. If
/// there are too few all the same, accepting pauses.
fn allow_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}

/// The port, bound and listening.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restart need not wait for the last connections of the process before it.
    socket.set_reuseaddr(true)?;
    socket
        .bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
    socket.listen(BACKLOG)
}

/// The limits of every connection.
pub(super) fn builder(options: &Options) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(BUFFER_MAX)
        // Not `pipeline_flush`: with it hyper buffers a stream without limit behind a peer that reads slowly, and never
        // sends the 400 or 431 for a head that it cannot read.
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_MAX)
        .max_header_list_size(HEADER_LIST_MAX)
        .max_send_buf_size(BUFFER_MAX)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_let_in_only_with_tokens() {
        for address in ["127.0.0.1:7450", "127.0.0.2:1", "[::1]:7450", "[::ffff:127.0.0.1]:7450"] {
            assert!(may_bind(address.parse().unwrap(), false).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:7450", "[::]:7450", "192.168.1.1:7450"] {
            let address = address.parse().unwrap();
            assert!(may_bind(address, false).unwrap_err().contains("longhaul token new"));
            assert!(may_bind(address, true).is_ok());
        }
    }
}
