//! Opens what a power cut left with the real binary, and holds it against what clients had been told before.
//!
//! In: an image, and facts. Out: nothing, or each promise that is broken.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::process::{Process, Start, verify};
use super::wire::{Ports, Wire};
use super::workload::{Known, text};

/// What an image is asked.
pub struct Question<'a> {
    /// The image.
    pub image: &'a Path,
    /// A configuration under which nothing runs and nothing is removed.
    pub config: &'a Path,
    /// What clients knew at the cut.
    pub facts: Vec<&'a Known>,
    /// How many ended jobs were kept where old ones were removed; `None` if none were.
    pub kept: Option<usize>,
    /// Whether `verify` opens it first, and not `serve`.
    pub verify_first: bool,
    /// Whether it goes on and is ended in order, or only looked at and killed.
    pub goes_on: bool,
}

/// A store as its server shows it.
struct Shown {
    wire: Wire,
    jobs: HashMap<String, Value>,
    events: HashMap<String, Value>,
}

/// Everything that is wrong.
pub fn judge(question: &Question<'_>) -> Vec<String> {
    let data_dir = question.image.join("data");
    let mut wrong = Vec::new();
    // Before the first name of the store is safe there may be none, and `verify` makes none.
    if question.verify_first && data_dir.join("store").is_dir() {
        wrong.extend(verify(&data_dir).err());
    }
    let start = Start { config: question.config, data_dir: data_dir.clone(), environment: Vec::new() };
    let process = match Process::start(&start) {
        Ok(process) => process,
        Err(said) => {
            wrong.push(format!("refused: {said}"));
            return wrong;
        }
    };
    if let Err(why) = look(question, &process.address, &mut wrong) {
        wrong.push(format!("it does not answer: {why}"));
    }
    if question.goes_on {
        let (status, said) = process.stop();
        if !status.success() {
            wrong.push(format!("its end: {status}: {said}"));
        }
    } else {
        process.kill();
    }
    wrong.extend(verify(&data_dir).err());
    wrong
}

fn look(question: &Question<'_>, address: &str, wrong: &mut Vec<String>) -> io::Result<()> {
    let mut wire = Wire::connect(address, &Ports::default())?;
    let jobs = jobs(&mut wire)?;
    let events = events(&mut wire, "/api/events", "")?;
    let mut shown = Shown { wire, jobs, events };
    for fact in &question.facts {
        if let Some(why) = shown.contradicts(fact, question.kept)? {
            wrong.push(why);
        }
    }
    if question.goes_on {
        shown.go_on(question, wrong)?;
    }
    Ok(())
}

fn jobs(wire: &mut Wire) -> io::Result<HashMap<String, Value>> {
    let mut jobs = HashMap::new();
    let mut cursor = String::new();
    loop {
        let page = wire.get(&format!("/api/jobs?limit=1000{cursor}"))?.body;
        for job in page["jobs"].as_array().into_iter().flatten() {
            jobs.insert(text(job, "id"), job.clone());
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(jobs),
        }
    }
}

/// All events of a path, after a cursor if there is one.
fn events(wire: &mut Wire, path: &str, after: &str) -> io::Result<HashMap<String, Value>> {
    let mut events = HashMap::new();
    let mut cursor = after.to_owned();
    loop {
        let query = if cursor.is_empty() { String::new() } else { format!("&last_event_id={cursor}") };
        let page = wire.get(&format!("{path}?limit=1000{query}"))?.body;
        for event in page["events"].as_array().into_iter().flatten() {
            events.insert(text(event, "event_id"), event.clone());
        }
        if page["hasMore"] != true {
            return Ok(events);
        }
        cursor = text(&page, "cursor");
    }
}

