//! Between a client that speaks on stdin and stdout, and a server that speaks HTTP: the same messages, in the dress of each.
//!
//! In: lines. Out: lines. Requests are under way side by side, in the order in which they came as far as that shows; a cancel of the revision without
//! sessions drops its request. However many wait, the next line is read: what there is no room for is refused. Keeps the session's handshake, so that
//! a server which has forgotten the session is told again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::exchange::{Heard, Read};
use super::message::Message;
use super::place::Place;
use crate::clock::{Clock, System};
use crate::mcp::OWN_KEY;

/// Most requests that are under way at once; one more is refused.
pub const REQUESTS_MAX: usize = 256;
/// Most pings beside them: a client that waits for much may still ask whether somebody is there.
pub const PINGS_MAX: usize = 16;
/// After the client's last line: how long its last answers are waited for.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long a cancel waits for the server to have its request.
const SENT_MAX: Duration = Duration::from_secs(5);
/// JSON-RPC: what the server of a pipe says of itself.
const INTERNAL_ERROR: i64 = -32603;
/// What a request is answered whose id is null: as by the server, without an id, as newer schemas do not allow null.
const NO_ID: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"id must be a string or an integer, not null"}}"#;
/// Pause before the session's stream is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// See the head of this file.
pub struct Bridge {
    pub(super) place: Place,
    pub(super) client: reqwest::Client,
    pub(super) token: Option<String>,
    out: Sender<String>,
    open: Mutex<Option<Open>>,
    under_way: Mutex<HashMap<String, UnderWay>>,
    initialized: Notify,
}

/// A request that is being answered.
struct UnderWay {
    task: AbortHandle,
    /// The server has it.
    sent: Arc<Notify>,
    /// It belongs to no session: dropping it cancels it.
    is_alone: bool,
    /// The client has cancelled it.
    is_canceled: bool,
}

/// How many may still be under way.
struct Room {
    requests: Arc<Semaphore>,
    pings: Arc<Semaphore>,
}

impl Room {
    fn enter(&self, message: &Message) -> Option<OwnedSemaphorePermit> {
        let entered = self.requests.clone().try_acquire_owned().ok();
        entered.or_else(|| (message.method == "ping").then(|| self.pings.clone().try_acquire_owned().ok()).flatten())
    }
}

/// The client's session.
#[derive(Clone)]
struct Open {
    id: String,
    handshake: Message,
}

