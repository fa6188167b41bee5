//! The MCP endpoint `/mcp`, free of any transport.
//!
//! In: a verb, headers and a body, already past Host, Origin, authentication and body size (those are `http`'s). Out: a status, a
//! few headers and a body. Content-Type, Accept, sessions and the era of a message are judged here. Never touches
//! sockets or the store; what it knows about a job, it was told by `service`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::job::Millis;
use crate::net::Courier;
use crate::service::{Catalogue, Detail, Links, Refused, Service, Viewer};

mod accept;
mod app;
mod batch;
mod calls;
mod capabilities;
mod completion;
mod elicit;
mod era;
mod fill;
mod headers;
mod helpers;
mod leash;
mod legacy;
mod library;
mod listen;
mod lists;
mod log;
mod modern;
pub mod occurrences;
mod params;
mod pending;
pub mod prompts;
mod questions;
mod ranges;
mod refusal;
mod reply;
pub mod resources;
mod result;
mod resume;
mod rights;
mod rounds;
mod rpc;
mod session;
mod shown;
mod standing;
mod stream;
mod subscriptions;
mod tasks;
mod thread;
mod tools;
mod view;
mod voice;
mod work;

#[cfg(test)]
mod tests;

pub use batch::BATCH_MAX;
pub use completion::VALUES_MAX;
pub use fill::{FILLED_MAX, Fillable};
pub use headers::Headers;
pub use helpers::{JOBS_MAX, LIST_MAX, TIMEOUT_DEFAULT_MS, TIMEOUT_MAX_MS, is_helper};
pub use log::LOG_SENT_MAX;
pub use modern::LIST_TTL_MS;
pub use params::{dressed, headers_of};
pub use ranges::{TEXT_DEFAULT, TEXT_MAX, TEXT_MIN};
pub use result::CONTENT_MAX;
pub use rights::Rights;
pub use rounds::{STATE_LIVES, STATE_MAX};
pub use rpc::ID_MAX;
pub use session::{SEEN_EVERY, SESSIONS_MAX};
pub use stream::Stream;
pub use subscriptions::{SUBSCRIBED_BYTES_MAX, SUBSCRIPTIONS_MAX};
pub use tasks::{POLL_EVERY_MS, STARTED_MAX, TASKS_PAGE};
pub use thread::{EVENT_ID_MAX, THREAD_ID_MAX};
pub use voice::PROGRESS_EVERY;
pub use work::{ANSWER_WAIT_MAX, OWN_KEY, SILENT_MAX};

use era::{Era, Meta, Revision};
use reply::Reply;
use rpc::{Error, INVALID_PARAMS, INVALID_REQUEST, Message, PARSE_ERROR};
use session::{Abilities, Lookup, Sessions};
use shown::{Marks, Shown};
use tools::Call;

