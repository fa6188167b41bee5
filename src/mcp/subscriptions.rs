//! What a session has subscribed to: resources by their URIs.
//!
//! In: URIs, already known to name something that the session's owner may see. Out: which of them a job's news concerns. Kept with the session.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::reply::Members;
use super::rpc::{self, Error, INVALID_PARAMS, Message, RESOURCE_NOT_FOUND};
use super::session::Session;
use super::{Endpoint, refusal, resources};
use crate::job::JobId;
use crate::service::Viewer;

/// Most resources that one session subscribes to.
pub const SUBSCRIPTIONS_MAX: usize = 64;
/// Longest URIs of all of them together, in bytes: they are kept in one record.
pub const SUBSCRIBED_BYTES_MAX: usize = 3 * 1024;

/// `resources/subscribe` and `resources/unsubscribe`. Durable when it returns.
///
/// # Errors
/// -32002 for what is no resource of the caller's, -32602 when the limits are reached or `uri` is missing, -32603 as `Service::put_cells`.
pub(super) async fn answer(
    endpoint: &Endpoint,
    viewer: &Viewer,
    session: &Session,
    message: &Message<'_>,
) -> Result<Members, Error> {
    let Some(uri) = message.params.uri.and_then(rpc::text) else {
        return Err(Error::answered(INVALID_PARAMS, "params.uri must be a string: the URI of a resource"));
    };
    if message.method == "resources/unsubscribe" {
        session.subscriptions.remove(&uri);
    } else {
        match job_of(&uri) {
            Some(job) => drop(endpoint.service.job(viewer, job).await.map_err(|_| unknown(&uri))?),
            // What is configured changes with a restart only, so there will be no news of it; but it can be asked for.
            None => drop(endpoint.shown().stock.read(&uri).ok_or_else(|| unknown(&uri))?),
        }
        session.subscriptions.add(&uri).map_err(|Full| {
            let text =
                format!("a session subscribes to at most {SUBSCRIPTIONS_MAX} resources; unsubscribe from some first");
            Error::answered(INVALID_PARAMS, text)
        })?;
    }
    let done = endpoint.sessions.save(session).await;
    done.map(|()| Members::default()).map_err(|refused| refusal::internal(&refused))
}

fn unknown(uri: &str) -> Error {
    Error::answered(RESOURCE_NOT_FOUND, format!("there is no resource {}", crate::job::cut(uri, 200)))
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    uris: Mutex<BTreeSet<Box<str>>>,
    changed: Notify,
}

/// One more does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Subscriptions {
    /// As they were kept.
    pub(super) fn of_kept<'a>(uris: impl Iterator<Item = &'a str>) -> Self {
        Self { uris: Mutex::new(uris.map(Into::into).collect()), changed: Notify::new() }
    }

    /// Every URI, in order.
    pub(super) fn all(&self) -> Vec<Box<str>> {
        self.uris().iter().cloned().collect()
    }

    /// Adds a URI; one that is there already changes nothing.
    pub(super) fn add(&self, uri: &str) -> Result<(), Full> {
        let mut uris = self.uris();
        if uris.contains(uri) {
            return Ok(());
        }
        let bytes = uris.iter().map(|uri| uri.len()).sum::<usize>() + uri.len();
        if uris.len() >= SUBSCRIPTIONS_MAX || bytes > SUBSCRIBED_BYTES_MAX {
            return Err(Full);
        }
        uris.insert(uri.into());
        self.changed.notify_waiters();
        Ok(())
    }

    /// Removes a URI; one that is not there changes nothing.
    pub(super) fn remove(&self, uri: &str) {
        if self.uris().remove(uri) {
            self.changed.notify_waiters();
        }
    }

    /// Returns when they have changed since this was called.
    pub(super) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// The jobs that any of them is about.
    pub(super) fn jobs(&self) -> Vec<JobId> {
        let jobs: BTreeSet<JobId> = self.uris().iter().filter_map(|uri| job_of(uri)).collect();
        jobs.into_iter().collect()
    }

    /// Those that are about this job.
    pub(super) fn of(&self, job: JobId) -> Vec<Box<str>> {
        self.uris().iter().filter(|uri| job_of(uri) == Some(job)).cloned().collect()
    }

    fn uris(&self) -> MutexGuard<'_, BTreeSet<Box<str>>> {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The job that `job://{id}` or `job://{id}/result` names.
pub(super) fn job_of(uri: &str) -> Option<JobId> {
    resources::uri::job(uri).map(|(job, _)| job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_a_job_concern_the_resources_that_are_about_it() {
        let id = JobId::from_u128(0x0190_b5a0_0000_7000_8000_0000_0000_0000);
        let subscriptions = Subscriptions::default();
        for uri in
            [format!("job://{id}"), format!("job://{id}/result"), "test://static".into(), "job://nonsense".into()]
        {
            subscriptions.add(&uri).expect("fits");
            subscriptions.add(&uri).expect("fits");
        }
        assert_eq!(subscriptions.jobs(), [id]);
        assert_eq!(subscriptions.of(id).len(), 2);
        subscriptions.remove(&format!("job://{id}"));
        assert_eq!(subscriptions.of(id).len(), 1);
        assert_eq!(Subscriptions::of_kept(subscriptions.all().iter().map(|uri| &**uri)).all(), subscriptions.all());
    }

    #[test]
    fn there_is_an_end_to_how_many_and_how_long() {
        let subscriptions = Subscriptions::default();
        assert_eq!(subscriptions.add(&"x".repeat(SUBSCRIBED_BYTES_MAX + 1)), Err(Full));
        for n in 0..SUBSCRIPTIONS_MAX {
            subscriptions.add(&format!("test://{n}")).expect("fits");
        }
        assert_eq!(subscriptions.add("test://more"), Err(Full));
    }
}
