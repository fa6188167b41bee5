//! What a waiting answer says before it is over, as server-sent events: progress, log lines, requests to the client; and then itself.
//!
//! In: heads and messages. Out: events through an outlet, or nothing where the client takes no stream. Progress only for a token, echoed as
//! written, its numbers only rising (contract 3), also over a resume: an event's id says what was told up to it.

use std::cmp::Ordering;
use std::time::Duration;

use super::reply::related_task;
use super::stream::Outlet;
use super::{Endpoint, rpc};
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
    /// How many of the job's log lines were gone through on this stream.
    lines: usize,
}

/// The ids of a resumable stream's events.
struct Thread {
    prefix: String,
    last_ms: i64,
}

/// What was told on a thread up to an event, as its id says it.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Heard {
    /// How many of the job's questions.
    asked: usize,
    /// How many of its log lines were gone through.
    lines: usize,
    /// The last number of its progress.
    told: Option<f64>,
}

impl Heard {
    /// Reads the place of an event on its thread: a time, and then, as far as there is anything to say, what was told by then.
    pub(super) fn read(place: &str) -> Option<Self> {
        let mut parts = place.split('-');
        let mut number = || -> Option<Option<u64>> {
            let Some(part) = parts.next() else { return Some(None) };
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok()).flatten().map(Some)
        };
        let (_ms, asked, lines, told) = (number()??, number()?, number()?, number()?);
        let told = told.map(f64::from_bits);
        let count = |number: Option<u64>| usize::try_from(number.unwrap_or_default()).ok();
        let is_whole = parts.next().is_none() && told.is_none_or(f64::is_finite);
        is_whole.then_some(Self { asked: count(asked)?, lines: count(lines)?, told })
    }
}

impl Voice {
    /// Says nothing: the answer is all that the client takes.
    pub(super) fn mute() -> Self {
        Self { outlet: None, thread: None, token: None, task: None, told: None, asked: 0, lines: 0 }
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

    /// Goes on where an earlier stream broke off, which told this. If no number is known of it, the first is higher than what can have been told.
    #[must_use]
    pub(super) fn resumed(self, heard: Heard) -> Self {
        let Heard { asked, lines, told } = heard;
        Self { asked, lines, told: told.or(Some(f64::NEG_INFINITY)), ..self }
    }

    /// How many of the job's log lines were gone through, on the streams that broke off too.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Sends a log line, the so many-th of the job.
    pub(super) async fn log(&mut self, lines: usize, message: &[u8], now: Timestamp) {
        self.lines = lines;
        self.say(message, now).await;
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

    /// Returns when the server ends, and the answer has to be made now if it is ever to be had: a stream with ids is taken up again at the next.
    pub(super) fn cut_short<'a>(&self, endpoint: &'a Endpoint) -> impl Future<Output = ()> + use<'a> {
        let (outlet, is_resumable) = (self.outlet.clone(), self.thread.is_some());
        async move {
            match outlet {
                None => endpoint.waits_ended().await,
                Some(_) if is_resumable => std::future::pending().await,
                Some(outlet) => outlet.closing().await,
            }
        }
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

    /// Tells `done` of `total`, or, if that is no news, a little more than was told: the way to the next whole number grows with the time
    /// since `since`. A job may begin again, or count otherwise than before.
    pub(super) async fn rise(
        &mut self,
        done: f64,
        total: Option<f64>,
        since: Timestamp,
        message: &str,
        now: Timestamp,
    ) {
        let (Some(token), Some(_)) = (&self.token, &self.outlet) else { return };
        let Some(value) = higher(self.told, done, way(since, now)) else { return };
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
        let told = self.told.filter(|told| told.is_finite());
        let heard = match (self.asked, self.lines, told) {
            (0, 0, None) => String::new(),
            (asked, lines, None) => format!("-{asked}-{lines}"),
            // Its bits, so that it is read as it was told.
            (asked, lines, Some(told)) => format!("-{asked}-{lines}-{}", told.to_bits()),
        };
        Some(format!("{}{}{heard}", thread.prefix, thread.last_ms))
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

/// The number to tell after `told`; `None` if there is none, because no time has passed.
fn higher(told: Option<f64>, done: f64, way: f64) -> Option<f64> {
    let told = match told {
        None => return Some(done),
        Some(told) if told == f64::NEG_INFINITY => return Some(done + way),
        Some(told) if done > told => return Some(done),
        Some(told) => told,
    };
    let rising = done.max(told.floor()) + way;
    match rising.total_cmp(&told) {
        Ordering::Greater => Some(rising),
        Ordering::Equal => None,
        // What was told was a fraction of the job's own.
        Ordering::Less => Some(told.floor() + 1.0 + way),
    }
}

/// From 0 to below 1, rising with the time.
fn way(since: Timestamp, now: Timestamp) -> f64 {
    let seconds = now.since(since).0 as f64 / 1_000.0;
    seconds / (seconds + HALF_WAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_goes_on_rising_when_a_job_counts_from_lower_than_before() {
        let mut told = None;
        let mut said = Vec::new();
        for (second, done) in
            [0.0, 90.7, 1.0, 1.0, 1.0, 0.0, 91.0, 93.0, 2.0, 2.0].into_iter().zip(1_u32..).map(|(d, s)| (s, d))
        {
            let before = told;
            told = higher(told, done, way(Timestamp(0), Timestamp(i64::from(second) * 10_000)));
            assert!(told > before, "{before:?} {told:?}");
            said.extend(told);
        }
        assert!(said.iter().all(|said| *said < 94.0), "it stays near to what was told: {said:?}");
        assert_eq!(higher(Some(1.5), 1.0, 0.5), None, "no time has passed");
    }

    #[test]
    fn the_place_of_an_event_says_what_was_told_up_to_it_also_as_it_was_written_before() {
        let heard = |asked, lines, told| Some(Heard { asked, lines, told });
        let bits = 12.25_f64.to_bits();
        for (place, expected) in [
            ("17", heard(0, 0, None)),
            ("17-2", heard(2, 0, None)),
            ("17-2-3", heard(2, 3, None)),
            (&*format!("17-0-3-{bits}"), heard(0, 3, Some(12.25))),
            (&*format!("17-0-3-{bits}-1"), None),
            (&*format!("17-0-3-{}", f64::NAN.to_bits()), None),
            ("", None),
            ("-1", None),
            ("17-", None),
            ("17-+2", None),
            ("17-2-99999999999999999999", None),
        ] {
            assert_eq!(Heard::read(place), expected, "{place}");
        }
    }
}
