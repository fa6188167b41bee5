//! `longhaul serve`: puts the parts together, runs them, and takes them apart again.
//!
//! The only file that names concrete parts. In: a `Config`. Out: an exit code. Start: store, recovery, core, workers, port, in
//! that order; end: the other way round, in the four phases of `shutdown`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::exit;
use super::failure::{self, Failure};
use super::logging;
use super::output;
use super::parts;
use super::reload::{self, Reloaded};
use super::settings::Settings;
use super::stdio::place::{self, Written};
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::core::{self, Fatal, Handle, LocalWork};
use crate::events::{self, Published};
use crate::fault::{self, Point};
use crate::handler::Roster;
use crate::handler::command::strays;
use crate::metrics::Metrics;
use crate::run::Runner;
use crate::service::{self, Catalogue, Service};
use crate::shutdown::{Phase, Shutdown};
use crate::store::{self, Store};
use crate::{http, mcp, net};

/// After the grace, what attempts have to come back before they are released without their word. Longer than the
/// default `cancel_grace`, so that children end by themselves first.
const RELEASE_GRACE: Duration = Duration::from_secs(6);

/// What runs once everything is put together.
struct Running {
    core: Handle,
    service: Arc<Service>,
    roster: Arc<Roster>,
    runner: Runner,
    metrics: Arc<Metrics>,
    published: Arc<Published>,
    ended: mpsc::UnboundedReceiver<Fatal>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
}

/// What serves.
struct Bound {
    server: http::Server,
    endpoint: Arc<mcp::Endpoint>,
    /// Delivers callbacks.
    deliveries: JoinHandle<()>,
}

/// Why the server did not start.
enum NoStart {
    /// The store.
    Store(store::Error),
    /// Anything else, for a person.
    Other(String),
}

impl From<store::Error> for NoStart {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<events::Error> for NoStart {
    fn from(error: events::Error) -> Self {
        match error {
            events::Error::Unreadable(error) => Self::Store(advised(error)),
            other @ (events::Error::Busy | events::Error::Forgotten) => Self::Other(format!("the log: {other:?}")),
        }
    }
}

impl From<Fatal> for NoStart {
    fn from(fatal: Fatal) -> Self {
        match fatal {
            Fatal::Store(error) => Self::Store(advised(error)),
            Fatal::Bug(why) => Self::Other(why),
            Fatal::Closed => Self::Other("the core ended".into()),
        }
    }
}

/// Damage that opening did not meet, with what to do about it.
fn advised(error: store::Error) -> store::Error {
    match error {
        store::Error::Corrupt { at, why } => {
            let why =
                format!("{why}. Put the directory back from a backup; `longhaul verify` says what is wrong with it");
            store::Error::Corrupt { at, why }
        }
        other @ (store::Error::Unavailable(_)
        | store::Error::Body { .. }
        | store::Error::Locked(_)
        | store::Error::Full(_)) => other,
    }
}

/// Who has this process serve, and what it is told.
pub trait Host: Send {
    /// The server listens there.
    fn serves(&mut self, address: SocketAddr);

    /// Whether another process's hold on the store is a reason to look for its server, rather than to end.
    fn joins(&self) -> bool;

    /// The configuration as it is written now.
    ///
    /// # Errors
    /// Every complaint about it.
    fn reread(&self) -> Result<Config, Failure>;

    /// Returns when nobody needs the server any more.
    fn over(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// `longhaul serve`: says on stdout where it serves, and ends with a signal.
struct Standalone<'a>(&'a Settings);

impl Host for Standalone<'_> {
    fn serves(&mut self, address: SocketAddr) {
        output::say(&format!("longhaul {} serves on http://{address}", env!("CARGO_PKG_VERSION")));
    }

    fn joins(&self) -> bool {
        false
    }

    fn reread(&self) -> Result<Config, Failure> {
        self.0.read()
    }

