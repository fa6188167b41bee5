//! Waiting for jobs: registers first, reads then, so that nothing slips between. Holds no thread.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{Refused, Service, Viewer};
use crate::events::Wait;
use crate::job::{Head, JobId};

/// Most jobs that one wait watches (contract 6).
pub const WATCHED_MAX: usize = 50;

impl Service {
    /// The job once it has ended or asks something that its waiter has not seen, or as it is when `at_most` has passed.
    ///
    /// # Errors
    /// As `job`.
    pub async fn wait(
        &self,
        viewer: &Viewer,
        id: JobId,
        at_most: Duration,
        has_seen: impl Fn(&Head) -> bool,
    ) -> Result<Arc<Head>, Refused> {
        let until = Instant::now() + at_most;
        let waits = [self.published.registry.job(id)];
        loop {
            let head = self.job(viewer, id).await?;
            // Nobody but who waits here may be there to answer.
            let asks = head.job.awaits_input() && !has_seen(&head);
            if head.job.status().is_terminal() || asks || !changed(&waits, until).await {
                return Ok(head);
            }
        }
    }

    /// Returns as soon as one of the jobs has an entry after the revision given beside it, or `at_most` has passed:
    /// the jobs that changed. Unknown ids are passed over; beyond `WATCHED_MAX` so are the rest.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn wait_any(
        &self,
        viewer: &Viewer,
        seen: &[(JobId, u32)],
        at_most: Duration,
    ) -> Result<Vec<Arc<Head>>, Refused> {
        let until = Instant::now() + at_most;
        let seen = &seen[..seen.len().min(WATCHED_MAX)];
        let waits: Vec<Wait> = seen.iter().map(|(id, _)| self.published.registry.job(*id)).collect();
        loop {
            let mut news = Vec::new();
            for (id, revision) in seen {
                match self.job(viewer, *id).await {
                    Ok(head) if head.job.revision > *revision => news.push(head),
                    Ok(_) | Err(Refused::NoSuchJob) => {}
                    Err(refused) => return Err(refused),
                }
            }
            if !news.is_empty() || !changed(&waits, until).await {
                return Ok(news);
            }
        }
    }
}

/// Waits until one of them has news, at most until `until`; false if the time ran out.
async fn changed(waits: &[Wait], until: Instant) -> bool {
    let any = poll_fn(|cx| {
        // Every one is polled, so that every one remembers the waker.
        let news = waits.iter().map(|wait| wait.poll_woken(cx)).filter(Poll::is_ready).count();
        if news > 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    timeout_at(until, any).await.is_ok()
}
