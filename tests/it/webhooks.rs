//! Callbacks over real sockets: who gets them, that they prove their sender, and that a killed server loses none.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::server::binary;
use crate::support::{Client, Server, TRIAL, schemas};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a receiver does with a delivery; handshakes it always answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Accepts,
    /// Sends everybody to another path.
    Redirects,
    /// Echoes another challenge.
    Lies,
    /// Reads, and never answers a delivery.
    Stalls,
}

/// One request that a receiver was sent.
#[derive(Debug)]
struct Sent {
    path: String,
    headers: Vec<(String, String)>,
    text: String,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    fn is_signed(&self) -> bool {
        let key = BASE64.decode(SECRET.trim_start_matches("whsec_")).expect("Base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        let stamp = format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.text);
        mac.update(stamp.as_bytes());
        self.header("webhook-signature") == format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    }
}

/// Somebody who is called back, on a port of their own.
struct Receiver {
    address: String,
    mood: Arc<Mutex<Mood>>,
    sent: mpsc::Receiver<Sent>,
}

impl Receiver {
    fn new(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let mood = Arc::new(Mutex::new(mood));
        let (tell, sent) = mpsc::channel();
        let own = mood.clone();
        std::thread::spawn(move || {
            let mut stalled = Vec::new();
            for stream in listener.incoming().flatten() {
                let mood = *own.lock().expect("a mood");
                let Some(request) = read(&stream) else { continue };
                stalled.extend(answer(stream, &request, mood));
                if tell.send(request).is_err() {
                    return;
                }
            }
        });
        Self { address, mood, sent }
    }

    fn url(&self) -> String {
        format!("http://{}/in?a=b", self.address)
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().expect("a mood") = mood;
    }

