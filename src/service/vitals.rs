//! How the server is at this moment: what `/metrics` shows beside what was counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Refused, Service};
use crate::events::Published;
use crate::job::{Millis, Status, Timestamp};
use crate::metrics::{OVERDUE_MINUTES, Vitals};
use crate::store::{self, Store, Totals};

impl Service {
    /// How the server is, for `/metrics`. Looks at every unfinished job and at the disk: not for a hot path.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn vitals(&self) -> Result<Vitals, Refused> {
        let published = self.published.clone();
        let now = self.clock.now();
        self.ask(move |store| vitals(&published, store, now)).await?.map_err(|error| self.failed(&error))
    }
}

fn vitals(published: &Published, store: &dyn Store, now: Timestamp) -> Result<Vitals, store::Error> {
    let mut counts: HashMap<(Arc<str>, Status), u64> = HashMap::new();
    let mut overdue = [0; OVERDUE_MINUTES.len()];
    let mut oldest_ready = Millis(0);
    published.heads.visit_live(|head| {
        let job = &head.job;
        *counts.entry((job.spec.job_type.clone(), job.status())).or_default() += 1;
        if job.status() == Status::Pending && job.run_at <= now {
            let waited = now.since(job.run_at);
            oldest_ready = oldest_ready.max(waited);
            for (count, minutes) in overdue.iter_mut().zip(OVERDUE_MINUTES) {
                *count += u64::from(waited >= Millis::seconds(minutes * 60));
            }
        }
    });
    let health = store.health()?;
    let counters = &published.counters;
    Ok(Vitals {
        live: counts.into_iter().map(|((job_type, status), count)| (job_type, status, count)).collect(),
        overdue,
        oldest_ready,
        dead_letters: dead_letters(&store.totals()),
        events: counters.events.load(Ordering::Relaxed),
        streams: counters.streams.load(Ordering::Relaxed) as u64,
        stream_resets: counters.resets.load(Ordering::Relaxed),
        store_bytes: health.store_bytes,
        disk_free: health.disk_free,
    })
}

fn dead_letters(totals: &Totals) -> BTreeMap<Arc<str>, u64> {
    let types = totals.types.iter().filter(|(_, kept)| kept.dead_letters > 0);
    types.map(|(job_type, kept)| (Arc::clone(job_type), kept.dead_letters)).collect()
}
