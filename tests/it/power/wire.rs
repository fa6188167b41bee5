//! A plain HTTP client that counts what it takes: the recorder counts what the server gives, and so each thing that a client
//! learns has a place in the record.
//!
//! In: requests. Out: answers and events with their places. One connection, no port used twice.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

/// Longest wait for a line: a bound, not a measure.
const LINE_MAX: Duration = Duration::from_secs(60);

/// Ports that clients of one recording have used: its records tell connections apart by them.
#[derive(Default)]
pub struct Ports(Mutex<HashSet<u16>>);

/// So many bytes had been given to this port.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The client's port.
    pub port: u16,
    /// Bytes from the beginning of the connection.
    pub bytes: u64,
}

/// An open connection.
pub struct Wire {
    lines: BufReader<TcpStream>,
    address: String,
    place: Place,
}

/// An answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body, JSON.
    pub body: Value,
    /// Where its last byte stood.
    pub place: Place,
}

impl Wire {
    /// Connects from a port that was not used before.
    pub fn connect(address: &str, ports: &Ports) -> io::Result<Self> {
        // A connection from a used port is held open meanwhile, so that the next one gets another.
        let mut refused = Vec::new();
        loop {
            let socket = TcpStream::connect(address)?;
            let port = socket.local_addr()?.port();
            if !ports.0.lock().expect("ports").insert(port) {
                refused.push(socket);
                continue;
            }
            socket.set_read_timeout(Some(LINE_MAX))?;
            socket.set_nodelay(true)?;
            let place = Place { port, bytes: 0 };
            return Ok(Self { lines: BufReader::new(socket), address: address.to_owned(), place });
        }
    }

    /// Asks, and takes the answer.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\naccept: application/json\r\n{kind}content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.lines.get_mut().write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        let (status, length) = self.head()?;
        let mut body = vec![0; length];
        self.lines.read_exact(&mut body)?;
        self.place.bytes += length as u64;
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok(Answer { status, body, place: self.place })
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.ask("GET", path, None)
    }

    /// POST.
    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.ask("POST", path, Some(body))
    }

    /// Opens an event stream after a cursor. HTTP/1.0, so that the body comes without chunks.
    pub fn follow(&mut self, path: &str, cursor: &str) -> io::Result<()> {
        let address = &self.address;
        let head = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n");
        self.lines.get_mut().write_all(format!("{head}last-event-id: {cursor}\r\n\r\n").as_bytes())?;
        let (status, _) = self.head()?;
        if status == 200 { Ok(()) } else { Err(io::Error::other(format!("status {status}"))) }
    }

    /// The next event of a stream that has an id, and where its last byte stood.
    pub fn event(&mut self) -> io::Result<(Value, Place)> {
        let (mut has_id, mut data) = (false, None);
        loop {
            let line = self.line()?;
            match line.split_once(':').unwrap_or((&line, "")) {
                ("id", _) => has_id = true,
                ("data", value) => data = Some(serde_json::from_str(value)?),
                ("", "") => match data.take() {
                    Some(data) if has_id => return Ok((data, self.place)),
                    Some(_) | None => has_id = false,
                },
                _ => {}
            }
        }
    }

    /// Status and length of the body.
    fn head(&mut self) -> io::Result<(u16, usize)> {
        let bad = |line: &str| io::Error::new(ErrorKind::InvalidData, format!("a head with {line:?}"));
        let line = self.line()?;
        let status = line.split_whitespace().nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| bad(&line))?;
        let mut length = 0;
        loop {
            let line = self.line()?.to_lowercase();
            match line.split_once(':') {
                None if line.is_empty() => return Ok((status, length)),
                Some(("content-length", value)) => length = value.trim().parse().map_err(|_| bad(&line))?,
                Some(("transfer-encoding", _)) => return Err(bad(&line)),
                Some(_) => {}
                None => return Err(bad(&line)),
            }
        }
    }

    /// A line without its end; an error at the end of the stream.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let length = self.lines.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.place.bytes += length as u64;
        let line = String::from_utf8(line).map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
        Ok(line.trim_end_matches('\r').to_owned())
    }
}
