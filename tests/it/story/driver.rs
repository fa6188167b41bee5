//! A client that does everything a client can do, and writes down what it was told.
//!
//! In: a deed. Out: the story goes on, until the server is gone. Whatever it is told that makes no sense is a lie.

use serde_json::{Value, json};

use super::{Shared, is_over, text};
use crate::support::{Answer, Client};

/// The server did not answer: it has died, or is about to.
#[derive(Debug)]
pub struct Gone;

/// What was told, if anything.
pub type Told<T> = Result<T, Gone>;

/// How it is asked.
#[derive(Debug, Clone)]
pub enum Way {
    /// The HTTP API.
    Http,
    /// MCP of 2026-07-28.
    Modern,
    /// MCP of 2025-11-25, in this session.
    Session(String),
}

/// What a client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A job with nothing to do.
    Noop,
    /// One that reports steps.
    Progress,
    /// One with a partial result that is too large for the trees.
    Partial,
    /// One with a result that is too large for the trees.
    Large,
    /// One that fails and is tried again.
    Fail,
    /// One that fails for good, and is replayed.
    Replay,
    /// A running one that is canceled.
    Cancel,
    /// One that waits for its time and is canceled.
    CancelDelayed,
    /// One whose questions are answered while its attempt waits.
    Ask,
    /// One whose attempt is given back before they are.
    AskAndLeave,
    /// A session is opened.
    Session,
}

impl Deed {
    /// Every one of them.
    pub const ALL: [Self; 11] = [
        Self::Noop,
        Self::Progress,
        Self::Partial,
        Self::Large,
        Self::Fail,
        Self::Replay,
        Self::Cancel,
        Self::CancelDelayed,
        Self::Ask,
        Self::AskAndLeave,
        Self::Session,
    ];

    /// The arguments of its job.
    fn payload(self) -> Value {
        match self {
            Self::Noop | Self::Session => json!({"do": "noop"}),
            Self::Progress => json!({"do": "progress", "steps": 3}),
            Self::Partial => json!({"do": "partial", "data": "p".repeat(LARGE)}),
            Self::Large => json!({"do": "echo", "text": "large", "bytes": LARGE}),
            Self::Fail => json!({"do": "fail", "times": 2}),
            Self::Replay => json!({"do": "fail", "times": 9, "class": "permanent"}),
            Self::Ask => json!({"do": "ask", "keys": ["a", "b"], "hold_ms": ENDLESS_MS}),
            Self::AskAndLeave => json!({"do": "ask", "keys": ["a", "b"], "hold_ms": 0}),
            Self::Cancel | Self::CancelDelayed => json!({"do": "sleep", "ms": ENDLESS_MS}),
        }
    }
}

/// Bytes of a body that gets a file of its own.
pub const LARGE: usize = 80_000;
/// How long a job takes that ends only by a cancel.
pub const ENDLESS_MS: u64 = 3_600_000;

/// A client of one server, and its story.
#[derive(Clone)]
pub struct Driver {
    /// Asks.
    pub client: Client,
    /// Is told.
    pub story: Shared,
}

impl Driver {
    /// Does it all, and waits for what comes of it.
    pub fn act(&self, deed: Deed, key: &str, way: &Way) -> Told<()> {
        if deed == Deed::Session {
            return self.open_session().map(|_| ());
        }
        let payload = deed.payload();
        let id = match deed {
            Deed::CancelDelayed => self.submit_delayed(key, &payload, ENDLESS_MS)?,
            Deed::Noop | Deed::Progress | Deed::Partial | Deed::Large | Deed::Fail => {
                self.submit(key, &payload, way)?
            }
            Deed::Replay | Deed::Cancel | Deed::Ask | Deed::AskAndLeave | Deed::Session => {
                self.submit(key, &payload, way)?
            }
        };
        if matches!(deed, Deed::Cancel | Deed::CancelDelayed) {
            self.cancel(&id, way)?;
        }
        if matches!(deed, Deed::Ask | Deed::AskAndLeave) {
            self.answer_all(&id)?;
        }
        self.wait(&id)?;
        if deed == Deed::Replay {
            let again = self.replay(&id)?;
            self.wait(&again)?;
        }
        Ok(())
    }

    /// Asks for a job. Its id.
    pub fn submit(&self, key: &str, payload: &Value, way: &Way) -> Told<String> {
        self.story.open().asks(key, payload);
        let id = match way {
            Way::Http => {
                let wish = json!({"type": "trial", "payload": payload, "idempotencyKey": key});
                text(&self.post("/api/jobs", &wish, &[200, 201])?, "id")
            }
            Way::Modern | Way::Session(_) => {
                let meta = json!({"longhaul/idempotencyKey": key});
                text(&self.call("trial", payload, &meta, way)?, "jobId")
            }
        };
        self.story.open().told_job(key, &id);
        Ok(id)
    }

    /// Asks for a job that is to wait.
    pub fn submit_delayed(&self, key: &str, payload: &Value, delay_ms: u64) -> Told<String> {
        self.story.open().asks(key, payload);
        let wish = json!({"type": "trial", "payload": payload, "idempotencyKey": key, "delayMs": delay_ms});
        let id = text(&self.post("/api/jobs", &wish, &[200, 201])?, "id");
        self.story.open().told_job(key, &id);
        Ok(id)
    }

