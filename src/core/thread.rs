//! The loop: wait, gather a group, decide it, commit it, publish it, sweep a little.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, never, select_biased};

use super::claims::{Claimer, Line};
use super::disk::{Disk, Reserve};
use super::group::{GROUP_BYTES_MAX, GROUP_MAX, Group, Live, Table};
use super::handle::{Handle, Signs};
use super::inbox::{INNER_MAX, Inner, SUBMIT_MAX, Submission};
use super::pin::Pinning;
use super::publish::Reply;
use super::sweep::{Retention, Sweep};
use crate::clock::Clock;
use crate::events::Published;
use crate::job::queue::Queue;
use crate::job::{Head, JobId, Rules, Throttle, Timestamp};
use crate::metrics::Metrics;
use crate::store::{self, Store};

/// Settings of the core (contract 7).
#[derive(Debug, Clone)]
pub struct Options {
    /// `queue.max_pending`
    pub max_pending: u64,
    /// `queue.max_pending_bytes`
    pub max_pending_bytes: u64,
    /// `store.disk_reserve`, in bytes; `None`: the smaller of 256 MiB and 5 % of the disk.
    pub disk_reserve: Option<u64>,
    /// `progress.*`
    pub throttle: Throttle,
    /// `retention.*`
    pub retention: Retention,
}

/// What the core works with.
pub struct Parts {
    /// Where it commits.
    pub store: Arc<dyn Store>,
    /// When it is.
    pub clock: Arc<dyn Clock>,
    /// Where it tells.
    pub published: Arc<Published>,
    /// Rules by job type; a type without has the defaults.
    pub rules: HashMap<Arc<str>, Rules>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
}

/// How the core ended.
#[derive(Debug)]
pub enum Fatal {
    /// It was asked to.
    Closed,
    /// The store failed.
    Store(store::Error),
    /// A bug: it panicked, or its own entries did not fit.
    Bug(String),
}

/// What woke the core.
pub(super) enum Wish {
    Inner(Inner),
    Submit(Submission),
    /// A due time has come, or there is more to hand out.
    Due,
}

pub(super) struct Core {
    pub parts: Parts,
    pub options: Options,
    pub inner: Receiver<Inner>,
    pub submit: Receiver<Submission>,
    pub table: Table,
    pub queue: Queue,
    /// The lines to running attempts.
    pub running: HashMap<JobId, Line>,
    pub claimer: Option<Claimer>,
    pub draining: bool,
    pub closing: bool,
    /// Answers that wait for the commit.
    pub replies: Vec<Reply>,
    pub sweep: Sweep,
    pub pinning: Pinning,
    pub disk: Disk,
    pub reserve: Reserve,
    /// Ends that wait until the log has room.
    pub held_ends: VecDeque<Inner>,
    /// When to look for room again, while there is none.
    pub hold_until: Option<Timestamp>,
    pub signs: Arc<Signs>,
    pub default_rules: Rules,
    /// Types without a tool, whose jobs wait.
    held_types: HashSet<Arc<str>>,
    timer: Option<(Timestamp, Receiver<Instant>)>,
    /// The last group stopped handing out claims because it was full.
    pub more_claims: bool,
}

/// Starts the core over the heads that `recover` returned. `on_end` is called once, on the core's thread, when it has
/// ended for whatever reason.
///
/// # Errors
/// The thread could not be made.
pub fn start(
    parts: Parts,
    options: Options,
    heads: &[Arc<Head>],
    on_end: impl FnOnce(Fatal) + Send + 'static,
) -> std::io::Result<Handle> {
    let (mut core, handle) = Core::new(parts, options, heads);
    std::thread::Builder::new().name("core".into()).spawn(move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| core.run()));
        on_end(ended.unwrap_or_else(|panic| Fatal::Bug(crate::panic_text(&*panic))));
    })?;
    Ok(handle)
}

impl Core {
    pub fn new(parts: Parts, options: Options, heads: &[Arc<Head>]) -> (Self, Handle) {
        let (inner_in, inner) = crossbeam_channel::bounded(INNER_MAX);
        let (submit_in, submit) = crossbeam_channel::bounded(SUBMIT_MAX);
        let reserve = Reserve(options.disk_reserve);
        let signs = Arc::new(Signs::new(reserve, options.retention.clone(), parts.clock.clone()));
        let mut core = Core {
            parts,
            options,
            inner,
            submit,
            table: Table::default(),
            queue: Queue::new(),
            running: HashMap::new(),
            claimer: None,
            draining: false,
            closing: false,
            replies: Vec::new(),
            sweep: Sweep::default(),
            pinning: Pinning::default(),
            disk: Disk::default(),
            reserve,
            held_ends: VecDeque::new(),
            hold_until: None,
            signs,
            default_rules: Rules::default(),
            held_types: HashSet::new(),
            timer: None,
            more_claims: false,
        };
        core.load(heads);
        let handle = Handle { inner: inner_in, submit: submit_in, signs: core.signs.clone() };
        (core, handle)
    }

