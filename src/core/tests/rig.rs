//! One core, its store, its clock and a source of work, all in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;

use crate::clock::{Clock, Manual};
use crate::core::{self, ActRefusal, Creation, Fatal, Handle, LocalWork, Options, Parts, Retention, SubmitAnswer};
use crate::events::Published;
use crate::job::{
    Body, BodyRef, Carried, Command, Entry, Head, JobId, Key, Logged, Millis, Outcome, Output, Part, Position, Rules,
    Spec, Throttle, Timestamp, canonical,
};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::store::memory::Memory;
use crate::work::{Claim, Leave, WorkSource};

/// The one type of job here.
pub const TYPE: &str = "t";

/// Settings under which nothing is in the way.
pub fn options() -> Options {
    Options {
        max_pending: 1_000_000,
        max_pending_bytes: u64::MAX,
        disk_reserve: Some(0),
        throttle: Throttle::default(),
        retention: Retention::default(),
    }
}

/// See the head of this file.
pub struct Rig {
    pub store: Arc<Memory>,
    pub clock: Manual,
    pub core: Handle,
    pub work: Arc<LocalWork>,
    pub published: Arc<Published>,
    ended: Mutex<mpsc::Receiver<Fatal>>,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(options(), Rules::default())
    }

    pub fn with(options: Options, rules: Rules) -> Self {
        let clock = Manual::at_time(Timestamp(1_700_000_000_000));
        Self::on(Arc::new(Memory::new()), clock, options, rules)
    }

    /// A core on a store that may hold something already: a start, or a restart.
    pub fn on(store: Arc<Memory>, clock: Manual, options: Options, rules: Rules) -> Self {
        Self::configured(store, clock, options, HashMap::from([(Arc::from(TYPE), rules)]))
    }

    /// The same with rules for these types alone.
    pub fn configured(store: Arc<Memory>, clock: Manual, options: Options, rules: HashMap<Arc<str>, Rules>) -> Self {
        let port: Arc<dyn Store> = store.clone();
        let heads = core::recover(&*port, &clock, &rules).expect("recovery");
        let published = Published::new(&port, heads.clone(), "").expect("published");
        let metrics = Arc::new(Metrics::new([Arc::from(TYPE)], 4));
        let parts =
            Parts { store: port.clone(), clock: Arc::new(clock.clone()), published: published.clone(), rules, metrics };
        let (told, ended) = mpsc::channel();
        let on_end = move |fatal| told.send(fatal).expect("the rig listens");
        let core = core::start(parts, options, &heads, on_end).expect("a thread");
        let work = Arc::new(LocalWork::new(&core, port));
        Self { store, clock, core, work, published, ended: Mutex::new(ended) }
    }

    /// How the core ended; waits for it.
    pub fn ended(&self) -> Fatal {
        self.ended.lock().expect("one test").recv().expect("the core says so")
    }

    /// Ends this core as a crash would and starts another on the same store.
    pub fn restart(self, rules: Rules) -> Self {
        let (store, clock) = self.crash();
        Self::on(store, clock, options(), rules)
    }

    /// Ends this core as a crash would; what is left.
    pub fn crash(self) -> (Arc<Memory>, Manual) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        // Dropping every handle ends the thread without releasing anything.
        drop((self.core, self.work));
        self.ended.lock().expect("one test").recv().expect("the core says so");
        (store, clock)
    }

    pub fn creation(&self) -> Box<Creation> {
        self.creation_of(b"{}")
    }

    pub fn creation_of(&self, payload: &'static [u8]) -> Box<Creation> {
        creation(&self.clock, payload)
    }

    pub fn keyed(&self, key: &str, payload: &'static [u8]) -> Box<Creation> {
        let mut creation = self.creation_of(payload);
        let digest = canonical::digest(&serde_json::from_slice(payload).expect("JSON"));
        creation.spec.key = Some(Arc::new(Key { text: key.into(), digest }));
        creation
    }

    pub fn try_submit(&self, creation: Box<Creation>) -> SubmitAnswer {
        block_on(self.core.submit(creation)).expect("the core answers")
    }

    pub fn submit(&self) -> JobId {
        self.try_submit(self.creation()).expect("accepted").0.job.id()
    }

    pub fn act(&self, job: JobId, command: Command) -> Result<Arc<Head>, ActRefusal> {
        block_on(self.core.act(job, command)).expect("the core answers")
    }

    pub fn cancel(&self, job: JobId) -> Result<Arc<Head>, ActRefusal> {
        self.act(job, Command::Cancel { by: "local".into(), reason: "user".into() })
    }

    /// Waits for one claim.
    pub fn claim(&self) -> Claim {
        self.work.claim(1).expect("open").remove(0)
    }

    /// Ends an attempt and waits until that is durable or refused.
    pub fn finish(&self, claim: &Claim, outcome: Outcome) {
        self.leave(claim, Leave::Over(outcome));
    }

    pub fn leave(&self, claim: &Claim, leave: Leave) {
        let (freed, is_free) = mpsc::channel();
        self.work.finish(claim, leave, Bytes::new(), Box::new(move || freed.send(()).expect("awaited")));
        is_free.recv().expect("freed");
    }

    pub fn done(&self, claim: &Claim) {
        self.finish(claim, Outcome::Done(Output { data: Some("1".into()), ..Output::default() }));
    }

    /// Waits until everything sent before is decided and durable.
    pub fn settle(&self) {
        block_on(self.core.cells(Vec::new())).expect("the core answers").expect("nothing expected");
    }

    /// Ends the core in order. What it sweeps when nobody wants anything has been swept: a `settle` right behind another
    /// would be somebody who does.
    pub fn rest(&self) {
        self.core.drain();
        self.core.close();
        self.ended();
    }

    pub fn job(&self, id: JobId) -> Arc<Head> {
        self.store.job(id).expect("readable").expect("kept")
    }

    /// The log so far.
    pub fn log(&self) -> Vec<Logged> {
        self.store.events(Position::ZERO, usize::MAX).expect("readable")
    }

    /// What a client sees of one job: the events' types.
    pub fn story(&self, id: JobId) -> Vec<&'static str> {
        let of_job = |logged: &Logged| (logged.job == id).then(|| logged.entry.event_type()).flatten();
        self.log().iter().filter_map(of_job).collect()
    }

    /// When the job's next attempt may start, by its last failure.
    pub fn next_at(&self, id: JobId) -> Vec<(Timestamp, Timestamp)> {
        let retry = |logged: &Logged| match &logged.entry {
            Entry::Retrying { next_at, .. } if logged.job == id => Some((logged.at, *next_at)),
            _ => None,
        };
        self.log().iter().filter_map(retry).collect()
    }

    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn advance(&self, length: Millis) {
        self.clock.advance(length);
    }
}

pub fn creation(clock: &Manual, payload: &'static [u8]) -> Box<Creation> {
    let bytes = Bytes::from_static(payload);
    let name = BodyRef::of(Part::Payload, 0, &bytes);
    let spec = Spec {
        id: clock.job_id(),
        job_type: TYPE.into(),
        owner: "local".into(),
        payload: name,
        carried: Carried::default(),
        priority: 0,
        max_attempts: 3,
        created_at: clock.now(),
        expires_at: None,
        key: None,
        tags: [].into(),
        traceparent: None,
        replay_of: None,
    };
    Box::new(Creation { spec, run_at: None, payload: Body { name, bytes: Some(bytes) } })
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}
