//! The courier over real sockets.
//!
//! In: a POST. Out: what came back. One connection for each request: callbacks are rare, and an address that was checked a
//! minute ago is not checked now.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::is_open;
use super::{ATTEMPT_MAX, Answered, Courier, Failure, Post, Reach, Sending, Target};

/// So much of an answer is read; the rest is not waited for.
pub const ANSWER_MAX: usize = 4 * 1024;
/// And so long it is waited for, once the status is there: that is what counts.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// Addresses of a host that one attempt tries.
const ADDRESSES_MAX: usize = 4;

/// The courier over real sockets. Cheap to share.
pub struct Client {
    reach: Reach,
    tls: TlsConnector,
}

impl Client {
    /// A client that goes where `reach` lets it, and trusts the roots that browsers trust.
    pub fn new(reach: Reach) -> Self {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self { reach, tls: TlsConnector::from(Arc::new(config)) }
    }

    async fn send(&self, post: Post) -> Result<Answered, Failure> {
        if !self.reach.admits(&post.target) {
            return Err(Failure::Forbidden);
        }
        let stream = self.connect(&post.target).await?;
        if !post.target.is_secure {
            return exchange(stream, post).await;
        }
        let name = ServerName::try_from(post.target.host.to_string()).map_err(|_| Failure::Tls)?;
        let stream = self.tls.connect(name, stream).await.map_err(|_| Failure::Tls)?;
        exchange(stream, post).await
    }

    /// A connection to an address that was looked at.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let found = tokio::net::lookup_host((&*target.host, target.port)).await;
        let found: Vec<SocketAddr> = found.map_err(|_| Failure::ConnectionRefused)?.collect();
        // One address that is not open is one too many: which one is taken is not the caller's choice.
        if !self.reach.private && !found.iter().all(|address| is_open(address.ip())) {
            return Err(Failure::Forbidden);
        }
        for address in found.into_iter().take(ADDRESSES_MAX) {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
        }
        Err(Failure::ConnectionRefused)
    }
}

impl Courier for Client {
    fn post(&self, post: Post) -> Sending<'_> {
        Box::pin(
            async move { tokio::time::timeout(ATTEMPT_MAX, self.send(post)).await.unwrap_or(Err(Failure::Timeout)) },
        )
    }
}

/// Sends the request over a connection that nobody else uses, and reads the beginning of the answer.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, post: Post) -> Result<Answered, Failure> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::ConnectionRefused)?;
    let request = request(post).ok_or(Failure::ConnectionRefused)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|_| Failure::ConnectionRefused)?;
        let status = response.status().as_u16();
        Ok(Answered { status, body: beginning(response.into_body()).await })
    };
    // The connection is driven here and ends with the answer: there is no task that could outlive it.
    tokio::pin!(connection, answer);
    tokio::select! {
        biased;
        answered = &mut answer => return answered,
        _ = &mut connection => {}
    }
    answer.await
}

fn request(post: Post) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(post.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = post.target.path.parse().ok()?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_str(&post.target.authority).ok()?);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("longhaul/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in post.headers {
        headers.insert(name, HeaderValue::from_str(&value).ok()?);
    }
    Some(request)
}

/// What the body begins with; what breaks off is as long as it came.
async fn beginning(mut body: Incoming) -> Bytes {
    let mut bytes = BytesMut::new();
    let until = tokio::time::Instant::now() + ANSWER_WAIT;
    while bytes.len() < ANSWER_MAX
        && let Ok(Some(Ok(frame))) = tokio::time::timeout_at(until, body.frame()).await
    {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data[..data.len().min(ANSWER_MAX - bytes.len())]);
        }
    }
    bytes.freeze()
}
