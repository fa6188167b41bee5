//! `mcp`: one HTTP request to `/mcp`, past the transport, in a world of its own; the answer is JSON-RPC with the right id, or an error of
//! HTTP that the contract knows.
//!
//! Five marks on the first line: whose headers (`m`: the envelope's, made from the body; `s`, `t`: a session's; else none), the method
//! (`G`, `D`, `H`, else POST), `Accept` (`e`, `b`, `x`, else none), `Content-Type` (`x`: another; `-`: none), who asks (`b`: somebody
//! else). Then header lines, an empty line, the body. `$C` and so on stand for what the world has.

mod answer;
mod stream;

use std::cell::RefCell;
use std::sync::Arc;

use longhaul::config::{self, File, Written};
use longhaul::mcp::{Answer, Endpoint, Headers, Options, Request, Rights};
use longhaul::service::Viewer;
use serde_json::Value;

use super::request::Sections;
use super::world::World;
use answer::{Asked, judge};

/// What the marks and headers make of it.
struct Sent {
    verb: &'static str,
    headers: List,
    body: Vec<u8>,
    viewer: Viewer,
}

struct List(Vec<(String, Vec<u8>)>);

impl Headers for List {
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        self.0.iter().filter(|(n, _)| *n == name).for_each(|(_, value)| see(value));
    }
}

thread_local! {
    static LAST: RefCell<Option<(World, Arc<Endpoint>)>> = const { RefCell::new(None) };
}

/// Resources, a template and prompts, one of which asks for what it needs.
const CONFIGURED: &str = r#"
[resources."test://text"]
text = "A text."
[resources."test://item/{id}/{part}"]
mime_type = "application/json"
text = '{"id":"{id}","part":"{part}","not":"{other}"}'
complete = { id = ["a", "b"] }
[prompts.plain]
description = "Says what it is told."
arguments = [{ name = "text", required = true, values = ["one", "two"] }, { name = "uri" }]
messages = [{ text = "{text} {text}" }, { resource = { uri = "{uri}", mime_type = "text/html", text = "<p>{text}</p>" } }]
[prompts.asking]
description = "Asks."
arguments = [{ name = "count", required = true, ask = "How many?", schema = { type = "integer", minimum = 1 } }]
messages = [{ text = "{count}" }]
"#;

fn options() -> Options {
    let file = Some(File { name: "longhaul.toml".into(), text: CONFIGURED.into() });
    let config = config::read(&Written { file, ..Written::default() }).expect("a configuration");
    Options { stock: config.resources, prompts: config.prompts, ..Options::default() }
}

fn fresh() -> (World, Arc<Endpoint>) {
    let world = World::new("ann");
    let loading = Endpoint::load(world.service.clone(), world.clock.clone(), options());
    let endpoint = world.runtime.block_on(loading).expect("an endpoint");
    (world, endpoint)
}

/// Asks what the bytes say, and judges the answer.
///
/// # Panics
/// When the answer is none.
pub fn run(bytes: &[u8]) {
    let (world, endpoint) = LAST.take().unwrap_or_else(fresh);
    let bytes = world.spell(bytes);
    let Sent { verb, headers, body, viewer } = sent(&world, &Sections::read(&bytes));
    let request = Request { verb, headers: &headers, body: body.clone().into(), viewer, rights: Rights::ALL };
    let mut answer = world.runtime.block_on(endpoint.handle(request));
    let asked = Asked { verb, body: &body };
    match answer.stream.take() {
        Some(stream) => {
            assert_eq!((answer.status, answer.content_type), (200, Some("text/event-stream")));
            stream::judge(&world.runtime, stream, &asked.ids());
        }
        None => judge(&asked, &answer),
    }
    if world.is_as_it_was() && !touches_sessions(&answer) {
        LAST.set(Some((world, endpoint)));
    }
}

/// Sessions come and go without the log.
fn touches_sessions(answer: &Answer) -> bool {
    answer.status == 204 || answer.headers.iter().any(|(name, _)| *name == "mcp-session-id")
}

fn sent(world: &World, sections: &Sections<'_>) -> Sent {
    let mark = |at: usize| sections.marks.get(at).copied().unwrap_or(b'-');
    let mut headers = Vec::new();
    let mut add = |name: &str, value: &[u8]| headers.push((name.to_owned(), value.to_vec()));
    match mark(0) {
        b'm' => envelope(sections.body).iter().for_each(|(name, value)| add(name, value.as_bytes())),
        b's' => add("mcp-session-id", &world.spell(b"$S")),
        b't' => add("mcp-session-id", &world.spell(b"$T")),
        _ => {}
    }
    match mark(2) {
        b'e' => add("accept", b"text/event-stream"),
        b'b' => add("accept", b"application/json, text/event-stream"),
        b'x' => add("accept", b"text/html, application/json;q=0"),
        _ => {}
    }
    match mark(3) {
        b'x' => add("content-type", b"text/plain"),
        b'-' => {}
        _ => add("content-type", b"application/json; charset=utf-8"),
    }
    sections.headers.iter().for_each(|(name, value)| add(name, value));
    let verb = match mark(1) {
        b'G' => "GET",
        b'D' => "DELETE",
        b'H' => "HEAD",
        _ => "POST",
    };
    let principal = if mark(4) == b'b' { "bob".into() } else { "ann".into() };
    let viewer = Viewer { principal, sees_all: false };
    Sent { verb, headers: List(headers), body: sections.body.to_vec(), viewer }
}

/// The headers that a client of 2026-07-28 sends with this body.
fn envelope(body: &[u8]) -> Vec<(&'static str, String)> {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let params = &message["params"];
    let version = text(&params["_meta"]["io.modelcontextprotocol/protocolVersion"]);
    let name = text(&params["name"]).or_else(|| text(&params["uri"])).or_else(|| text(&params["taskId"]));
    let argument = text(&params["arguments"]["text"]);
    let named = [
        ("mcp-protocol-version", version),
        ("mcp-method", text(&message["method"])),
        ("mcp-name", name),
        ("mcp-param-text", argument),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
