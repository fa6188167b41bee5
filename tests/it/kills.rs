//! Random SIGKILL under load: nothing acknowledged is lost, and `verify` accepts what is left.
//!
//! `LONGHAUL_KILL_ROUNDS` sets the rounds (100 unless it says otherwise), `LONGHAUL_SEED` the seed, which is printed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::support::{Client, Server, TRIAL};

/// What was acknowledged: job ids by idempotency key.
type Journal = Arc<Mutex<HashMap<String, String>>>;

#[test]
fn a_server_killed_at_random_loses_nothing_that_it_acknowledged() {
    let rounds = from_environment("LONGHAUL_KILL_ROUNDS", 100);
    let seed = from_environment("LONGHAUL_SEED", std::process::id().into());
    println!("seed {seed}, {rounds} rounds");
    let mut chance = Chance(seed);
    let mut server = Server::start(&config());
    let journal = Journal::default();
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let submitters: Vec<_> = (0..3)
            .map(|n| {
                let (client, journal, stop) = (server.client(), journal.clone(), stop.clone());
                std::thread::spawn(move || submit(&client, &journal, &stop, &format!("{round}-{n}")))
            })
            .collect();
        // The moment is chosen by what was acknowledged, not by time: it falls anywhere within a commit all the same.
        let before = journal.lock().expect("journal").len();
        let wanted = before + 1 + chance.below(40);
        while journal.lock().expect("journal").len() < wanted {
            std::thread::yield_now();
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        submitters.into_iter().for_each(|submitter| submitter.join().expect("a submitter"));
        let (is_whole, said) = server.verify();
        assert!(is_whole, "seed {seed}, round {round}: {said}");
        server.start_again();
        if chance.below(10) == 0 {
            server.crash();
        }
    }
    check(&server.client(), &journal, seed);
}

fn config() -> String {
    // More interruptions than rounds may cost one job: it is the kills that are tested, not the patience.
    TRIAL.replace("retry = {", "retry = { max_interruptions = 1000,")
}

/// Submits as fast as it is answered, until told to stop or cut off; notes what was acknowledged.
fn submit(client: &Client, journal: &Journal, stop: &AtomicBool, name: &str) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{name}-{n}");
        let payload = json!({"do": "fail", "times": n % 2});
        let job = json!({"type": "trial", "payload": payload, "idempotencyKey": key});
        let Ok(answer) = client.try_post("/api/jobs", &job) else { return };
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = answer.json()["id"].as_str().expect("an id").to_owned();
        journal.lock().expect("journal").insert(key, id);
    }
}

fn check(client: &Client, journal: &Journal, seed: u64) {
    let journal = journal.lock().expect("journal");
    for (key, id) in journal.iter() {
        let job = client.ended(id);
        assert_eq!(job["status"], "completed", "seed {seed}, key {key}: {job}");
        assert_eq!(job["idempotencyKey"], **key);
    }
    let log = client.pages("/api/events", None);
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for event in &log {
        if matches!(event["type"].as_str(), Some("job.completed" | "job.failed" | "job.canceled")) {
            *ends.entry(event["job_id"].as_str().expect("a job")).or_default() += 1;
        }
    }
    assert!(ends.values().all(|count| *count == 1), "seed {seed}: a job ended twice");
    println!("{} acknowledged jobs, {} events", journal.len(), log.len());
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A small generator (xorshift): reproducible by its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> usize {
        self.0 = self.0.max(1);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n).expect("small")
    }
}
