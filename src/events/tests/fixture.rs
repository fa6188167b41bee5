//! A small world for tests: a store in memory that counts how it is read, jobs that live by commands, and readers that
//! are polled only when they were woken.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;

use crate::events::{Error, Filter, Page, Published, Sizes, Start, Tail};
use crate::job::machine::{self, Moment};
use crate::job::*;
use crate::store::memory::Memory;
use crate::store::{self, Bounds, Change, JobChange, Store};

/// A store that counts reads of the log.
pub(crate) struct Counted {
    kept: Memory,
    reads: AtomicU64,
}

impl Counted {
    fn read<T>(&self, result: T) -> T {
        self.reads.fetch_add(1, Ordering::SeqCst);
        result
    }
}

impl Store for Counted {
    fn live(&self) -> Result<Vec<Head>, store::Error> {
        self.kept.live()
    }
    fn commit(&self, changes: &[Change]) -> Result<Vec<Result<Position, store::Conflict>>, store::Error> {
        self.kept.commit(changes)
    }
    fn bring(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), store::Error> {
        self.kept.bring(job, name, bytes)
    }
    fn discard(&self, job: JobId, name: BodyRef) {
        self.kept.discard(job, name);
    }
    fn job(&self, id: JobId) -> Result<Option<Arc<Head>>, store::Error> {
        self.read(self.kept.job(id))
    }
    fn jobs(&self, query: &store::Query) -> Result<store::Listing, store::Error> {
        self.kept.jobs(query)
    }
    fn keyed(&self, owner: &str, job_type: &str, key: &str) -> Result<Option<JobId>, store::Error> {
        self.kept.keyed(owner, job_type, key)
    }
    fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, store::Error> {
        self.kept.body(job, name, offset, limit)
    }
    fn bounds(&self) -> Bounds {
        self.kept.bounds()
    }
    fn events(&self, after: Position, limit: usize) -> Result<Vec<Logged>, store::Error> {
        self.read(self.kept.events(after, limit))
    }
    fn entries(&self, positions: &[Position]) -> Result<Vec<Logged>, store::Error> {
        self.read(self.kept.entries(positions))
    }
    fn trail(&self, job: JobId, number: u32) -> Result<Vec<Position>, store::Error> {
        self.read(self.kept.trail(job, number))
    }
    fn cells(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, store::Error> {
        self.kept.cells(prefix)
    }
    fn ends(
        &self,
        job_type: &str,
        failed: bool,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, store::Error> {
        self.kept.ends(job_type, failed, before, limit)
    }
    fn forget(&self, ids: &[JobId]) -> Result<(), store::Error> {
        self.kept.forget(ids)
    }
    fn pin(&self) -> Result<store::Pin, store::Error> {
        self.kept.pin()
    }
    fn unpin(&self, pin: &store::Pin) {
        self.kept.unpin(pin);
    }
    fn is_pinned(&self, pin: &store::Pin) -> bool {
        self.kept.is_pinned(pin)
    }
    fn pinned_entries(&self, pin: &store::Pin, after: Position, limit: usize) -> Result<Vec<Logged>, store::Error> {
        self.kept.pinned_entries(pin, after, limit)
    }
    fn pinned_body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, store::Error> {
        self.kept.pinned_body(job, name, offset, limit)
    }
    fn totals(&self) -> Arc<store::Totals> {
        self.kept.totals()
    }
    fn health(&self) -> Result<store::Health, store::Error> {
        self.kept.health()
    }
    fn close(&self) -> Result<(), store::Error> {
        self.kept.close()
    }
}

/// Nothing of the past stays in memory: every reader has to go to the store.
pub(crate) const NOTHING: Sizes = Sizes { ring_bytes: 0, ring_entries: 0, ended: 0, preload: 0 };

/// See the module.
pub(crate) struct World {
    now: Timestamp,
    ids: u128,
    pub(crate) published: Arc<Published>,
    store: Arc<Counted>,
    heads: HashMap<JobId, Arc<Head>>,
    said: u32,
}

impl World {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let store = Arc::new(Counted { kept: Memory::new(), reads: AtomicU64::new(0) });
        let published = publish_all(&store, sizes);
        Self { now: Timestamp(1_800_000_000_000), ids: 1 << 100, published, store, heads: HashMap::new(), said: 0 }
    }

    /// As after the end of the process: only what the store holds is known.
    pub(crate) fn restart(&mut self, sizes: Sizes) {
        self.published = publish_all(&self.store, sizes);
    }

    pub(crate) fn create(&mut self, job_type: &str, owner: &str, tags: &[&str]) -> JobId {
        self.ids += 1;
        let id = JobId::from_u128(self.ids);
        let payload = BodyRef::of(Part::Payload, 0, b"{}");
        let spec = Arc::new(Spec {
            id,
            job_type: job_type.into(),
            owner: owner.into(),
            payload,
            carried: Carried::default(),
            priority: 0,
            max_attempts: 5,
            created_at: self.now,
            expires_at: None,
            key: None,
            tags: tags.iter().map(|tag| Arc::from(*tag)).collect(),
            traceparent: None,
            replay_of: None,
        });
        let body = Body { name: payload, bytes: Some(Bytes::from_static(b"{}")) };
        self.commit(id, vec![machine::create(spec, None)], vec![body]);
        id
    }

    /// Decides a command, commits and publishes it. False: it was refused, or nothing new.
    pub(crate) fn tell(&mut self, job: JobId, command: &Command) -> bool {
        let (rules, throttle) = (Rules::default(), Throttle::default());
        let moment = Moment { now: self.now, rules: &rules, throttle: &throttle, spread: 0.0 };
        let entries = machine::decide(&self.heads[&job].job, &mut None, command, &moment).unwrap_or_default();
        let is_news = !entries.is_empty();
        if is_news {
            self.commit(job, entries, Vec::new());
        }
        is_news
    }

    /// Commits and publishes entries as they are.
    pub(crate) fn commit(&mut self, id: JobId, entries: Vec<Entry>, bodies: Vec<Body>) {
        let last = self.commit_only(id, entries, bodies);
        self.publish_after(id, last);
    }

    /// Commits without publishing; where the log ended before.
    pub(crate) fn commit_only(&mut self, id: JobId, entries: Vec<Entry>, bodies: Vec<Body>) -> Position {
        let before = self.heads.get(&id).cloned();
        let job = before.as_ref().map(|head| head.job.clone());
        let now = self.now;
        let after = entries.iter().fold(job, |job, entry| Some(machine::apply(job, now, entry).unwrap()));
        let last = self.store.bounds().last;
        let part = JobChange { before, after: after.unwrap(), entries, at: now, bodies, dropped: Vec::new() };
        let result = self.store.commit(&[Change { jobs: vec![part], cells: Vec::new() }]).unwrap();
        assert!(result[0].is_ok());
        self.heads.insert(id, self.store.kept.job(id).unwrap().unwrap());
        last
    }

    /// Publishes what the store holds after `last`.
    pub(crate) fn publish_after(&self, id: JobId, last: Position) {
        let entries = self.store.kept.events(last, usize::MAX).unwrap();
        self.published.publish(vec![self.heads[&id].clone()], &entries);
    }

    pub(crate) fn start(&mut self, job: JobId) {
        assert!(self.tell(job, &Command::Start { worker: "w1".into() }));
    }

    /// Progress that is always news.
    pub(crate) fn progress(&mut self, job: JobId) {
        self.said += 1;
        let progress = Progress { message: Some(format!("step {}", self.said).into()), ..Progress::default() };
        assert!(self.tell(job, &Command::Report { claim: self.claim(job), progress }));
    }

    /// So many progress entries in one commit.
    pub(crate) fn progress_in_bulk(&mut self, job: JobId, count: usize) {
        let entry = |n| Entry::Progress(Progress { message: Some(format!("bulk {n}").into()), ..Progress::default() });
        self.commit(job, (0..count).map(entry).collect(), Vec::new());
    }

    pub(crate) fn complete(&mut self, job: JobId) {
        let completion =
            Completion { summary: "done".into(), result: None, content: None, is_error: false, lossy: false };
        let claim = self.claim(job);
        let command = Command::Complete { claim, completion: Arc::new(completion), inline: None, log: None };
        assert!(self.tell(job, &command));
    }

    pub(crate) fn fail(&mut self, job: JobId) {
        let Outcome::Failed(failing) = Outcome::failed(Class::Permanent, Some("exit_64"), "no such file") else {
            return;
        };
        assert!(self.tell(job, &Command::Fail { claim: self.claim(job), failing, log: None }));
    }

    pub(crate) fn release(&mut self, job: JobId) {
        assert!(self.tell(job, &Command::Release { claim: self.claim(job), log: None }));
    }

    pub(crate) fn claim(&self, job: JobId) -> ClaimNo {
        self.heads[&job].job.claim().unwrap_or_default()
    }

    pub(crate) fn head(&self, job: JobId) -> Arc<Head> {
        self.heads[&job].clone()
    }

    /// As the core does it: the store forgets first.
    pub(crate) fn forget(&mut self, jobs: &[JobId]) {
        self.store.forget(jobs).unwrap();
        self.published.raise_floor(self.store.bounds().floor);
        self.published.forget_heads(jobs);
    }

    pub(crate) fn last(&self) -> Position {
        self.published.bounds().last
    }

    pub(crate) fn id(&self, position: Position) -> EventId {
        EventId { epoch: self.published.bounds().epoch, position }
    }

    pub(crate) fn after(&self, position: Position) -> Start {
        Start::After(self.id(position))
    }

    /// Reads of the log since the last call.
    pub(crate) fn reads(&self) -> u64 {
        self.store.reads.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn feed(&self, filter: Filter, start: Start) -> Reader {
        Reader::new(Tail::feed(&self.published, filter, start))
    }

    pub(crate) fn stream(&self, job: JobId, start: Start) -> Reader {
        Reader::new(block_on(Tail::job(&self.published, &self.heads[&job], start)).unwrap())
    }

    /// All pages of the feed from there: envelopes, and the first page's reset.
    pub(crate) fn feed_pages(&self, filter: &Filter, start: Start, limit: usize) -> (Vec<String>, Option<String>) {
        self.pages(start, |start| block_on(self.published.feed_page(filter.clone(), start, limit)))
    }

    pub(crate) fn job_pages(&self, job: JobId, start: Start, limit: usize) -> (Vec<String>, Option<String>) {
        let head = self.head(job);
        self.pages(start, |start| block_on(self.published.job_page(&head, start, limit)))
    }

    fn pages(&self, start: Start, read: impl Fn(Start) -> Result<Page, Error>) -> (Vec<String>, Option<String>) {
        let mut page = read(start).unwrap();
        let reset = page.reset.map(|reset| serde_json::to_string(&reset).unwrap());
        let mut events = Vec::new();
        loop {
            events.extend(page.events.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()));
            if !page.has_more {
                return (events, reset);
            }
            page = read(Start::After(page.cursor)).unwrap();
            assert_eq!(page.reset, None);
        }
    }
}

fn publish_all(store: &Arc<Counted>, sizes: Sizes) -> Arc<Published> {
    let live = store.live().unwrap().into_iter().map(Arc::new).collect();
    let store: Arc<dyn Store> = store.clone();
    Published::with_sizes(&store, live, "", sizes).unwrap()
}

/// A flag that a waker raises, and that can be waited for.
#[derive(Default)]
pub(crate) struct Signal {
    is_up: Mutex<bool>,
    raised: Condvar,
}

/// Longest that a test waits for a wake-up: a bound, not a measure.
const WAKE_MAX: Duration = Duration::from_secs(60);

impl Signal {
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.is_up.lock().unwrap())
    }

    fn wait(&self) {
        let guard = self.is_up.lock().unwrap();
        let (mut guard, timeout) = self.raised.wait_timeout_while(guard, WAKE_MAX, |is_up| !*is_up).unwrap();
        assert!(!timeout.timed_out(), "nobody woke the reader for a minute");
        *guard = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.is_up.lock().unwrap() = true;
        self.raised.notify_all();
    }
}