/// One HTTP request to `/mcp`.
pub struct Request<'a> {
    /// The HTTP method, upper case.
    pub verb: &'a str,
    /// Its headers.
    pub headers: &'a dyn Headers,
    /// Its whole body; `http` has bounded it.
    pub body: Bytes,
    /// Who asks.
    pub viewer: Viewer,
    /// What they may do.
    pub rights: Rights,
}

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`; `None` with an empty body.
    pub content_type: Option<&'static str>,
    /// Further headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; its length is the `Content-Length`, unless a stream follows.
    pub body: Bytes,
    /// What follows, piece by piece.
    pub stream: Option<Stream>,
}

/// What the endpoint is told by the configuration.
#[derive(Debug, Clone)]
pub struct Options {
    /// `public_url` without a trailing slash; empty: links are paths.
    pub base: String,
    /// Whether the four helper tools are offered.
    pub helpers: bool,
    /// `mcp.session_ttl`: a session unused for so long is forgotten.
    pub session_ttl: Millis,
    /// `mcp.events`.
    pub events: occurrences::Options,
    /// Configured resources and templates.
    pub stock: resources::Stock,
    /// Configured prompts.
    pub prompts: Vec<prompts::Prompt>,
}

impl Default for Options {
    /// The defaults of contract 7.
    fn default() -> Self {
        Self {
            base: String::new(),
            helpers: true,
            session_ttl: Millis::seconds(7 * 24 * 3_600),
            events: occurrences::Options::default(),
            stock: resources::Stock::default(),
            prompts: Vec::new(),
        }
    }
}

/// The endpoint. One for the process, shared.
pub struct Endpoint {
    service: Arc<Service>,
    clock: Arc<dyn Clock>,
    links: Links,
    sessions: Sessions,
    seal: rounds::Seal,
    /// `None`: hidden.
    helpers: Option<Catalogue>,
    events: occurrences::Options,
    webhooks: Arc<occurrences::Webhooks>,
    shown: ArcSwap<Shown>,
    /// Tells those who listen of what is shown now.
    marks: watch::Sender<Marks>,
    /// Tells those who wait without a stream that they have waited as long as may be.
    waits_end: watch::Sender<bool>,
}

impl Endpoint {
    /// An endpoint with the sessions that were open when the server last stopped.
    ///
    /// # Errors
    /// What `Service::cells` refuses.
    pub async fn load(service: Arc<Service>, clock: Arc<dyn Clock>, options: Options) -> Result<Arc<Self>, Refused> {
        let helpers = match options.helpers {
            true => Some(helpers::catalogue().map_err(Refused::BadJson)?),
            false => None,
        };
        let sessions = Sessions::load(service.clone(), clock.clone(), options.session_ttl).await?;
        let seal = rounds::Seal::load(&service, &*clock).await?;
        let links = Links { base: options.base, detail: Detail::Line };
        let shown = Shown::new(&service.catalogue(), helpers.as_ref(), options.stock, options.prompts);
        let marks = watch::Sender::new(shown.marks);
        let shown = ArcSwap::from_pointee(shown);
        let events = options.events;
        let webhooks = occurrences::Webhooks::load(service.clone(), clock.clone(), events.clone()).await?;
        let waits_end = watch::Sender::new(false);
        Ok(Arc::new(Self { service, clock, links, sessions, seal, helpers, events, webhooks, shown, marks, waits_end }))
    }

    /// Starts callbacks: from now on there are some to subscribe to. The future delivers until `closing`, and returns when how far it came
    /// is durable. Only the first call does anything.
    pub fn deliver(
        &self,
        courier: Arc<dyn Courier>,
        closing: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.webhooks.deliver(courier, closing)
    }

    /// Shows the tools that the service has now, and these; tells those who listen of each list that is another.
    pub fn reload(&self, stock: resources::Stock, prompts: Vec<prompts::Prompt>) {
        let shown = Shown::new(&self.service.catalogue(), self.helpers.as_ref(), stock, prompts);
        let marks = shown.marks;
        self.shown.store(Arc::new(shown));
        self.marks.send_replace(marks);
    }

    /// The grace of the server's end is over: from now on who waits without a stream is answered at once, as when its wait is over.
    pub fn end_waits(&self) {
        self.waits_end.send_replace(true);
    }

    /// Returns when nobody may wait any more.
    async fn waits_ended(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.waits_end.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// What is shown now.
    fn shown(&self) -> Arc<Shown> {
        self.shown.load_full()
    }

    /// Answers one request. Dropping the future is how the transport says that the client went away: a call of
    /// 2026-07-28 without an idempotency key is then cancelled if its answer was not handed out yet; nothing else is.
    pub async fn handle(self: &Arc<Self>, request: Request<'_>) -> Answer {
        let answer = match request.verb {
            "POST" => self.post(&request).await,
            "GET" => resume::answer(self, &request).await,
            "DELETE" => self.delete(&request).await,
            _ => self.no_such_verb(&request),
        };
        #[cfg(test)]
        let answer = tests::held(&request, answer);
        answer
    }

    async fn post(self: &Arc<Self>, request: &Request<'_>) -> Answer {
        let refuse = |status, text: &str| Answer::error(None, &Error::refused(status, INVALID_REQUEST, text));
        let Some(accepts) = accept::accepts(request.headers) else {
            return refuse(406, "answers are application/json or text/event-stream: accept one of them");
        };
        if !accept::is_json(request.headers) {
            return refuse(415, "the body must be application/json");
        }
        let Ok(body) = std::str::from_utf8(&request.body) else {
            return Answer::error(None, &Error::refused(400, PARSE_ERROR, "the body is not UTF-8"));
        };
        if rpc::is_batch(body) {
            return batch::answer(self, request, body, accepts).await;
        }
        let reply = match rpc::read(body) {
            Ok(message) => self.message(request, &message).await,
            Err(unreadable) => Reply::error(unreadable.id, &unreadable.error),
        };
        reply.into_answer(self, accepts).await
    }

    /// Tells the message's era, and has it answered by its rules.
    async fn message(self: &Arc<Self>, request: &Request<'_>, message: &Message<'_>) -> Reply {
        let version = headers::text(request.headers, "mcp-protocol-version");
        let version = version.as_deref();
        let lookup = self.session_of(request);
        let meta = Meta::read(message.params.meta);
        let enveloped = meta.as_ref().is_ok_and(|meta| meta.version.is_some());
        let era = era::of(message.kind, &message.method, enveloped, version, lookup.presence());
        let meta = match meta {
            Ok(meta) => meta,
            Err(why) => return unread_meta(message, era, lookup, version, why),
        };
        let (viewer, rights, body) = (&request.viewer, request.rights, &request.body);
        let (revision, abilities) = (Revision::July2026, Abilities::declared(meta.capabilities));
        let call = Call { revision, viewer, rights, body, params: message.params, meta, session: None, abilities };
        match era {
            Era::Modern => modern::answer(self, message, request.headers, call).await,
            Era::Handshake => legacy::initialize(self, message, viewer, version, lookup.presence()).await,
            Era::Session | Era::Response => legacy::answer(self, message, lookup, version, call).await,
        }
    }

    fn session_of(&self, request: &Request<'_>) -> Lookup {
        let id = headers::value(request.headers, "mcp-session-id");
        self.sessions.find(id.as_deref(), &request.viewer)
    }

    /// Ends a session: 204; then everything with its id is 404.
    async fn delete(&self, request: &Request<'_>) -> Answer {
        let version = headers::text(request.headers, "mcp-protocol-version");
        let lookup = self.session_of(request);
        if matches!(lookup, Lookup::Absent) && era::is_past_sessions(version.as_deref()) {
            return self.no_such_verb(request);
        }
        let ended = match legacy::session(lookup, version.as_deref()) {
            Ok(session) => self.sessions.end(&session).await.map_err(|refused| refusal::internal(&refused)),
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => Answer::empty(204),
            Err(error) => {
                let status = if error.status == 200 { 503 } else { error.status };
                Answer::error(None, &Error { status, ..error })
            }
        }
    }

    /// 405. Of the revision without sessions only POST means anything.
    fn no_such_verb(&self, request: &Request<'_>) -> Answer {
        let version = headers::text(request.headers, "mcp-protocol-version");
        let allow = if era::is_past_sessions(version.as_deref()) { "POST" } else { "GET, POST, DELETE" };
        let error = Error::refused(405, INVALID_REQUEST, format!("send messages by POST; allowed here: {allow}"));
        let mut answer = Answer::error(None, &error);
        answer.headers.push(("allow", allow.into()));
        answer
    }
}

/// `params._meta` that cannot be read: of the era without sessions the envelope is missing, else it is a bad parameter.
fn unread_meta(message: &Message<'_>, era: Era, lookup: Lookup, version: Option<&str>, why: String) -> Reply {
    let id = message.id();
    let status = match era {
        Era::Modern => 400,
        Era::Handshake => 200,
        Era::Session | Era::Response => match legacy::session(lookup, version) {
            Ok(_) if id.is_some() => 200,
            Ok(_) => 400,
            Err(error) => return Reply::error(id, &error),
        },
    };
    Reply::error(id, &Error::refused(status, INVALID_PARAMS, why))
}
