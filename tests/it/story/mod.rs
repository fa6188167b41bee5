//! What a client was told, to be compared with what a server says after a crash.
//!
//! In: each answer and each event, as it came. Out: the story so far, or a contradiction in it. Whatever was asked and not
//! answered is noted too: it may have happened or not, but not twice and not by half.

pub mod driver;
pub mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// A story that several clients write at once.
#[derive(Clone, Default)]
pub struct Shared(Arc<(Mutex<Story>, Condvar)>);

impl Shared {
    /// The story, to read or to write.
    pub fn open(&self) -> Open<'_> {
        let (story, changed) = &*self.0;
        Open { story: story.lock().unwrap_or_else(PoisonError::into_inner), changed }
    }

    /// Waits until the story has come to something.
    pub fn wait_until(&self, has_come: impl Fn(&Story) -> bool) {
        let (story, changed) = &*self.0;
        let story = story.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(story, |story| !has_come(story)).unwrap_or_else(PoisonError::into_inner));
    }
}

/// The story while somebody reads or writes it; who waits for it looks again afterwards.
pub struct Open<'a> {
    story: MutexGuard<'a, Story>,
    changed: &'a Condvar,
}

impl Deref for Open<'_> {
    type Target = Story;

    fn deref(&self) -> &Story {
        &self.story
    }
}

impl DerefMut for Open<'_> {
    fn deref_mut(&mut self) -> &mut Story {
        &mut self.story
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.changed.notify_all();
    }
}

/// A job that was asked for.
#[derive(Clone)]
pub struct Submit {
    /// Its arguments.
    pub payload: Value,
    /// Its id, once that was told.
    pub id: Option<String>,
}

/// See the head of this file.
#[derive(Clone, Default)]
pub struct Story {
    /// Jobs that were asked for, by idempotency key.
    pub submits: BTreeMap<String, Submit>,
    /// Jobs that were made from dead letters, by the dead letter; `None`: asked for, not answered.
    pub replays: BTreeMap<String, Option<String>>,
    /// Receipts of cancels that were told, by job.
    pub receipts: BTreeMap<String, Value>,
    /// Answers that were taken: job and key.
    pub given: BTreeSet<(String, String)>,
    /// How jobs ended, by job.
    pub ends: BTreeMap<String, Value>,
    /// Every event that was ever seen, by position: its job, and the event as it came.
    pub events: BTreeMap<u64, (String, String)>,
    /// The epoch of all of them.
    pub epoch: Option<String>,
    /// The positions that a reader of the whole log got without a break, per reader.
    pub readings: Vec<Vec<u64>>,
    /// What readers were told of gaps.
    pub resets: Vec<Value>,
    /// MCP sessions that were opened.
    pub sessions: BTreeSet<String>,
    /// What contradicts what was told before.
    pub lies: Vec<String>,
    /// How many answers were told.
    pub answers: u64,
    /// How many clients have found the server gone.
    pub left: usize,
}

impl Story {
    /// Every job whose id was told.
    pub fn jobs(&self) -> impl Iterator<Item = &String> {
        self.submits.values().filter_map(|submit| submit.id.as_ref()).chain(self.replays.values().flatten())
    }

    /// A job is going to be asked for.
    pub fn asks(&mut self, key: &str, payload: &Value) {
        self.submits.entry(key.to_owned()).or_insert_with(|| Submit { payload: payload.clone(), id: None });
    }

    /// The job of this key was told.
    pub fn told_job(&mut self, key: &str, id: &str) {
        self.answers += 1;
        let known = self.submits.get_mut(key).expect("it was asked for").id.replace(id.to_owned());
        if known.as_ref().is_some_and(|known| known != id) {
            self.lies.push(format!("key {key} named {known:?} and now {id}"));
        }
    }

    /// A job was shown: its receipt and its end are kept.
    pub fn told_state(&mut self, job: &Value) {
        self.answers += 1;
        let id = text(job, "id");
        if job["cancel"].is_object() {
            let told = receipt(job);
            let known = self.receipts.entry(id.clone()).or_insert_with(|| told.clone());
            if *known != told {
                self.lies.push(format!("the receipt of {id} was {known} and now {told}"));
            }
        }
        if is_over(job) {
            let told = end(job);
            let known = self.ends.entry(id.clone()).or_insert_with(|| told.clone());
            if *known != told {
                self.lies.push(format!("{id} had ended as {known} and now as {told}"));
            }
        }
    }

    /// An event was read. Returns its position.
    pub fn saw(&mut self, event: &Value) -> u64 {
        let id = text(event, "event_id");
        let (epoch, position) = id.split_once('-').expect("epoch and position");
        let position = position.parse().expect("a position");
        if self.epoch.get_or_insert_with(|| epoch.to_owned()) != epoch {
            self.lies.push(format!("{id} is of another log"));
        }
        let (job, told) = (text(event, "job_id"), event.to_string());
        let (_, known) = self.events.entry(position).or_insert_with(|| (job, told.clone()));
        if *known != told {
            self.lies.push(format!("{id} was {known} and now {told}"));
        }
        position
    }

    /// The cursor of somebody who has read as far as anybody has.
    pub fn cursor(&self) -> String {
        match (&self.epoch, self.events.keys().next_back()) {
            (Some(epoch), Some(position)) => format!("{epoch}-{position}"),
            (_, _) => "earliest".to_owned(),
        }
    }
}

/// A field that is text.
pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}")).to_owned()
}

/// Whether a job has ended.
pub fn is_over(job: &Value) -> bool {
    matches!(job["status"].as_str(), Some("completed" | "failed" | "canceled"))
}

/// The status that an event ends its job with, if it does.
pub fn ending(event: &str) -> Option<&'static str> {
    let event: Value = serde_json::from_str(event).expect("it was JSON");
    match event["type"].as_str() {
        Some("job.completed") => Some("completed"),
        Some("job.failed") => Some("failed"),
        Some("job.canceled") => Some("canceled"),
        _ => None,
    }
}

/// What never changes of a cancel.
fn receipt(job: &Value) -> Value {
    let receipt = &job["cancel"];
    json!([receipt["requestedAt"], receipt["requestedBy"], receipt["reason"]])
}

/// What never changes of an ended job.
fn end(job: &Value) -> Value {
    let fields = ["status", "createdAt", "startedAt", "finishedAt", "attempts", "error", "resultSummary", "cancel"];
    fields.into_iter().map(|field| (field.to_owned(), job[field].clone())).collect::<serde_json::Map<_, _>>().into()
}
