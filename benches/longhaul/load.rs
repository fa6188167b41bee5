//! The load generator: many connections, each asking again as soon as it was answered.
//!
//! In: a request as bytes. Out: answers a second and how long they took. It shares the cores with what it measures, so it
//! does next to nothing: bytes out, bytes in, a clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;
use crate::scale::Scale;
use crate::server::TOOL;
use crate::stats::Lengths;

/// What a load came to.
pub struct Measured {
    /// Answers a second.
    pub per_second: f64,
    /// How long each took.
    pub lengths: Lengths,
}

/// One connection, for one request at a time.
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads its answer: the body. Anything but success is an error with what was said.
    pub async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.socket.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some((head, body)) = lengths_of(&self.buffer) else { continue };
            if self.buffer.len() < head + body {
                continue;
            }
            if self.buffer.get(9) != Some(&b'2') {
                return Err(String::from_utf8_lossy(&self.buffer).into());
            }
            return Ok(&self.buffer[head..]);
        }
    }

    /// The session that the last answer has opened.
    fn session(&self) -> Option<String> {
        let (head, _) = lengths_of(&self.buffer)?;
        let head = std::str::from_utf8(&self.buffer[..head]).ok()?;
        let fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")).map(|(_, id)| id.to_owned()).next()
    }

    /// What is left of it for other uses.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }
}

/// A session of 2025-11-25.
pub struct Session(String);

impl Session {
    /// Opens one, on a connection of its own.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        Self::open_on(&mut Connection::open(address).await?, address).await
    }

    /// Opens one.
    pub async fn open_on(connection: &mut Connection, address: SocketAddr) -> Result<Self> {
        const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        connection.ask(&post(address, "/mcp", "", HELLO)).await?;
        connection.session().map(Self).ok_or_else(|| "no session".into())
    }

    /// A request in it, with these members of its `params`.
    pub fn request(&self, address: SocketAddr, method: &str, params: &str) -> Vec<u8> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
        post(address, "/mcp", &format!("mcp-session-id: {}\r\n", self.0), &body)
    }

    /// A call that is to become a task.
    pub fn task_call(&self, address: SocketAddr) -> Vec<u8> {
        self.request(address, "tools/call", &format!(r#""name":"{TOOL}","arguments":{ARGUMENTS},"task":{{}}"#))
    }
}

/// Lengths of an answer's head and body, once the head is there.
fn lengths_of(answer: &[u8]) -> Option<(usize, usize)> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let name = b"content-length: ";
    let at = answer[..head].windows(name.len()).position(|some| some.eq_ignore_ascii_case(name));
    let digits = at.map(|at| answer[at + name.len()..head].iter().take_while(|byte| byte.is_ascii_digit()));
    let body = digits.map_or(0, |digits| digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')));
    Some((head, body))
}

/// Asks with so many connections until the time is over.
pub async fn drive(address: SocketAddr, request: Vec<u8>, connections: usize, scale: &Scale) -> Result<Measured> {
    let request: Arc<[u8]> = request.into();
    let begin = Instant::now() + scale.warm_up;
    let end = begin + scale.length;
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let mut connection = Connection::open(address).await?;
        let request = request.clone();
        tasks.spawn(async move {
            let mut lengths = Lengths::default();
            let mut asked = Instant::now();
            while asked < end {
                connection.ask(&request).await?;
                let answered = Instant::now();
                if asked >= begin && answered < end {
                    lengths.add(answered - asked);
                }
                asked = answered;
            }
            Result::Ok(lengths)
        });
    }
    let mut lengths = Lengths::default();
    while let Some(done) = tasks.join_next().await {
        lengths.append(done??);
    }
    Ok(Measured { per_second: lengths.count() as f64 / scale.length.as_secs_f64(), lengths })
}

/// What the tool is called with.
const ARGUMENTS: &str = r#"{"recipient":"a keen gardener of about sixty","budget":80}"#;

/// A `tools/call` of the newest revision, which needs no session.
pub fn tool_call(address: SocketAddr) -> Vec<u8> {
    call(address, TOOL, ARGUMENTS)
}

/// The same of a client that takes tasks.
pub fn task_call(address: SocketAddr) -> Vec<u8> {
    modern(address, "tools/call", Some(TOOL), &format!(r#""name":"{TOOL}","arguments":{ARGUMENTS}"#))
}

/// A request of the newest revision, of a client that takes tasks, with these members of its `params`.
pub fn modern(address: SocketAddr, method: &str, name: Option<&str>, params: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}}}}}"#
    );
    let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    post(address, "/mcp", &format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}"), &body)
}

/// A `tools/call` of this tool with these arguments.
pub fn call(address: SocketAddr, tool: &str, arguments: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}}}}}}}"#
    );
    let headers = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    post(address, "/mcp", &headers, &body)
}

/// `POST /api/jobs` of a job with such a tag.
pub fn submit(address: SocketAddr, tag: &str) -> Vec<u8> {
    let body = format!(r#"{{"type":"{TOOL}","payload":{{"budget":80}},"tags":["{tag}"]}}"#);
    post(address, "/api/jobs", "", &body)
}

/// A POST as bytes.
pub fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A runtime of one thread: all that the generator may take.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Waits on the generator's runtime.
pub async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
