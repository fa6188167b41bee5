//! A server, its clients, its disk and its clock under one seed: every choice is the seed's.
//!
//! In: a seed. Out: a store that was lived in, or a panic that says what was broken. First `ACTIONS` choices with faults among
//! them, then none, until every job has ended.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::check;
use super::life::Life;
use super::script::{Attempt, Mail, Step, asking};
use crate::clock::{Clock, Manual};
use crate::core::tests::rig::{creation, options};
use crate::core::{ActRefusal, Creation, Options, SubmitAnswer};
use crate::job::{
    Action, Answer, Body, BodyRef, Class, Command, Head, JobId, Key, Millis, OnInterrupt, Part, Position, RetryPolicy,
    Rules, Standing, Timestamp, canonical,
};
use crate::store::memory::Memory;
use crate::store::{Health, Store};

/// Choices before the faults stop.
const ACTIONS: usize = 160;
/// Choices and turns after that: more mean that somebody turns in vain.
const LAST_ACTIONS_MAX: usize = 20_000;
/// Virtual time after the faults stop: delays of up to an hour, steps back of up to ten minutes, retries of minutes.
const LAST_TIME_MAX: Millis = Millis::seconds(6 * 3_600);

/// Questions that a job may be asked.
const QUESTIONS: usize = 3;

/// A small generator (xorshift).
pub struct Chance(u64);

