//! Jobs whose lives go on by chance, and how they stand at a moment.
//!
//! In: a seed. Out: commits of every kind to a store, and a picture of it that is made from what was committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::job::{
    Action, Answer, Asking, BODY_SMALL_MAX, Body, BodyRef, ClaimNo, Class, End, Entry, Epoch, Failure, Head, JobId,
    Json, Logged, Part, Position, Progress, QUESTIONS_MAX, Spec, State, Timestamp,
};
use crate::store::conformance::story::{Story, body, job_with, key, positions};
use crate::store::{Bounds, Pin, Store};

/// Seeds: one that is given, or so many.
pub fn seeds(count: u64) -> Vec<u64> {
    let given = std::env::var("LONGHAUL_SEED").ok().and_then(|text| text.parse().ok());
    given.map_or_else(|| (1..=count).collect(), |seed| vec![seed])
}

/// A number by chance: the n-th of a seed.
pub fn chance(seed: u64, n: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// See the head of this file.
pub struct World {
    store: Arc<dyn Store>,
    stories: Vec<Story>,
    log: BTreeMap<Position, Logged>,
    bodies: BTreeMap<(JobId, Part, u64), Bytes>,
    seed: u64,
    drawn: u64,
    made: u64,
    /// Whether jobs are ever forgotten.
    pub forgets: bool,
}

/// How everything stands at a moment.
pub struct Picture {
    bounds: Bounds,
    heads: Vec<Arc<Head>>,
    log: Vec<Logged>,
    bodies: BTreeMap<(JobId, Part, u64), Bytes>,
    totals: String,
}

impl World {
    pub fn new(seed: u64, store: Arc<dyn Store>) -> Self {
        let (stories, log, bodies) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { store, stories, log, bodies, seed, drawn: 0, made: 0, forgets: true }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        chance(self.seed, self.drawn) % n
    }

    /// Something happens to some job.
    pub fn step(&mut self) {
        if self.stories.is_empty() || self.below(4) == 0 {
            return self.create();
        }
        let at = self.below(self.stories.len() as u64) as usize;
        let mut story = self.stories[at].clone();
        match &story.head().job.state {
            State::Pending => self.start_or_cancel(&mut story),
            State::InProgress { .. } => self.go_on(&mut story),
            State::InputRequired => self.answer(&mut story),
            State::Completed(_) | State::Failed { .. } | State::Canceled { .. } => return self.after_the_end(at),
        }
        self.stories[at] = story;
    }

    fn create(&mut self) {
        self.made += 1;
        let (number, size) = (self.made, self.size());
        let payload = self.json(size);
        let name = BodyRef::of(Part::Payload, 0, &payload);
        let with_key = self.below(3) == 0;
        let tagged = self.below(3) == 0;
        let mut story = job_with(number, |spec: &mut Spec| {
            spec.payload = name;
            spec.job_type = if number % 2 == 0 { "echo".into() } else { "other".into() };
            spec.key = key(&format!("k{number}")).filter(|_| with_key);
            spec.tags = if tagged { Arc::new(["ä\n".into(), "b".into()]) } else { Arc::new([]) };
            spec.traceparent = Some("00-x".into()).filter(|_| tagged);
        });
        story.payload = payload.clone();
        let created = story.created();
        self.put(&mut story, vec![created], vec![body(Part::Payload, 0, &payload)]);
        self.stories.push(story);
    }

    fn start_or_cancel(&mut self, story: &mut Story) {
        let job = story.head().job.clone();
        let entry = if self.below(5) == 0 {
            Entry::Canceled { claim: None, by: "ann".into(), reason: "user".into(), log: None }
        } else {
            let (claim, attempt) = (ClaimNo(job.claims + 1), job.attempts + 1);
            Entry::Started { claim, attempt, max_attempts: job.spec.max_attempts, worker: "w".into() }
        };
        self.put(story, vec![entry], Vec::new());
    }

    fn go_on(&mut self, story: &mut Story) {
        let job = story.head().job.clone();
        let claim = ClaimNo(job.claims);
        let size = self.size();
        let value = self.json(size);
        let log = body(Part::Log, claim.0, &Bytes::from(format!("it said {}", "é".repeat(size / 3))));
        match self.below(9) {
            0 => {
                let percent = Some(f64::from(self.below(1_000) as u32) / 7.0);
                self.put(story, vec![Entry::Progress(Progress { percent, ..Progress::default() })], Vec::new());
            }
            1 | 2 => {
                let partial = body(Part::Partial, claim.0 << 32 | u64::from(job.revision), &value);
                self.put(story, vec![Entry::Partial { body: partial.name, inline: None }], vec![partial]);
            }
            3 | 4 => {
                let failure = Failure::new(Class::Transient, Some("exit_75"), "again\u{0}");
                let (end, next_at, log_name) = (End::Failed, Timestamp(job.updated_at.0 + 5), Some(log.name));
                let (retry, max_attempts) = (job.attempts, 5);
                let entry = Entry::Retrying { claim, end, failure, retry, max_attempts, next_at, log: log_name };
                self.put(story, vec![entry], vec![log]);
            }
            5 if job.questions.are_open() => self.answer(story),
            5 | 6 => self.ask(story, claim),
            7 => {
                let entry = Entry::Released { claim, log: Some(log.name) };
                self.put(story, vec![entry], vec![log]);
            }
            _ => self.end(story, claim, &value, log),
        }
    }

    fn ask(&mut self, story: &mut Story, claim: ClaimNo) {
        let number = story.head().job.questions.all().len() as u64;
        if number == QUESTIONS_MAX as u64 {
            return;
        }
        let schema = Json("{\"type\":\"object\"}".into());
        let asking = Asking { key: number.to_string().into(), message: "Which?\u{0}".into(), schema };
        let words = body(Part::Question, number, &asking.to_json().into());
        let Asking { key, message, schema } = asking;
        self.put(story, vec![Entry::Asked { claim, key, message, schema, body: words.name }], vec![words]);
    }

    /// Answers one open question, or some.
    fn answer(&mut self, story: &mut Story) {
        let job = story.head().job.clone();
        let open: Vec<u64> = job.questions.open().map(|(name, _)| name.seq).collect();
        let some = 1 + self.below(open.len() as u64) as usize;
        let (mut answers, mut bodies) = (Vec::new(), Vec::new());
        for number in open.into_iter().take(some) {
            let size = self.below(6_000) as usize;
            let said = body(Part::Answer, number, &self.json(size));
            answers.push(Answer { key: number.to_string().into(), action: Action::Accept, body: said.name });
            bodies.push(said);
        }
        self.put(story, vec![Entry::Answered { by: "ann".into(), answers }], bodies);
    }

    fn end(&mut self, story: &mut Story, claim: ClaimNo, value: &Bytes, log: Body) {
        let attempts = story.head().job.attempts;
        let log_name = Some(log.name);
        if self.below(2) == 0 {
            let failure = Failure::new(Class::Fatal, None, "it broke");
            let entry = Entry::Failed { claim: Some(claim), end: Some(End::Failed), failure, attempts, log: log_name };
            return self.put(story, vec![entry], vec![log]);
        }
        let result = body(Part::Result, claim.0, value);
        let completion = crate::job::Completion {
            summary: "done".into(),
            result: Some(result.name),
            content: None,
            is_error: false,
            lossy: false,
        };
        let (completion, duration) = (Arc::new(completion), crate::job::Millis(7));
        let entry = Entry::Completed { claim, completion, attempts, duration, inline: None, log: log_name };
        self.put(story, vec![entry], vec![result, log]);
    }

    /// An ended job is replayed, forgotten, or left alone.
    fn after_the_end(&mut self, at: usize) {
        let mut story = self.stories[at].clone();
        if story.head().job.is_dead_letter() && self.below(2) == 0 {
            self.put(&mut story, vec![Entry::Replayed { as_job: JobId::from_u128(77) }], Vec::new());
            self.stories[at] = story;
            return;
        }
        if !self.forgets || self.below(3) > 0 {
            return;
        }
        let id = story.id();
        self.store.forget(&[id]).expect("works");
        if self.store.job(id).expect("works").is_none() {
            self.stories.remove(at);
            self.log.retain(|_, logged| logged.job != id);
        }
    }

    fn put(&mut self, story: &mut Story, entries: Vec<Entry>, mut bodies: Vec<Body>) {
        for body in &mut bodies {
            let bytes = body.bytes.clone().expect("a test brings bytes");
            let name = body.name;
            self.bodies.insert((story.id(), name.part, name.seq), bytes.clone());
            if bytes.len() > BODY_SMALL_MAX {
                self.store.bring(story.id(), name, &bytes).expect("works");
                body.bytes = None;
            }
        }
        let first = story.put(&*self.store, entries.clone(), bodies);
        let spec = story.spec.clone();
        for (n, entry) in entries.into_iter().enumerate() {
            let position = first.plus(n as u64);
            let (job_type, owner, tags) = (spec.job_type.clone(), spec.owner.clone(), spec.tags.clone());
            let at = story.head().job.updated_at;
            self.log.insert(position, Logged { position, at, job: spec.id, job_type, owner, tags, entry });
        }
    }

    fn size(&mut self) -> usize {
        match self.below(12) {
            0 => BODY_SMALL_MAX + 9_000 + self.below(200_000) as usize,
            1 | 2 => 5_000 + self.below(50_000) as usize,
            _ => self.below(300) as usize,
        }
    }

    fn json(&mut self, size: usize) -> Bytes {
        // Wide characters at any offset, so that pieces would cut them.
        let text = "ü€\\n".repeat(size / 7);
        let shift = "x".repeat(self.below(4) as usize);
        format!("{{\"n\":{},\"t\":\"{shift}{text}\"}}", self.made).into()
    }

    /// How everything stands under this pin.
    pub fn picture(&self, pin: &Pin) -> Picture {
        let heads: Vec<Arc<Head>> = self.stories.iter().map(Story::head).collect();
        let named = heads.iter().flat_map(|head| head.job.bodies().map(|name| (head.job.id(), name.part, name.seq)));
        let bodies = named.map(|name| (name, self.bodies[&name].clone())).collect();
        let totals = format!("{:?}", self.store.totals());
        Picture { bounds: pin.bounds, heads, log: self.log.values().cloned().collect(), bodies, totals }
    }
}

impl Picture {
    /// The store stands so, under another epoch.
    pub fn check(&self, store: &dyn Store, epoch: Epoch, seed: u64) {
        assert_eq!(store.bounds(), Bounds { epoch, ..self.bounds }, "seed {seed}");
        assert_eq!(format!("{:?}", store.totals()), self.totals, "seed {seed}");
        for head in &self.heads {
            let job = &head.job;
            let found = store.job(job.id()).expect("works");
            assert_eq!(found.as_ref(), Some(head), "seed {seed}");
            let at: Vec<u64> = positions(store, job.id(), &head.trail).iter().map(|position| position.0).collect();
            let own: Vec<u64> = self.log.iter().filter(|l| l.job == job.id()).map(|l| l.position.0).collect();
            assert_eq!(at, own, "seed {seed}");
            for name in job.bodies() {
                let bytes = store.body(job.id(), name, 0, usize::MAX).expect("works");
                assert_eq!(bytes.as_ref(), Some(&self.bodies[&(job.id(), name.part, name.seq)]), "seed {seed}");
            }
            if let Some(key) = &job.spec.key {
                let named = store.keyed(&job.spec.owner, &job.spec.job_type, &key.text).expect("works");
                assert_eq!(named, Some(job.id()), "seed {seed}");
            }
        }
        let all = Pin { number: 0, bounds: store.bounds() };
        assert_eq!(store.pinned_entries(&all, Position::ZERO, usize::MAX).expect("works"), self.log, "seed {seed}");
        let live = self.heads.iter().filter(|head| !head.job.status().is_terminal()).count();
        assert_eq!(store.live().expect("works").len(), live, "seed {seed}");
    }
}
