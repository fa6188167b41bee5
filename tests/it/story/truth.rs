//! Whether a story is still true.
//!
//! In: a server that has come back, and what its clients were told before. Out: nothing, or the first thing that is not
//! so. What was asked and not answered is asked again, as a client would. Panics over nothing that a server may say.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use super::driver::{Driver, ENDLESS_MS, Way};
use super::{Story, ending, is_over, text};
use crate::support::Client;

/// What may have been removed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: retention is far away.
    All,
    /// Ended jobs whose end the client knows.
    NotAll,
}

/// What a server says of all its jobs and all its log.
struct Said {
    jobs: HashMap<String, Value>,
    log: BTreeMap<u64, String>,
    floor: u64,
}

/// Compares while jobs still run.
pub fn compare(driver: &Driver, kept: Kept) -> Result<(), String> {
    ask_again(driver)?;
    let said = listen(driver)?;
    let story = driver.story.open();
    no_lies(&story)?;
    if let (Kept::All, Some(reset)) = (kept, story.resets.first()) {
        return Err(format!("nothing was removed, and a reader was told {reset}"));
    }
    jobs_are_there(&story, &said, kept)?;
    answers_are_there(&driver.client, &story)?;
    replays_are_linked(&story, &said)?;
    events_are_there(driver, &story, &said, kept)?;
    readings_are_whole(&story, &said)?;
    one_end_each(&story)
}

/// Waits for every job to end, and compares again: now each has exactly one end, and the one that it should have.
pub fn settle(driver: &Driver, kept: Kept) -> Result<(), String> {
    ask_again(driver)?;
    for id in listen(driver)?.jobs.into_values().filter(|job| !is_over(job)).map(|job| text(&job, "id")) {
        driver.answer_all(&id).map_err(|gone| format!("{gone:?} while the questions of {id} were answered"))?;
        driver.wait(&id).map_err(|gone| format!("{gone:?} while {id} was waited for"))?;
    }
    compare(driver, kept)?;
    let said = listen(driver)?;
    let story = driver.story.open();
    let mut ends: HashMap<&str, &str> = HashMap::new();
    ends.extend(story.events.values().filter_map(|(job, event)| Some((job.as_str(), ending(event)?))));
    for (id, job) in &said.jobs {
        if Some(&job["status"]) != ends.get(id.as_str()).map(|end| json!(end)).as_ref() {
            return Err(format!("the log ends {id} as {:?}, and it is {job}", ends.get(id.as_str())));
        }
    }
    for submit in story.submits.values() {
        let job = submit.id.as_ref().and_then(|id| said.jobs.get(id));
        job.map_or(Ok(()), |job| as_it_should_be(&driver.client, &submit.payload, job))?;
    }
    for session in &story.sessions {
        ping(&driver.client, session)?;
    }
    Ok(())
}

fn no_lies(story: &Story) -> Result<(), String> {
    story.lies.first().map_or(Ok(()), |lie| Err(lie.clone()))
}

/// Repeats what was not answered, and cancels what would never end.
fn ask_again(driver: &Driver) -> Result<(), String> {
    let unanswered: Vec<(String, Value)> = {
        let story = driver.story.open();
        let open = story.submits.iter().filter(|(_, submit)| submit.id.is_none());
        open.map(|(key, submit)| (key.clone(), submit.payload.clone())).collect()
    };
    for (key, payload) in unanswered {
        for _ in 0..2 {
            driver
                .submit(&key, &payload, &Way::Http)
                .map_err(|gone| format!("{gone:?} when {key} was asked for again"))?;
        }
    }
    let endless: Vec<String> = {
        let story = driver.story.open();
        let is_endless = |payload: &Value| payload["ms"] == ENDLESS_MS;
        let submits = story.submits.values().filter(|submit| is_endless(&submit.payload));
        submits.filter_map(|submit| submit.id.clone()).filter(|id| !story.receipts.contains_key(id)).collect()
    };
    for id in endless {
        driver.cancel(&id, &Way::Http).map_err(|gone| format!("{gone:?} when {id} was canceled again"))?;
    }
    Ok(())
}

fn get(client: &Client, path: &str) -> Result<Value, String> {
    let answer = client.get_with(path, &[("accept", "application/json")]).map_err(|why| format!("{path}: {why}"))?;
    if answer.status == 200 { Ok(answer.json()) } else { Err(format!("{path}: {answer:?}")) }
}