impl Bridge {
    /// A bridge to the server at this place, which writes to `out`.
    ///
    /// # Errors
    /// What keeps the HTTP client from being made.
    pub fn new(place: Place, token: Option<String>, out: Sender<String>) -> reqwest::Result<Arc<Self>> {
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
        let (open, under_way) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { place, client, token, out, open, under_way, initialized: Notify::new() }))
    }

    /// Carries lines until there are no more, and the last answers; or until nobody listens any more, which it then says.
    pub async fn run(self: Arc<Self>, lines: Receiver<String>, deserted: impl Future<Output = ()>) -> bool {
        let standing = tokio::spawn(self.clone().stand());
        let is_deserted = tokio::select! {
            () = self.clone().carry(lines) => false,
            () = self.out.closed() => true,
            () = deserted => true,
        };
        standing.abort();
        self.close().await;
        is_deserted
    }

    async fn carry(self: Arc<Self>, mut lines: Receiver<String>) {
        let semaphore = |most| Arc::new(Semaphore::new(most));
        let room = Room { requests: semaphore(REQUESTS_MAX), pings: semaphore(PINGS_MAX) };
        let mut tasks = JoinSet::new();
        while let Some(line) = lines.recv().await {
            while tasks.try_join_next().is_some() {}
            let message = Message::read(line);
            match (&message.id, &message.cancels) {
                _ if message.has_null_id() => self.say(NO_ID.to_owned()).await,
                (None, Some(id)) => self.cancel(&id.clone(), message, &mut tasks),
                (Some(id), _) if message.method != "initialize" => match room.enter(&message) {
                    Some(permit) => self.start(&id.clone(), message, permit, &mut tasks),
                    None => self.refuse(id).await,
                },
                _ => self.in_order(message).await,
            }
        }
        let drained = timeout(DRAIN_MAX, async { while tasks.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::info!("requests that are not answered yet are left; their jobs go on");
        }
    }

    /// Has a request answered, while others are.
    fn start(self: &Arc<Self>, id: &str, message: Message, permit: OwnedSemaphorePermit, tasks: &mut JoinSet<()>) {
        let (bridge, is_alone) = (self.clone(), message.envelope.is_some());
        let message = if message.method == "tools/call" && !is_alone {
            message.with_key(&format!("{OWN_KEY}{}", System.job_id()))
        } else {
            message
        };
        // It is there before it can be over.
        let mut under_way = lock(&self.under_way);
        let task = tasks.spawn(async move {
            bridge.exchange(&message).await;
            lock(&bridge.under_way).remove(message.id.as_deref().unwrap_or_default());
            drop(permit);
        });
        under_way.insert(id.to_owned(), UnderWay { task, sent: Arc::default(), is_alone, is_canceled: false });
    }

    /// Cancels a request; one that is not under way has its answer already.
    fn cancel(self: &Arc<Self>, id: &str, message: Message, tasks: &mut JoinSet<()>) {
        let mut under_way = lock(&self.under_way);
        let Some(request) = under_way.get_mut(id).filter(|request| !request.is_canceled) else { return };
        request.is_canceled = true;
        if request.is_alone {
            request.task.abort();
            under_way.remove(id);
            return;
        }
        let (bridge, id, sent, task) = (self.clone(), id.to_owned(), request.sent.clone(), request.task.clone());
        tasks.spawn(async move {
            // A cancel that came before its request would be passed over.
            let _ = timeout(SENT_MAX, sent.notified()).await;
            bridge.exchange(&message).await;
            task.abort();
            lock(&bridge.under_way).remove(&id);
        });
    }

    async fn refuse(&self, id: &str) {
        let text = format!("{REQUESTS_MAX} requests are under way on this pipe: wait for one of them, or cancel one");
        let error = serde_json::json!({"code": INTERNAL_ERROR, "message": text, "data": {"code": "too_many"}});
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
    }

    /// What has to be over before the next line means anything.
    async fn in_order(&self, message: Message) {
        self.exchange(&message).await;
        if message.method == "notifications/initialized" {
            self.initialized.notify_one();
        }
    }

    /// The server has this request.
    pub fn has_sent(&self, message: &Message) {
        if let Some(request) = message.id.as_ref().and_then(|id| lock(&self.under_way).get(id).map(|r| r.sent.clone()))
        {
            request.notify_one();
        }
    }

    /// Follows the session's stream, from the end of the handshake on.
    async fn stand(self: Arc<Self>) {
        self.initialized.notified().await;
        let mut last: Option<String> = None;
        loop {
            match self.get(last.as_deref()).await {
                Ok(response) if response.status().is_success() => {
                    match self.read(response, None, &mut Heard::default()).await {
                        Read::Broken(newer) => last = newer.or(last),
                        Read::Answered => {}
                    }
                }
                // The session is gone; the next message opens another.
                Ok(_) => {
                    last = None;
                    self.initialized.notified().await;
                }
                Err(_) => self.place.miss(),
            }
            sleep(REOPEN).await;
        }
    }

    /// The id of the session.
    pub fn session(&self) -> Option<String> {
        lock(&self.open).as_ref().map(|open| open.id.clone())
    }

    /// The server opened a session.
    pub fn opened(&self, id: String, handshake: &Message) {
        *lock(&self.open) = Some(Open { id, handshake: handshake.clone() });
    }

    /// Opens another session as the client opened its own; the client hears nothing of it.
    pub async fn reopen(&self) {
        let Some(Open { handshake, .. }) = lock(&self.open).clone() else { return };
        if let Ok(Some(id)) = self.shake_hands(&handshake).await {
            self.opened(id, &handshake);
            self.initialized.notify_one();
        }
    }

    /// One line for the client.
    pub async fn say(&self, line: String) {
        // Who does not listen any more has ended the session by that.
        let _ = self.out.send(line).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
