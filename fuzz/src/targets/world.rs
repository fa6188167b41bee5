//! A whole server but for its port and its disk: jobs in every state, two sessions, a clock that stands still, timers that do not wait.
//!
//! A world that a run has changed is not used again, so that what an input does depends on nothing but itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use longhaul::clock::{Clock, Manual};
use longhaul::core::{self, LocalWork};
use longhaul::events::Published;
use longhaul::job::machine::{apply, create};
use longhaul::job::{
    Action, Answer, Asking, Body, BodyRef, Carried, ClaimNo, Class, Completion, End, Entry, Epoch, EventId, Failure,
    Job, JobId, Json, Key, Millis, Part, Position, RetryPolicy, Rules, Spec, Throttle, Timestamp, canonical,
};
use longhaul::metrics::Metrics;
use longhaul::service::{self, Catalogue, Service, TaskSupport, Tool};
use longhaul::shutdown::Shutdown;
use longhaul::store::memory::Memory;
use longhaul::store::{CellChange, Change, JobChange, Store};
use longhaul::work::WorkSource;
use serde_json::json;
use tokio::runtime::Runtime;

/// When these worlds stand still.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Jobs by the letter that stands for them after a `$`.
const JOBS: [(char, u128); 9] = [
    ('P', 0x0199_0000_0000_7000_8000_0000_0000_0001),
    ('R', 0x0199_0000_0000_7000_8000_0000_0000_0002),
    ('C', 0x0199_0000_0000_7000_8000_0000_0000_0003),
    ('L', 0x0199_0000_0000_7000_8000_0000_0000_0004),
    ('F', 0x0199_0000_0000_7000_8000_0000_0000_0005),
    ('D', 0x0199_0000_0000_7000_8000_0000_0000_0006),
    ('X', 0x0199_0000_0000_7000_8000_0000_0000_0007),
    // No such job.
    ('N', 0x0199_0000_0000_7000_8000_0000_0000_0008),
    ('Q', 0x0199_0000_0000_7000_8000_0000_0000_0009),
];

/// Sessions of 2025-06-18 and 2025-11-25.
const SESSIONS: [(char, &str, &str); 2] =
    [('S', "00000000000000000000000000000011", "2025-06-18"), ('T', "00000000000000000000000000000012", "2025-11-25")];

/// See the module.
pub struct World {
    /// Everything asynchronous runs here.
    pub runtime: Runtime,
    /// The façade.
    pub service: Arc<Service>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Nobody uses it.
    pub shutdown: Shutdown,
    core: core::Handle,
    ended: Arc<Mutex<Option<String>>>,
    began_at: Position,
    words: Vec<(char, String)>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl World {
    /// A world whose jobs belong to `owner`.
    pub fn new(owner: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        fill(&*store, owner);
        let clock: Arc<dyn Clock> = Arc::new(Manual::at_time(NOW));
        let catalogue = catalogue();
        let rules: HashMap<_, _> = catalogue.tools().map(|tool| (tool.job_type.clone(), tool.rules.clone())).collect();
        let heads = core::recover(&*store, &*clock, &rules).expect("a recovery");
        let _inside = runtime.enter();
        let published = Published::new(&store, heads.clone(), "").expect("published");
        tokio::spawn(published.announcer());
        let metrics = Arc::new(Metrics::new(rules.keys().cloned(), 1));
        let parts = core::Parts {
            store: store.clone(),
            clock: clock.clone(),
            published: published.clone(),
            rules,
            metrics: metrics.clone(),
        };
        let options = core::Options {
            max_pending: 1_000,
            max_pending_bytes: 1 << 30,
            disk_reserve: Some(0),
            throttle: Throttle::default(),
            retention: core::Retention::default(),
        };
        let ended = Arc::new(Mutex::new(None));
        let tell = ended.clone();
        let on_end = move |why| *tell.lock().expect("no panic while held") = Some(format!("{why:?}"));
        let core = core::start(parts, options, &heads, on_end).expect("a thread");
        let claims = LocalWork::new(&core, store.clone()).claim(1).expect("work");
        assert_eq!(claims[0].job.to_string(), JobId::from_u128(JOBS[1].1).to_string(), "it runs until the world ends");
        let parts = service::Parts { catalogue, core: core.clone(), published, clock: clock.clone() };
        let service = Arc::new(Service::new(parts));
        let began_at = service.bounds().last;
        let words = words(&service);
        let shutdown = Shutdown::default();
        drop(_inside);
        Self { runtime, service, clock, metrics, shutdown, core, ended, began_at, words }
    }

    /// Lets another word stand after a `$`.
    pub fn teach(&mut self, letter: char, word: String) {
        self.words.push((letter, word));
    }

    /// Whether nothing has been logged since it began.
    ///
    /// # Panics
    /// When the core has ended.
    pub fn is_as_it_was(&self) -> bool {
        let ended = self.ended.lock().expect("no panic while held");
        assert!(ended.is_none(), "the core has ended: {ended:?}");
        self.service.bounds().last == self.began_at
    }

    /// The bytes with `$P` and so on replaced by what they stand for.
    pub fn spell(&self, bytes: &[u8]) -> Vec<u8> {
        let mut spelt = Vec::with_capacity(bytes.len() + 64);
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            let next = rest.as_slice().first().copied().map(char::from);
            let word = self.words.iter().find(|(letter, _)| *byte == b'$' && Some(*letter) == next);
            match word {
                Some((_, word)) => {
                    spelt.extend_from_slice(word.as_bytes());
                    rest.next();
                }
                None => spelt.push(*byte),
            }
        }
        spelt
    }
}

