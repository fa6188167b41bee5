//! Holds a job to the request that made it, where the revision lets a client give a call up by closing it.
//!
//! In: a job to be. Out: the job; and its cancel, if the request ended before its answer was made.

use std::pin::Pin;
use std::sync::Arc;

use crate::job::JobId;
use crate::service::{Refused, Service, Submit, Submitted, Viewer};

type Submitting = Pin<Box<dyn Future<Output = Result<Submitted, Refused>> + Send>>;

/// Dropped before it is released, it cancels the job, even if the job does not exist yet.
pub(super) struct Leash {
    service: Arc<Service>,
    viewer: Viewer,
    hold: Hold,
}

enum Hold {
    Submitting(Submitting),
    Job(JobId),
    Nothing,
}

impl Leash {
    /// Submits the job when awaited.
    pub(super) fn new(service: &Arc<Service>, viewer: &Viewer, submit: Submit) -> Self {
        let (service, viewer) = (service.clone(), viewer.clone());
        let submitting: Submitting = {
            let (service, viewer) = (service.clone(), viewer.clone());
            Box::pin(async move { service.submit(&viewer, submit).await })
        };
        Self { service, viewer, hold: Hold::Submitting(submitting) }
    }

    /// What became of the submit.
    pub(super) async fn submitted(&mut self) -> Result<Submitted, Refused> {
        let Hold::Submitting(submitting) = &mut self.hold else { return Err(Refused::Unhealthy) };
        let submitted = submitting.await;
        self.hold = submitted.as_ref().map_or(Hold::Nothing, |submitted| Hold::Job(submitted.head.job.id()));
        submitted
    }

    /// Whoever asked has what was asked for.
    pub(super) fn release(&mut self) {
        self.hold = Hold::Nothing;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let hold = std::mem::replace(&mut self.hold, Hold::Nothing);
        // Outside a runtime there is no transport, and nobody who could have gone away.
        let (false, Ok(runtime)) = (matches!(hold, Hold::Nothing), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (service, viewer) = (self.service.clone(), self.viewer.clone());
        runtime.spawn(async move {
            let id = match hold {
                Hold::Submitting(submitting) => submitting.await.ok().map(|submitted| submitted.head.job.id()),
                Hold::Job(id) => Some(id),
                Hold::Nothing => None,
            };
            if let Some(id) = id {
                // It may have ended meanwhile; then there is nothing to give up.
                let _ = service.cancel(&viewer, id, Some("the client closed the request".into())).await;
            }
        });
    }
}
