//! One life of a server: the core, its slots, its pool; from a start over a store to a crash or a graceful end.
//!
//! In: the schedule's choices. Out: whether a choice moved anything. The core turns on the caller's thread, attempts run on
//! the pool's; nothing moves unless the schedule says so.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError};

use super::script::{Attempt, Mail, Post, Scripted, Step, settle};
use super::steps::Steps;
use crate::clock::{Clock, Manual};
use crate::core::{self, LocalWork, Options, Parts};
use crate::events::Published;
use crate::handler::{Handler, Handlers, Roster};
use crate::job::Rules;
use crate::metrics::Metrics;
use crate::run::{Assignment, Running, Slots, start_pool};
use crate::store::Store;
use crate::store::memory::Memory;
use crate::work::{Claim, Stop, WorkSource};

/// Slots of the pool.
pub const SLOTS: usize = 3;

/// An attempt that waits for its next step.
pub struct Waiting {
    pub claim: Claim,
    pub next: Sender<Step>,
}

/// See the head of this file.
pub struct Life {
    pub core: Steps,
    work: Arc<LocalWork>,
    slots: Slots,
    asked: Option<Receiver<Vec<Claim>>>,
    is_over: bool,
    pool: Sender<Assignment>,
    running: Arc<Running>,
    threads: Vec<JoinHandle<()>>,
    mail: Receiver<Mail>,
    pub waiting: BTreeMap<Attempt, Waiting>,
    /// Said by attempts, not yet heard by the core.
    pub said: VecDeque<Mail>,
}

impl Life {
    pub fn start(store: &Arc<Memory>, clock: &Manual, options: Options, rules: HashMap<Arc<str>, Rules>) -> Self {
        let port: Arc<dyn Store> = store.clone();
        let heads = core::recover(&*port, clock, &rules).expect("recovery");
        let published = Published::new(&port, heads.clone(), "").expect("published");
        let metrics = Arc::new(Metrics::new(rules.keys().cloned(), SLOTS));
        let (post, mail) = crossbeam_channel::unbounded();
        let mut handlers = Handlers::default();
        let scripted: Arc<dyn Handler> = Arc::new(Scripted(post.clone()));
        rules.keys().for_each(|job_type| handlers.insert(job_type.clone(), scripted.clone()));
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let parts = Parts { store: port.clone(), clock: shared.clone(), published, rules, metrics };
        let core = Steps::new(parts, options, &heads);
        let work = Arc::new(LocalWork::new(core.handle(), port));
        let source: Arc<dyn WorkSource> = Arc::new(Post { mail: post, work: work.clone() });
        let running = Arc::new(Running::new(SLOTS));
        let (pool, threads) =
            start_pool(&source, &Arc::new(Roster::from_pointee(handlers)), &shared, SLOTS, &running).expect("threads");
        Self {
            core,
            work,
            slots: Slots::new(SLOTS),
            asked: None,
            is_over: false,
            pool,
            running,
            threads,
            mail,
            waiting: BTreeMap::new(),
            said: VecDeque::new(),
        }
    }

    /// What the dispatcher would do now.
    pub fn dispatch(&mut self) -> bool {
        let Some(asked) = &self.asked else {
            let want = self.slots.free();
            if want > 0 && !self.is_over {
                self.asked = Some(self.core.claim(want));
            }
            return self.asked.is_some();
        };
        let claims = match asked.try_recv() {
            Ok(claims) => claims,
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                self.is_over = true;
                Vec::new()
            }
        };
        self.asked = None;
        let attempts = claims.iter().map(|claim| (claim.job, claim.number)).collect();
        for claim in claims {
            assert!(self.slots.free() > 0, "more claims than slots");
            self.pool.send(self.slots.fill(claim)).expect("the pool lives");
        }
        self.sort(attempts);
        true
    }

    /// Lets an attempt take a step.
    pub fn resume(&mut self, attempt: Attempt, step: Step) {
        let waiting = self.waiting.remove(&attempt).expect("it waits");
        waiting.next.send(step).expect("it waits");
        self.sort(BTreeSet::from([attempt]));
    }

    fn sort(&mut self, moving: BTreeSet<Attempt>) {
        for mail in settle(&self.mail, moving) {
            let attempt = mail.attempt();
            match mail {
                Mail::Waits(claim, next) => drop(self.waiting.insert(attempt, Waiting { claim, next })),
                mail @ (Mail::Says(..) | Mail::Ends { .. }) => self.said.push_back(mail),
            }
        }
    }

    /// The core hears the first that the attempt of mail `at` has said.
    pub fn deliver(&mut self, at: usize) -> Attempt {
        let attempt = self.said[at].attempt();
        let first = self.said.iter().position(|mail| mail.attempt() == attempt).expect("that one at least");
        let mail = self.said.remove(first).expect("it is there");
        self.hear(mail);
        attempt
    }

    /// The core hears this, whoever said it and when.
    pub fn hear(&self, mail: Mail) {
        match mail {
            Mail::Waits(..) => {}
            Mail::Says(claim, report) => self.work.report(&claim, report),
            Mail::Ends { claim, leave, log, freed } => self.work.finish(&claim, leave, log, freed),
        }
    }

    /// The grace is over: everything that runs, and all that comes, is told to stop.
    pub fn release(&self) {
        self.running.stop_all(Stop::Shutdown);
        self.core.handle().release();
    }

    /// The process dies. What its attempts had said and would have said: it may still come, late.
    pub fn crash(self) -> Vec<Mail> {
        let Self { waiting, pool, threads, mail, said, .. } = self;
        drop((waiting, pool));
        threads.into_iter().for_each(|thread| thread.join().expect("a worker survives everything"));
        let all = said.into_iter().chain(mail.try_iter());
        let mut late: Vec<Mail> = all.filter(|mail| !matches!(mail, Mail::Waits(..))).collect();
        late.sort_by_key(Mail::attempt);
        late
    }
}
