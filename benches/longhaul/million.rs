//! A large store: a million ended jobs and ten thousand that wait for their time.
//!
//! How much disk it takes for its data (keys and values of all rows that are kept), how soon the real binary serves on it,
//! and how much is resident then and while calls run. Beside it sled with rows of the same shape.

use std::path::Path;
use std::time::{Duration, Instant};

use longhaul::clock::{Clock, System};
use longhaul::job::Millis;

use crate::bare_sled::{self, Bare, Shape};
use crate::engine::Engine;
use crate::report::{Table, count, fine, note};
use crate::scale::Scale;
use crate::server::{self, Server};
use crate::stats::median;
use crate::{Result, load, process};
use longhaul::core::Retention;

/// How far ahead waiting jobs are due: after everything here is over.
pub const AHEAD: Millis = Millis::seconds(24 * 3_600);
/// Connections that call and wait for the result.
const CALLERS: usize = 64;
const SLOTS: usize = 64;
const MIB: f64 = 1024.0 * 1024.0;

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let directory = server::directory()?;
    let store = server::store_of(directory.path());
    make(&store, scale)?;
    let shape = Shape::of(&store)?;
    let (data, disk) = (shape.data_bytes, bare_sled::disk_bytes(&store)?);
    let boots: Vec<Boot> = (0..scale.boots).map(|_| boot(directory.path())).collect::<Result<_>>()?;
    let loaded = under_load(directory.path(), scale)?;
    let alone = server::directory()?;
    let bare = bare(alone.path(), shape, scale)?;
    let title = format!("million: {} ended and {} waiting jobs", scale.finished, scale.waiting);
    let heads = ["", "data MiB", "disk MiB", "disk / data", "start s", "resident MiB"];
    let table = Table::new(&title, &heads);
    let resident = median(boots.iter().map(|boot| boot.resident_mib));
    table.row([
        "longhaul".into(),
        count(data / MIB),
        count(disk / MIB),
        fine(disk / data),
        fine(median(boots.iter().map(|boot| boot.seconds))),
        count(resident),
    ]);
    table.row([
        "sled alone".into(),
        count(data / MIB),
        count(bare.disk_bytes / MIB),
        fine(bare.disk_bytes / data),
        fine(bare.open_seconds),
        String::new(),
    ]);
    note(&format!(
        "under load: {} calls/s run a program to its end, {} MiB resident at most",
        count(loaded.calls),
        count(loaded.peak_mib)
    ));
    Ok(())
}

/// Makes the store through the library.
fn make(store: &Path, scale: &Scale) -> Result<()> {
    let engine = Engine::start(store, SLOTS, Retention::default())?;
    let begin = Instant::now();
    load::runtime()?.block_on(async {
        engine.run(scale.finished).await?;
        engine.submit(scale.waiting, Some(System.now().plus(AHEAD))).await
    })?;
    note(&format!("the store was made in {} s", count(begin.elapsed().as_secs_f64())));
    engine.close()
}

struct Boot {
    seconds: f64,
    resident_mib: f64,
}

/// Starts the server, and kills it: the next one finds what a crash leaves.
fn boot(directory: &Path) -> Result<Boot> {
    let begin = Instant::now();
    let server = Server::real(directory, SLOTS, "0s")?;
    let seconds = begin.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(500));
    Ok(Boot { seconds, resident_mib: process::resident_kib(server.pid())? / 1024.0 })
}

struct Loaded {
    calls: f64,
    peak_mib: f64,
}

/// Calls that wait for their result, so that each is a whole lifecycle with a program run in it.
fn under_load(directory: &Path, scale: &Scale) -> Result<Loaded> {
    let server = Server::real(directory, SLOTS, "60s")?;
    let request = load::tool_call(server.address);
    let calls = load::runtime()?.block_on(load::drive(server.address, request, CALLERS, scale))?.per_second;
    let peak_mib = process::peak_kib(server.pid())? / 1024.0;
    server.stop()?;
    Ok(Loaded { calls, peak_mib })
}

struct Alone {
    disk_bytes: f64,
    open_seconds: f64,
}

/// sled with as many rows of the same shape.
fn bare(directory: &Path, shape: Shape, scale: &Scale) -> Result<Alone> {
    let mut sled = Bare::create(directory, shape)?;
    sled.lifecycles(scale.finished)?;
    for _ in 0..scale.waiting.div_ceil(128) {
        sled.submit(128)?;
    }
    drop(sled);
    let disk_bytes = bare_sled::disk_bytes(directory)?;
    let opens: Vec<Duration> = (0..scale.boots).map(|_| bare_sled::open_time(directory)).collect::<Result<_>>()?;
    Ok(Alone { disk_bytes, open_seconds: median(opens.iter().map(Duration::as_secs_f64)) })
}
