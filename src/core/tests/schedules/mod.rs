//! Schedules: core, dispatcher, pool and workers where one seed decides who does what when, on virtual time.
//!
//! `LONGHAUL_SEEDS` sets how many (500 unless it says otherwise), `LONGHAUL_SEED` runs that one alone and prints what it did.
//! Faults among the choices: failures of each class, panics, hangs, lost processes, cancels, shutdowns, late reports, clocks
//! that are set, disks that fill. In the end every job has ended, once.

#![expect(clippy::print_stdout, reason = "a run tells its seeds")]

mod check;
mod life;
mod script;
mod steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::Position;
use crate::store::Store;
use world::World;

/// Seeds of a usual run.
const SEEDS: u64 = 500;
/// Choices shown of a seed that failed: the last ones.
const SHOWN_MAX: usize = 60;

/// Runs one seed; what it had to say if it broke a promise.
fn live(seed: u64) -> Result<World, String> {
    let mut world = World::new(seed);
    let lived = catch_unwind(AssertUnwindSafe(|| {
        world.run();
        check::end(&world);
    }));
    match lived {
        Ok(()) => Ok(world),
        Err(panic) => {
            let last = &world.trace[world.trace.len().saturating_sub(SHOWN_MAX)..];
            let text = crate::panic_text(&*panic);
            Err(format!("{text}\n{}\nAgain, alone: LONGHAUL_SEED={seed} (schedules)", last.join("\n")))
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn once_faults_stop_every_job_ends_once_whatever_the_schedule() {
    let alone = from_environment("LONGHAUL_SEED");
    let first = alone.unwrap_or(0);
    let end = first + if alone.is_some() { 1 } else { from_environment("LONGHAUL_SEEDS").unwrap_or(SEEDS) };
    let next = AtomicU64::new(first);
    let (jobs, entries) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let world = live(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            jobs.fetch_add(world.acknowledged.len() as u64, Ordering::Relaxed);
            entries.fetch_add(world.store.bounds().last.0, Ordering::Relaxed);
            if alone.is_some() {
                println!("{}", world.trace.join("\n"));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(work)));
    });
    println!("seeds {first}..{end}: {} acknowledged jobs, {} entries", jobs.into_inner(), entries.into_inner());
}

#[test]
fn a_seed_tells_the_same_story_each_time() {
    for seed in 0..20 {
        let story = || live(seed).map(|world| (world.store.events(Position::ZERO, usize::MAX), world.trace));
        let stories = [story(), story()].map(|story| format!("{story:?}"));
        assert!(stories[0] == stories[1], "seed {seed}");
    }
}
