//! One endpoint, its service, core and store, and a worker that does what a payload says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::clock::Manual;
use crate::core::{self, LocalWork, Retention};
use crate::events::Published;
use crate::job::{
    Asking, Class, Failing, Failure, JobId, Json, Millis, Outcome, Output, Progress, Rules, Throttle, Timestamp,
};
use crate::mcp::headers::fake::List;
use crate::mcp::{Answer, Endpoint, Options, Request, Rights};
use crate::metrics::Metrics;
use crate::service::{Catalogue, Parts, Service, TaskSupport, Tool, Viewer};
use crate::store::Store;
use crate::store::memory::Memory;
use crate::work::{Claim, Leave, Report, WorkSource};

/// See the head of this file.
pub struct Rig {
    pub store: Arc<Memory>,
    pub clock: Manual,
    pub service: Arc<Service>,
    pub endpoint: Arc<Endpoint>,
    pub held: Arc<Held>,
    pub options: Options,
    core: core::Handle,
    ended: Mutex<mpsc::Receiver<()>>,
    work: Arc<LocalWork>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// Claims whose payload says `hold`: they run until a test ends them, or are canceled.
#[derive(Default)]
pub struct Held(Mutex<Vec<Claim>>);

impl Held {
    fn claims(&self) -> MutexGuard<'_, Vec<Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.claims().len()
    }

    /// The job of the first.
    pub fn job(&self) -> JobId {
        self.claims()[0].job
    }

    /// Whether the first was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.claims()[0].stop.get().is_some()
    }

    /// Waits until the first is told to stop.
    pub async fn stopped(&self) {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.claims()[0].stop.on_stop(move |_| tell.send(()).expect("awaited"));
        told.await.expect("told");
    }
}

pub fn tool(name: &str, inline_wait: Millis) -> Tool {
    Tool {
        name: name.into(),
        job_type: format!("{name}_type").into(),
        title: None,
        description: Some("does what its arguments say".into()),
        input_schema: json!({
            "type": "object",
            "properties": { "budget": { "type": "number" }, "region": { "type": "string", "x-mcp-header": "Region" } },
        }),
        output_schema: None,
        annotations: None,
        inline_wait,
        derive_key: false,
        task_support: TaskSupport::Auto,
        expires_in: None,
        cancel_grace: Millis(100),
        max_result: 1 << 30,
        rules: Rules::default(),
    }
}

