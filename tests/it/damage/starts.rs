//! Rows 51 and 54: killed while it starts, started while the last one dies, started twice.
//!
//! `LONGHAUL_LONG=1`: 500 kills of a store of 300 MB, 200 restarts. `LONGHAUL_SEED` chooses the moments; it is printed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::served::{self, Start};
use super::told::Outcome;
use super::told::{STILL, base, outcome, refused, serve, store};
use crate::support::server::binary;
use crate::support::{Chance, Client, from_environment, is_long};

/// A start that nobody listens to.
fn begin(place: &Path) -> Child {
    let mut command = Command::new(binary());
    command.args(["serve", "--config"]).arg(place.join("longhaul.toml")).args(["--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(place.join("data")).current_dir(place);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started")
}

/// Lets others run so many times: some moment, by no clock.
fn dawdle(times: u64) {
    (0..times).for_each(|_| std::thread::yield_now());
}

/// How often others can run during a whole start.
fn start_takes(place: &Path) -> u64 {
    let (told, done) = std::sync::mpsc::channel();
    let place = place.to_path_buf();
    let starting = std::thread::spawn(move || {
        let served = serve(&place);
        told.send(()).expect("somebody counts");
        served.end();
    });
    let mut times = 1;
    while done.try_recv().is_err() && !starting.is_finished() {
        std::thread::yield_now();
        times += 1;
    }
    starting.join().expect("it starts");
    times
}

/// Bytes of payloads that the long form puts in the store.
const LONG_BYTES: usize = 300 << 20;

/// Fills the store: 60 KB a job, so that all of it is in the data file. The ids.
fn fill(client: &Client, bytes: usize) -> Vec<String> {
    let line = json!({"type": "trial", "payload": {"do": "noop", "text": "z".repeat(60_000)}}).to_string();
    let lines = [line.as_str(); 16].join("\n");
    let mut ids = Vec::new();
    while ids.len() * 60_000 < bytes {
        let answer = client.post_with("/api/jobs", &[("content-type", "application/x-ndjson")], lines.as_bytes());
        let answer = answer.expect("the server answers");
        let made = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        ids.extend(made.map(|job| job["job"]["id"].as_str().or(job["id"].as_str()).expect("an id").to_owned()));
    }
    ids
}

#[test]
fn case_51_a_store_killed_again_and_again_while_it_starts_is_whole() {
    let seed = from_environment("LONGHAUL_SEED", std::process::id().into());
    let kills = if is_long() { 500 } else { 20 };
    println!("seed {seed}, {kills} kills");
    let mut chance = Chance::new(seed);
    let place = tempfile::tempdir().expect("made");
    fs::write(place.path().join("longhaul.toml"), STILL).expect("written");
    let mut served = serve(place.path());
    let mut ids = fill(&served.client, if is_long() { LONG_BYTES } else { 4 << 20 });
    served.kill();
    drop(served);
    let takes = start_takes(place.path());
    for kill in 0..kills {
        let mut child = begin(place.path());
        dawdle(chance.up_to(takes));
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        // Now and then it gets as far as new work, so that the next start has something to write down.
        if kill % 5 == 0 {
            let served = serve(place.path());
            ids.extend((0..5).map(|n| served.client.submit(json!({"do": "noop", "kill": kill, "n": n}))));
        }
    }
    let served = serve(place.path());
    for id in &ids {
        assert_eq!(served.client.job(id)["status"], "pending", "seed {seed}, job {id}");
    }
    assert_eq!(served.end().code, Some(0));
    let verified = served::verify(place.path());
    assert_eq!(verified.code, Some(0), "seed {seed}: {verified:?}");
    let data = fs::metadata(store(place.path()).join("db")).expect("there").len();
    println!("{} jobs, {data} bytes of data, a start takes {takes} turns", ids.len());
}

#[test]
fn case_54_a_server_started_as_the_last_one_dies_waits_a_little_and_serves() {
    let rounds = if is_long() { 200 } else { 20 };
    let place = base().copy();
    let mut served = serve(place.path());
    for round in 0..rounds {
        // Not waited for: the next one meets the dying one's lock.
        served.kill();
        let next = match served::start(place.path()) {
            Start::Serves(next) => next,
            Start::Ended(end) => panic!("round {round}: {end:?}"),
        };
        drop(std::mem::replace(&mut served, next));
    }
    assert_eq!(served.end().code, Some(0));
    assert_eq!(outcome(place.path(), &base().told).expect("whole").0, Outcome::Whole);
}

#[test]
fn case_54_a_second_server_is_refused_in_one_line_and_the_first_is_unharmed() {
    let place = base().copy();
    let first = serve(place.path());
    let Start::Ended(second) = served::start(place.path()) else { panic!("two servers on one directory") };
    assert_eq!(refused(&second, 7), Ok(Outcome::Refused));
    let pid = first.pid().as_raw_nonzero().to_string();
    assert!(second.said.contains(&format!("process {pid}")), "{second:?}");
    let id = first.client.submit(json!({"do": "noop"}));
    assert_eq!(first.client.job(&id)["status"], "pending");
    assert_eq!(served::verify(place.path()).code, Some(7));
    assert_eq!(first.end().code, Some(0));
    assert_eq!(served::verify(place.path()).code, Some(0));
}