/// Asks for everything. Whatever is said becomes part of the story.
fn listen(driver: &Driver) -> Result<Said, String> {
    let mut said = Said { jobs: HashMap::new(), log: BTreeMap::new(), floor: 1 };
    let mut cursor = String::new();
    loop {
        let page = get(&driver.client, &format!("/api/jobs?limit=1000{cursor}"))?;
        let mut story = driver.story.open();
        for job in page["jobs"].as_array().into_iter().flatten() {
            story.told_state(job);
            said.jobs.insert(text(job, "id"), job.clone());
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let beginning = driver.story.open().epoch.as_ref().map(|epoch| format!("&last_event_id={epoch}-0"));
    let mut after = beginning.unwrap_or_default();
    loop {
        let page = get(&driver.client, &format!("/api/events?limit=1000{after}"))?;
        let mut story = driver.story.open();
        if let Some(first) = page["reset"]["firstEventId"].as_str() {
            said.floor = first.split_once('-').and_then(|(_, position)| position.parse().ok()).unwrap_or(u64::MAX);
        }
        for event in page["events"].as_array().into_iter().flatten() {
            let position = story.saw(event);
            if said.log.last_key_value().is_some_and(|(last, _)| *last >= position) {
                return Err(format!("the log goes back to {event}"));
            }
            said.log.insert(position, event.to_string());
        }
        if page["hasMore"] != true {
            return Ok(said);
        }
        after = format!("&last_event_id={}", text(&page, "cursor"));
    }
}

/// Every job whose id was told is there, under its key, which is nobody else's; or it is gone as it may be.
fn jobs_are_there(story: &Story, said: &Said, kept: Kept) -> Result<(), String> {
    let mut keys = HashSet::new();
    for job in said.jobs.values() {
        if !job["idempotencyKey"].is_null() && !keys.insert(text(job, "idempotencyKey")) {
            return Err(format!("two jobs have the key of {job}"));
        }
    }
    for (key, submit) in &story.submits {
        let Some(id) = &submit.id else { return Err(format!("{key} is unanswered still")) };
        match said.jobs.get(id) {
            Some(job) if job["idempotencyKey"] != **key => return Err(format!("{key} became {job}")),
            Some(_) => {}
            None => may_be_gone(story, said, kept, id)?,
        }
    }
    for id in story.replays.values().flatten().filter(|id| !said.jobs.contains_key(*id)) {
        may_be_gone(story, said, kept, id)?;
    }
    for (id, receipt) in &story.receipts {
        if let Some(job) = said.jobs.get(id).filter(|job| is_over(job) && job["status"] != "canceled") {
            return Err(format!("{id} has the receipt {receipt}, and became {job}"));
        }
    }
    Ok(())
}

fn may_be_gone(story: &Story, said: &Said, kept: Kept, id: &str) -> Result<(), String> {
    let events = || story.events.iter().filter(|(_, (job, _))| job == id);
    let is_known = story.ends.contains_key(id) || events().any(|(_, (_, event))| ending(event).is_some());
    let is_below = events().all(|(position, _)| *position < said.floor);
    match kept {
        Kept::NotAll if is_known && is_below => Ok(()),
        Kept::NotAll => Err(format!("{id} is gone; its end is known: {is_known}; all below the floor: {is_below}")),
        Kept::All => Err(format!("{id} is lost")),
    }
}

/// A dead letter and what was made of it name each other, and nobody else does.
fn replays_are_linked(story: &Story, said: &Said) -> Result<(), String> {
    for job in said.jobs.values() {
        for (there, back) in [("replayedAs", "replayOf"), ("replayOf", "replayedAs")] {
            let Some(other) = job[there].as_str().and_then(|other| said.jobs.get(other)) else { continue };
            if other[back] != job["id"] {
                return Err(format!("{job} and {other} do not name each other"));
            }
        }
    }
    for (dead, new) in story.replays.iter().filter_map(|(dead, new)| Some((dead, new.as_ref()?))) {
        if said.jobs.get(dead).is_some_and(|job| job["replayedAs"] != **new) {
            return Err(format!("{dead} was replayed as {new}, and is {}", said.jobs[dead]));
        }
    }
    Ok(())
}

/// Every event that was seen is there. That it is the same one was noted when it came.
fn events_are_there(driver: &Driver, story: &Story, said: &Said, kept: Kept) -> Result<(), String> {
    let mut own: HashMap<&str, Vec<u64>> = HashMap::new();
    for (position, (job, event)) in &story.events {
        if *position >= said.floor && !said.log.contains_key(position) {
            return Err(format!("gone from the log, which is whole from {}: {event}", said.floor));
        }
        if *position < said.floor && said.jobs.contains_key(job) {
            own.entry(job).or_default().push(*position);
        }
    }
    for (job, seen) in own {
        let path = format!("/api/jobs/{job}/events?limit=1000");
        let page = match get(&driver.client, &path) {
            Err(_) if kept == Kept::NotAll && story.ends.contains_key(job) && !is_there(driver, job)? => continue,
            page => page?,
        };
        let there: HashSet<&str> =
            page["events"].as_array().into_iter().flatten().filter_map(|event| event["event_id"].as_str()).collect();
        let epoch = story.epoch.as_deref().unwrap_or_default();
        if let Some(position) = seen.iter().find(|position| !there.contains(&*format!("{epoch}-{position}"))) {
            return Err(format!("position {position} is gone from the events of {job}, which is kept"));
        }
    }
    Ok(())
}

/// Whether the job is still there: one whose end is known may have been removed since it was listed.
fn is_there(driver: &Driver, job: &str) -> Result<bool, String> {
    let path = format!("/api/jobs/{job}");
    let answer = driver.client.get_with(&path, &[("accept", "application/json")]).map_err(|why| why.to_string())?;
    Ok(answer.status != 404)
}

/// Nobody who read the log without a break was kept from anything in between.
fn readings_are_whole(story: &Story, said: &Said) -> Result<(), String> {
    for reading in &story.readings {
        let (Some(first), Some(last)) = (reading.first(), reading.last()) else { continue };
        let from = (*first).max(said.floor);
        if from > *last {
            continue;
        }
        let missed = said.log.range(from..=*last).find(|(position, _)| reading.binary_search(position).is_err());
        if let Some((_, event)) = missed {
            return Err(format!("a reader of {first} to {last} was never shown {event}"));
        }
    }
    Ok(())
}

/// An answer that was taken stays: another one to the same question is refused.
fn answers_are_there(client: &Client, story: &Story) -> Result<(), String> {
    for (id, key) in &story.given {
        let other = json!({"answers": {key.as_str(): {"action": "decline"}}});
        let answer = client.try_post(&format!("/api/jobs/{id}/input"), &other).map_err(|why| why.to_string())?;
        // A job that was forgotten was missed before, if it should be there.
        if !matches!(answer.status, 409 | 404) {
            return Err(format!("the answer to {key} of {id} is lost: {answer:?}"));
        }
    }
    Ok(())
}

/// No job has two ends, or anything after its end.
fn one_end_each(story: &Story) -> Result<(), String> {
    let mut over: HashMap<&str, &str> = HashMap::new();
    for (job, event) in story.events.values() {
        if let Some(end) = over.get(job.as_str()) {
            return Err(format!("{job} ended with {end}, and then came {event}"));
        }
        if ending(event).is_some() {
            over.insert(job, event);
        }
    }
    Ok(())
}

/// A job of these arguments that has ended is as it should be.
fn as_it_should_be(client: &Client, payload: &Value, job: &Value) -> Result<(), String> {
    let wanted = match payload["do"].as_str() {
        Some("sleep") if payload["ms"] == ENDLESS_MS => "canceled",
        Some("fail") if payload["class"] == "permanent" => "failed",
        _ => "completed",
    };
    if job["status"] != wanted {
        return Err(format!("{payload} should be {wanted}: {job}"));
    }
    if payload["do"] != "echo" && payload["do"] != "ask" {
        return Ok(());
    }
    let result = get(client, &format!("/api/jobs/{}/result", text(job, "id")))?;
    if payload["do"] == "ask" {
        let said: Vec<&Value> =
            result.as_array().into_iter().flatten().map(|answer| &answer["content"]["to"]).collect();
        return if said == ["a", "b"] { Ok(()) } else { Err(format!("the answers are others: {result}")) };
    }
    let bytes = payload["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
    let is_whole = result.as_str().is_some_and(|text| text.len() == bytes && text.starts_with("large"));
    if is_whole { Ok(()) } else { Err(format!("the result of {job} is another one")) }
}

/// A session that was opened is still there.
fn ping(client: &Client, session: &str) -> Result<(), String> {
    let fields = [("content-type", "application/json"), ("mcp-session-id", session)];
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    let answer = client.post_with("/mcp", &fields, message.as_bytes()).map_err(|why| why.to_string())?;
    if answer.status == 200 { Ok(()) } else { Err(format!("the session {session} is gone: {answer:?}")) }
}