/// `start` answers handles; `quick` and `numbers` wait for their results, as long as it takes; `numbers` promises an array; `plain` is never a
/// task, `must` and `must_wait` always are.
fn tools() -> Vec<Tool> {
    let long = Millis::seconds(60);
    let numbers = Tool { output_schema: Some(json!({"type": "array"})), ..tool("numbers", long) };
    let derived = Tool { derive_key: true, ..tool("derived", Millis(0)) };
    let supporting = |task_support, tool| Tool { task_support, ..tool };
    let plain = supporting(TaskSupport::Never, tool("plain", Millis(0)));
    let must = supporting(TaskSupport::Required, tool("must", Millis(0)));
    let must_wait = supporting(TaskSupport::Required, tool("must_wait", long));
    vec![tool("start", Millis(0)), tool("quick", long), numbers, derived, plain, must, must_wait]
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        Self::on(Arc::new(Memory::new()), Manual::at_time(Timestamp(1_700_000_000_000)), options).await
    }

    async fn on(store: Arc<Memory>, clock: Manual, options: Options) -> Self {
        let port: Arc<dyn Store> = store.clone();
        let catalogue = Arc::new(Catalogue::new(tools()).expect("schemas"));
        let rules: HashMap<_, _> = catalogue.tools().map(|tool| (tool.job_type.clone(), tool.rules.clone())).collect();
        let heads = core::recover(&*port, &clock, &rules).expect("recovery");
        let published = Published::new(&port, heads.clone(), "").expect("published");
        tokio::spawn(published.announcer());
        let metrics = Arc::new(Metrics::new(rules.keys().cloned(), 4));
        let shared: Arc<dyn crate::clock::Clock> = Arc::new(clock.clone());
        let parts =
            core::Parts { store: port.clone(), clock: shared.clone(), published: published.clone(), rules, metrics };
        let (tell, ended) = mpsc::channel();
        let settings = core::Options {
            max_pending: 1_000_000,
            max_pending_bytes: u64::MAX,
            disk_reserve: Some(0),
            throttle: Throttle::default(),
            retention: Retention::default(),
        };
        let on_end = move |_| tell.send(()).unwrap_or_default();
        let core = core::start(parts, settings, &heads, on_end).expect("a thread");
        let work = Arc::new(LocalWork::new(&core, port));
        let handle = core.clone();
        let held = Arc::new(Held::default());
        let (worker, holds) = (work.clone(), held.clone());
        std::thread::spawn(move || run(&worker, &holds));
        let service = Arc::new(Service::new(Parts { catalogue, core, published, clock: shared.clone() }));
        let endpoint = Endpoint::load(service.clone(), shared, options.clone()).await.expect("sessions are read");
        Self { store, clock, service, endpoint, held, options, core: handle, ended: Mutex::new(ended), work }
    }

    /// Ends the process, as a graceful shutdown would, and starts another on the same store.
    pub async fn restart(self) -> Self {
        self.core.close();
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv().expect("the core says so");
        let (store, clock, options) = (self.store.clone(), self.clock.clone(), self.options.clone());
        Self::on(store, clock, options).await
    }

    /// Tells how far the first held claim is.
    pub fn progress(&self, progress: Progress) {
        self.work.report(&self.held.claims()[0], Report::Progress(progress));
    }

    /// Ends every held claim with this result.
    pub fn let_go(&self, result: &Value) {
        let claims = std::mem::take(&mut *self.held.claims());
        for claim in claims {
            finish(&self.work, &claim, done(result));
        }
    }

    pub async fn request(&self, verb: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Answer {
        self.request_as(Viewer::local(), verb, headers, body).await
    }

    pub async fn request_as(&self, viewer: Viewer, verb: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Answer {
        self.request_by(viewer, Rights::ALL, verb, headers, body).await
    }

    pub async fn request_by(
        &self,
        viewer: Viewer,
        rights: Rights,
        verb: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Answer {
        let list = List(headers);
        let body = Bytes::copy_from_slice(body);
        self.endpoint.handle(Request { verb, headers: &list, body, viewer, rights }).await
    }

    /// POSTs a message with the headers that every client sends, and these.
    pub async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut all: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        self.request("POST", &all, body.to_string().as_bytes()).await
    }

    /// Opens a session of this revision; its id.
    pub async fn open(&self, revision: &str) -> String {
        self.open_with(revision, json!({})).await
    }

    /// The same, of a client that can do this.
    pub async fn open_with(&self, revision: &str, capabilities: Value) -> String {
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {}});
        let body = request(0, "initialize", params);
        let answer = self.post(&[], &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        header(&answer, "mcp-session-id").expect("a session").to_owned()
    }

    /// Calls a tool in a fresh session of this revision, or without one in the newest; the whole message.
    pub async fn call(&self, revision: &str, name: &str, arguments: Value, meta: Value) -> Value {
        let answer = match revision {
            "2026-07-28" => {
                let message = modern("tools/call", json!({"name": name, "arguments": arguments}), meta);
                self.post(&modern_headers("tools/call", Some(name)), &message).await
            }
            _ => {
                let session = self.open(revision).await;
                let params = json!({"name": name, "arguments": arguments, "_meta": meta});
                self.post(&[("mcp-session-id", &session)], &request(1, "tools/call", params)).await
            }
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        message(&answer)
    }

    /// The result of a call in 2025-11-25.
    pub async fn result(&self, name: &str, arguments: Value) -> Value {
        self.call("2025-11-25", name, arguments, json!({})).await["result"].take()
    }

    /// The id of a started job.
    pub async fn start(&self, arguments: Value) -> String {
        let result = self.result("start", arguments).await;
        result["structuredContent"]["jobId"].as_str().expect("a handle").to_owned()
    }

    /// The job's status once it has ended.
    pub async fn ended(&self, id: &str) -> String {
        let result = self.result("wait_for_jobs", json!({"jobIds": [id], "timeoutMs": 60_000})).await;
        result["structuredContent"]["jobs"][0]["status"].as_str().expect("a status").to_owned()
    }
}

fn done(result: &Value) -> Outcome {
    Outcome::Done(Output { data: Some(result.to_string().into()), ..Output::default() })
}

fn finish(work: &LocalWork, claim: &Claim, outcome: Outcome) {
    let (freed, is_free) = mpsc::channel();
    work.finish(claim, Leave::Over(outcome), Bytes::new(), Box::new(move || freed.send(()).unwrap_or_default()));
    is_free.recv().expect("freed");
}

/// `{ask}`: lists of questions, one list after the other; then the answers are the result. `{result}`, `{content, is_error}`, `{fail, code?, rpc_code?}`, `{hold}`, `{log}`; anything else completes with `null`.
fn run(work: &LocalWork, held: &Arc<Held>) {
    while let Ok(claims) = work.claim(1) {
        for claim in claims {
            let payload = work.body(&claim, claim.payload).expect("a payload");
            let deed: Value = serde_json::from_slice(&payload).expect("JSON");
            if deed["hold"] == true {
                held.claims().push(claim);
                continue;
            }
            if let Some(rounds) = deed["ask"].as_array() {
                let outcome = asked(work, &claim, rounds);
                work.finish(&claim, Leave::Over(outcome), Bytes::new(), Box::new(|| ()));
                continue;
            }
            let log = deed["log"].as_str().unwrap_or_default().to_owned();
            work.finish(&claim, Leave::Over(outcome(&deed)), log.into(), Box::new(|| ()));
        }
    }
}

/// Asks what was not answered of the first list that has such a question.
fn asked(work: &LocalWork, claim: &Claim, rounds: &[Value]) -> Outcome {
    let mut answers = serde_json::Map::new();
    for name in claim.answers.take() {
        let answer: Value = serde_json::from_slice(&work.body(claim, name).expect("an answer")).expect("JSON");
        answers.insert(answer["key"].as_str().expect("a key").into(), answer);
    }
    let is_open = |question: &&Value| !answers.contains_key(question["key"].as_str().expect("a key"));
    let open = rounds.iter().map(|round| round.as_array().expect("a list").iter().filter(is_open).collect::<Vec<_>>());
    let Some(open) = open.into_iter().find(|open| !open.is_empty()) else {
        return done(&Value::Object(answers));
    };
    for (question, count) in open.into_iter().zip(1..) {
        let text = |name: &str| Arc::from(question[name].as_str().unwrap_or("Well?"));
        let schema = Json(question["schema"].to_string().into());
        let asking = Arc::new(Asking { key: text("key"), message: text("message"), schema });
        work.report(claim, Report::Ask { asking, count });
    }
    Outcome::Asked
}

fn outcome(deed: &Value) -> Outcome {
    if let Some(message) = deed["fail"].as_str() {
        let failure = Failure {
            rpc_code: deed["rpc_code"].as_i64(),
            ..Failure::new(Class::Permanent, deed["code"].as_str(), message)
        };
        return Outcome::Failed(Failing { failure, end: crate::job::End::Failed, retry_after: None });
    }
    let bytes = |name: &str| deed.get(name).map(|value| Bytes::from(value.to_string()));
    Outcome::Done(Output {
        data: bytes("result"),
        content: bytes("content"),
        is_error: deed["is_error"] == true,
        ..Output::default()
    })
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A request of 2026-07-28 with its envelope, and this `_meta` besides.
pub fn modern(method: &str, mut params: Value, mut meta: Value) -> Value {
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    if meta.get(CAPABILITIES).is_none() {
        meta[CAPABILITIES] = json!({});
    }
    params["_meta"] = meta;
    request(1, method, params)
}

pub fn modern_headers<'a>(method: &'a str, name: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    headers
}

pub fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
}

pub fn message(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|why| panic!("{why}: {answer:?}"))
}

pub const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];