    fn over(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// Serves until a signal or a failure ends it.
///
/// # Errors
/// What is wrong with the settings.
pub fn run(settings: &Settings) -> Result<ExitCode, Failure> {
    let config = settings.read()?;
    // It ends the process, or says why it did not start.
    Ok(host(&config, &mut Standalone(settings)).unwrap_or_else(|| exit::FAILED.into()))
}

/// Serves until a signal, a failure or its host ends it; `None` if another process holds the store and the host joins. Blocks; ends the
/// process itself once the store is closed, because sled's own drop would unwrap its last sync (design 5.8).
pub fn host(config: &Config, host: &mut dyn Host) -> Option<ExitCode> {
    logging::tell_of_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            output::complain(&format!("no runtime: {why}"));
            return Some(exit::FAILED.into());
        }
    };
    // Before the store is opened, which may take a while: a wish to read the configuration again must not end the process.
    let hangup = runtime.block_on(async { signal(SignalKind::hangup()) });
    let running = match start(config) {
        Ok(running) => running,
        Err(NoStart::Store(store::Error::Locked(_))) if host.joins() => return None,
        Err(NoStart::Store(error)) => {
            output::complain(&format!("{error}{}", failure::remedy(&error)));
            return Some(exit::of_store(&error).into());
        }
        Err(NoStart::Other(why)) => {
            output::complain(&why);
            return Some(exit::FAILED.into());
        }
    };
    let code = runtime.block_on(serve(config, running, host, hangup));
    if host.joins() {
        place::remove(&config.data_dir);
    }
    // After a graceful end there is none; after a failure or a second signal no program may outlive its server.
    strays::end(&parts::mark(config));
    std::process::exit(i32::from(code))
}

fn start(config: &Config) -> Result<Running, NoStart> {
    if config.durability == store::Durability::Process {
        tracing::warn!("store.durability = \"process\": a power cut may lose what was acknowledged last");
    }
    reload::tell_doubts(config);
    let clock: Arc<dyn Clock> = Arc::new(System);
    let (told, ended) = mpsc::unbounded_channel();
    let sled = store::sled::Sled::open(&parts::store(config))?;
    let of_failure = told.clone();
    // Whoever listened has ended already: the process is on its way out.
    sled.on_failure(Box::new(move |error| drop(of_failure.send(Fatal::Store(error.clone())))));
    let store: Arc<dyn Store> = Arc::new(sled);
    let strays = strays::end(&parts::mark(config));
    if strays > 0 {
        tracing::warn!(strays, "programs of the last server were still running and have been ended");
    }
    let tools = config.tools.iter().map(|tool| tool.tool.clone()).collect();
    let catalogue = Arc::new(Catalogue::new(tools).map_err(NoStart::Other)?);
    let roster = Arc::new(Roster::from_pointee(parts::handlers(config, &catalogue).map_err(NoStart::Other)?));
    let rules = parts::rules(&catalogue);
    let metrics = Arc::new(Metrics::new(rules.keys().cloned(), config.workers));
    let heads = core::recover(&*store, &*clock, &rules)?;
    let base = config.public_url.as_deref().unwrap_or_default();
    let published = Published::new(&store, heads.clone(), base)?;
    let core_parts = core::Parts {
        store: store.clone(),
        clock: clock.clone(),
        published: published.clone(),
        rules,
        metrics: metrics.clone(),
    };
    let on_end = move |fatal| drop(told.send(fatal));
    let no_thread = |why: std::io::Error| NoStart::Other(format!("no thread: {why}"));
    let core = core::start(core_parts, parts::core(config), &heads, on_end).map_err(no_thread)?;
    let shutdown = Shutdown::default();
    let work = Arc::new(LocalWork::new(&core, store));
    let runner = Runner::start(work, roster.clone(), clock.clone(), config.workers, &shutdown).map_err(no_thread)?;
    let service = Arc::new(Service::new(service::Parts {
        catalogue,
        core: core.clone(),
        published: published.clone(),
        clock: clock.clone(),
    }));
    Ok(Running { core, service, roster, runner, metrics, published, ended, clock, shutdown })
}

/// How long a start that failed waits to hear whether the store did.
const TOLD_WITHIN: std::time::Duration = std::time::Duration::from_millis(200);

/// Serves, and returns the exit code once everything has ended.
async fn serve(config: &Config, mut running: Running, host: &mut dyn Host, hangup: std::io::Result<Signal>) -> u8 {
    // Before it says that it serves: who reads that may end it.
    let listen = |kind| signal(kind).ok();
    let (Some(mut interrupt), Some(mut terminate), Ok(mut hangup)) =
        (listen(SignalKind::interrupt()), listen(SignalKind::terminate()), hangup)
    else {
        output::complain("signals cannot be heard");
        return exit::FAILED;
    };
    let Bound { server, endpoint, deliveries } = match bind(config, &running, host).await {
        Ok(bound) => bound,
        Err(why) => {
            // It may be for the store, which tells of its end a moment later.
            if let Ok(Some(fatal)) = tokio::time::timeout(TOLD_WITHIN, running.ended.recv()).await {
                return died(&running.service, fatal);
            }
            output::complain(&why);
            return exit::USAGE;
        }
    };
    tokio::spawn(running.published.announcer());
    let http = tokio::spawn(server.run());
    let mut current = config.clone();
    let fatal = loop {
        tokio::select! {
            _ = interrupt.recv() => break None,
            _ = terminate.recv() => break None,
            () = host.over() => break None,
            fatal = running.ended.recv() => break fatal,
            _ = hangup.recv() => {}
        }
        let Running { core, service, roster, metrics, .. } = &running;
        let parts = Reloaded { core, service, roster, metrics, endpoint: &endpoint };
        reload::reload(&mut current, host.reread(), &parts);
    };
    if let Some(fatal) = fatal {
        return died(&running.service, fatal);
    }
    tokio::select! {
        code = end(config, running, http, deliveries) => code,
        code = again(&mut interrupt, &mut terminate) => code,
    }
}

async fn bind(config: &Config, running: &Running, host: &mut dyn Host) -> Result<Bound, String> {
    let endpoint = mcp::Endpoint::load(running.service.clone(), running.clock.clone(), parts::mcp(config))
        .await
        .map_err(|why| format!("sessions cannot be read: {why:?}"))?;
    let shutdown = running.shutdown.clone();
    let courier = Arc::new(net::Client::new(config.events.webhooks.reach.clone()));
    let deliveries = endpoint.deliver(courier, async move { shutdown.reached(Phase::Closing).await });
    let deliveries = tokio::spawn(deliveries);
    let http_parts = http::Parts {
        service: running.service.clone(),
        mcp: endpoint.clone(),
        metrics: running.metrics.clone(),
        clock: running.clock.clone(),
        shutdown: running.shutdown.clone(),
    };
    let options = parts::http(config, &*running.clock);
    let server = http::Server::bind(&options, http_parts).await.map_err(|why| why.to_string())?;
    let address = server.address().map_err(|why| why.to_string())?;
    place::write(&config.data_dir, &Written { url: format!("http://{address}"), stays: !host.joins() });
    host.serves(address);
    Ok(Bound { server, endpoint, deliveries })
}

/// The store has failed or the core has a bug: nothing more is promised, so nothing more is done.
fn died(service: &Service, fatal: Fatal) -> u8 {
    service.set_unhealthy();
    match fatal {
        Fatal::Closed => exit::DONE,
        Fatal::Store(error @ (store::Error::Corrupt { .. } | store::Error::Body { .. })) => {
            tracing::error!(%error, "stored bytes make no sense: `longhaul verify` says what is wrong; put the directory back from a backup");
            exit::of_failed(&error)
        }
        Fatal::Store(error @ (store::Error::Unavailable(_) | store::Error::Locked(_) | store::Error::Full(_))) => {
            tracing::error!(%error, "the store has failed; what was acknowledged is safe");
            exit::of_failed(&error)
        }
        Fatal::Bug(why) => {
            tracing::error!(why, "the core has failed; what was acknowledged is safe");
            exit::FAILED
        }
    }
}

/// A second signal: at once. Whatever is not durable was not acknowledged.
async fn again(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => exit::SIGNALED + 2,
        _ = terminate.recv() => exit::SIGNALED + 15,
    }
}