impl Chance {
    pub fn of(seed: u64) -> Self {
        // Neighbouring seeds are to be far apart.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Answers on their way: whose job, to which keys, what comes of it.
type Answering = (JobId, Vec<String>, oneshot::Receiver<Result<Arc<Head>, ActRefusal>>);

/// Types by name, each with its own limit.
pub fn rules() -> HashMap<Arc<str>, Rules> {
    let retry = RetryPolicy { max_attempts: 3, max_delay: Millis::seconds(60), ..RetryPolicy::default() };
    let rules = |concurrency, on_interrupt| Rules {
        retry: retry.clone(),
        on_interrupt,
        timeout: Millis::seconds(60),
        concurrency,
    };
    HashMap::from([
        ("free".into(), rules(None, OnInterrupt::Retry)),
        ("two".into(), rules(Some(2), OnInterrupt::Retry)),
        ("one".into(), rules(Some(1), OnInterrupt::Retry)),
        ("once".into(), rules(None, OnInterrupt::Fail)),
    ])
}

/// See the head of this file.
pub struct World {
    chance: Chance,
    clock: Manual,
    pub store: Arc<Memory>,
    life: Option<Life>,
    /// Said by attempts of former lives.
    late: VecDeque<Mail>,
    unanswered: Vec<(Option<u8>, oneshot::Receiver<SubmitAnswer>)>,
    /// Answers that people have given and not heard of.
    answering: Vec<Answering>,
    /// Answers that they were told are taken.
    pub answered: Vec<(JobId, String)>,
    /// Jobs that a client was told of.
    pub acknowledged: Vec<JobId>,
    keys: BTreeMap<u8, JobId>,
    /// The log's end when the limits were last checked.
    checked: Position,
    /// What was done, for whoever looks into a failure.
    pub trace: Vec<String>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut world = Self {
            chance: Chance::of(seed),
            clock: Manual::at_time(Timestamp(1_700_000_000_000)),
            store: Arc::new(Memory::new()),
            life: None,
            late: VecDeque::new(),
            unanswered: Vec::new(),
            answering: Vec::new(),
            answered: Vec::new(),
            acknowledged: Vec::new(),
            keys: BTreeMap::new(),
            checked: Position::ZERO,
            trace: Vec::new(),
        };
        world.start();
        world
    }

    /// Lives through the seed.
    pub fn run(&mut self) {
        for _ in 0..ACTIONS {
            self.act();
            self.look();
        }
        self.note("the faults stop");
        self.free_disk(u64::MAX, true);
        let until = self.clock.now().plus(LAST_TIME_MAX);
        for _ in 0..LAST_ACTIONS_MAX {
            let moved = self.go_on() || self.answer();
            self.look();
            if !moved && !self.wait_for_what_comes(until) {
                return;
            }
        }
        panic!("it turns without end");
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        self.trace.push(format!("{} {what}", self.clock.now().0 % 100_000_000));
    }

    fn start(&mut self) {
        let options = Options { max_pending: 25, disk_reserve: Some(1_000), ..options() };
        self.life = Some(Life::start(&self.store, &self.clock, options, rules()));
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("a life between actions")
    }

    /// One choice of many.
    fn act(&mut self) {
        match self.chance.below(100) {
            0..15 => self.submit(),
            15..18 => _ = self.answer(),
            18..23 => self.cancel(),
            23..26 => self.replay(),
            26..50 => _ = self.turn(),
            50..60 => _ = self.life().dispatch(),
            60..78 => _ = self.resume(),
            78..88 => _ = self.deliver(),
            88..94 => self.pass(),
            94..96 => self.jump(),
            96 => self.crash(),
            97 => self.shut_down(),
            98 => self.fill_disk(),
            _ => self.hear_late(),
        }
    }

    /// What happens without faults.
    fn go_on(&mut self) -> bool {
        let first = self.chance.below(4);
        (0..4).any(|n| match (first + n) % 4 {
            0 => self.turn(),
            1 => self.life().dispatch(),
            2 => self.deliver(),
            _ => self.resume_well(),
        })
    }

    fn turn(&mut self) -> bool {
        match self.life().core.step() {
            Ok(moved) => moved,
            Err(fatal) => panic!("the core ended: {fatal:?}"),
        }
    }

    fn creation(&mut self) -> (Option<u8>, Box<Creation>) {
        let mut new = creation(&self.clock, b"{}");
        let spec = &mut new.spec;
        spec.job_type = ["free", "two", "one", "once"][self.chance.below(4)].into();
        spec.priority = i8::try_from(self.chance.below(5)).expect("small") - 2;
        let now = self.clock.now();
        if self.chance.one_in(5) {
            new.run_at = Some(now.plus(Millis(self.chance.below(3_600_000) as u64)));
        }
        if self.chance.one_in(6) {
            new.spec.expires_at = Some(now.plus(Millis(1 + self.chance.below(600_000) as u64)));
        }
        let key = self.chance.one_in(4).then(|| u8::try_from(self.chance.below(4)).expect("small"));
        if let Some(key) = key {
            let digest = canonical::digest(&serde_json::json!({}));
            // A key belongs to an owner and a type.
            new.spec.job_type = "free".into();
            new.spec.key = Some(Arc::new(Key { text: format!("k{key}").into(), digest }));
        }
        (key, new)
    }

    fn submit(&mut self) {
        for _ in 0..=self.chance.below(3) {
            let (key, creation) = self.creation();
            self.note(format_args!("submit {} {} key {key:?}", creation.spec.id, creation.spec.job_type));
            let answer = self.life().core.submit(creation);
            self.unanswered.push((key, answer));
        }
    }

    /// One of the jobs that clients know of.
    fn some_job(&mut self) -> Option<JobId> {
        let n = self.acknowledged.len();
        (n > 0).then(|| self.acknowledged[self.chance.below(n)])
    }

    fn cancel(&mut self) {
        let Some(id) = self.some_job() else { return };
        self.note(format_args!("cancel {id}"));
        drop(self.life().core.act(id, Command::Cancel { by: "local".into(), reason: "user".into() }, Vec::new()));
    }

    /// Somebody answers one or all of the open questions of some job, and may be late. False if none is open.
    fn answer(&mut self) -> bool {
        let mut heads = self.store.live().expect("readable");
        heads.retain(|head| head.job.awaits_input());
        heads.sort_by_key(|head| head.job.id());
        if heads.is_empty() {
            return false;
        }
        let job = heads.swap_remove(self.chance.below(heads.len())).job;
        let most = 1 + self.chance.below(QUESTIONS);
        let (id, mut answers, mut bodies) = (job.id(), Vec::new(), Vec::new());
        for number in 0..QUESTIONS {
            let key = asking(number).key;
            let Some(Standing::Open { body, .. }) = job.questions.keyed(&key).map(|question| question.standing) else {
                continue;
            };
            if answers.len() < most {
                let bytes = bytes::Bytes::from(format!("{{\"key\":\"{key}\",\"action\":\"decline\"}}"));
                let name = BodyRef::of(Part::Answer, body.seq, &bytes);
                answers.push(Answer { key, action: Action::Decline, body: name });
                bodies.push(Body { name, bytes: Some(bytes) });
                self.note(format_args!("answer k{number} of {id}"));
            }
        }
        let told: Vec<String> = answers.iter().map(|answer| answer.key.to_string()).collect();
        let command = Command::Answer { by: "local".into(), answers };
        let answer = self.life().core.act(id, command, bodies);
        self.answering.push((id, told, answer));
        true
    }

    fn replay(&mut self) {
        let Some(of) = self.some_job() else { return };
        let mut new = creation(&self.clock, b"{}");
        new.spec.replay_of = Some(of);
        new.spec.job_type = "free".into();
        self.note(format_args!("replay {of} as {}", new.spec.id));
        drop(self.life().core.replay(of, new));
    }

    /// A waiting attempt that the seed chooses; deaf ones only hear that they are late.
    fn some_attempt(&mut self) -> Option<Attempt> {
        let now = self.clock.now();
        let hears = |attempt: &Attempt, deadline: Timestamp| !is_deaf(*attempt) || now >= deadline;
        let all = self.life().waiting.iter();
        let hearing: Vec<Attempt> = all
            .filter(|(attempt, waiting)| hears(attempt, waiting.claim.deadline))
            .map(|(attempt, _)| *attempt)
            .collect();
        (!hearing.is_empty()).then(|| hearing[self.chance.below(hearing.len())])
    }

    fn resume(&mut self) -> bool {
        let Some(attempt) = self.some_attempt() else { return false };
        let step = match self.chance.below(25) {
            0..6 => Step::Progress(1 + u32::try_from(self.chance.below(6)).expect("small")),
            6..8 => Step::Partial(u32::try_from(self.chance.below(3)).expect("small")),
            8..12 => Step::Look,
            12..15 => Step::Done,
            15 => Step::Fail(Class::Permanent, None),
            16 => Step::Fail(Class::Fatal, None),
            17 => Step::Panic,
            20..23 => Step::Ask(self.chance.below(QUESTIONS)),
            23..25 => Step::Leave,
            _ => {
                let asked = self.chance.one_in(4).then(|| Millis::seconds(self.chance.below(600) as u64));
                Step::Fail(Class::Transient, asked)
            }
        };
        self.take(attempt, if is_deaf(attempt) { Step::Look } else { step });
        true
    }

    fn resume_well(&mut self) -> bool {
        let Some(attempt) = self.some_attempt() else { return false };
        self.take(attempt, if is_deaf(attempt) { Step::Look } else { Step::Done });
        true
    }

    fn take(&mut self, attempt: Attempt, step: Step) {
        self.note(format_args!("{} claim {}: {step:?}", attempt.0, attempt.1.0));
        self.life().resume(attempt, step);
    }

    fn deliver(&mut self) -> bool {
        let n = self.life().said.len();
        if n == 0 {
            return false;
        }
        let at = self.chance.below(n);
        let (id, claim) = self.life().deliver(at);
        self.note(format_args!("heard {id} claim {}", claim.0));
        true
    }

    fn hear_late(&mut self) {
        if let Some(mail) = self.late.pop_front() {
            self.note(format_args!("late: {:?}", mail.attempt()));
            self.life().hear(mail);
        }
    }

    fn pass(&mut self) {
        let due = self.life().core.next_due().map_or(0, |due| due.since(self.clock.now()).0);
        // Not as far as to retention: what ended is looked at in the end.
        let length = if self.chance.one_in(2) { due.min(3_600_000) } else { self.chance.below(5_000) as u64 };
        self.clock.advance(Millis(length));
    }

    /// Somebody sets the clock.
    fn jump(&mut self) {
        let now = self.clock.now();
        let to = match self.chance.one_in(2) {
            true => now.plus(Millis(self.chance.below(3_600_000) as u64)),
            false => Timestamp(now.0 - i64::try_from(self.chance.below(600_000)).expect("small")),
        };
        self.note(format_args!("the clock is set to {}", to.0));
        self.clock.set(to);
    }

    fn crash(&mut self) {
        self.note("crash");
        let life = self.life.take().expect("a life between actions");
        self.late.extend(life.crash());
        self.look();
        self.start();
    }

    /// Gracefully, with attempts that do not listen, and a start again.
    fn shut_down(&mut self) {
        self.note("shutdown");
        self.life().core.handle().drain();
        for _ in 0..self.chance.below(10) {
            self.go_on();
            self.look();
        }
        self.life().release();
        for _ in 0..20 {
            let _ = self.turn();
            match self.some_attempt() {
                Some(attempt) => self.take(attempt, Step::Look),
                None => _ = self.deliver(),
            }
        }
        self.life().core.handle().close();
        while !self.life().core.is_closed() {
            assert!(self.turn(), "a core that is closed ends");
        }
        self.look();
        self.crash();
    }

    fn fill_disk(&mut self) {
        let free = [2_000, 999, 499, 0][self.chance.below(4)];
        let has_room = free > 0 || self.chance.one_in(2);
        self.note(format_args!("{free} bytes are free"));
        self.free_disk(free, has_room);
    }

    fn free_disk(&mut self, disk_free: u64, has_room: bool) {
        self.store.set_disk(Health { store_bytes: 0, disk_free, disk_size: u64::MAX }, has_room);
    }

    /// Nothing moves: the clock does, to whatever comes next. False if nothing comes any more.
    fn wait_for_what_comes(&mut self, until: Timestamp) -> bool {
        let now = self.clock.now();
        let deadlines: Vec<Timestamp> = self.life().waiting.values().map(|waiting| waiting.claim.deadline).collect();
        let unfinished = self.store.live().expect("readable").len();
        if unfinished == 0 && deadlines.is_empty() {
            return false;
        }
        let due = self.life().core.next_due();
        let next = due.into_iter().chain(deadlines).filter(|at| *at > now).min();
        let next = next.unwrap_or_else(|| panic!("{unfinished} jobs wait for nothing"));
        assert!(next <= until, "{unfinished} jobs are still not ended after {} s", LAST_TIME_MAX.0 / 1_000);
        self.clock.set(next);
        true
    }

    /// Takes the answers that have come, and checks what always holds.
    fn look(&mut self) {
        for (key, mut answer) in std::mem::take(&mut self.unanswered) {
            match answer.try_recv() {
                Ok(Ok((head, _))) => {
                    let id = head.job.id();
                    self.acknowledged.push(id);
                    if let Some(key) = key {
                        assert_eq!(*self.keys.entry(key).or_insert(id), id, "one key, one job");
                    }
                }
                Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {}
                Err(oneshot::error::TryRecvError::Empty) => self.unanswered.push((key, answer)),
            }
        }
        for (id, keys, mut answer) in std::mem::take(&mut self.answering) {
            match answer.try_recv() {
                Ok(Ok(_)) => self.answered.extend(keys.into_iter().map(|key| (id, key))),
                Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {}
                Err(oneshot::error::TryRecvError::Empty) => self.answering.push((id, keys, answer)),
            }
        }
        let last = self.store.bounds().last;
        if std::mem::replace(&mut self.checked, last) != last {
            check::limits(&*self.store);
        }
    }
}

/// Whether this attempt hears nothing until its deadline: a hung one.
fn is_deaf((job, claim): Attempt) -> bool {
    (job.as_u128() + u128::from(claim.0)) % 7 == 0
}
