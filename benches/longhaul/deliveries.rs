//! Events of about 300 bytes to many streams of the feed, while each of them is a job that commits.
//!
//! Beside the server a bare one that sends the same bytes from one shared ring. Both are given as many events as they get
//! rid of: a new one is posted when the streams are, in the mean, not far behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::load::{self, Connection};
use crate::process;
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::median;
use crate::streams::{self, Counts};

/// Connections that post.
const POSTERS: usize = 16;
/// How many events a stream may be behind, in the mean, before the next is posted.
const BEHIND_MAX: f64 = 256.0;
/// Makes the event of a new job about 300 bytes long.
const TAG: &str = "padding-padding-padding-padding-padding-padding-padding-padding";

/// What one server reached.
struct Reached {
    deliveries: f64,
    events: f64,
    event_bytes: f64,
    idle_kib: f64,
    peak_mib: f64,
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let heads = [
        "streams",
        "deliveries/s",
        "jobs/s",
        "bytes each",
        "KiB per idle stream",
        "peak MiB",
        "hyper alone/s",
        "KiB per stream",
        "ratio",
    ];
    let table = Table::new("deliveries: events of committing jobs to every stream of GET /api/events", &heads);
    for streams in scale.streams {
        let mut rounds = Vec::new();
        for _ in 0..scale.rounds {
            let directory = server::directory()?;
            let server = Server::real(directory.path(), 0, "0s")?;
            let request = load::submit(server.address, TAG);
            let real = reach(&server, "/api/events", request, *streams, scale)?;
            drop(server);
            let server = Server::bare(&["stream"])?;
            let request = load::post(server.address, "/", "", &frame(real.event_bytes));
            rounds.push((real, reach(&server, "/", request, *streams, scale)?));
        }
        let of = |figure: fn(&(Reached, Reached)) -> f64| median(rounds.iter().map(figure));
        table.row([
            count(*streams as f64),
            count(of(|round| round.0.deliveries)),
            count(of(|round| round.0.events)),
            count(of(|round| round.0.event_bytes)),
            fine(of(|round| round.0.idle_kib)),
            count(of(|round| round.0.peak_mib)),
            count(of(|round| round.1.deliveries)),
            fine(of(|round| round.1.idle_kib)),
            fine(of(|round| round.0.deliveries) / of(|round| round.1.deliveries)),
        ]);
    }
    Ok(())
}

/// A frame of that length.
fn frame(bytes: f64) -> String {
    let start = "id: 0a1b2c3d-1234567\nevent: job.created\ndata: ";
    format!("{start:x<width$}\n\n", width = bytes as usize - 2)
}

fn reach(server: &Server, path: &str, request: Vec<u8>, streams: usize, scale: &Scale) -> Result<Reached> {
    load::runtime()?.block_on(async {
        let before = process::resident_kib(server.pid())?;
        let counts = streams::open(server.address, path, streams).await?;
        load::pause(Duration::from_millis(500)).await;
        let idle = process::resident_kib(server.pid())?;
        let posted = Arc::new(AtomicU64::new(0));
        for _ in 0..POSTERS {
            let connection = Connection::open(server.address).await?;
            tokio::spawn(post(connection, request.clone(), streams as f64, counts.clone(), posted.clone()));
        }
        load::pause(scale.warm_up).await;
        let (first, begin, posted_before) = (counts.now(), Instant::now(), posted.load(Ordering::Relaxed));
        load::pause(scale.length).await;
        let (last, length) = (counts.now(), begin.elapsed().as_secs_f64());
        if last.ended > 0.0 {
            return Err(format!("{} streams ended", last.ended).into());
        }
        Ok(Reached {
            deliveries: last.deliveries(&first) / length,
            events: (posted.load(Ordering::Relaxed) - posted_before) as f64 / length,
            event_bytes: last.event_bytes(&first),
            idle_kib: (idle - before) / streams as f64,
            peak_mib: process::peak_kib(server.pid())? / 1024.0,
        })
    })
}

/// Posts as long as the runtime runs.
async fn post(
    mut connection: Connection,
    request: Vec<u8>,
    streams: f64,
    counts: Arc<Counts>,
    posted: Arc<AtomicU64>,
) -> Result<()> {
    let start = counts.now();
    loop {
        let delivered = counts.now().deliveries(&start) / streams;
        if posted.load(Ordering::Relaxed) as f64 - delivered > BEHIND_MAX {
            load::pause(Duration::from_millis(1)).await;
            continue;
        }
        posted.fetch_add(1, Ordering::Relaxed);
        connection.ask(&request).await?;
    }
}
