//! Every message that longhaul sends, held against the schema of the revision in which it was sent.
//!
//! In: what a test asked, over whichever transport, and what came of it. Out: nothing, or a panic that names the message and what is
//! wrong with it. Shared by the unit tests and the integration tests. Where the schemas are from, and what is added to them: `README.md`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

mod tables;

use tables::MODERN;

const ENVELOPE: &str = "io.modelcontextprotocol/protocolVersion";

/// A request that waits for its answer, or that was answered.
#[derive(Clone)]
struct Asked {
    id: Value,
    method: String,
    /// It was asked to be a task, in 2025-11-25.
    is_task: bool,
    /// It carried the envelope of 2026-07-28.
    is_modern: bool,
}

/// What is known of a session, for all who take up its streams.
#[derive(Default)]
struct Session {
    revision: Option<&'static str>,
    asked: Vec<Asked>,
}

static SESSIONS: LazyLock<Mutex<HashMap<String, Session>>> = LazyLock::new(Mutex::default);

fn sessions() -> MutexGuard<'static, HashMap<String, Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request and its answer, or one pipe and all that goes through it.
pub struct Exchange {
    session: Option<String>,
    /// Of a request outside a session: what its header says.
    version: Option<&'static str>,
    /// What this exchange asked; nothing where a stream is taken up.
    asked: Vec<Asked>,
    is_pipe: bool,
}

impl Exchange {
    /// A request to `/mcp`: its session, the revision in its header, and its body.
    pub fn of(session: Option<&str>, version: Option<&str>, body: &[u8]) -> Self {
        let version = version.and_then(tables::revision);
        let mut exchange = Self { session: session.map(str::to_owned), version, asked: Vec::new(), is_pipe: false };
        exchange.asks(body);
        exchange
    }

    /// A pipe: what is asked and answered on it belongs to one session.
    #[allow(dead_code, reason = "only the integration tests have pipes")]
    pub fn pipe(name: &str) -> Self {
        Self { session: Some(format!("pipe {name}")), version: None, asked: Vec::new(), is_pipe: true }
    }

    /// More is asked: a message or a batch of them. What cannot be read asks nothing.
    pub fn asks(&mut self, body: &[u8]) {
        let asked: Vec<Asked> = match serde_json::from_slice(body) {
            Ok(Value::Array(batch)) => batch.iter().filter_map(asked).collect(),
            Ok(message) => asked(&message).into_iter().collect(),
            Err(_) => Vec::new(),
        };
        if let Some(session) = &self.session {
            sessions().entry(session.clone()).or_default().asked.extend(asked.iter().cloned());
        }
        self.asked.extend(asked);
    }

    /// The answer names a new session.
    pub fn opens(&mut self, session: &str) {
        if self.session.as_deref() != Some(session) {
            self.session = Some(session.to_owned());
            sessions().entry(session.to_owned()).or_default().asked.extend(self.asked.iter().cloned());
        }
    }

