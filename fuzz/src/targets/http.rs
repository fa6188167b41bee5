//! `http`: one request on a connection of its own, through the parser, router and limits of the real server, in a world of its own; the
//! answer has a status that the contract knows, and a body of the form that it claims.
//!
//! The first mark is whose server (`t`: one with tokens; `r`: the rest of the bytes goes over the wire as it stands; else one without), then
//! a method and a target up to the end of the line, header lines, an empty line, the body. Length, `Host` and `Connection` are added where
//! they are missing. `$C` and so on stand for what the world has, `$K` for a ticket to `$C`.

mod problem;
mod wire;

use std::cell::RefCell;
use std::sync::Arc;

use longhaul::http::auth::{Scope, Token, hash};
use longhaul::http::unbound::Unbound;
use longhaul::http::{Options, Parts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::request::Sections;
use super::world::World;
use problem::judge;
use wire::{Reply, Stop};

/// What the pipe between client and server holds, in bytes.
const PIPE: usize = 64 * 1024;
/// Largest body, in bytes: small, so that an input can be larger.
const BODY_MAX: usize = 2 * 1024;
/// Of a stream that does not end so much is read, in bytes.
const STREAM_MAX: usize = 16 * 1024;

/// Instead of a method: nobody knows what was asked, so the answer may be anything.
const RAW: &str = "";

/// A server and its world.
struct Place {
    world: World,
    server: Arc<Unbound>,
}

thread_local! {
    /// Without tokens, and with.
    static LAST: RefCell<[Option<Place>; 2]> = const { RefCell::new([None, None]) };
}

impl Place {
    fn fresh(has_tokens: bool) -> Self {
        let mut world = World::new(if has_tokens { "ann" } else { "local" });
        let loading = longhaul::mcp::Endpoint::load(world.service.clone(), world.clock.clone(), Default::default());
        let mcp = world.runtime.block_on(loading).expect("an endpoint");
        let parts = Parts {
            service: world.service.clone(),
            mcp,
            metrics: world.metrics.clone(),
            clock: world.clock.clone(),
            shutdown: world.shutdown.clone(),
        };
        let options = Options {
            tokens: if has_tokens { tokens() } else { Vec::new() },
            allowed_origins: vec!["https://app.example.com".to_owned()],
            allowed_hosts: vec!["jobs.example.com".to_owned()],
            max_body: BODY_MAX,
            max_streams: 2,
            ticket_seed: [9; 32],
            ..Options::default()
        };
        let server = Arc::new(world.runtime.block_on(Unbound::new(&options, parts)).expect("a server"));
        let ask = b"POST /api/jobs/$C/ticket HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ann\r\n\r\n";
        let asked = world.spell(ask);
        let answer = world.runtime.block_on(converse(&server, &asked, "POST")).expect("an answer");
        let ticket = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
        world.teach('K', ticket["ticket"].as_str().expect("a ticket").to_owned());
        Self { world, server }
    }
}

/// `ann` (submit, read), `eve` (read), `root` (admin), each with its name as its text.
fn tokens() -> Vec<Token> {
    let token = |name: &str, scopes: &[Scope]| Token {
        name: name.into(),
        hash: hash(name),
        scopes: scopes.iter().copied().collect(),
    };
    vec![token("ann", &[Scope::Submit, Scope::Read]), token("eve", &[Scope::Read]), token("root", &[Scope::Admin])]
}

/// Asks what the bytes say, and judges the answer.
///
/// # Panics
/// When the answer is none.
pub fn run(bytes: &[u8]) {
    let (mark, rest) = bytes.split_first().unwrap_or((&b'o', &[]));
    let has_tokens = *mark == b't';
    let at = usize::from(has_tokens);
    let place = LAST.with_borrow_mut(|last| last[at].take()).unwrap_or_else(|| Place::fresh(has_tokens));
    let bytes = place.world.spell(rest);
    let opens_sessions = if *mark == b'r' {
        // More than one request, or none: whatever is answered, the server lives on.
        place.world.runtime.block_on(converse(&place.server, &bytes, RAW));
        true
    } else {
        let sections = Sections::read(&bytes);
        let (head, method, target) = head(&sections);
        let sent = [head.as_bytes(), sections.body].concat();
        let reply = place.world.runtime.block_on(converse(&place.server, &sent, &method));
        let reply = reply.unwrap_or_else(|| panic!("no answer to {head:?}"));
        judge(&method, &target, &reply, sections.body);
        target.contains("/mcp")
    };
    if place.world.is_as_it_was() && !opens_sessions {
        LAST.with_borrow_mut(|last| last[at] = Some(place));
    }
}

/// The head of the request as it goes over the wire, its method and its target.
fn head(sections: &Sections<'_>) -> (String, String, String) {
    let clean = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(['\r', '\n'], "");
    let line = clean(sections.marks);
    let (method, target) = line.trim().split_once(' ').unwrap_or(("GET", line.trim()));
    let target = target.trim();
    let mut head = format!("{method} {} HTTP/1.1\r\n", if target.is_empty() { "/" } else { target });
    let has = |wanted: &str| sections.headers.iter().any(|(name, _)| name == wanted);
    if !has("host") {
        head.push_str("host: localhost\r\n");
    }
    if !has("content-length") && !has("transfer-encoding") && !sections.body.is_empty() {
        head.push_str(&format!("content-length: {}\r\n", sections.body.len()));
    }
    for (name, value) in &sections.headers {
        head.push_str(&format!("{}: {}\r\n", clean(name.as_bytes()), clean(value)));
    }
    head.push_str("connection: close\r\n\r\n");
    (head, method.to_owned(), target.to_owned())
}

/// Sends the bytes over a connection and reads one answer; `None` if the connection ends without.
async fn converse(server: &Arc<Unbound>, bytes: &[u8], method: &str) -> Option<Reply> {
    let (client, peer) = duplex(PIPE);
    let server = server.clone();
    let serving = tokio::spawn(async move { server.serve(peer).await });
    let (mut from, mut to) = tokio::io::split(client);
    let write = async {
        // A server that has read enough ends the connection before all is written.
        let _ = to.write_all(bytes).await;
        if method == RAW {
            // What may be no request at all is waited for by nothing here: the deadline of first bytes is the socket's.
            let _ = to.shutdown().await;
        }
        to
    };
    let (reply, to) = tokio::join!(read(&mut from, method), write);
    drop(from.unsplit(to));
    if let Err(error) = serving.await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
    reply
}

async fn read(from: &mut tokio::io::ReadHalf<DuplexStream>, method: &str) -> Option<Reply> {
    let mut bytes = Vec::new();
    loop {
        match wire::read(&bytes, method, STREAM_MAX) {
            Ok(reply) => return Some(reply),
            Err(Stop::More) => {}
            Err(Stop::Broken(_)) if method == RAW => return None,
            Err(Stop::Broken(why)) => panic!("{why}: {:?}", String::from_utf8_lossy(&bytes)),
        }
        if from.read_buf(&mut bytes).await.unwrap_or_default() == 0 {
            return wire::read_to_end(&bytes);
        }
    }
}
