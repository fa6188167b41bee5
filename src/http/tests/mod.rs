//! The HTTP side over real sockets, with the real core over a store in memory and a clock that is moved by hand.

mod access;
mod calls;
mod codes;
mod ends;
mod events;
mod logs;
mod questions;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, block_in_place};

use super::auth::{Scope, Token, hash};
use super::{Options, Parts, Server};
use crate::clock::Manual;
use crate::core::{self, LocalWork};
use crate::events::Published;
use crate::job::{Class, Outcome, Output, RetryPolicy, Rules, Timestamp};
use crate::metrics::Metrics;
use crate::service::{self, Catalogue, Service, TaskSupport, Tool};
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::store::memory::Memory;
use crate::work::{Claim, Leave, WorkSource};

/// A server of its own for one test.
struct World {
    address: SocketAddr,
    clock: Manual,
    store: Arc<dyn Store>,
    service: Arc<Service>,
    core: core::Handle,
    work: LocalWork,
    shutdown: Shutdown,
    served: JoinHandle<()>,
}

/// How a world differs from the usual one.
#[derive(Default)]
struct Settings {
    http: Options,
    max_pending: Option<u64>,
}

impl World {
    async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let clock = Manual::at_time(Timestamp(1_800_000_000_000));
        Self::over(settings, Arc::new(Memory::new()), clock).await
    }

    /// A server over what another one left.
    async fn over(settings: Settings, store: Arc<dyn Store>, clock: Manual) -> Self {
        let rules = Rules { retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }, ..Rules::default() };
        let catalogue = Arc::new(Catalogue::new(vec![tool(rules.clone())]).unwrap());
        let shared: Arc<dyn crate::clock::Clock> = Arc::new(clock.clone());
        let rules = [(Arc::from("echo"), rules)].into();
        let heads = core::recover(&*store, &clock, &rules).unwrap();
        let published = Published::new(&store, heads.clone(), "").unwrap();
        tokio::spawn(published.announcer());
        let metrics = Arc::new(Metrics::new(["echo".into()], 1));
        let parts = core::Parts {
            store: store.clone(),
            clock: shared.clone(),
            published: published.clone(),
            rules,
            metrics: metrics.clone(),
        };
        let options = core::Options {
            max_pending: settings.max_pending.unwrap_or(1_000),
            max_pending_bytes: 1 << 30,
            disk_reserve: Some(0),
            throttle: crate::job::Throttle::default(),
            retention: core::Retention::default(),
        };
        let core = core::start(parts, options, &heads, |_| {}).unwrap();
        let work = LocalWork::new(&core, store.clone());
        let clock_for = shared.clone();
        let parts = service::Parts { catalogue, core: core.clone(), published, clock: shared };
        let service = Arc::new(Service::new(parts));
        let mcp = crate::mcp::Endpoint::load(service.clone(), clock_for.clone(), crate::mcp::Options::default());
        let shutdown = Shutdown::default();
        let options = Options { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..settings.http };
        let parts = Parts {
            service: service.clone(),
            mcp: mcp.await.unwrap(),
            metrics,
            clock: clock_for,
            shutdown: shutdown.clone(),
        };
        let server = Server::bind(&options, parts).await.unwrap();
        let address = server.address().unwrap();
        let served = tokio::spawn(server.run());
        Self { address, clock, store, service, core, work, shutdown, served }
    }

    async fn connect(&self) -> Wire {
        Wire { socket: TcpStream::connect(self.address).await.unwrap(), rest: Vec::new() }
    }

    /// One request on a connection of its own.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.connect().await.ask(method, path, headers, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("accept", "application/json")], "").await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    /// A new job's id.
    async fn submit(&self) -> String {
        let answer = self.post("/api/jobs", &json!({"type": "echo", "payload": {}})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().into()
    }

    /// The next job's attempt begins.
    fn claim(&self) -> Claim {
        block_in_place(|| self.work.claim(1)).unwrap().remove(0)
    }

    /// It ends, durably.
    fn finish(&self, claim: &Claim, outcome: Outcome) {
        self.leave(claim, Leave::Over(outcome), "");
    }

    /// It is left, durably, having logged this.
    fn leave(&self, claim: &Claim, leave: Leave, log: &str) {
        let (tell, told) = std::sync::mpsc::channel();
        let freed = Box::new(move || tell.send(()).unwrap());
        self.work.finish(claim, leave, Bytes::copy_from_slice(log.as_bytes()), freed);
        block_in_place(|| told.recv()).unwrap();
    }

    /// A job with this result.
    async fn completed(&self, result: &str) -> String {
        let id = self.submit().await;
        let data = Some(Bytes::copy_from_slice(result.as_bytes()));
        self.finish(&self.claim(), Outcome::Done(Output { data, ..Output::default() }));
        id
    }

    /// A dead letter.
    async fn failed(&self) -> String {
        let id = self.submit().await;
        self.finish(&self.claim(), Outcome::failed(Class::Permanent, None, "no"));
        id
    }
}