impl Shown {
    /// Why the store is not as this fact says; `None` if it is.
    fn contradicts(&mut self, fact: &Known, kept: Option<usize>) -> io::Result<Option<String>> {
        let id = match fact {
            Known::Job { id, .. } | Known::Canceling(id) => id.clone(),
            Known::Event(event) => text(event, "job_id"),
            Known::Ended(job) => text(job, "id"),
        };
        let Some(line) = self.jobs.get(&id).cloned() else { return Ok(self.explain_absence(&id, fact, kept)) };
        Ok(match fact {
            Known::Event(event) => self.event(event, &id)?,
            Known::Canceling(_) => (line["cancel"].is_null() && !has_ended(&line))
                .then(|| format!("job {id}: its cancel is forgotten: {line}")),
            Known::Job { payload, key, replay_of, .. } => {
                let job = self.wire.get(&format!("/api/jobs/{id}?inline=true"))?.body;
                let of = replay_of.as_ref().and_then(|of| self.jobs.get(of));
                let link = of.is_none_or(|of| of["replayedAs"] == *id) && job["replayOf"] == json!(replay_of);
                (job["payload"] != *payload || job["idempotencyKey"] != json!(key) || !link)
                    .then(|| format!("job {id} is not what was submitted: {job}, replay of {of:?}"))
            }
            Known::Ended(told) => {
                let job = self.wire.get(&format!("/api/jobs/{id}?inline=true"))?.body;
                let names = ["status", "result", "resultSummary", "error", "attempts", "finishedAt"];
                let name = names.iter().find(|name| job[**name] != told[**name]);
                name.map(|name| format!("job {id} had ended, and its {name} is {}, not {}", job[*name], told[*name]))
            }
        })
    }

    fn event(&mut self, event: &Value, id: &str) -> io::Result<Option<String>> {
        let name = text(event, "event_id");
        if !self.events.contains_key(&name) {
            // Below the floor only the job's own stream has it.
            let own = events(&mut self.wire, &format!("/api/jobs/{id}/events"), "")?;
            self.events.extend(own);
        }
        Ok(match self.events.get(&name) {
            Some(found) if found == event => None,
            Some(found) => Some(format!("event {name} was {event} and is {found}")),
            None => Some(format!("event {name} is lost: {event}")),
        })
    }

    /// A job may be gone only if it had ended, and so many that ended are still there.
    fn explain_absence(&self, id: &str, fact: &Known, kept: Option<usize>) -> Option<String> {
        let ended = self.jobs.values().filter(|job| has_ended(job)).count();
        let leaves = self.events.values().any(|event| event["job_id"] == id);
        match kept {
            Some(kept) if ended >= kept && !leaves => None,
            Some(_) | None => Some(format!("job {id} is lost ({ended} ended ones are there): {fact:?}")),
        }
    }

    /// New work after the cut: nothing is issued twice, keys still hold.
    fn go_on(&mut self, question: &Question<'_>, wrong: &mut Vec<String>) -> io::Result<()> {
        let known: BTreeMap<u64, &str> = question
            .facts
            .iter()
            .filter_map(|fact| match fact {
                Known::Event(event) => event["event_id"].as_str(),
                Known::Job { .. } | Known::Ended(_) | Known::Canceling(_) => None,
            })
            .filter_map(|id| Some((id.split_once('-')?.1.parse().ok()?, id)))
            .collect();
        let keyed = question.facts.iter().rev().find_map(|fact| match fact {
            Known::Job { id, payload, key: Some(key), .. } if self.jobs.contains_key(id) => Some((id, payload, key)),
            Known::Job { .. } | Known::Event(_) | Known::Ended(_) | Known::Canceling(_) => None,
        });
        if let Some((id, payload, key)) = keyed {
            let wish = json!({"type": "trial", "payload": payload, "idempotencyKey": key});
            let answer = self.wire.post("/api/jobs", &wish)?;
            if answer.status != 200 || answer.body["id"] != *id.as_str() {
                wrong.push(format!("key {key} no longer names job {id}: {} {}", answer.status, answer.body));
            }
        }
        let made = self.wire.post("/api/jobs", &json!({"type": "trial", "payload": {"do": "noop"}}))?;
        if made.status != 201 {
            wrong.push(format!("no new job after the cut: {} {}", made.status, made.body));
            return Ok(());
        }
        let id = text(&made.body, "id");
        self.wire.post(&format!("/api/jobs/{id}/cancel"), &json!({}))?;
        let new = events(&mut self.wire, &format!("/api/jobs/{id}/events"), "")?;
        let positions: Vec<u64> =
            new.keys().filter_map(|id| id.split_once('-').and_then(|(_, position)| position.parse().ok())).collect();
        if positions.len() != 2 {
            wrong.push(format!("a new job has the events {new:?}"));
        }
        if let (Some(first), Some((last, id))) = (positions.iter().min(), known.last_key_value())
            && first <= last
        {
            wrong.push(format!("position {first} was issued again: {id} had been seen"));
        }
        Ok(())
    }
}

fn has_ended(job: &Value) -> bool {
    matches!(job["status"].as_str(), Some("completed" | "failed" | "canceled"))
}
