//! A store with some of everything in it, made by the real binary over two starts and left by a kill; and all that clients
//! were told of it.
//!
//! In: nothing. Out: the directory, made once for all tests, and a comparison of what a server says now with what it said
//! then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::served::{self, End, Served, Start};
use crate::support::Client;

/// No workers: what is there stays as it is. Nothing is thrown away.
pub const STILL: &str = r#"
[queue]
workers = 0
[tools.trial]
description = "does what its payload says"
run = { kind = "trial" }
retry = { max_attempts = 2, base_delay = "10ms" }
"#;

/// What clients were told.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Each job as JSON, by id.
    pub jobs: BTreeMap<String, Value>,
    /// The results that have a URL of their own, by job.
    pub results: BTreeMap<String, String>,
    /// The log: each event without its epoch.
    pub events: Vec<Value>,
}

/// The store, as a kill left it.
pub struct Base {
    place: tempfile::TempDir,
    /// What was told of it.
    pub told: Told,
    /// A job whose result is in a file of its own.
    pub large: String,
}

/// The store that all tests share; each works on a copy.
pub fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(make)
}

impl Base {
    /// A copy of it, to be damaged: the folder that holds `data`.
    pub fn copy(&self) -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a temporary directory");
        served::copy(self.place.path(), place.path());
        place
    }
}

/// The store within a place.
pub fn store(place: &Path) -> PathBuf {
    place.join("data").join("store")
}

/// Starts a server that must serve.
pub fn serve(place: &Path) -> Served {
    match served::start(place) {
        Start::Serves(served) => served,
        Start::Ended(End { code, said }) => panic!("it ended with {code:?}: {said}"),
    }
}

fn make() -> Base {
    let place = tempfile::tempdir().expect("a temporary directory");
    let config = place.path().join("longhaul.toml");
    let mut ids = Vec::new();
    for round in 0..2 {
        fs::write(&config, STILL.replace("workers = 0", "workers = 8")).expect("written");
        let served = serve(place.path());
        ids.extend(submit_some(&served.client, round));
        assert_eq!(served.end().code, Some(0));
    }
    fs::write(&config, STILL).expect("written");
    let served = serve(place.path());
    let large = ids[2].clone();
    // A few that only the last start knows of.
    ids.extend((0..30).map(|n| served.client.submit(json!({"do": "noop", "n": n, "text": "t".repeat(n * 600)}))));
    let told = Told::by(&served.client, &ids).expect("it answers");
    drop(served);
    Base { place, told, large }
}

/// Jobs of each kind; waits until those that run have ended.
fn submit_some(client: &Client, round: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..12 {
        let trial = |payload: Value| json!({"type": "trial", "payload": payload});
        let ended = [
            trial(json!({"do": "noop"})),
            trial(json!({"do": "echo", "text": "small ", "bytes": 100 + 3_000 * n})),
            trial(json!({"do": "echo", "text": "large ", "bytes": 150_000 + n})),
            trial(json!({"do": "progress", "steps": 5 + n})),
            trial(json!({"do": "fail", "times": 9, "class": "permanent"})),
            trial(json!({"do": "partial", "data": {"list": [1, 2, 3]}})),
            json!({"type": "trial", "payload": {"do": "noop"}, "idempotencyKey": format!("key {round} {n}").replace(' ', "-"),
                "tags": ["a tag", "another"]}),
        ];
        let made: Vec<String> = ended.into_iter().map(|job| client.submit_job(job)).collect();
        made.iter().for_each(|id| drop(client.ended(id)));
        ids.extend(made);
        let text = "y".repeat(40_000);
        ids.push(
            client.submit_job(json!({"type": "trial", "payload": {"do": "noop", "text": text}, "delayMs": 86_400_000})),
        );
    }
    ids
}

impl Told {
    /// All that the server says of these jobs; or its first answer that is no 200, or none.
    pub fn by(client: &Client, ids: &[String]) -> Result<Self, String> {
        let get = |path: &str| -> Result<crate::support::Answer, String> {
            let answer = client.get_with(path, &[("accept", "application/json")]).map_err(|why| why.to_string())?;
            if answer.status == 200 { Ok(answer) } else { Err(format!("{path}: {} {}", answer.status, answer.text)) }
        };
        let mut told = Self { jobs: BTreeMap::new(), results: BTreeMap::new(), events: Vec::new() };
        for id in ids {
            let job = get(&format!("/api/jobs/{id}"))?.json();
            if job["status"] == "completed" {
                told.results.insert(id.clone(), get(&format!("/api/jobs/{id}/result"))?.text);
            }
            told.jobs.insert(id.clone(), job);
        }
        let mut cursor = String::from("earliest");
        loop {
            let page = get(&format!("/api/events?last_event_id={cursor}"))?.json();
            told.events.extend(page["events"].as_array().into_iter().flatten().map(without_epoch));
            cursor = page["cursor"].as_str().ok_or("a page without a cursor")?.to_owned();
            if page["hasMore"] != true {
                return Ok(told);
            }
        }
    }

