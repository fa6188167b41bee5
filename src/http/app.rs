//! One request: let in, routed, authenticated, called, dressed.
//!
//! In: a request with an unread body. Out: an answer, always. Knows no sockets.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Method, Request, Response, StatusCode};

use super::auth::{Auth, Caller, Scope};
use super::body::Body;
use super::guard::{Guard, Origin};
use super::options::Options;
use super::problem::{Code, Problem};
use super::query::Query;
use super::router::{Part, Route};
use super::streams::Streams;
use super::ticket::Tickets;
use super::{api, cors, mcp};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::service::{Detail, Links, Refused, Service};
use crate::shutdown::{Phase, Shutdown};

/// What the HTTP side stands on.
pub struct Parts {
    /// The façade.
    pub service: Arc<Service>,
    /// What `/mcp` answers with.
    pub mcp: Arc<crate::mcp::Endpoint>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The time, and chance.
    pub clock: Arc<dyn Clock>,
    /// When to stop.
    pub shutdown: Shutdown,
}

/// Everything that a request may need. One for the process.
pub struct App {
    pub(super) service: Arc<Service>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shutdown: Shutdown,
    pub(super) tickets: Tickets,
    pub(super) streams: Arc<Streams>,
    pub(super) heartbeat: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_body: usize,
    mcp: Arc<crate::mcp::Endpoint>,
    base: String,
    guard: Guard,
    auth: Auth,
}

impl App {
    /// Puts the parts together; reads the tickets' key.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn new(options: &Options, parts: Parts) -> Result<Self, Refused> {
        let Parts { service, mcp, metrics, clock, shutdown } = parts;
        let tickets = Tickets::load(&service, options.ticket_seed).await?;
        let auth = Auth::new(options.tokens.clone());
        let endpoint = mcp.clone();
        shutdown.on(Phase::Releasing, move || endpoint.end_waits());
        let max_streams = (!auth.is_open()).then_some(options.max_streams);
        let base = options.public_url.as_deref().unwrap_or_default();
        Ok(Self {
            streams: Arc::new(Streams::new(max_streams)),
            heartbeat: options.stream_heartbeat,
            clock,
            guard: Guard::new(&options.allowed_hosts, &options.allowed_origins, options.public_url.as_deref()),
            base: base.trim_end_matches('/').into(),
            max_body: options.max_body,
            service,
            metrics,
            shutdown,
            tickets,
            mcp,
            auth,
        })
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (origin, answered) = match self.guard.check(&head.uri, &head.headers) {
            Ok(origin) => (origin, self.call(&head, body, origin).await),
            Err(problem) => (Origin::Own, Err(problem)),
        };
        let mut response = answered.unwrap_or_else(Problem::into_response);
        dress(&mut response);
        if origin == Origin::Configured {
            cors::expose(&head.headers, response.headers_mut());
        }
        if head.method == Method::HEAD { headless(response) } else { response }
    }

    /// What the answers about jobs link to.
    pub(super) fn links(&self, detail: Detail) -> Links {
        Links { base: self.base.clone(), detail }
    }

    async fn call(&self, head: &Head, body: Incoming, origin: Origin) -> Result<Response<Body>, Problem> {
        let route = Route::of(head.uri.path())?;
        if head.method == Method::OPTIONS {
            return Ok(options(route, origin, &head.headers));
        }
        route.check_method(&head.method)?;
        match route {
            Route::Healthz => api::probe::healthz(self),
            Route::Readyz => api::probe::readyz(self).await,
            Route::Mcp => {
                let caller = self.auth.caller(&head.headers)?;
                // Which of the two, each method says.
                caller.needs(Scope::Read).or_else(|_| caller.needs(Scope::Submit))?;
                mcp::answer(self, &self.mcp, head, body, caller).await
            }
            Route::Jobs | Route::Feed | Route::Job(..) | Route::Backup | Route::Metrics => {
                self.call_api(route, head, body).await
            }
        }
    }

    async fn call_api(&self, route: Route, head: &Head, body: Incoming) -> Result<Response<Body>, Problem> {
        let query = Query::parse(head.uri.query())?;
        let caller = self.caller(route, &head.headers, &query)?;
        let makes = head.method == Method::POST && !matches!(route, Route::Job(_, Part::Ticket));
        let others = if makes { Scope::Submit } else { Scope::Read };
        // A backup holds every principal's jobs, and retention waits for it.
        caller.needs(if route == Route::Backup { Scope::Admin } else { others })?;
        match route {
            Route::Jobs if makes => api::submit::create(self, &caller, head, &query, body).await,
            Route::Jobs => api::list::list(self, &caller, &query).await,
            Route::Feed => api::events::feed(self, &caller, head, &query).await,
            Route::Job(id, part) => match part {
                Part::Whole => api::job::show(self, &caller, id, head, &query).await,
                Part::Cancel => api::job::cancel(self, &caller, id, head, body).await,
                Part::Retry => api::job::retry(self, &caller, id, head, body).await,
                Part::Input => api::input::answer(self, &caller, id, head, body).await,
                Part::Ticket => api::job::ticket(self, &caller, id).await,
                Part::Events => api::events::of_job(self, &caller, id, head, &query).await,
                Part::Result => api::bodies::result(self, &caller, id, head, &query).await,
                Part::Partial => api::bodies::partial(self, &caller, id, head, &query).await,
                Part::Log => api::log::page(self, &caller, id, &query).await,
            },
            Route::Backup => api::backup::take(self, head.method == Method::HEAD).await,
            Route::Metrics => api::probe::metrics(self).await,
            Route::Mcp | Route::Healthz | Route::Readyz => Err(Problem::new(Code::NoSuchPath, "nothing is here")),
        }
    }

    /// By the token, or by a ticket where there is no token and a ticket will do.
    fn caller(&self, route: Route, headers: &HeaderMap, query: &Query) -> Result<Caller, Problem> {
        if let Route::Job(id, part) = route
            && part.takes_ticket()
            && !self.auth.is_open()
            && !headers.contains_key(header::AUTHORIZATION)
            && let Some(ticket) = query.one(Code::BadRequest, "ticket")?
        {
            return self.tickets.admit(ticket, id, self.clock.now());
        }
        self.auth.caller(headers)
    }
}

/// 204 with what the path has; for a page of a configured origin, with what it may send.
fn options(route: Route, origin: Origin, asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.allow()));
    if origin == Origin::Configured && cors::is_preflight(asked) {
        cors::grant(asked, route.allow(), response.headers_mut());
    }
    response
}

/// What every answer carries.
fn dress(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// The same without its body; the length stays where it is known.
fn headless(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(len) = body.len().filter(|_| head.status != StatusCode::NO_CONTENT) {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    Response::from_parts(head, Body::empty())
}
