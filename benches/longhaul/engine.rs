//! The library without a socket: core, store and workers in this process, with a handler that does nothing.
//!
//! In: how many jobs. Out: all of them durable, ended or waiting. Used to measure lifecycles, and to make large stores.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use longhaul::clock::{Clock, System};
use longhaul::core::{self, Creation, Fatal, Handle, LocalWork, Retention};
use longhaul::events::Published;
use longhaul::handler::{Handler, Handlers, Roster, RunContext};
use longhaul::job::{Body, BodyRef, Carried, Outcome, Output, Part, Progress, Rules, Spec, Throttle, Timestamp};
use longhaul::metrics::Metrics;
use longhaul::run::Runner;
use longhaul::shutdown::Shutdown;
use longhaul::store::sled::{Options, Sled};
use longhaul::store::{Durability, Store};
use longhaul::work::Claim;
use tokio::sync::Semaphore;

use crate::Result;
use crate::load::pause;
use crate::server::TOOL;

/// Tasks that submit at once.
const SUBMITTERS: usize = 256;
/// Jobs that are submitted and not yet run, at most: the queue stays short, as under a steady load.
const UNDER_WAY: usize = 1_024;
/// Entries of one job: created, started, one progress, completed.
const ENTRIES: u64 = 4;

/// Reports one progress and is done.
struct Nothing {
    room: Arc<Semaphore>,
}

impl Handler for Nothing {
    fn run(&self, _: &Claim, _: &Bytes, context: &RunContext<'_>) -> Outcome {
        context.progress(Progress { percent: Some(50.0), ..Progress::default() });
        self.room.add_permits(1);
        Outcome::Done(Output { summary: Some("done".into()), ..Output::default() })
    }
}

/// Everything between a submit and the disk.
pub struct Engine {
    core: Handle,
    store: Arc<Sled>,
    published: Arc<Published>,
    runner: Runner,
    ended: crossbeam_channel::Receiver<Fatal>,
    room: Arc<Semaphore>,
}

impl Engine {
    /// On a store in this directory, with so many workers.
    pub fn start(directory: &Path, workers: usize, retention: Retention) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(System);
        let options = Options { dir: directory.into(), cache_bytes: 64 << 20, durability: Durability::Disk };
        std::fs::create_dir_all(directory.parent().unwrap_or(directory))?;
        let store = Arc::new(Sled::open(&options)?);
        let port: Arc<dyn Store> = store.clone();
        let heads = core::recover(&*store, &*clock, &HashMap::new()).map_err(|fatal| format!("{fatal:?}"))?;
        let published = Published::new(&port, heads.clone(), "").map_err(|error| format!("{error:?}"))?;
        let parts = core::Parts {
            store: port.clone(),
            clock: clock.clone(),
            published: published.clone(),
            rules: HashMap::from([(TOOL.into(), Rules::default())]),
            metrics: Arc::new(Metrics::new([TOOL.into()], workers)),
        };
        let options = core::Options {
            max_pending: u64::MAX,
            max_pending_bytes: u64::MAX,
            disk_reserve: None,
            throttle: Throttle::default(),
            retention,
        };
        let (tell, ended) = crossbeam_channel::bounded(1);
        let core = core::start(parts, options, &heads, move |fatal| {
            // Nobody waits for it if the engine was given up.
            let _ = tell.send(fatal);
        })?;
        let room = Arc::new(Semaphore::new(UNDER_WAY));
        let mut handlers = Handlers::default();
        handlers.insert(TOOL.into(), Arc::new(Nothing { room: room.clone() }));
        let source = Arc::new(LocalWork::new(&core, port));
        let runner =
            Runner::start(source, Arc::new(Roster::from_pointee(handlers)), clock, workers, &Shutdown::default())?;
        Ok(Self { core, store, published, runner, ended, room })
    }

    /// Runs so many jobs from their submit to their end, and returns when the last end is durable.
    pub async fn run(&self, jobs: usize) -> Result<()> {
        let last = self.store.bounds().last.0 + jobs as u64 * ENTRIES;
        self.submit(jobs, None).await?;
        while self.published.bounds().last.0 < last {
            pause(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Submits so many jobs that do not run before `run_at`; returns when all are durable.
    pub async fn submit(&self, jobs: usize, run_at: Option<Timestamp>) -> Result<()> {
        let left = Arc::new(AtomicUsize::new(jobs));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..SUBMITTERS {
            let (core, left, room) = (self.core.clone(), left.clone(), self.room.clone());
            tasks.spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    if run_at.is_none() {
                        room.acquire().await?.forget();
                    }
                    let answer = core.submit(creation(run_at)).await.map_err(|busy| format!("{busy:?}"))?;
                    answer.map_err(|refusal| format!("{refusal:?}"))?;
                }
                Result::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    /// How many operations sled was asked for.
    pub fn operations(&self) -> u64 {
        self.store.operations()
    }

    /// Ends everything and closes the store.
    pub fn close(self) -> Result<()> {
        self.core.close();
        let fatal = self.ended.recv()?;
        drop(self.core);
        self.runner.join();
        match fatal {
            Fatal::Closed => Ok(()),
            Fatal::Store(_) | Fatal::Bug(_) => Err(format!("the core ended: {fatal:?}").into()),
        }
    }
}

/// A job like those that the load generator submits.
fn creation(run_at: Option<Timestamp>) -> Box<Creation> {
    let payload = Bytes::from_static(br#"{"recipient":"a keen gardener of about sixty","budget":80}"#);
    let name = BodyRef::of(Part::Payload, 0, &payload);
    let now = System.now();
    let spec = Spec {
        id: System.job_id(),
        job_type: TOOL.into(),
        owner: "local".into(),
        payload: name,
        carried: Carried::default(),
        priority: 0,
        max_attempts: 5,
        created_at: now,
        expires_at: None,
        key: None,
        tags: Arc::from([]),
        traceparent: None,
        replay_of: None,
    };
    Box::new(Creation { spec, run_at, payload: Body { name, bytes: Some(payload) } })
}
