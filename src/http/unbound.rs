//! A server without a port: whole connections over any pair of pipes, with the parser, limits and answers of the real one.
//!
//! In: a pipe with requests. Out: answers on it. For the fuzz target; not part of a release build.

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};

use super::app::{App, Parts};
use super::options::Options;
use super::server::{builder, connection};
use crate::service::Refused;
use crate::shutdown::Shutdown;

/// What answers on every pipe.
pub struct Unbound {
    app: Arc<App>,
    builder: Builder<TokioExecutor>,
    shutdown: Shutdown,
}

impl Unbound {
    /// Puts the parts together.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn new(options: &Options, parts: Parts) -> Result<Self, Refused> {
        let shutdown = parts.shutdown.clone();
        Ok(Self { app: Arc::new(App::new(options, parts).await?), builder: builder(options), shutdown })
    }

    /// Answers what comes until the pipe, or the connection on it, ends.
    pub async fn serve<S>(&self, pipe: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection(self.builder.clone(), TokioIo::new(pipe), self.app.clone(), self.shutdown.clone()).await;
    }
}
