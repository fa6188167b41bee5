//! How soon a job starts when nothing else goes on: from a `tools/call` to `job.started` on the feed, over HTTP.
//!
//! Beside it the two commits that lie between, by sled alone.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;
use crate::bare_sled::{Bare, Shape};
use crate::load::{self, Connection};
use crate::report::{Table, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::Lengths;

const SLOTS: usize = 64;

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let directory = server::directory()?;
    let server = Server::real(directory.path(), SLOTS, "0s")?;
    let mut starts = load::runtime()?.block_on(starts(&server, scale.starts))?;
    server.stop()?;
    let shape = Shape::of(&server::store_of(directory.path()))?;
    let alone = server::directory()?;
    let mut sled = Bare::create(alone.path(), shape)?;
    let mut bare = Lengths::default();
    for _ in 0..scale.starts {
        let begin = Instant::now();
        sled.submit(1)?;
        sled.start()?;
        bare.add(begin.elapsed());
    }
    let heads = ["p50 ms", "p99 ms", "sled alone p50 ms", "p99 ms"];
    let table = Table::new("start: from tools/call to job.started on the feed, over HTTP, idle", &heads);
    let cells = [starts.quantile_ms(50), starts.quantile_ms(99), bare.quantile_ms(50), bare.quantile_ms(99)];
    table.row(cells.map(fine));
    Ok(())
}

/// Jobs one after another; how long each took to start.
async fn starts(server: &Server, jobs: usize) -> Result<Lengths> {
    let mut feed = TcpStream::connect(server.address).await?;
    let request = format!("GET /api/events HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    feed.write_all(request.as_bytes()).await?;
    let mut seen = Vec::new();
    wait_for(&mut feed, &mut seen, b"retry:").await?;
    let mut connection = Connection::open(server.address).await?;
    let request = load::tool_call(server.address);
    let mut lengths = Lengths::default();
    for _ in 0..jobs {
        let begin = Instant::now();
        connection.ask(&request).await?;
        wait_for(&mut feed, &mut seen, b"event: job.started").await?;
        lengths.add(begin.elapsed());
        wait_for(&mut feed, &mut seen, b"event: job.completed").await?;
    }
    Ok(lengths)
}

/// Reads the feed up to this mark.
async fn wait_for(feed: &mut TcpStream, seen: &mut Vec<u8>, mark: &[u8]) -> Result<()> {
    loop {
        if let Some(at) = seen.windows(mark.len()).position(|some| some == mark) {
            seen.drain(..at + mark.len());
            return Ok(());
        }
        if feed.read_buf(seen).await? == 0 {
            return Err("the feed ended".into());
        }
    }
}