/// The four phases (design 2.7).
async fn end(config: &Config, mut running: Running, http: JoinHandle<()>, deliveries: JoinHandle<()>) -> u8 {
    tracing::info!("shutting down");
    running.shutdown.advance(Phase::Draining);
    running.core.drain();
    fault::point(Point::Draining);
    let mut runner = tokio::task::spawn_blocking(move || running.runner.join());
    let grace = config.shutdown_grace.duration();
    if tokio::time::timeout(grace, &mut runner).await.is_err() {
        running.shutdown.advance(Phase::Releasing);
        running.core.release();
        fault::point(Point::Releasing);
        if tokio::time::timeout(RELEASE_GRACE, &mut runner).await.is_err() {
            tracing::warn!("attempts that do not stop are given back without their word");
        }
    }
    running.shutdown.advance(Phase::Closing);
    // The server drops what is still open after its farewell.
    if let Err(why) = http.await {
        tracing::error!(%why, "the server ended badly");
    }
    if let Err(why) = deliveries.await {
        tracing::error!(%why, "the deliveries ended badly");
    }
    fault::point(Point::Closing);
    running.core.close();
    match running.ended.recv().await {
        Some(Fatal::Closed) | None => exit::DONE,
        Some(fatal) => died(&running.service, fatal),
    }
}
