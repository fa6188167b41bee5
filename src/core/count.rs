//! Counting what has become durable (contract 10). Nothing is counted before it is synced.

use std::time::Duration;

use super::group::Group;
use crate::job::{End, Entry, Job, Millis, Timestamp};
use crate::metrics::Metrics;
use crate::store::JobChange;

/// Counts a group whose commit took `length`.
pub(super) fn group(metrics: &Metrics, group: &Group, length: Duration) {
    for part in group.changes.iter().flat_map(|change| &change.jobs) {
        for entry in &part.entries {
            count(metrics, part, entry);
        }
    }
    metrics.committed(length, group.changes.len());
}

fn count(metrics: &Metrics, part: &JobChange, entry: &Entry) {
    let job = &part.after;
    let job_type = &*job.spec.job_type;
    let length = || ran_for(job, part.at);
    let ended = |end: Option<End>| {
        metrics.job_ended(job_type, job.status());
        if let Some(end) = end {
            metrics.attempt_ended(job_type, end, length());
        }
    };
    match entry {
        Entry::Started { .. } => metrics.attempt_started(job_type, part.at.since(ready_since(part))),
        Entry::Retrying { end, .. } => {
            metrics.retried(job_type);
            metrics.attempt_ended(job_type, *end, length());
        }
        Entry::Released { .. } => metrics.attempt_ended(job_type, End::Released, length()),
        Entry::Interrupted { .. } => metrics.attempt_ended(job_type, End::Interrupted, length()),
        Entry::Completed { .. } => ended(Some(End::Succeeded)),
        Entry::Failed { end, .. } => ended(*end),
        Entry::Canceled { claim, .. } => ended(claim.map(|_| End::Canceled)),
        Entry::Created { .. }
        | Entry::Progress(_)
        | Entry::Partial { .. }
        | Entry::CancelRequested { .. }
        | Entry::CancelDelivered { .. }
        | Entry::Replayed { .. }
        | Entry::Asked { .. }
        | Entry::Answered { .. } => {}
    }
}

fn ran_for(job: &Job, until: Timestamp) -> Millis {
    job.started_at.map_or(Millis(0), |started| until.since(started))
}

fn ready_since(part: &JobChange) -> Timestamp {
    part.before.as_ref().map_or(part.after.spec.created_at, |before| before.job.run_at)
}
