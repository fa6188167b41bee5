//! A start that is killed: however often and wherever in it, the next one finds everything.
//!
//! The moment is chosen by how many calls to read and write the process has made, of as many as a whole start makes, or by
//! the file of a snapshot that is being written.
//! `LONGHAUL_LONG=1` does it with 300 MB and 500 kills, `LONGHAUL_SEED` repeats a run.

use serde_json::json;

use crate::story::Shared;
use crate::story::driver::{Driver, ENDLESS_MS, Gone, Way};
use crate::story::truth::{self, Kept};
use crate::support::{Chance, Moment, Server, TRIAL, is_long};

/// After so many kills the store is served and looked through.
const LOOK_EVERY: usize = 10;
/// Clients that fill the store.
const CLIENTS: usize = 4;

fn driver(server: &Server, story: &Shared) -> Driver {
    Driver { client: server.client(), story: story.clone() }
}

fn fill(driver: &Driver, jobs: usize, bytes: usize) -> Result<(), Gone> {
    let pad = "x".repeat(bytes);
    let submit = |n: usize| driver.submit(&format!("filling-{n}"), &json!({"do": "noop", "pad": pad}), &Way::Http);
    std::thread::scope(|scope| {
        let submit = &submit;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|first| scope.spawn(move || (first..jobs).step_by(CLIENTS).try_for_each(|n| submit(n).map(|_| ()))))
            .collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client"))
    })
}

/// Row 51: a kill while the start-up snapshot was written made the database unopenable for ever.
#[test]
fn case_51_a_start_may_be_killed_anywhere_and_any_number_of_times() {
    let (jobs, bytes, kills) = if is_long() { (5_000, 60_000, 500) } else { (400, 20_000, 30) };
    let seed = Chance::seed();
    println!("seed {seed}, {jobs} jobs of {bytes} bytes, {kills} kills");
    let mut chance = Chance::of(seed, 0);
    let mut server = Server::start(&TRIAL.replace("retry = {", "retry = { max_interruptions = 1000,"));
    let story = Shared::default();
    fill(&driver(&server, &story), jobs, bytes).expect("it serves");
    server.crash();
    let whole_start = server.calls().expect("it runs");
    for round in 0..kills / LOOK_EVERY {
        // Something for the recovery to do.
        let held = json!({"do": "sleep", "ms": ENDLESS_MS});
        driver(&server, &story).submit(&format!("held-{round}"), &held, &Way::Http).expect("it serves");
        server.kill();
        for n in 0..LOOK_EVERY {
            // The first start after work writes a snapshot, and so does the next as long as none was finished.
            let moment = if n % 2 == 0 { Moment::Snapshot } else { Moment::Calls(chance.below(whole_start)) };
            server.kill_in_start(moment);
        }
        server.start_again();
        truth::compare(&driver(&server, &story), Kept::All).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    truth::settle(&driver(&server, &story), Kept::All).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    server.kill();
    let (is_whole, said) = server.verify();
    assert!(is_whole, "seed {seed}: {said}");
}
