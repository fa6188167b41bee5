//! SIGKILL at random moments: nothing that any client was told is lost, changed or told again as something else.
//!
//! In rounds: clients submit, cancel, replay and read over HTTP and over both eras of MCP, and note what they are told; then
//! the server is killed, at work, standing still (`SIGSTOP`), after having stood still, or while it starts, once or twice;
//! `verify` accepts what is left, and what the next start says is compared with all that was told since the store was made.
//! A store lasts `STORE_ROUNDS` rounds, so that a round costs the same however many went before; in every fourth, few
//! ended jobs are kept, so that trimming is killed too.
//!
//! `LONGHAUL_KILL_ROUNDS` sets the rounds (100 unless it says otherwise), `LONGHAUL_SEED` the seed, which is printed.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::story::Shared;
use crate::story::driver::{Deed, Driver, Told, Way};
use crate::story::truth::{self, Kept};
use crate::support::chance::number;
use crate::support::{Chance, Moment, Server, TRIAL};

/// Rounds on one store.
const STORE_ROUNDS: u64 = 25;
/// Stores at a time.
const AT_ONCE: usize = 4;
/// Most answers that are told before a kill.
const ANSWERS_MAX: u64 = 60;
/// A server stands still until a client has waited in vain for so long. Nothing in this version has a lease; what comes due
/// meanwhile is a job that was delayed by less.
const GIVES_UP: Duration = Duration::from_millis(200);
const DELAY_MS: u64 = 100;

/// What was done, over all stores.
#[derive(Default, Debug)]
struct Tally {
    kills_at_work: AtomicU64,
    kills_standing_still: AtomicU64,
    kills_after_standing_still: AtomicU64,
    kills_in_start: AtomicU64,
    jobs: AtomicU64,
    events: AtomicU64,
    answers: AtomicU64,
}

#[test]
fn a_server_killed_at_random_loses_nothing_that_it_acknowledged() {
    let rounds = number("LONGHAUL_KILL_ROUNDS", 100);
    let seed = Chance::seed();
    println!("seed {seed}, {rounds} rounds");
    let stores = (0..rounds.div_ceil(STORE_ROUNDS)).map(|n| (n, STORE_ROUNDS.min(rounds - n * STORE_ROUNDS)));
    let stores: Mutex<VecDeque<(u64, u64)>> = Mutex::new(stores.collect());
    let (tally, failed) = (Tally::default(), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((n, rounds)) = { stores.lock().expect("stores").pop_front() } {
                    if let Err(why) = outlive(n, rounds, Chance::of(seed, n), &tally) {
                        *failed.lock().expect("failures") = Some(format!("store {n}: {why}"));
                        stores.lock().expect("stores").clear();
                    }
                }
            });
        }
    });
    if let Some(why) = failed.into_inner().expect("failures") {
        panic!("seed {seed}: {why}");
    }
    println!("seed {seed}, {rounds} rounds: {tally:?}");
}

/// A server with its clients' story since its store was made.
struct Life<'a> {
    server: Server,
    story: Shared,
    kept: Kept,
    chance: Chance,
    tally: &'a Tally,
}

fn outlive(store: u64, rounds: u64, chance: Chance, tally: &Tally) -> Result<(), String> {
    let kept = if store % 4 == 3 { Kept::NotAll } else { Kept::All };
    let mut life = Life { server: Server::start(&config(kept)), story: Shared::default(), kept, chance, tally };
    for round in 0..rounds {
        life.round(round).map_err(|why| format!("round {round}: {why}"))?;
    }
    truth::settle(&life.driver(), kept)?;
    let story = life.story.open();
    tally.jobs.fetch_add(story.jobs().count() as u64, Ordering::Relaxed);
    tally.events.fetch_add(story.events.len() as u64, Ordering::Relaxed);
    tally.answers.fetch_add(story.answers, Ordering::Relaxed);
    println!("store {store}: {rounds} rounds, {} events, each as it was", story.events.len());
    Ok(())
}

