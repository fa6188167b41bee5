//! What a waiting answer says before it is over, as server-sent events: progress, log lines, requests to the client; and then itself.
//!
//! In: heads and messages. Out: events through an outlet, or nothing where the client takes no stream. Progress only for a token, echoed as
//! written, its numbers only rising (contract 3), also over a resume: they depend on the job and the time alone.

use std::time::Duration;

use super::reply::related_task;
use super::rpc;
use super::stream::Outlet;
use crate::job::{Head, JobId, Progress, Timestamp, cut};

/// Somebody who sent a progress token hears from a wait at least so often (cases 29: clients give up after 60 s of silence).
pub const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Most of a job's own words in a line that says how far it is, in bytes.
const MESSAGE_MAX: usize = 120;
/// After this many milliseconds a client of a session comes back to a stream that broke off.
const RETRY_MS: u64 = 1_000;
/// Seconds after which half of the way to the next step is told.
const HALF_WAY: f64 = 15.0;

/// One answer's voice.
pub(super) struct Voice {
    outlet: Option<Outlet>,
    thread: Option<Thread>,
    /// The progress token as written.
    token: Option<Box<str>>,
    /// The task that everything is about.
    task: Option<JobId>,
    /// The last number that was told.
    told: Option<f64>,
    /// How many of the job's questions were asked on this stream.
    asked: usize,
}

/// The ids of a resumable stream's events.
struct Thread {
    prefix: String,
    last_ms: i64,
}

