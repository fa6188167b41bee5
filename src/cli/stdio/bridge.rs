//! Between a client that speaks on stdin and stdout, and a server that speaks HTTP: the same messages, in the dress of each.
//!
//! In: lines. Out: lines. Requests are under way side by side, in the order in which they came as far as that shows; a cancel of the revision without
//! sessions drops its request. Keeps the session's handshake, so that a server which has forgotten the session is told again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::exchange::{Heard, Read};
use super::message::Message;
use super::place::Place;
use crate::clock::{Clock, System};
use crate::mcp::OWN_KEY;

/// Most requests that are under way at once; then the client's next lines wait.
pub const REQUESTS_MAX: usize = 256;
/// After the client's last line: how long its last answers are waited for.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long a cancel waits for the server to have its request.
const SENT_MAX: Duration = Duration::from_secs(5);
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

    /// Carries lines until there are no more, and the last answers.
    pub async fn run(self: Arc<Self>, mut lines: Receiver<String>) {
        let standing = tokio::spawn(self.clone().stand());
        let (mut requests, room) = (JoinSet::new(), Arc::new(Semaphore::new(REQUESTS_MAX)));
        while let Some(line) = lines.recv().await {
            while requests.try_join_next().is_some() {}
            let message = Message::read(line);
            if message.id.is_none() || message.method == "initialize" {
                self.in_order(message).await;
                continue;
            }
            let Ok(permit) = room.clone().acquire_owned().await else { break };
            let (bridge, id) = (self.clone(), message.id.clone().unwrap_or_default());
            let message = if message.method == "tools/call" && message.envelope.is_none() {
                message.with_key(&format!("{OWN_KEY}{}", System.job_id()))
            } else {
                message
            };
            let task = requests.spawn(async move {
                bridge.exchange(&message).await;
                lock(&bridge.under_way).remove(message.id.as_deref().unwrap_or_default());
                drop(permit);
            });
            lock(&self.under_way).insert(id, UnderWay { task, sent: Arc::default() });
        }
        let drained = timeout(DRAIN_MAX, async { while requests.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::info!("requests that are not answered yet are left; their jobs go on");
        }
        standing.abort();
        self.close().await;
    }

    /// What has to be over before the next line means anything.
    async fn in_order(&self, message: Message) {
        if let Some(id) = message.cancels.as_ref().filter(|_| self.session().is_none()) {
            if let Some(request) = lock(&self.under_way).remove(id) {
                request.task.abort();
            }
            return;
        }
        if let Some(id) = &message.cancels {
            let sent = lock(&self.under_way).get(id).map(|request| request.sent.clone());
            if let Some(sent) = sent {
                // A cancel that came before its request would be passed over.
                let _ = timeout(SENT_MAX, sent.notified()).await;
            }
        }
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