    /// A whole body, or a line: a message or a batch.
    pub fn hears(&self, json: &[u8]) {
        let value = serde_json::from_slice(json);
        match value.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(json))) {
            Value::Array(batch) => batch.iter().for_each(|message| self.message(message)),
            message => self.message(&message),
        }
    }

    /// Whole events of a stream.
    pub fn hears_events(&self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n') {
            let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
            if let Some(data) = data.filter(|data| !data.is_empty()) {
                self.hears(data);
            }
        }
    }

    fn message(&self, message: &Value) {
        if let Err(why) = self.hold(message) {
            panic!("not as its revision has it: {why}\n{message}");
        }
    }

    /// Whether the message is what one of the revisions has that it may be of.
    fn hold(&self, message: &Value) -> Result<(), String> {
        let revisions = self.revisions();
        if message.get("method").is_some() {
            return any(revisions.iter().map(|revision| tables::spoken(revision, message)));
        }
        let asked = self.asked_as(&message["id"]);
        if message.get("error").is_some() {
            let revisions: Vec<_> = match asked.is_empty() {
                true => revisions.into_iter().map(Some).chain([None]).collect(),
                false => asked.iter().map(|asked| self.revision_of(asked)).collect(),
            };
            return any(revisions.into_iter().map(|revision| tables::error(revision, message)));
        }
        any(asked.iter().map(|asked| {
            let revision = self.learn(asked, message).or_else(|| self.revision_of(asked));
            let revision = revision.ok_or_else(|| format!("{} is answered outside every revision", asked.method))?;
            tables::result(revision, &asked.method, asked.is_task, message)
        }))
    }

    /// Under which revision what nobody asked for can be said here.
    fn revisions(&self) -> Vec<&'static str> {
        let of_session = self.session.as_ref().and_then(|session| sessions().get(session)?.revision);
        let mut revisions: Vec<_> = self.asked.iter().filter(|asked| asked.is_modern).map(|_| MODERN).take(1).collect();
        if revisions.is_empty() || self.is_pipe {
            revisions.extend(of_session.or(self.version));
        }
        revisions
    }

    /// What was asked under this id: here, or where the stream was opened that is taken up here.
    fn asked_as(&self, id: &Value) -> Vec<Asked> {
        let named = |asked: &&Asked| asked.id == *id;
        let here: Vec<_> = self.asked.iter().filter(named).cloned().collect();
        if !here.is_empty() {
            return here;
        }
        let sessions = sessions();
        let session = self.session.as_ref().and_then(|session| sessions.get(session));
        session.into_iter().flat_map(|session| session.asked.iter()).filter(named).cloned().collect()
    }

    fn revision_of(&self, asked: &Asked) -> Option<&'static str> {
        if asked.is_modern {
            return Some(MODERN);
        }
        self.session.as_ref().and_then(|session| sessions().get(session)?.revision).or(self.version)
    }

    /// The revision that a handshake agreed on.
    fn learn(&self, asked: &Asked, message: &Value) -> Option<&'static str> {
        if asked.method != "initialize" || asked.is_modern {
            return None;
        }
        let revision = tables::revision(message["result"]["protocolVersion"].as_str()?)?;
        if let Some(session) = &self.session {
            sessions().entry(session.clone()).or_default().revision = Some(revision);
        }
        Some(revision)
    }
}

fn asked(message: &Value) -> Option<Asked> {
    let (id, method) = (message.get("id")?.clone(), message["method"].as_str()?.to_owned());
    let (params, meta) = (&message["params"], &message["params"]["_meta"]);
    let is_task = method == "tools/call" && params.get("task").is_some();
    Some(Asked { id, method, is_task, is_modern: meta.get(ENVELOPE).is_some() })
}

/// Whether one of them holds; else what is wrong with the last.
fn any(checks: impl Iterator<Item = Result<(), String>>) -> Result<(), String> {
    let mut wrong = "nobody asked for it".to_owned();
    for check in checks {
        match check {
            Ok(()) => return Ok(()),
            Err(why) => wrong = why,
        }
    }
    Err(wrong)
}

/// The body of a webhook.
///
/// # Panics
/// It is not what `events.json` has.
pub fn delivery(body: &Value) {
    if let Err(why) = holds("events", "Delivery", body) {
        panic!("not a delivery: {why}\n{body}");
    }
}

/// Whether a definition of one of the files holds for a value; else what is wrong.
fn holds(file: &'static str, definition: &str, value: &Value) -> Result<(), String> {
    type Known = HashMap<(&'static str, String), Arc<Validator>>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&(file, definition.to_owned())).cloned();
    let validator = match known {
        Some(validator) => validator,
        None => {
            let made = Arc::new(validator(file, definition)?);
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry((file, definition.to_owned())).or_insert(made).clone()
        }
    };
    let mut wrong =
        validator.iter_errors(value).map(|error| format!("{} at {:?}", error, error.instance_path().as_str()));
    match wrong.next() {
        None => Ok(()),
        Some(first) => Err(format!("{file} {definition}: {}", wrong.take(4).fold(first, |all, one| all + "; " + &one))),
    }
}

fn validator(file: &'static str, definition: &str) -> Result<Validator, String> {
    static FILES: LazyLock<HashMap<&str, Value>> = LazyLock::new(|| {
        let files = tables::FILES.iter();
        files.map(|(name, text)| (*name, serde_json::from_str(text).expect("a schema is JSON"))).collect()
    });
    let schema = &FILES[file];
    let place = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    if schema[place].get(definition).is_none() {
        return Err(format!("{file} has no {definition}"));
    }
    let reference = json!({"$ref": format!("#/{place}/{definition}")});
    let whole = json!({"$schema": schema["$schema"], "allOf": [reference], place: schema[place]});
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&whole).map_err(|why| format!("{file} {definition}: {why}"))
}