fn words(service: &Service) -> Vec<(char, String)> {
    let bounds = service.bounds();
    let event = |epoch: Epoch, position: u64| EventId { epoch, position: Position(position) }.to_string();
    let jobs = JOBS.iter().map(|(letter, id)| (*letter, JobId::from_u128(*id).to_string()));
    let sessions = SESSIONS.iter().map(|(letter, id, _)| (*letter, (*id).to_owned()));
    let cursors = [
        ('E', event(bounds.epoch, 4)),
        ('Z', event(bounds.epoch, bounds.last.0)),
        ('A', event(bounds.epoch, bounds.last.0 + 9)),
        ('O', event(Epoch(bounds.epoch.0 ^ 1), 4)),
    ];
    jobs.chain(sessions).chain(cursors).collect()
}

/// Tools that answer handles, results, and results of a promised form.
fn catalogue() -> Arc<Catalogue> {
    static CATALOGUE: OnceLock<Arc<Catalogue>> = OnceLock::new();
    let tool = |name: &str, inline_wait: u64| Tool {
        name: name.into(),
        job_type: format!("{name}_type").into(),
        title: None,
        description: Some("does what its arguments say".into()),
        input_schema: json!({
            "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 0 },
                "text": { "type": "string", "pattern": "^[a-z]*$", "x-mcp-header": "Text" },
            },
        }),
        output_schema: None,
        annotations: None,
        inline_wait: Millis(inline_wait),
        derive_key: false,
        task_support: TaskSupport::Auto,
        expires_in: None,
        cancel_grace: Millis(100),
        max_result: 1 << 20,
        rules: Rules { retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }, ..Rules::default() },
    };
    let make = || {
        let numbers = Tool { output_schema: Some(json!({"type": "array"})), ..tool("numbers", 1_000) };
        let tools = vec![tool("echo", 0), tool("quick", 1_000), numbers];
        Arc::new(Catalogue::new(tools).expect("good tools"))
    };
    CATALOGUE.get_or_init(make).clone()
}

/// One job of each kind, and the sessions.
fn fill(store: &dyn Store, owner: &str) {
    let started =
        |attempt| Entry::Started { claim: ClaimNo(u64::from(attempt)), attempt, max_attempts: 1, worker: "w".into() };
    let (claim, log) = (ClaimNo(1), Some(BodyRef::of(Part::Log, 1, LOG)));
    let failed = |failure| {
        let (claim, end) = (Some(claim), Some(End::Failed));
        vec![started(1), Entry::Failed { claim, end, failure, attempts: 1, log }]
    };
    let protocol_error =
        Failure { rpc_code: Some(-32_000), ..Failure::new(Class::Fatal, Some("protocol_error"), "no") };
    let canceled = Entry::Canceled { claim: None, by: owner.into(), reason: "user".into(), log: None };
    let small = completed(&[b"{\"n\":1}"], 1);
    let long = format!("\"{}\"", "ü😀\\n \\\"".repeat(400));
    let large = completed(&[long.as_bytes(), b"[{\"type\":\"text\",\"text\":\"ready\"}]"], 1);
    let asking = asking();
    let lives: [(usize, Vec<Entry>, Vec<Body>); 8] = [
        (0, Vec::new(), Vec::new()),
        (1, Vec::new(), Vec::new()),
        (2, [vec![started(1)], small.0].concat(), small.1),
        (3, [vec![started(1)], large.0].concat(), large.1),
        (4, failed(protocol_error), vec![log_body()]),
        (5, failed(Failure::new(Class::Permanent, Some("exit_65"), "bad\u{2028}input")), vec![log_body()]),
        (6, vec![canceled], Vec::new()),
        (8, [vec![started(1)], asking.0].concat(), asking.1),
    ];
    let mut changes: Vec<Change> =
        lives.into_iter().map(|(at, life, bodies)| change(at, owner, life, bodies)).collect();
    let session = |(_, id, version): &(char, &str, &str)| CellChange {
        name: format!("session/{id}"),
        expect: None,
        value: Some(json!({"version": version, "owner": owner, "seen": NOW.0}).to_string().into()),
    };
    let broken = CellChange { name: "session/x".into(), expect: None, value: Some(Bytes::from_static(b"{")) };
    let cells = SESSIONS.iter().map(session).chain([broken]).collect();
    changes.push(Change { jobs: Vec::new(), cells });
    let committed = store.commit(&changes).expect("a commit");
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
}

