//! Callbacks: subscriptions that outlive their clients, and what delivers to them.
//!
//! In: what clients subscribe to, and a courier. Out: signed deliveries. Each subscription reads the log for itself, so that an endpoint which is
//! dead holds up nobody else; a subscription that its principal has lost the right to ends with a word. No secret leaves this folder but into its cell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::dialect::{Dialect, Fault, WebhookId};
use crate::clock::Clock;
use crate::job::{EventId, Timestamp};
use crate::net::{Answered, Courier, Failure, Post, Reach, Target};
use crate::service::{Refused, Service, Viewer};

mod delivery;
mod envelope;
mod outcome;
mod places;
mod record;
mod subscribe;

pub use delivery::{QUIET_SAVE_EVERY, RETRY_AFTER, RETRYING_MAX, SAVE_EVERY};
pub use envelope::{SECRET_MAX, SECRET_MIN};
pub use places::{ATTEMPTS_MAX, HOST_ATTEMPTS_MAX};
pub use record::{SECRET_GRACE, SUSPEND_AFTER, SUSPEND_FAILURES};
pub use subscribe::{HANDSHAKES_MAX, TTL_DEFAULT, TTL_MAX, TTL_MIN};
pub(super) use subscribe::{subscribe, unsubscribe};

use delivery::Delivery;
use places::{Place, Places};
use record::{Live, PREFIX};

/// Most subscriptions of one principal.
pub const WEBHOOKS_MAX: usize = 64;
/// Most subscriptions of all principals.
pub const WEBHOOKS_ALL_MAX: usize = 1_024;

/// What callbacks are told by the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where they may go.
    pub reach: Reach,
    /// Who may subscribe, and whether they see every job: the principals that the configuration has tokens for.
    pub principals: HashMap<Arc<str>, bool>,
}

/// A subscription for the engine, and who waits for it to be durable; nobody if it was kept.
type Opened = (Arc<Live>, Option<oneshot::Sender<Result<(), Refused>>>);

/// Every subscription. One for the process, shared.
pub(in crate::mcp) struct Webhooks {
    service: Arc<Service>,
    clock: Arc<dyn Clock>,
    dialect: Dialect,
    options: Options,
    table: Mutex<HashMap<Arc<str>, Arc<Live>>>,
    places: Places,
    /// Handshakes with each host since then.
    handshakes: Mutex<HashMap<Box<str>, (Timestamp, usize)>>,
    /// Set when deliveries begin: without it there are none to subscribe to.
    courier: OnceLock<Arc<dyn Courier>>,
    opened: mpsc::UnboundedSender<Opened>,
    queue: Mutex<Option<mpsc::UnboundedReceiver<Opened>>>,
}

impl Webhooks {
    /// The subscriptions that were there when the server last stopped; none where the extension is off.
    ///
    /// # Errors
    /// What `Service::cells` refuses.
    pub(in crate::mcp) async fn load(
        service: Arc<Service>,
        clock: Arc<dyn Clock>,
        all: super::Options,
    ) -> Result<Arc<Self>, Refused> {
        let super::Options { enabled, dialect, webhooks: options } = all;
        let mut table = HashMap::new();
        // No more than there are subscriptions wait in it.
        let (opened, queue) = mpsc::unbounded_channel();
        let cells = if enabled { service.cells(PREFIX).await? } else { Vec::new() };
        for (name, value) in cells {
            let Some(live) = Live::of_cell(&name, &value).map(Arc::new) else {
                tracing::warn!(cell = name, "not a subscription that can be read; its client will subscribe again");
                continue;
            };
            table.insert(live.id.clone(), live.clone());
            let _ = opened.send((live, None));
        }
        Ok(Arc::new(Self {
            service,
            clock,
            dialect,
            options,
            table: Mutex::new(table),
            places: Places::new(),
            handshakes: Mutex::default(),
            courier: OnceLock::new(),
            opened,
            queue: Mutex::new(Some(queue)),
        }))
    }

