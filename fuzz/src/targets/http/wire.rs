//! A strict reader of answers of HTTP/1.1, as they stand on the wire.

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body has come to its end.
    pub is_whole: bool,
}

impl Reply {
    /// The only value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        let first = found.next();
        assert!(found.next().is_none() || name == "vary", "{name} is there twice");
        first.map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer yet.
pub enum Stop {
    /// Its end has not come.
    More,
    /// It is none.
    Broken(&'static str),
}

/// The answer at the front of these bytes, behind those that only say to go on. A body that comes in chunks is taken as it
/// is once it has more than `stream_max` bytes.
pub fn read(bytes: &[u8], method: &str, stream_max: usize) -> Result<Reply, Stop> {
    let (mut reply, rest) = head(bytes)?;
    if reply.status < 200 {
        return read(rest, method, stream_max);
    }
    let len = reply.header("content-length").map(|len| len.parse::<usize>().map_err(|_| Stop::Broken("no length")));
    let len = len.transpose()?;
    if method == "HEAD" || matches!(reply.status, 204 | 304) {
        return Ok(Reply { is_whole: true, ..reply });
    }
    if reply.header("transfer-encoding") == Some("chunked") {
        (reply.body, reply.is_whole) = chunks(rest)?;
        let is_enough = reply.is_whole || reply.body.len() > stream_max || is_idle(&reply);
        return if is_enough { Ok(reply) } else { Err(Stop::More) };
    }
    let Some(len) = len else { return Err(Stop::More) };
    reply.body = rest.get(..len).ok_or(Stop::More)?.to_vec();
    Ok(Reply { is_whole: true, ..reply })
}

/// What there is when the connection has ended: a body without a length ends with it, and a stream that was cut too.
pub fn read_to_end(bytes: &[u8]) -> Option<Reply> {
    let (reply, rest) = head(bytes).ok()?;
    if reply.status < 200 {
        return read_to_end(rest);
    }
    let body = match reply.header("transfer-encoding") {
        Some(_) => chunks(rest).ok()?.0,
        None => rest.to_vec(),
    };
    Some(Reply { body, is_whole: false, ..reply })
}

/// A stream that has said more than once that it lives says nothing more.
fn is_idle(reply: &Reply) -> bool {
    let is_stream = reply.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    let beats = reply.body.windows(3).filter(|bytes| *bytes == b"\n:\n" || *bytes == b"\n: ").count();
    let cursors = reply.body.windows(5).filter(|bytes| *bytes == b"\nid: ").count();
    is_stream && (beats > 2 || cursors > 60)
}

fn head(bytes: &[u8]) -> Result<(Reply, &[u8]), Stop> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or(Stop::More)?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Stop::Broken("a head that is no text"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let version = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
    let status = version.and_then(|rest| rest.get(..3)).and_then(|status| status.parse().ok());
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.map(field).collect::<Option<_>>().ok_or(Stop::Broken("a line that is no header"))?;
    let status = status.ok_or(Stop::Broken("a first line that is none"))?;
    Ok((Reply { status, headers, body: Vec::new(), is_whole: false }, &bytes[end + 4..]))
}

/// The chunks that have come, and whether the last is among them.
fn chunks(mut rest: &[u8]) -> Result<(Vec<u8>, bool), Stop> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") else { return Ok((body, false)) };
        let len = std::str::from_utf8(&rest[..end]).ok().and_then(|len| usize::from_str_radix(len, 16).ok());
        let len = len.ok_or(Stop::Broken("no length of a chunk"))?;
        let Some(chunk) = rest.get(end + 2..end + 2 + len + 2) else { return Ok((body, false)) };
        if !chunk.ends_with(b"\r\n") {
            return Err(Stop::Broken("a chunk without its end"));
        }
        if len == 0 {
            return Ok((body, true));
        }
        body.extend_from_slice(&chunk[..len]);
        rest = &rest[end + 2 + len + 2..];
    }
}