/// Two questions, one of them answered; then the attempt is given back.
fn asking() -> (Vec<Entry>, Vec<Body>) {
    let claim = ClaimNo(1);
    let (mut entries, mut bodies) = (Vec::new(), Vec::new());
    for (seq, key) in [(1, "size"), (2, "a/b~c")] {
        let schema =
            r#"{"type":"object","properties":{"n":{"type":"integer"},"t":{"type":"string","pattern":"^a+$"}}}"#;
        let asking = Asking { key: key.into(), message: "Which\u{2028}one?".into(), schema: Json(schema.into()) };
        let words = Bytes::from(asking.to_json());
        let body = Body { name: BodyRef::of(Part::Question, seq, &words), bytes: Some(words) };
        let Asking { key, message, schema } = asking;
        entries.push(Entry::Asked { claim, key, message, schema, body: body.name });
        bodies.push(body);
    }
    let said = Bytes::from_static(br#"{"key":"size","action":"accept","content":{"n":1}}"#);
    let body = Body { name: BodyRef::of(Part::Answer, 1, &said), bytes: Some(said) };
    let answer = Answer { key: "size".into(), action: Action::Accept, body: body.name };
    entries.push(Entry::Answered { by: "ann".into(), answers: vec![answer] });
    bodies.push(body);
    entries.push(Entry::Released { claim, log: None });
    (entries, bodies)
}

const LOG: &[u8] = b"a line\nanother\n";
const PAYLOAD: &[u8] = b"{\"n\":1}";

fn log_body() -> Body {
    Body { name: BodyRef::of(Part::Log, 1, LOG), bytes: Some(Bytes::from_static(LOG)) }
}

/// A partial, and the end with a result and content blocks.
fn completed(bodies: &[&[u8]], claim: u64) -> (Vec<Entry>, Vec<Body>) {
    let parts = [Part::Result, Part::Content];
    let body = |(part, bytes): (Part, &&[u8])| Body {
        name: BodyRef::of(part, claim, bytes),
        bytes: Some(Bytes::copy_from_slice(bytes)),
    };
    let mut bodies: Vec<Body> = parts.into_iter().zip(bodies).map(body).collect();
    let completion = Completion {
        summary: "done".into(),
        result: bodies.first().map(|body| body.name),
        content: bodies.get(1).map(|body| body.name),
        is_error: false,
        lossy: false,
    };
    let partial =
        Body { name: BodyRef::of(Part::Partial, 1 << 32 | 1, b"[1]"), bytes: Some(Bytes::from_static(b"[1]")) };
    let told = Entry::Partial { body: partial.name, inline: None };
    bodies.push(partial);
    let end = Entry::Completed {
        claim: ClaimNo(claim),
        completion: Arc::new(completion),
        attempts: 1,
        duration: Millis(5),
        inline: None,
        log: None,
    };
    (vec![told, end], bodies)
}

fn change(at: usize, owner: &str, life: Vec<Entry>, mut bodies: Vec<Body>) -> Change {
    let (letter, id) = JOBS[at];
    let value = json!({"n": 1});
    let payload = Body { name: BodyRef::of(Part::Payload, 0, PAYLOAD), bytes: Some(Bytes::from_static(PAYLOAD)) };
    let spec = Spec {
        id: JobId::from_u128(id),
        job_type: if letter == 'L' { "quick_type".into() } else { "echo_type".into() },
        owner: owner.into(),
        payload: payload.name,
        carried: Carried::default(),
        priority: 0,
        max_attempts: 1,
        created_at: Timestamp(NOW.0 - 1_000),
        expires_at: None,
        key: Some(Arc::new(Key { text: letter.to_string().into(), digest: canonical::digest(&value) })),
        tags: [Arc::from("t"), Arc::from(letter.to_string())].into(),
        traceparent: None,
        replay_of: None,
    };
    bodies.push(payload);
    let run_at = (letter == 'P').then(|| NOW.plus(Millis::seconds(3_600)));
    let mut entries = vec![create(Arc::new(spec), run_at)];
    entries.extend(life);
    let step = |job: Option<Job>, entry: &Entry| apply(job, NOW, entry).map(Some).expect("a life");
    let after = entries.iter().fold(None, step).expect("a job");
    let kept = |body: &Body| after.bodies().any(|name| name == body.name);
    bodies.retain(kept);
    let job = JobChange { before: None, after, entries, at: NOW, bodies, dropped: Vec::new() };
    Change { jobs: vec![job], cells: Vec::new() }
}
