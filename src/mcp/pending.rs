//! A request whose answer is still to come: waited for in silence, or told of on a stream.
//!
//! In: a request's id, who asks, and what is waited for. Out: one message, or a stream that ends with it. In a session the client may cancel the
//! request, and take the stream up again when it breaks off.

use std::sync::Arc;

use super::Endpoint;
use super::calls::CallInFlight;
use super::reply;
use super::rpc::{self, Error};
use super::session::Session;
use super::stream::{Outlet, Stream};
use super::thread::Thread;
use super::voice::{Heard, Voice};
use super::work::{Asker, Work};
use crate::service::Viewer;

/// See the head of this file.
pub(super) struct Pending {
    /// The request's id as written.
    pub id: Box<str>,
    /// Its progress token as written.
    pub token: Option<Box<str>>,
    /// Who asks.
    pub asker: Asker,
    /// What is waited for.
    pub work: Work,
    /// What was told before, if a stream of it broke off.
    pub heard: Option<Heard>,
    /// In a session: by which its client cancels it.
    pub call: Option<CallInFlight>,
}

impl Pending {
    /// A request that is taken up again on another stream. If the one before is open still, as far as is known here, it ends: no message
    /// is told on two.
    pub(super) fn resumed(thread: Thread, session: Arc<Session>, viewer: Viewer) -> Self {
        let Thread { id, token, waits, heard, .. } = thread;
        let (revision, abilities) = (session.revision, session.abilities);
        let call = Some(session.take_over(id.get(), &waits));
        let asker = Asker { viewer, revision, session: Some(session), abilities, level: None };
        let own = |raw: Box<serde_json::value::RawValue>| raw.get().into();
        Self { id: own(id), token: token.map(own), asker, work: Work::of(waits), heard: Some(heard), call }
    }

    /// The answer alone; `None` if the client canceled the request.
    pub(super) async fn message(self, endpoint: &Endpoint) -> Option<Vec<u8>> {
        self.run(endpoint, &mut Voice::mute()).await
    }

    /// A stream of what there is to tell, the answer last.
    pub(super) fn stream(self, endpoint: &Arc<Endpoint>) -> Stream {
        let (outlet, endpoint) = (Outlet::default(), endpoint.clone());
        let voice = Voice::new(outlet.clone(), self.token.as_deref()).about(self.work.waits.task());
        Stream::new(outlet, async move {
            let mut voice = self.on_thread(voice);
            if let Some(heard) = self.heard {
                voice = voice.resumed(heard);
            } else if self.asker.revision.primes() {
                voice.prime(endpoint.clock.now()).await;
            }
            if let Some(message) = self.run(&endpoint, &mut voice).await {
                voice.end(&message).await;
            }
        })
    }

    fn on_thread(&self, voice: Voice) -> Voice {
        let session = self.asker.session.as_deref();
        let thread =
            session.and_then(|session| Thread::new(session, &self.id, self.token.as_deref(), &self.work.waits));
        match thread.and_then(|thread| thread.prefix()) {
            Some(prefix) => voice.on_thread(prefix),
            None => voice,
        }
    }

    async fn run(self, endpoint: &Endpoint, voice: &mut Voice) -> Option<Vec<u8>> {
        let Self { id, asker, work, call, .. } = self;
        let waits = work.waits.clone();
        let outcome = tokio::select! {
            biased;
            () = ended(asker.session.as_deref()) => return None,
            () = taken_over(call.as_ref()) => return None,
            () = canceled(call.as_ref()) => {
                waits.give_up(endpoint, &asker.viewer).await;
                return None;
            }
            outcome = work.run(endpoint, &asker, voice) => outcome,
        };
        call.iter().for_each(CallInFlight::answer);
        Some(message(&id, &asker, outcome))
    }
}

async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.over().await,
        None => std::future::pending().await,
    }
}

async fn taken_over(call: Option<&CallInFlight>) {
    match call {
        Some(call) => call.taken_over().await,
        None => std::future::pending().await,
    }
}

async fn canceled(call: Option<&CallInFlight>) {
    match call {
        Some(call) => call.canceled().await,
        None => std::future::pending().await,
    }
}

fn message(id: &str, asker: &Asker, outcome: Result<reply::Members, Error>) -> Vec<u8> {
    match outcome {
        Ok(members) => reply::result(id, asker.revision, &members),
        Err(error) => rpc::error(Some(id), &error),
    }
}