    /// Delivers until `closing`, and then returns when every watermark is written. Only the first call does anything.
    pub(in crate::mcp) fn deliver(
        self: &Arc<Self>,
        courier: Arc<dyn Courier>,
        closing: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        // At once, not with the first poll: whoever is served from now on can subscribe.
        let _ = self.courier.set(courier);
        let hooks = self.clone();
        async move {
            let queue = hooks.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut queue) = queue else { return };
            let (stop, stopped) = watch::channel(false);
            let mut open = JoinSet::new();
            tokio::pin!(closing);
            loop {
                tokio::select! {
                    () = &mut closing => break,
                    Some(opened) = queue.recv() => {
                        open.spawn(one(hooks.clone(), opened, stopped.clone()));
                    }
                    Some(_) = open.join_next(), if !open.is_empty() => {}
                }
            }
            stop.send_replace(true);
            while open.join_next().await.is_some() {}
        }
    }

    /// Whether there are callbacks at all.
    pub(super) fn are_offered(&self) -> bool {
        self.courier.get().is_some() && !self.options.principals.is_empty()
    }

    /// The subscription with this id, if it is not over.
    fn find(&self, id: &str) -> Option<Arc<Live>> {
        let now = self.clock.now();
        self.table().get(id).filter(|live| !live.is_over() && !live.is_expired(now)).cloned()
    }

    /// Ends a subscription and forgets it. If the disk does not take that, it is back after a restart, and ends by its time.
    async fn drop_live(&self, live: &Arc<Live>) {
        self.forget(live);
        if let Err(refused) = live.end(&self.service).await {
            tracing::debug!(?refused, "a subscription that is over is still on the disk");
        }
    }

    fn forget(&self, live: &Arc<Live>) {
        let mut table = self.table();
        if table.get(&live.id).is_some_and(|known| Arc::ptr_eq(known, live)) {
            table.remove(&live.id);
        }
    }

    /// Sends one message to the subscription's endpoint, signed as of now. `None`: it is over, and nothing was sent.
    async fn send(&self, live: &Live, message: &str, body: Bytes) -> Option<Result<Answered, Failure>> {
        let url = live.with(|record| record.key.url.clone());
        let target = Target::of(&url).ok()?;
        let _place: Place = self.places.enter(&target.host).await?;
        let now = self.clock.now();
        if live.is_over() || live.is_expired(now) {
            return None;
        }
        let headers = live.with(|record| envelope::headers(record.secrets(now), message, &live.id, now, &body));
        Some(self.courier.get()?.post(Post { target, headers, body }).await)
    }

    /// The `webhook-id` of an event; the same for every try.
    fn message_id(&self, event: EventId) -> String {
        match self.dialect.webhook_id {
            WebhookId::Event => event.to_string(),
            WebhookId::Message => self.control_id("event"),
        }
    }

    /// The `webhook-id` of a message that is no event, or has its own.
    fn control_id(&self, kind: &str) -> String {
        format!("msg_{kind}_{}", self.random())
    }

    /// 124 random bits in hex.
    fn random(&self) -> String {
        let half = || self.clock.job_id().as_u128() & u128::from(u64::MAX);
        format!("{:016x}{:016x}", half(), half())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Live>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one subscription until it is over or the server stops.
async fn one(hooks: Arc<Webhooks>, (live, waits): Opened, stop: watch::Receiver<bool>) {
    if let Some(waits) = waits {
        let saved = live.save(&hooks.service).await;
        let is_saved = saved.is_ok();
        // Whoever subscribed may have gone away; the subscription stands.
        let _ = waits.send(saved);
        if !is_saved {
            return hooks.drop_live(&live).await;
        }
    }
    let (principal, saw_all) = live.with(|record| (record.key.principal.clone(), record.sees_all));
    let Some(sees_all) = hooks.options.principals.get(&principal) else {
        return terminate(&hooks, &live, Fault::Forbidden("the principal is not known any more")).await;
    };
    let viewer = Viewer { principal, sees_all: saw_all && *sees_all };
    match Delivery::open(&hooks, &live, &viewer).await {
        Some(delivery) => delivery.run(stop).await,
        None => terminate(&hooks, &live, Fault::NoEvent(&live.with(|record| record.key.name.clone()))).await,
    }
}

/// Longest that the last word to an endpoint is waited for.
const LAST_WORD_MAX: Duration = Duration::from_secs(10);

/// Ends a subscription with a word to its endpoint, said once.
async fn terminate(hooks: &Webhooks, live: &Arc<Live>, fault: Fault<'_>) {
    let error = hooks.dialect.error(fault);
    let error = serde_json::json!({ "code": error.code, "message": error.message, "data": error.data });
    let (message, body) = (hooks.control_id("terminated"), envelope::terminated(&error));
    let _ = tokio::time::timeout(LAST_WORD_MAX, hooks.send(live, &message, body)).await;
    hooks.drop_live(live).await;
}
