//! Clients that use everything the store has a place for, and note what they are told.
//!
//! In: a server. Out: facts, each with its place in what the server gave. Ends with the server, or after so many jobs.

use std::io;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::chance::Chance;
use super::wire::{Place, Ports, Wire};

/// Something that a client was told, and that must be true for ever.
#[derive(Debug, Clone)]
pub enum Known {
    /// A job exists: as it was submitted, and as it was answered.
    Job {
        /// Its id.
        id: String,
        /// Its payload.
        payload: Value,
        /// Its idempotency key.
        key: Option<String>,
        /// The dead letter that it was made from.
        replay_of: Option<String>,
    },
    /// An event happened.
    Event(Value),
    /// A job has ended, as the answer shows it.
    Ended(Value),
    /// A cancel was accepted.
    Canceling(String),
}

/// Longest wait for the next fact: a bound, not a measure.
const FACT_MAX: Duration = Duration::from_secs(120);

/// What all clients of one recording know.
#[derive(Default)]
pub struct Journal {
    known: Mutex<Vec<(Place, Known)>>,
    grown: Condvar,
}

impl Journal {
    fn add(&self, place: Place, known: Known) {
        self.known.lock().expect("the journal").push((place, known));
        self.grown.notify_all();
    }

    /// How many facts there are.
    pub fn len(&self) -> usize {
        self.known.lock().expect("the journal").len()
    }

    /// Waits until there are so many.
    pub fn wait_for(&self, count: usize) {
        let mut known = self.known.lock().expect("the journal");
        while known.len() < count {
            let (more, waited) = self.grown.wait_timeout(known, FACT_MAX).expect("the journal");
            assert!(!waited.timed_out(), "nobody learns anything any more");
            known = more;
        }
    }

    /// All of them.
    pub fn take(&self) -> Vec<(Place, Known)> {
        std::mem::take(&mut self.known.lock().expect("the journal"))
    }
}

/// One client of a server.
pub struct Client<'a> {
    wire: Wire,
    journal: &'a Journal,
    chance: Chance,
    name: String,
}

/// Whether what a client does has an end of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So many jobs.
    Jobs(usize),
    /// The server is gone.
    Gone,
}

impl<'a> Client<'a> {
    /// Connects. The name makes its idempotency keys its own.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(address: &str, ports: &Ports, journal: &'a Journal, chance: Chance, name: &str) -> io::Result<Self> {
        Ok(Self { wire: Wire::connect(address, ports)?, journal, chance, name: name.to_owned() })
    }

    /// Submits jobs of all kinds and sees to them.
    pub fn work(&mut self, until: Until) {
        for number in 0.. {
            if until == Until::Jobs(number) {
                return;
            }
            let done = self.job(number);
            if until == Until::Gone && done.is_err() {
                return;
            }
            done.expect("the server answers");
        }
    }

    /// Reads the feed from the beginning until it ends.
    pub fn read(&mut self) {
        if self.wire.follow("/api/events", "earliest").is_ok() {
            while let Ok((event, place)) = self.wire.event() {
                self.journal.add(place, Known::Event(event));
            }
        }
    }

    /// Submits small jobs until the server is gone, or there are very many.
    pub fn submit_small(&mut self) {
        let mut numbers = 0..60;
        while numbers.next().is_some_and(|number| self.submit(number, &json!({"do": "noop"})).is_ok()) {}
    }

    /// Reads all events there are.
    pub fn look(&mut self) {
        let mut path = "/api/events?limit=1000".to_owned();
        loop {
            let page = self.wire.get(&path).expect("the server answers");
            for event in page.body["events"].as_array().into_iter().flatten() {
                self.journal.add(page.place, Known::Event(event.clone()));
            }
            if page.body["hasMore"] != true {
                return;
            }
            path = format!("/api/events?limit=1000&last_event_id={}", text(&page.body, "cursor"));
        }
    }

    fn job(&mut self, number: usize) -> io::Result<()> {
        let large = || "large ".repeat(15_000 + number);
        // Below 64 KiB it lies within the data file, and makes that grow past sled's segments.
        let medium = || "medium ".repeat(3_000 + 1_000 * (number % 6));
        match self.chance.below(14) {
            0 => self.submit(number, &json!({"do": "noop"})).map(drop),
            1 => self.run(number, &json!({"do": "echo", "text": format!("small {number}")})),
            2 => self.run(number, &json!({"do": "echo", "text": format!("{number} "), "bytes": 70_000 + number})),
            3 => self.run(number, &json!({"do": "echo", "text": large()})),
            4 => self.submit(number, &json!({"do": "noop", "filler": large()})).map(drop),
            5 => self.run(number, &json!({"do": "fail", "times": 1})),
            6 => self.replay(number),
            7 => self.cancel(number),
            8 => self.run(number, &json!({"do": "progress", "steps": 1 + number % 5})),
            9 | 10 => self.submit(number, &json!({"do": "noop", "filler": medium()})).map(drop),
            11 => self.run(number, &json!({"do": "echo", "text": medium()})),
            12 => self.run(number, &json!({"do": "echo", "text": "m", "bytes": 8_000 + 6_000 * (number % 10)})),
            _ => self.submit(number, &json!({"do": "partial", "data": {"parts": vec![number; 200]}})).map(drop),
        }
    }

    /// Submits a job, every second one with a key.
    pub fn submit(&mut self, number: usize, payload: &Value) -> io::Result<String> {
        let key = (number.is_multiple_of(2)).then(|| format!("{}-{number}", self.name));
        let mut wish = json!({"type": "trial", "payload": payload});
        if let Some(key) = &key {
            wish["idempotencyKey"] = json!(key);
        }
        let answer = self.wire.post("/api/jobs", &wish)?;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let id = text(&answer.body, "id");
        self.journal.add(answer.place, Known::Job { id: id.clone(), payload: payload.clone(), key, replay_of: None });
        Ok(id)
    }

    /// Waits for the end of a job; the job.
    fn end(&mut self, id: &str) -> io::Result<()> {
        loop {
            let answer = self.wire.get(&format!("/api/jobs/{id}?wait=30s&inline=true"))?;
            if answer.status == 404 {
                // Trimmed already.
                return Ok(());
            }
            if matches!(answer.body["status"].as_str(), Some("completed" | "failed" | "canceled")) {
                self.journal.add(answer.place, Known::Ended(answer.body));
                return Ok(());
            }
        }
    }

    fn run(&mut self, number: usize, payload: &Value) -> io::Result<()> {
        let id = self.submit(number, payload)?;
        self.end(&id)
    }

    /// Lets a job fail, and makes a new one from it.
    fn replay(&mut self, number: usize) -> io::Result<()> {
        let payload = json!({"do": "fail", "times": 9, "class": "permanent"});
        let id = self.submit(number, &payload)?;
        self.end(&id)?;
        let answer = self.wire.post(&format!("/api/jobs/{id}/retry"), &json!({}))?;
        if answer.status == 201 {
            let new = text(&answer.body, "id");
            self.journal.add(answer.place, Known::Job { id: new, payload, key: None, replay_of: Some(id) });
        }
        Ok(())
    }

    fn cancel(&mut self, number: usize) -> io::Result<()> {
        let id = self.submit(number, &json!({"do": "sleep", "ms": 600_000}))?;
        let answer = self.wire.post(&format!("/api/jobs/{id}/cancel"), &json!({"reason": "not wanted"}))?;
        assert!(matches!(answer.status, 200 | 202), "{}", answer.body);
        self.journal.add(answer.place, Known::Canceling(id.clone()));
        self.end(&id)
    }
}

/// A field that is a string.
pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}