/// Waits for a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let signal = Arc::<Signal>::default();
    let waker = Waker::from(signal.clone());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => signal.wait(),
        }
    }
}

/// What a stream gave out, parsed as a client would.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: String,
}

/// A client of a tail that is polled only when it was woken.
pub(crate) struct Reader {
    pub(crate) tail: Tail,
    /// Every event so far.
    pub(crate) events: Vec<Event>,
    /// The last id, moved also by ids without data.
    pub(crate) last_id: Option<String>,
    /// The tail said that nothing more comes.
    pub(crate) has_ended: bool,
    pub(crate) error: Option<Error>,
    signal: Arc<Signal>,
}

impl Reader {
    fn new(tail: Tail) -> Self {
        let signal = Arc::<Signal>::default();
        signal.clone().wake();
        Self { tail, events: Vec::new(), last_id: None, has_ended: false, error: None, signal }
    }

    /// Whether it was woken since it last ran.
    pub(crate) fn is_woken(&self) -> bool {
        *self.signal.is_up.lock().unwrap()
    }

    /// Polls as long as it was woken, without waiting for anybody.
    pub(crate) fn run(&mut self) -> &mut Self {
        while !self.has_ended && self.signal.take() {
            while !self.has_ended && self.poll_once() {}
        }
        self
    }