fn config(kept: Kept) -> String {
    let retention = match kept {
        Kept::All => "",
        Kept::NotAll => "[retention]\nmax_jobs = 60\n",
    };
    // More interruptions than rounds may cost one job: it is the kills that are tested, not the patience.
    let tool =
        TRIAL.replace("retry = { base_delay = \"50ms\"", "retry = { max_interruptions = 1000, base_delay = \"5ms\"");
    format!("{retention}{tool}")
}

impl Life<'_> {
    fn driver(&self) -> Driver {
        Driver { client: self.server.client(), story: self.story.clone() }
    }

    fn round(&mut self, round: u64) -> Result<(), String> {
        self.story.open().left = 0;
        let driver = self.driver();
        let chances: Vec<Chance> = (0..4).map(|_| self.chance.branch()).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| driver.follow_log());
            for (n, chance) in chances.into_iter().enumerate() {
                let driver = &driver;
                scope.spawn(move || {
                    let name = format!("{round}-{n}");
                    let _gone = if n == 0 { flood(driver, &name, chance) } else { live(driver, &name, n, chance) };
                    driver.story.open().left += 1;
                });
            }
            self.end();
        });
        if self.chance.below(10) == 0 {
            self.kill_in_start();
        }
        let (is_whole, said) = self.server.verify();
        if !is_whole {
            return Err(said);
        }
        self.server.try_start_again()?;
        truth::compare(&self.driver(), self.kept)
    }

    /// Lets the clients be told something, as much as chance will have it: the moment falls anywhere within a commit.
    fn wait_for_answers(&mut self, most: u64) {
        let wanted = self.story.open().answers + 1 + self.chance.below(most);
        self.story.wait_until(|story| story.answers >= wanted || !story.lies.is_empty() || story.left > 0);
    }

    /// Kills it at work.
    fn end(&mut self) {
        self.wait_for_answers(ANSWERS_MAX);
        let how = self.chance.below(10);
        if how < 3 {
            // It is there when the server goes on, and due.
            let _gone = self.driver().submit_delayed(
                &format!("due-{}", self.chance.number()),
                &json!({"do": "noop"}),
                DELAY_MS,
            );
            self.server.signal(Signal::STOP);
            while !self.server.is_stopped() {
                std::thread::yield_now();
            }
            let waits = self.server.client().patient_for(GIVES_UP);
            waits.get_with("/readyz", &[]).expect_err("it stands still");
        }
        let kills = match how {
            0 | 1 => {
                self.server.signal(Signal::CONT);
                self.wait_for_answers(ANSWERS_MAX / 4);
                &self.tally.kills_after_standing_still
            }
            2 => &self.tally.kills_standing_still,
            _ => &self.tally.kills_at_work,
        };
        kills.fetch_add(1, Ordering::Relaxed);
        self.server.kill();
    }

    /// Kills it before it serves, or as soon as it does; sometimes once more.
    fn kill_in_start(&mut self) {
        for _ in 0..1 + self.chance.below(2) {
            let moment = match self.chance.below(3) {
                0 => Moment::Snapshot,
                _ => Moment::Calls(self.chance.below(START_CALLS_MAX)),
            };
            self.server.kill_in_start(moment);
            self.tally.kills_in_start.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// About how many calls to read and write the start of a store of this size makes.
const START_CALLS_MAX: u64 = 600;

/// Submits as fast as it is answered, and now and then follows what it submitted to its end.
fn flood(driver: &Driver, name: &str, mut chance: Chance) -> Told<()> {
    for n in 0.. {
        let payload = json!({"do": "fail", "times": n % 2});
        let id = driver.submit(&format!("{name}-{n}"), &payload, &Way::Http)?;
        if chance.below(8) == 0 {
            driver.follow_job(&id);
        }
    }
    Ok(())
}

/// Does one thing after the other, in one of the three ways, and waits for what comes of each.
fn live(driver: &Driver, name: &str, way: usize, mut chance: Chance) -> Told<()> {
    let way = match way {
        1 => Way::Http,
        2 => Way::Modern,
        _ => Way::Session(driver.open_session()?),
    };
    for n in 0.. {
        let deed = Deed::ALL[usize::try_from(chance.below(Deed::ALL.len() as u64)).expect("small")];
        driver.act(deed, &format!("{name}-{n}"), &way)?;
    }
    Ok(())
}
