//! A plain reader of event streams, over a bare socket so that it can be cut anywhere.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One event as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `id:` line, if it had one.
    pub id: Option<String>,
    /// The `event:` line.
    pub event: String,
    /// The data, parsed.
    pub data: serde_json::Value,
}

/// An open stream.
pub struct Stream {
    /// HTTP status of the answer.
    pub status: u16,
    /// Its head, lower case.
    pub head: String,
    lines: BufReader<Box<dyn std::io::Read>>,
    /// The last id that came, heartbeats included: what a client would resume with.
    pub last_id: Option<String>,
}

/// Longest that a test waits for the next line: a bound, not a measure.
const LINE_MAX: Duration = Duration::from_secs(60);

impl Stream {
    /// Opens it. HTTP/1.0, so that the body comes without chunks.
    pub fn open(base: &str, path: &str, last_event_id: Option<&str>, token: Option<&str>) -> Self {
        Self::try_open(base, path, last_event_id, token).expect("the server answers")
    }

    /// The same where the server may be gone.
    pub fn try_open(base: &str, path: &str, last_event_id: Option<&str>, token: Option<&str>) -> std::io::Result<Self> {
        let address = base.strip_prefix("http://").expect("a plain URL");
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(LINE_MAX))?;
        let resume = last_event_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request =
            format!("GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n{resume}{token}\r\n");
        socket.write_all(request.as_bytes())?;
        let mut lines = BufReader::new(Box::new(socket) as Box<dyn std::io::Read>);
        let mut head = String::new();
        while lines.read_line(&mut head)? > 2 {}
        let head = head.to_lowercase();
        let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        Ok(Self { status, head, lines, last_id: None })
    }

    /// The next line without its end; `None` at the end of the stream, however it ended.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.lines.read_until(b'\n', &mut line) {
            Ok(1..) if line.ends_with(b"\n") => {
                line.pop();
                Some(String::from_utf8(line).expect("UTF-8"))
            }
            Ok(_) => None,
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing came for a minute"),
            Err(_) => None,
        }
    }
}

impl Iterator for Stream {
    type Item = Event;

    /// The next event that has data; `None` at the end of the stream.
    fn next(&mut self) -> Option<Event> {
        let (mut id, mut event, mut data) = (None::<String>, String::new(), None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                if let Some(id) = &id {
                    self.last_id = Some(id.clone());
                }
                let Some(data) = data.take() else {
                    (id, event) = (None, String::new());
                    continue;
                };
                return Some(Event { id, event, data });
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => id = Some(value.to_owned()),
                "event" => value.clone_into(&mut event),
                "data" => data = Some(serde_json::from_str(value).expect("one line of JSON")),
                _ => {}
            }
        }
    }
}
