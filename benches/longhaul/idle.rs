//! A server with nothing to do: delayed jobs, and streams on which nothing happens.
//!
//! Processor time over a while, as a share of one core. Beside it a bare server with as many streams, which does not even
//! send heartbeats.

use std::time::{Duration, Instant};

use longhaul::clock::{Clock, System};
use longhaul::core::Retention;

use crate::engine::Engine;
use crate::million::AHEAD;
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::{Result, load, process, streams};

/// Until what the start left to do is done.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let directory = server::directory()?;
    let engine = Engine::start(&server::store_of(directory.path()), 0, Retention::default())?;
    let due = System.now().plus(AHEAD);
    load::runtime()?.block_on(engine.submit(scale.delayed, Some(due)))?;
    engine.close()?;
    let server = Server::real(directory.path(), 64, "0s")?;
    let real = watch(&server, "/api/events", scale)?;
    let resident = process::resident_kib(server.pid())? / 1024.0;
    server.stop()?;
    let bare = watch(&Server::bare(&["stream"])?, "/", scale)?;
    let heads = ["delayed jobs", "idle streams", "seconds", "CPU %", "resident MiB", "hyper alone CPU %"];
    let table = Table::new("idle: processor time with nothing to do", &heads);
    table.row([
        count(scale.delayed as f64),
        count(scale.idle_streams as f64),
        count(scale.watched.as_secs_f64()),
        fine(real),
        count(resident),
        fine(bare),
    ]);
    Ok(())
}

/// The share of one core that the server takes, in per cent.
fn watch(server: &Server, path: &str, scale: &Scale) -> Result<f64> {
    load::runtime()?.block_on(async {
        let counts = streams::open(server.address, path, scale.idle_streams).await?;
        load::pause(SETTLED).await;
        let (begin, before) = (Instant::now(), process::cpu_seconds(server.pid())?);
        load::pause(scale.watched).await;
        let share = (process::cpu_seconds(server.pid())? - before) / begin.elapsed().as_secs_f64();
        match counts.now().ended {
            0.0 => Ok(100.0 * share),
            ended => Err(format!("{ended} streams ended").into()),
        }
    })
}
