//! Whole lifecycles of a handler that does nothing: created, started, one progress, completed, each durable.
//!
//! In process, through core, store and worker pool: in a submit, out an end on the disk. Beside them sled making the same
//! operations with the same bytes.

use std::time::Instant;

use longhaul::core::Retention;

use crate::Result;
use crate::bare_sled::{Bare, Shape};
use crate::engine::Engine;
use crate::load;
use crate::report::{Table, count, fine};
use crate::scale::Scale;
use crate::server;
use crate::stats::median;

/// Attempts that run at once, the default of `queue.workers`.
const SLOTS: usize = 64;

/// One round: lifecycles a second and sled's operations for each, here and in the bare loop.
struct Round {
    real: (f64, f64),
    bare: (f64, f64),
}

/// Measures and reports.
pub fn run(scale: &Scale) -> Result<()> {
    let heads = ["lifecycles/s", "operations each", "sled alone/s", "operations each", "ratio"];
    let table = Table::new("lifecycles: created, started, one progress, completed; in process, 64 slots", &heads);
    let rounds: Vec<Round> = (0..scale.rounds).map(|_| round(scale)).collect::<Result<_>>()?;
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    table.row([
        count(of(|round| round.real.0)),
        fine(of(|round| round.real.1)),
        count(of(|round| round.bare.0)),
        fine(of(|round| round.bare.1)),
        fine(of(|round| round.real.0) / of(|round| round.bare.0)),
    ]);
    Ok(())
}

fn round(scale: &Scale) -> Result<Round> {
    let jobs = scale.lifecycles as f64;
    let directory = server::directory()?;
    let store = server::store_of(directory.path());
    let engine = Engine::start(&store, SLOTS, Retention::default())?;
    let begin = Instant::now();
    load::runtime()?.block_on(engine.run(scale.lifecycles))?;
    let real = (jobs / begin.elapsed().as_secs_f64(), engine.operations() as f64 / jobs);
    engine.close()?;
    let shape = Shape::of(&store)?;
    let alone = server::directory()?;
    let mut sled = Bare::create(alone.path(), shape)?;
    let begin = Instant::now();
    sled.lifecycles(scale.lifecycles)?;
    let bare = (jobs / begin.elapsed().as_secs_f64(), sled.operations as f64 / jobs);
    Ok(Round { real, bare })
}
