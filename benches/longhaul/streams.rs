//! Many readers of one feed, on one thread, who only count.
//!
//! In: a server and a number. Out: how many bytes came to all of them, and how many of these make one event, as seen by
//! one reader that looks at what it reads.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::Result;

thread_local! {
    /// Where every reader reads to: nobody needs what was read after it was counted.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 * 1024]);
}

/// What has come so far.
#[derive(Default)]
pub struct Counts {
    bytes: AtomicU64,
    ended: AtomicU64,
    looked_bytes: AtomicU64,
    looked_events: AtomicU64,
}

/// Counts at one moment.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Bytes of all streams.
    pub bytes: f64,
    /// Streams that have ended, which none should.
    pub ended: f64,
    looked_bytes: f64,
    looked_events: f64,
}

impl Counts {
    /// What has come until now.
    pub fn now(&self) -> Moment {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        Moment {
            bytes: read(&self.bytes),
            ended: read(&self.ended),
            looked_bytes: read(&self.looked_bytes),
            looked_events: read(&self.looked_events),
        }
    }
}

impl Moment {
    /// Bytes of one event since an earlier moment, the share of HTTP's framing included; 300 until one has come.
    pub fn event_bytes(&self, since: &Self) -> f64 {
        match self.looked_events - since.looked_events {
            0.0 => 300.0,
            events => (self.looked_bytes - since.looked_bytes) / events,
        }
    }

    /// Events that all streams together got since then.
    pub fn deliveries(&self, since: &Self) -> f64 {
        (self.bytes - since.bytes) / self.event_bytes(since)
    }
}

/// Opens so many streams on the path; each is open when this returns. They are read until the runtime ends.
pub async fn open(address: SocketAddr, path: &str, streams: usize) -> Result<Arc<Counts>> {
    let counts = Arc::new(Counts::default());
    for number in 0..streams {
        let mut socket = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        socket.readable().await?;
        tokio::spawn(read(socket, number == 0, counts.clone()));
    }
    Ok(counts)
}

async fn read(socket: TcpStream, looks: bool, counts: Arc<Counts>) {
    let mut line = 0;
    while socket.readable().await.is_ok() {
        let read = BUFFER.with_borrow_mut(|buffer| {
            let read = socket.try_read(buffer)?;
            if looks {
                let events = events_in(&buffer[..read], &mut line);
                counts.looked_events.fetch_add(events, Ordering::Relaxed);
                counts.looked_bytes.fetch_add(read as u64, Ordering::Relaxed);
            }
            std::io::Result::Ok(read)
        });
        match read {
            Ok(0) => break,
            Ok(read) => counts.bytes.fetch_add(read as u64, Ordering::Relaxed),
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
    }
    counts.ended.fetch_add(1, Ordering::Relaxed);
}

/// Lines that begin with `data:`; `matched` says how much of that the last piece ended with.
fn events_in(bytes: &[u8], matched: &mut usize) -> u64 {
    const MARK: &[u8] = b"\ndata:";
    let mut events = 0;
    for byte in bytes {
        *matched = if *byte == MARK[*matched] { *matched + 1 } else { usize::from(*byte == MARK[0]) };
        if *matched == MARK.len() {
            events += 1;
            *matched = 0;
        }
    }
    events
}