/// Where on a thread an event stands, as its id says it: a time, and how many questions were asked by then.
pub(super) fn place(place: &str) -> Option<usize> {
    let (ms, asked) = place.split_once('-').unwrap_or((place, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(ms) && is_number(asked)).then(|| asked.parse().ok()).flatten()
}

impl Voice {
    /// Says nothing: the answer is all that the client takes.
    pub(super) fn mute() -> Self {
        Self { outlet: None, thread: None, token: None, task: None, told: None, asked: 0 }
    }

    /// Speaks through this outlet.
    pub(super) fn new(outlet: Outlet, token: Option<&str>) -> Self {
        Self { outlet: Some(outlet), token: token.map(Into::into), ..Self::mute() }
    }

    /// The same, about this task.
    #[must_use]
    pub(super) fn about(mut self, task: Option<JobId>) -> Self {
        self.task = task;
        self
    }

    /// The same, where so many questions were asked before.
    #[must_use]
    pub(super) fn having_asked(mut self, asked: usize) -> Self {
        self.asked = asked;
        self
    }

    /// How many of the job's questions were asked on this stream, before it broke off too.
    pub(super) fn asked(&self) -> usize {
        self.asked
    }

    /// Asks a question, the so many-th of the job.
    pub(super) async fn ask(&mut self, asked: usize, request: &[u8], now: Timestamp) {
        self.asked = asked;
        self.say(request, now).await;
    }

    /// The same, with event ids that begin with `prefix`.
    #[must_use]
    pub(super) fn on_thread(mut self, prefix: String) -> Self {
        self.thread = Some(Thread { prefix, last_ms: 0 });
        self
    }

    /// Goes on where an earlier stream broke off: the first number is higher than what was told there, whatever that was.
    #[must_use]
    pub(super) fn resumed(mut self) -> Self {
        self.told = Some(f64::NEG_INFINITY);
        self
    }

    /// Whether anybody listens.
    pub(super) fn is_heard(&self) -> bool {
        self.outlet.is_some()
    }

    /// `_meta` of a request that is about the task, if there is one.
    pub(super) fn related(&self) -> Option<serde_json::Value> {
        let task = self.task?;
        serde_json::from_str(&format!("{{{}}}", related_task(task))).ok()
    }

    /// The last of a notification's `params`, with the comma before it: what marks it as one about the task, if there is one.
    pub(super) fn mark(&self) -> String {
        self.task.map(|task| format!(",\"_meta\":{{{}}}", related_task(task))).unwrap_or_default()
    }

    /// How long a wait may stay silent.
    pub(super) fn patience(&self) -> Duration {
        if self.token.is_some() && self.outlet.is_some() { PROGRESS_EVERY } else { Duration::MAX }
    }

    /// The first event: an id and no data, and how soon to come back (2025-11-25).
    pub(super) async fn prime(&mut self, now: Timestamp) {
        let Some(id) = self.event_id(now) else { return };
        self.send(format!("id: {id}\nretry: {RETRY_MS}\ndata:\n\n").into_bytes()).await;
    }

    /// How far the job is, if that can be told by a higher number than before.
    pub(super) async fn progress(&mut self, head: &Head, now: Timestamp) {
        let progress = head.job.progress.as_deref();
        let (done, total) = steps(progress);
        let message = match progress.and_then(|progress| progress.message.as_deref()) {
            Some(message) => message.to_owned(),
            None => attempt(head),
        };
        self.rise(done, total, head.job.spec.created_at, &message, now).await;
    }

    /// The last step of a job that has ended, if it was not told yet: nothing of it can follow the answer. Who knows not what was told on a
    /// stream that broke off says nothing.
    pub(super) async fn last(&mut self, head: &Head, now: Timestamp) {
        let (done, _) = steps(head.job.progress.as_deref());
        if done > 0.0 && self.told.is_none_or(|told| told != f64::NEG_INFINITY && done > told) {
            self.progress(head, now).await;
        }
    }

    /// Tells `done` of `total`, or, if that is no news, a little more of the way to the next: it grows with the time since `since`.
    pub(super) async fn rise(
        &mut self,
        done: f64,
        total: Option<f64>,
        since: Timestamp,
        message: &str,
        now: Timestamp,
    ) {
        let (Some(token), Some(_)) = (&self.token, &self.outlet) else { return };
        let value = match self.told {
            Some(told) if done <= told || told == f64::NEG_INFINITY => done + way(since, now),
            Some(_) | None => done,
        };
        if self.told.is_some_and(|told| value <= told) {
            return;
        }
        let mut json =
            b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":".to_vec();
        json.extend_from_slice(token.as_bytes());
        json.extend_from_slice(format!(",\"progress\":{value}").as_bytes());
        if let Some(total) = total.filter(|total| *total >= value) {
            json.extend_from_slice(format!(",\"total\":{total}").as_bytes());
        }
        json.extend_from_slice(b",\"message\":");
        rpc::push_string(&mut json, message);
        json.extend_from_slice(self.mark().as_bytes());
        json.extend_from_slice(b"}}");
        self.told = Some(value);
        self.say(&json, now).await;
    }

    /// One JSON-RPC message that is not the answer.
    pub(super) async fn say(&mut self, message: &[u8], now: Timestamp) {
        let id = self.event_id(now);
        self.send(event(id.as_deref(), message)).await;
    }

    /// The answer. Its id says that nothing follows.
    pub(super) async fn end(self, message: &[u8]) {
        let id = self.thread.as_ref().map(|thread| format!("{}end", thread.prefix));
        self.send(event(id.as_deref(), message)).await;
    }

    async fn send(&self, event: Vec<u8>) {
        if let Some(outlet) = &self.outlet {
            outlet.send(event).await;
        }
    }

    /// Never the same twice: the time, or the next millisecond.
    fn event_id(&mut self, now: Timestamp) -> Option<String> {
        let thread = self.thread.as_mut()?;
        thread.last_ms = now.0.max(thread.last_ms + 1);
        let asked = if self.asked == 0 { String::new() } else { format!("-{}", self.asked) };
        Some(format!("{}{}{asked}", thread.prefix, thread.last_ms))
    }
}

/// One event of a stream: one message on one line.
pub(super) fn event(id: Option<&str>, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: message\ndata: ");
    out.extend_from_slice(message);
    out.extend_from_slice(b"\n\n");
    out
}

/// How far the job is, in one short line: `2/4 50% ranking`.
pub(super) fn how_far(head: &Head) -> String {
    let Some(progress) = head.job.progress.as_deref() else { return attempt(head) };
    let step = match (progress.step, progress.total_steps) {
        (Some(step), Some(total)) => Some(format!("{step}/{total}")),
        (Some(step), None) => Some(format!("step {step}")),
        (None, _) => None,
    };
    let percent = progress.percent.map(|percent| format!("{percent:.0}%"));
    let message = progress.message.as_deref().map(|message| cut(message, MESSAGE_MAX).to_owned());
    let parts: Vec<String> = step.into_iter().chain(percent).chain(message).collect();
    if parts.is_empty() { attempt(head) } else { parts.join(" ") }
}

fn attempt(head: &Head) -> String {
    format!("{}, attempt {} of {}", head.job.status().name(), head.job.attempts, head.job.spec.max_attempts)
}

/// How many steps are done, and of how many.
fn steps(progress: Option<&Progress>) -> (f64, Option<f64>) {
    match progress {
        Some(Progress { step: Some(step), total_steps, .. }) => (f64::from(*step), total_steps.map(f64::from)),
        Some(Progress { percent: Some(percent), .. }) => (*percent, Some(100.0)),
        Some(_) | None => (0.0, None),
    }
}

/// From 0 to below 1, rising with the time.
fn way(since: Timestamp, now: Timestamp) -> f64 {
    let seconds = now.since(since).0 as f64 / 1_000.0;
    seconds / (seconds + HALF_WAY)
}