fn tool(rules: Rules) -> Tool {
    Tool {
        name: "echo".into(),
        job_type: "echo".into(),
        title: None,
        description: None,
        input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        output_schema: None,
        annotations: None,
        inline_wait: crate::job::Millis(0),
        derive_key: false,
        task_support: TaskSupport::Auto,
        expires_in: None,
        cancel_grace: crate::job::Millis(100),
        max_result: 1 << 26,
        rules,
    }
}

/// Tokens `ann` and `bob` (submit, read), `eve` (read), `wim` (work), `root` (admin), each with its name as its text.
fn with_tokens() -> Options {
    let token = |name: &str, scopes: &[Scope]| Token {
        name: name.into(),
        hash: hash(name),
        scopes: scopes.iter().copied().collect(),
    };
    let both = [Scope::Submit, Scope::Read];
    let one = |name: &str, scope| token(name, &[scope]);
    let (eve, wim, root) = (one("eve", Scope::Read), one("wim", Scope::Work), one("root", Scope::Admin));
    let tokens = vec![token("ann", &both), token("bob", &both), eve, wim, root];
    Options { tokens, ticket_seed: [9; 32], ..Options::default() }
}

/// Longest that a test waits for bytes: a bound, not a measure.
const BYTES_MAX: Duration = Duration::from_secs(60);

/// Most requests that a test makes until the server has heard that a peer is gone.
const ROUND_TRIPS_MAX: usize = 100_000;

/// A bare connection.
struct Wire {
    socket: TcpStream,
    rest: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().into()
    }

    /// A header's value; its name in lower case.
    fn header(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ str| line.split_once(':').is_some_and(|(n, _)| n.eq_ignore_ascii_case(name));
        self.head.lines().find(|line| value(line)).and_then(|line| line.split_once(':')).map(|(_, v)| v.trim())
    }
}

impl Wire {
    async fn send(&mut self, bytes: &[u8]) {
        // The peer may have closed: what it said is still there to be read.
        let _ = self.socket.write_all(bytes).await;
    }

    /// More bytes; false at the end.
    async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(BYTES_MAX, self.socket.read_buf(&mut self.rest)).await;
        matches!(read.expect("nothing came for a minute"), Ok(1..))
    }

    async fn until(&mut self, mark: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.rest.windows(mark.len()).position(|bytes| bytes == mark) {
                let found = self.rest.drain(..at + mark.len()).collect();
                return Some(String::from_utf8(found).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, len: usize) -> String {
        while self.rest.len() < len {
            assert!(self.more().await, "the body is cut short");
        }
        String::from_utf8(self.rest.drain(..len).collect()).unwrap()
    }

    /// Everything up to the end of the connection.
    async fn all(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.rest)).unwrap()
    }

    /// The next answer's status and head.
    async fn head(&mut self) -> Option<(u16, String)> {
        let head = self.until(b"\r\n\r\n").await?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, head))
    }

    /// The next answer; `None` if the connection has ended.
    async fn answer(&mut self, to: &str) -> Option<Answer> {
        let (status, head) = self.head().await?;
        let mut answer = Answer { status, head, body: String::new() };
        if to != "HEAD" && !matches!(status, 204 | 304) {
            answer.body = match answer.header("content-length") {
                Some(len) => self.exactly(len.parse().unwrap()).await,
                None => self.chunks().await,
            };
        }
        Some(answer)
    }

    async fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let len = self.until(b"\r\n").await.expect("a chunk");
            let len = usize::from_str_radix(len.trim(), 16).unwrap();
            body.push_str(&self.exactly(len).await);
            self.exactly(2).await;
            if len == 0 {
                return body;
            }
        }
    }

    async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.request(method, path, headers, body).await;
        self.answer(method).await.expect("an answer")
    }

    async fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text.push_str("host: localhost\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.send(text.as_bytes()).await;
    }
}