    /// The next request that is no handshake.
    fn delivered(&self) -> Sent {
        loop {
            let sent = self.sent.recv().expect("a request");
            schemas::delivery(&sent.body());
            if sent.body()["type"] != "verification" {
                return sent;
            }
        }
    }
}

fn read(stream: &TcpStream) -> Option<Sent> {
    let mut lines = BufReader::new(stream);
    let mut line = || {
        let mut text = String::new();
        lines.read_line(&mut text).ok().map(|_| text.trim_end().to_owned())
    };
    let path = line()?.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    while let Some((name, value)) = line()?.split_once(": ") {
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut sent = Sent { path, headers, text: String::new() };
    let length: u64 = sent.header("content-length").parse().ok()?;
    lines.take(length).read_to_string(&mut sent.text).ok()?;
    Some(sent)
}

/// Answers, or hands the connection back to be kept open.
fn answer(mut stream: TcpStream, sent: &Sent, mood: Mood) -> Option<TcpStream> {
    let body = sent.body();
    let is_handshake = body["type"] == "verification";
    let (head, text) = match mood {
        Mood::Stalls if !is_handshake => return Some(stream),
        Mood::Redirects => ("307 Elsewhere\r\nlocation: /other", String::new()),
        Mood::Lies => ("200 OK", json!({"challenge": "another"}).to_string()),
        Mood::Accepts | Mood::Stalls => ("200 OK", json!({"challenge": body["challenge"]}).to_string()),
    };
    let _ = write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    None
}

/// A new token of that name, and the lines that let it in.
fn token(name: &str) -> (String, String) {
    let output = Command::new(binary()).args(["token", "new", "--name", name]).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let (token, lines) = said.split_once('\n').expect("a token and its lines");
    (token.to_owned(), lines.to_owned())
}

/// A server with two principals, and their clients.
fn start(more: &str) -> (Server, Client, Client) {
    let [(anns, ann_in), (bobs, bob_in)] = ["ann", "bob"].map(token);
    let server = Server::start(&format!("{more}\n{TRIAL}\n{ann_in}\n{bob_in}"));
    let (ann, bob) = (server.client().with_token(&anns), server.client().with_token(&bobs));
    (server, ann, bob)
}

const PRIVATE: &str = "[mcp.events]\nallow_private_callbacks = true\n";

fn call(client: &Client, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    client.post_with("/mcp", &headers, message.to_string().as_bytes()).expect("the server answers").json()
}

fn subscription(url: &str) -> Value {
    json!({"name": "job.completed", "delivery": {"mode": "webhook", "url": url, "secret": SECRET}})
}

fn job(client: &Client) -> String {
    let id = client.submit(json!({"do": "noop"}));
    client.ended(&id);
    id
}

#[test]
fn a_callback_is_signed_and_tells_its_principal_s_jobs_until_it_is_given_back() {
    let (_server, ann, bob) = start(PRIVATE);
    let receiver = Receiver::new(Mood::Accepts);
    let made = call(&ann, "events/subscribe", subscription(&receiver.url()));
    let id = made["result"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let handshake = receiver.sent.recv().expect("a handshake");
    assert!(handshake.is_signed() && handshake.path == "/in?a=b" && handshake.header("host") == receiver.address);
    job(&bob);
    let hers = job(&ann);
    let sent = receiver.delivered();
    assert_eq!((&sent.body()["data"]["job_id"], sent.header("x-mcp-subscription-id")), (&json!(hers), id.as_str()));
    assert!(sent.is_signed() && sent.header("content-type") == "application/json");

    let done = call(&ann, "events/unsubscribe", subscription(&receiver.url()));
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    job(&ann);
    call(&bob, "events/subscribe", subscription(&receiver.url()));
    assert_eq!(receiver.sent.recv().expect("a handshake").body()["type"], "verification", "nothing came before it");
}

#[test]
fn a_server_that_is_killed_in_the_midst_of_a_delivery_loses_none() {
    let (mut server, ann, _bob) = start(PRIVATE);
    let receiver = Receiver::new(Mood::Stalls);
    let made = call(&ann, "events/subscribe", subscription(&receiver.url()));
    assert!(made["result"]["id"].is_string(), "{made}");
    let mut jobs: BTreeSet<String> = (0..3).map(|_| job(&ann)).collect();
    receiver.delivered();
    server.kill();
    receiver.set(Mood::Accepts);
    server.start_again();
    jobs.insert(job(&ann));
    let mut told = BTreeSet::new();
    while told != jobs {
        let sent = receiver.delivered();
        assert!(sent.is_signed());
        told.insert(sent.body()["data"]["job_id"].as_str().expect("a job").to_owned());
    }
    let log = server.log();
    assert!(!log.contains("MfKQ9r8G"), "no secret is logged");
}

#[test]
fn redirects_lies_and_private_addresses_get_no_subscription() {
    let (_server, ann, _bob) = start(PRIVATE);
    let reason = |answer: Value| answer["error"]["data"]["reason"].as_str().map(str::to_owned);
    for (mood, expected) in [(Mood::Redirects, "http_4xx"), (Mood::Lies, "challenge_failed")] {
        let receiver = Receiver::new(mood);
        let answer = call(&ann, "events/subscribe", subscription(&receiver.url()));
        assert_eq!(reason(answer).as_deref(), Some(expected));
        assert_eq!(receiver.sent.recv().expect("a handshake").path, "/in?a=b");
        assert!(receiver.sent.try_recv().is_err(), "no redirect is followed");
    }
    let (_server, ann, _bob) = start("");
    let receiver = Receiver::new(Mood::Accepts);
    let secure = receiver.url().replace("http://", "https://");
    for url in [secure.clone(), secure.replace("127.0.0.1", "localhost"), secure.replace("127.0.0.1", "[::1]")] {
        let answer = call(&ann, "events/subscribe", subscription(&url));
        assert_eq!(reason(answer).as_deref(), Some("connection_refused"), "{url}");
    }
    assert_eq!(call(&ann, "events/subscribe", subscription(&receiver.url()))["error"]["code"], -32602);
    assert!(receiver.sent.try_recv().is_err(), "nothing was sent");
}