    /// Polls whether or not it was woken, as a heartbeat does. True: something came.
    pub(crate) fn poll_once(&mut self) -> bool {
        let waker = Waker::from(self.signal.clone());
        match self.tail.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(Ok(bytes))) => {
                let whole = String::from_utf8(bytes.to_vec()).expect("UTF-8");
                assert!(whole.ends_with("\n\n"), "whole frames");
                whole.split_terminator("\n\n").for_each(|frame| self.hear(frame));
                true
            }
            Poll::Ready(Some(Err(error))) => {
                self.error = Some(error);
                false
            }
            Poll::Ready(None) => {
                self.has_ended = true;
                false
            }
            Poll::Pending => false,
        }
    }

    /// Runs until so many events have come, or it has ended.
    pub(crate) fn until(&mut self, count: usize) -> &mut Self {
        self.run();
        while self.events.len() < count && !self.has_ended && self.error.is_none() {
            self.signal.wait();
            self.signal.clone().wake();
            self.run();
        }
        self
    }

    /// Runs until it has ended or failed.
    pub(crate) fn finish(&mut self) -> &mut Self {
        self.until(usize::MAX)
    }

    fn hear(&mut self, frame: &str) {
        let mut event = Event::default();
        for line in frame.split('\n') {
            let (name, value) = line.split_once(": ").expect("a field");
            match name {
                "id" => {
                    self.last_id = Some(value.into());
                    event.id = self.last_id.clone();
                }
                "event" => event.event = Some(value.into()),
                "data" => event.data.push_str(value),
                _ => panic!("a forged field: {line}"),
            }
        }
        if !event.data.is_empty() {
            self.events.push(event);
        }
    }

    /// The data of the events that are no resets.
    pub(crate) fn data(&self) -> Vec<String> {
        let is_reset = |event: &&Event| event.event.as_deref() == Some("stream.reset");
        self.events.iter().filter(|event| !is_reset(event)).map(|event| event.data.clone()).collect()
    }

    /// The data of the resets.
    pub(crate) fn resets(&self) -> Vec<String> {
        let is_reset = |event: &&Event| event.event.as_deref() == Some("stream.reset");
        self.events.iter().filter(is_reset).map(|event| event.data.clone()).collect()
    }

    /// The types of the events.
    pub(crate) fn types(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event.event.as_deref()).collect()
    }
}
