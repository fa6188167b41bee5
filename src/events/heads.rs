//! The published heads: every unfinished job's, and those of the jobs that ended lately.
//!
//! In: heads that are durable. Out: shared copies. A lock guards one shard and is held for one look-up or one copy of
//! the shard; two are never held at once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::job::{Head, JobId};

/// Ended jobs whose heads stay in memory, so that those who waited for them need no store. The longest ended goes first.
pub const ENDED_MAX: usize = 4_096;

const SHARDS: usize = 64;

type Shard = RwLock<HashMap<JobId, Arc<Head>>>;

/// Published heads by job. All methods are short and may be called from async code.
pub struct Heads {
    shards: Box<[Shard]>,
    ended: Mutex<VecDeque<JobId>>,
    ended_max: usize,
}

impl Heads {
    /// Holds the heads of unfinished jobs, and later those of up to `ended_max` ended ones.
    pub fn new(live: Vec<Arc<Head>>, ended_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let heads = Self { shards, ended: Mutex::default(), ended_max };
        for head in live {
            heads.set(head);
        }
        heads
    }

    /// The head as last published; `None` if the job is unknown here, or ended too long ago.
    pub fn get(&self, job: JobId) -> Option<Arc<Head>> {
        self.shard(job).read().unwrap_or_else(PoisonError::into_inner).get(&job).cloned()
    }

    /// Publishes a head.
    pub fn set(&self, head: Arc<Head>) {
        let job = head.job.id();
        let has_ended = head.job.status().is_terminal();
        let before = self.shard(job).write().unwrap_or_else(PoisonError::into_inner).insert(job, head);
        if has_ended && !before.is_some_and(|before| before.job.status().is_terminal()) {
            self.remember_ended(job);
        }
    }

    /// Drops heads of jobs that are no longer kept.
    pub fn forget(&self, jobs: &[JobId]) {
        for job in jobs {
            self.shard(*job).write().unwrap_or_else(PoisonError::into_inner).remove(job);
        }
    }

    /// Unfinished jobs that `wanted` picks, in no order. Each shard is copied at its own moment: a job that changes
    /// meanwhile is seen as before or as after.
    pub fn live(&self, mut wanted: impl FnMut(&Head) -> bool) -> Vec<Arc<Head>> {
        let mut found = Vec::new();
        self.visit_live(|head| {
            if wanted(head) {
                found.push(head.clone());
            }
        });
        found
    }

    /// Looks at each unfinished job without copying. `visit` must be quick: a shard is locked meanwhile.
    pub fn visit_live(&self, mut visit: impl FnMut(&Arc<Head>)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().filter(|head| !head.job.status().is_terminal()).for_each(&mut visit);
        }
    }

    fn remember_ended(&self, job: JobId) {
        let oldest = {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push_back(job);
            if ended.len() > self.ended_max { ended.pop_front() } else { None }
        };
        if let Some(oldest) = oldest {
            self.shard(oldest).write().unwrap_or_else(PoisonError::into_inner).remove(&oldest);
        }
    }

    /// The low bits of an id are random: they spread evenly.
    fn shard(&self, job: JobId) -> &Shard {
        &self.shards[(job.as_u128() % SHARDS as u128) as usize]
    }
}