    /// What is different now; `None` if nothing is.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if let Some((id, job)) = self.jobs.iter().find(|(id, job)| now.jobs.get(*id) != Some(job)) {
            return Some(format!("job {id} was {job} and is {:?}", now.jobs.get(id)));
        }
        if let Some((id, _)) = self.results.iter().find(|(id, result)| now.results.get(*id) != Some(result)) {
            return Some(format!("the result of job {id} is another one"));
        }
        let same = self.events.iter().zip(&now.events).take_while(|(was, is)| was == is).count();
        let now = now.events.len();
        (same < self.events.len() || now > same)
            .then(|| format!("{same} events of {} and {now} are the same", self.events.len()))
    }

    /// The ids of all jobs.
    pub fn ids(&self) -> Vec<String> {
        self.jobs.keys().cloned().collect()
    }
}

fn without_epoch(event: &Value) -> Value {
    let mut event = event.clone();
    let position = event["event_id"].as_str().and_then(|id| id.split('-').nth(1)).map(str::to_owned);
    event["event_id"] = position.into();
    event
}

/// What became of a damaged store.
#[derive(Debug, PartialEq, Eq, Clone, Copy, PartialOrd, Ord)]
pub enum Outcome {
    /// It serves all that was acknowledged, and `verify` accepts it.
    Whole,
    /// It does not start: one message, exit code 6.
    Refused,
    /// It starts, and ends with exit code 6 once the damage is read; nothing wrong was served.
    EndedAtRead,
    /// It serves all that clients were told; what is damaged was not read for that, and `verify` names it.
    WholeSoFar,
    /// It serves all but one body, which is a 500.
    AllButABody,
}

/// Starts the server on the place and looks at all it says; also what it logged.
pub fn outcome(place: &Path, told: &Told) -> Result<(Outcome, String), String> {
    let served = match served::start(place) {
        Start::Serves(served) => served,
        Start::Ended(end) => return Ok((refused(&end, 6)?, end.said)),
    };
    let now = Told::by(&served.client, &told.ids());
    match now {
        Ok(now) => {
            let end = served.end();
            if !end.is_decent() || end.code != Some(0) {
                return Err(format!("it served, and ended badly: {end:?}"));
            }
            if let Some(difference) = told.difference(&now) {
                return Err(format!("wrong data served: {difference}"));
            }
            let verified = served::verify(place);
            let is_unread = verified.said.contains("sled reports corruption") && verified.is_decent();
            match verified.code {
                Some(0) => Ok((Outcome::Whole, end.said)),
                Some(6) if is_unread => Ok((Outcome::WholeSoFar, end.said)),
                _ => Err(format!("verify: {verified:?}")),
            }
        }
        Err(why) if why.contains("\"damaged\"") => {
            let end = served.end();
            let verified = served::verify(place);
            let is_named = end.code == Some(0) && verified.code == Some(6) && verified.is_decent();
            if is_named { Ok((Outcome::AllButABody, end.said)) } else { Err(format!("{why}: {end:?}, {verified:?}")) }
        }
        Err(why) => {
            let end = served.wait();
            let verified = served::verify(place);
            let is_said = end.said.contains("longhaul verify") && end.code == Some(6) && end.is_decent();
            match is_said && verified.code == Some(6) && verified.is_decent() {
                true => Ok((Outcome::EndedAtRead, end.said)),
                false => Err(format!("{why}: {end:?}; verify: {verified:?}")),
            }
        }
    }
}

/// The server has not started: one line of complaint that says what to do, and this code.
pub fn refused(end: &End, code: i32) -> Result<Outcome, String> {
    let complaints = end.said.lines().filter(|line| line.starts_with("longhaul: ")).count();
    let has_remedy =
        ["backup", "data directory", "longhaul that wrote it"].iter().any(|remedy| end.said.contains(remedy));
    match end.code == Some(code) && end.is_decent() && complaints == 1 && has_remedy {
        true => Ok(Outcome::Refused),
        false => Err(format!("it ended without serving, and not as it should: {end:?}")),
    }
}
