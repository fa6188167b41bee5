//! A long run under retention: many times as many jobs are created, end and go as are kept.
//!
//! How many lifecycles a second with their removal beside them, and whether disk and memory stop growing: the same figures
//! after each fifth of the run. In process; the memory is that of the load generator too.

use std::time::Instant;

use longhaul::core::{Bound, Retention};

use crate::bare_sled::{self, Shape};
use crate::engine::Engine;
use crate::report::{Table, count, fine, note};
use crate::scale::Scale;
use crate::{Result, load, process, server};

/// Attempts that run at once, the default of `queue.workers`.
const SLOTS: usize = 64;
const PARTS: usize = 5;
const MIB: f64 = 1024.0 * 1024.0;

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let directory = server::directory()?;
    let store = server::store_of(directory.path());
    let all = Bound { max_jobs: Some(scale.kept), max_bytes: None };
    let engine = Engine::start(&store, SLOTS, Retention { all, ..Retention::default() })?;
    let runtime = load::runtime()?;
    let title = format!("plateau: {} jobs, of which {} are kept", scale.expired, scale.kept);
    let table = Table::new(&title, &["jobs so far", "lifecycles/s", "resident MiB", "disk MiB"]);
    for part in 1..=PARTS {
        let jobs = scale.expired / PARTS;
        let begin = Instant::now();
        runtime.block_on(engine.run(jobs))?;
        let per_second = jobs as f64 / begin.elapsed().as_secs_f64();
        let resident = process::resident_kib(std::process::id())? / 1024.0;
        let disk = bare_sled::disk_bytes(&store)? / MIB;
        table.row([count((jobs * part) as f64), count(per_second), count(resident), count(disk)]);
    }
    note(&format!("{} operations of sled for each", fine(engine.operations() as f64 / scale.expired as f64)));
    engine.close()?;
    let (data, disk) = (Shape::of(&store)?.data_bytes / MIB, bare_sled::disk_bytes(&store)? / MIB);
    note(&format!("data that is kept {} MiB; disk when closed {} MiB", count(data), count(disk)));
    Ok(())
}