    /// Cancels a job.
    pub fn cancel(&self, id: &str, way: &Way) -> Told<()> {
        let job = match way {
            Way::Http => {
                self.post(&format!("/api/jobs/{id}/cancel"), &json!({"reason": "changed my mind"}), &[200, 202])?
            }
            Way::Modern | Way::Session(_) => {
                let arguments = json!({"jobId": id, "reason": "changed my mind"});
                self.call("cancel_job", &arguments, &json!({}), way)?
            }
        };
        self.story.open().told_state(&job);
        Ok(())
    }

    /// Answers what a job asks, from its beginning to its end, or until the server is gone; what was answered before once more.
    pub fn answer_all(&self, id: &str) -> Told<()> {
        let stream = self.client.try_stream(&format!("/api/jobs/{id}/events"), None).map_err(|_| Gone)?;
        for event in stream {
            self.story.open().saw(&event.data);
            for question in event.data["payload"]["questions"].as_array().into_iter().flatten() {
                let key = text(question, "key");
                let answers = json!({key.as_str(): {"action": "accept", "content": {"to": key.as_str()}}});
                let job = self.post(&format!("/api/jobs/{id}/input"), &json!({"answers": answers}), &[200])?;
                self.story.open().given.insert((id.to_owned(), key));
                self.story.open().told_state(&job);
            }
        }
        Ok(())
    }

    /// Makes a new job from a dead letter. Its id.
    pub fn replay(&self, dead: &str) -> Told<String> {
        self.story.open().replays.entry(dead.to_owned()).or_default();
        let job = self.post(&format!("/api/jobs/{dead}/retry"), &json!({}), &[201])?;
        let id = text(&job, "id");
        self.story.open().replays.insert(dead.to_owned(), Some(id.clone()));
        self.story.open().told_state(&job);
        Ok(id)
    }

    /// Waits for a job to end.
    pub fn wait(&self, id: &str) -> Told<()> {
        loop {
            let job = self.get(&format!("/api/jobs/{id}?wait=30s"))?;
            self.story.open().told_state(&job);
            if is_over(&job) {
                return Ok(());
            }
        }
    }

    /// Opens a session of 2025-11-25.
    pub fn open_session(&self) -> Told<String> {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.client.try_post("/mcp", &message).map_err(|_| Gone)?;
        let session = answer.header("mcp-session-id").map(str::to_owned).ok_or_else(|| self.lie(&answer))?;
        self.story.open().sessions.insert(session.clone());
        Ok(session)
    }

    /// Reads the whole log on from where the story has come to, until the server is gone.
    pub fn follow_log(&self) {
        let cursor = self.story.open().cursor();
        let Ok(stream) = self.client.try_stream("/api/events", Some(&cursor)) else { return };
        let mut story = self.story.open();
        let reading = story.readings.len();
        story.readings.push(Vec::new());
        drop(story);
        for event in stream {
            let mut story = self.story.open();
            if event.event == "stream.reset" {
                // What is gone was said to be gone: a new reading begins.
                story.readings[reading].clear();
                story.resets.push(event.data);
                continue;
            }
            let position = story.saw(&event.data);
            story.readings[reading].push(position);
        }
    }

    /// Reads a job's events from its beginning to its end, or until the server is gone.
    pub fn follow_job(&self, id: &str) {
        let Ok(stream) = self.client.try_stream(&format!("/api/jobs/{id}/events"), None) else { return };
        for event in stream {
            self.story.open().saw(&event.data);
        }
    }

    fn get(&self, path: &str) -> Told<Value> {
        let answer = self.client.get_with(path, &[("accept", "application/json")]).map_err(|_| Gone)?;
        self.judge(&answer, &[200])
    }

    fn post(&self, path: &str, body: &Value, wanted: &[u16]) -> Told<Value> {
        let answer = self.client.try_post(path, body).map_err(|_| Gone)?;
        self.judge(&answer, wanted)
    }

    fn judge(&self, answer: &Answer, wanted: &[u16]) -> Told<Value> {
        match answer.status {
            status if wanted.contains(&status) => Ok(answer.json()),
            // It is going down, and says so.
            503 => Err(Gone),
            _ => Err(self.lie(answer)),
        }
    }

    fn lie(&self, answer: &Answer) -> Gone {
        self.story.open().lies.push(format!("{answer:?}"));
        Gone
    }

    /// Calls a tool. The structured content of its result.
    fn call(&self, tool: &str, arguments: &Value, meta: &Value, way: &Way) -> Told<Value> {
        let mut meta = meta.clone();
        let mut fields = vec![("content-type", "application/json")];
        match way {
            Way::Http => {}
            Way::Modern => {
                meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
                meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
                fields.extend([
                    ("mcp-protocol-version", "2026-07-28"),
                    ("mcp-method", "tools/call"),
                    ("mcp-name", tool),
                ]);
            }
            Way::Session(session) => fields.push(("mcp-session-id", session)),
        }
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = self.client.post_with("/mcp", &fields, message.to_string().as_bytes()).map_err(|_| Gone)?;
        let content = answer.json()["result"]["structuredContent"].take();
        if content.is_object() { Ok(content) } else { Err(self.lie(&answer)) }
    }
}