    fn load(&mut self, heads: &[Arc<Head>]) {
        self.set_limits();
        let now = self.parts.clock.now();
        for head in heads {
            self.hold_if_unconfigured(&head.job.spec.job_type);
            self.line_up(&head.job, now);
            self.table.payload_bytes += head.job.spec.payload.len;
            self.table.live.insert(head.job.id(), Live { head: head.clone(), held: None });
        }
    }

    /// How many of each type run at once. In order of their names, so that turns between types do not depend on a hash.
    fn set_limits(&mut self) {
        let mut rules: Vec<_> = self.parts.rules.iter().collect();
        rules.sort_unstable_by_key(|(job_type, _)| *job_type);
        for (job_type, rules) in rules {
            self.queue.set_limit(job_type, rules.concurrency);
        }
    }

    /// The tools are others: jobs whose tool is gone wait, jobs whose tool is back go on; running attempts go on as they began.
    pub fn configure(&mut self, rules: HashMap<Arc<str>, Rules>) {
        let old = std::mem::replace(&mut self.parts.rules, rules);
        self.held_types.retain(|job_type| !self.parts.rules.contains_key(job_type));
        self.set_limits();
        let gone = old.into_keys().filter(|job_type| !self.parts.rules.contains_key(job_type));
        for job_type in gone.collect::<Vec<_>>() {
            self.hold_if_unconfigured(&job_type);
        }
    }

    /// Jobs whose tool is not configured (any more) wait until it is: a slip in a configuration must not fail them.
    fn hold_if_unconfigured(&mut self, job_type: &Arc<str>) {
        if !self.parts.rules.contains_key(job_type) && self.held_types.insert(job_type.clone()) {
            tracing::warn!(%job_type, "no tool is configured for this type: its jobs wait until one is");
            self.queue.set_limit(job_type, Some(0));
        }
    }

    fn run(&mut self) -> Fatal {
        loop {
            let wish = match self.wait() {
                Some(wish) => wish,
                None => return Fatal::Bug("every handle of the core is gone".into()),
            };
            if let Err(fatal) = self.turn(wish) {
                return fatal;
            }
            if self.closing {
                return match self.parts.store.close() {
                    Ok(()) => Fatal::Closed,
                    Err(error) => Fatal::Store(error),
                };
            }
        }
    }

    /// One group, from its first wish to its wake-ups.
    pub fn turn(&mut self, wish: Wish) -> Result<(), Fatal> {
        if !self.has_room()? {
            return self.hold(wish);
        }
        self.hold_until = None;
        let mut group = Group::new(self.parts.clock.now());
        self.decide_due(&mut group)?;
        self.decide(&mut group, wish)?;
        for _ in 1..GROUP_MAX {
            if group.body_bytes >= GROUP_BYTES_MAX {
                break;
            }
            if let Some(end) = self.held_ends.pop_front() {
                self.decide(&mut group, Wish::Inner(end))?;
                continue;
            }
            let next = self.inner.try_recv().map(Wish::Inner).or_else(|_| self.submit.try_recv().map(Wish::Submit));
            let Ok(next) = next else { break };
            self.decide(&mut group, next)?;
        }
        self.hand_out(&mut group)?;
        self.commit_and_publish(group)?;
        // Forgetting is a commit of its own.
        if self.has_room()? { self.sweep_some() } else { Ok(()) }
    }

    /// What is to be done without waiting, submits apart.
    pub fn at_hand(&self) -> Option<Wish> {
        if self.hold_until.is_none() && (self.more_claims || !self.held_ends.is_empty()) {
            return Some(Wish::Due);
        }
        self.inner.try_recv().ok().map(Wish::Inner)
    }

    /// Blocks until somebody wants something or a due time has come. `None` once nobody can want anything any more.
    fn wait(&mut self) -> Option<Wish> {
        if let Some(wish) = self.at_hand() {
            return Some(wish);
        }
        let timer = self.timer();
        select_biased! {
            recv(self.inner) -> wish => wish.ok().map(Wish::Inner),
            recv(self.submit) -> wish => wish.ok().map(Wish::Submit),
            recv(timer) -> _ => {
                self.timer = None;
                Some(Wish::Due)
            }
        }
    }

    /// When to turn without being asked. While the log has no room, what is due waits with everything else.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.hold_until.is_some() {
            return self.hold_until;
        }
        let waits_for_room = self.claimer.is_some() && self.queue.ready_len() > 0;
        let disk = self.disk.due().filter(|_| waits_for_room);
        // Under a pin nothing is swept.
        let sweep = if self.pinning.is_on() { self.pinning.due() } else { self.sweep.due() };
        self.queue.next_due().into_iter().chain(sweep).chain(disk).min()
    }

    fn timer(&mut self) -> Receiver<Instant> {
        let Some(due) = self.next_due() else {
            self.timer = None;
            return never();
        };
        match &self.timer {
            Some((when, timer)) if *when == due => timer.clone(),
            _ => {
                let timer = self.parts.clock.at(due);
                self.timer = Some((due, timer.clone()));
                timer
            }
        }
    }

    /// The rules for jobs of this type.
    pub fn rules(&self, job_type: &str) -> &Rules {
        self.parts.rules.get(job_type).unwrap_or(&self.default_rules)
    }
}
