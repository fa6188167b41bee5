//! Work for this process: the WorkSource of the core.
//!
//! In: calls of the dispatcher and of worker threads. Out: commands. Large bodies are put on disk here, by the thread
//! that brings them, before the core hears of them. While the disk has no room for one, its attempt waits here with its end.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::Sender;

use super::disk::{DISK_LOOK_EVERY, Room};
use super::handle::{Handle, Signs};
use super::inbox::Inner;
use crate::job::{
    BODY_SMALL_MAX, Body, BodyRef, Class, Command, Completion, End, Failing, Failure, INLINE_MAX, JobId, Json, Millis,
    Outcome, Output, Part, SUMMARY_CHARS_MAX, Timestamp,
};
use crate::store::{self, Store};
use crate::work::{Claim, Closed, Leave, NoBody, Report, Stop, WorkSource};

/// See the head of this file.
pub struct LocalWork {
    inner: Sender<Inner>,
    store: Arc<dyn Store>,
    signs: Arc<Signs>,
}

/// Longest that an attempt's end waits for room for its large bodies. After that the attempt has failed, transient, code
/// `disk_full`, so that no job waits for ever.
pub const ROOM_WAIT_MAX: Millis = Millis::seconds(600);

/// Why there was an end to waiting for room.
enum Waited {
    /// It is worth another try.
    Enough,
    /// It has taken too long.
    TooLong,
    /// The attempt is to stop.
    Stopped(Stop),
}

impl LocalWork {
    /// Work from this core, whose bodies are in this store.
    pub fn new(core: &Handle, store: Arc<dyn Store>) -> Self {
        Self { inner: core.inner.clone(), store, signs: core.signs.clone() }
    }

    /// Names a body and, if it is large, puts it on disk, unless that would leave less than half the reserve.
    fn bring(&self, job: JobId, part: Part, seq: u64, bytes: Bytes) -> Result<Body, store::Error> {
        let name = BodyRef::of(part, seq, &bytes);
        if bytes.len() <= BODY_SMALL_MAX {
            return Ok(Body { name, bytes: Some(bytes) });
        }
        if self.signs.room(&self.store.health()?, name.len) < Room::Low {
            return Err(store::Error::Full("half of store.disk_reserve is kept for the log".into()));
        }
        self.store.bring(job, name, &bytes)?;
        Ok(Body { name, bytes: None })
    }

    /// The result and the content, both or neither.
    fn bring_output(
        &self,
        claim: &Claim,
        result: Option<Bytes>,
        content: Option<Bytes>,
    ) -> Result<(Option<Body>, Option<Body>), store::Error> {
        let bring = |part, bytes| self.bring(claim.job, part, claim.number.0, bytes);
        let result = result.map(|bytes| bring(Part::Result, bytes)).transpose()?;
        match content.map(|bytes| bring(Part::Content, bytes)).transpose() {
            Ok(content) => Ok((result, content)),
            Err(error) => {
                if let Some(Body { name, bytes: None }) = result {
                    self.store.discard(claim.job, name);
                }
                Err(error)
            }
        }
    }

    fn complete(&self, claim: &Claim, output: Output, log: Option<Body>) -> Result<(Command, Vec<Body>), store::Error> {
        let number = claim.number;
        let summary = summary(&output);
        let inline = output.data.as_ref().filter(|data| data.len() <= INLINE_MAX).and_then(json);
        let (result, content) = self.bring_output(claim, output.data, output.content)?;
        let completion = Completion {
            summary: summary.into(),
            result: result.as_ref().map(|body| body.name),
            content: content.as_ref().map(|body| body.name),
            is_error: output.is_error,
            lossy: output.lossy,
        };
        let log_name = log.as_ref().map(|body| body.name);
        let command = Command::Complete { claim: number, completion: Arc::new(completion), inline, log: log_name };
        Ok((command, result.into_iter().chain(content).chain(log).collect()))
    }

    fn end(&self, claim: &Claim, leave: Leave, log: Bytes) -> Result<(Command, Vec<Body>), store::Error> {
        let number = claim.number;
        let log = match log.is_empty() {
            true => None,
            false => Some(self.bring(claim.job, Part::Log, number.0, log)?),
        };
        let log_name = log.as_ref().map(|body| body.name);
        Ok(match leave {
            Leave::Over(Outcome::Done(output)) => self.complete(claim, output, log)?,
            Leave::Over(Outcome::Failed(failing)) => {
                (Command::Fail { claim: number, failing, log: log_name }, log.into_iter().collect())
            }
            Leave::Released | Leave::Over(Outcome::Asked) => {
                (Command::Release { claim: number, log: log_name }, log.into_iter().collect())
            }
        })
    }

    /// Until a moment has passed, the attempt is to stop, or `until` has come.
    fn wait_for_room(&self, claim: &Claim, until: Timestamp) -> Waited {
        let clock = &self.signs.clock;
        let (tell, told) = crossbeam_channel::bounded(1);
        claim.stop.on_stop(move |stop| {
            // Told once, and there is room for one.
            let _ = tell.try_send(stop);
        });
        let now = clock.now();
        if now >= until {
            return Waited::TooLong;
        }
        let due = clock.at(now.plus(DISK_LOOK_EVERY).min(until));
        crossbeam_channel::select! {
            recv(told) -> stop => stop.map_or(Waited::Enough, Waited::Stopped),
            recv(due) -> _ => Waited::Enough,
        }
    }

    /// The command that the attempt's end becomes, once the disk has taken what goes with it.
    fn ending(&self, claim: &Claim, leave: Leave, log: Bytes) -> (Command, Vec<Body>) {
        let until = self.signs.clock.now().plus(ROOM_WAIT_MAX);
        let mut has_waited = false;
        loop {
            let (code, message) = match self.end(claim, leave.clone(), log.clone()) {
                Ok(ending) => return ending,
                Err(store::Error::Full(why)) => match self.wait_for_room(claim, until) {
                    Waited::Enough => {
                        if !std::mem::replace(&mut has_waited, true) {
                            tracing::warn!(job = %claim.job, why, "the disk has no room for a result: its attempt waits");
                        }
                        continue;
                    }
                    Waited::Stopped(Stop::Shutdown) => {
                        return (Command::Release { claim: claim.number, log: None }, Vec::new());
                    }
                    Waited::Stopped(Stop::Cancel | Stop::Stale) => ("disk_full", "the attempt was stopped"),
                    Waited::TooLong => ("disk_full", "the disk had no room for the result"),
                },
                Err(error) => {
                    tracing::error!(job = %claim.job, %error, "a result could not be stored");
                    ("store", "the result could not be stored")
                }
            };
            let failure = Failure::new(Class::Transient, Some(code), message);
            let failing = Failing { failure, end: End::Failed, retry_after: None };
            return (Command::Fail { claim: claim.number, failing, log: None }, Vec::new());
        }
    }

    fn send(&self, wish: Inner) {
        // A core that has ended takes nothing more; its jobs are interrupted at the next start.
        let _ = self.inner.send(wish);
    }
}

impl WorkSource for LocalWork {
    fn claim(&self, want: usize) -> Result<Vec<Claim>, Closed> {
        let (reply, claims) = crossbeam_channel::bounded(1);
        self.inner.send(Inner::Claim { want, reply }).map_err(|_| Closed)?;
        claims.recv().map_err(|_| Closed)
    }

    fn body(&self, claim: &Claim, name: BodyRef) -> Result<Bytes, NoBody> {
        if name == claim.payload
            && let Some(carried) = claim.carried.bytes(name)
        {
            return Ok(carried.clone());
        }
        let len = usize::try_from(name.len).unwrap_or(usize::MAX);
        match self.store.body(claim.job, name, 0, len) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(NoBody("it is missing from the store".into())),
            Err(error) => Err(NoBody(error.to_string())),
        }
    }

    fn report(&self, claim: &Claim, report: Report) {
        let number = claim.number;
        let (command, bodies) = match report {
            Report::Progress(progress) => (Command::Report { claim: number, progress }, Vec::new()),
            Report::Ask { asking, count } => {
                let seq = (number.0 << 32) | u64::from(count);
                let bytes = Bytes::from(asking.to_json());
                let body = Body { name: BodyRef::of(Part::Question, seq, &bytes), bytes: Some(bytes) };
                (Command::Ask { claim: number, asking, body: body.name }, vec![body])
            }
            Report::Delivered => (Command::Delivered { claim: number }, Vec::new()),
            Report::Partial { data, count } => {
                let inline = Some(&data).filter(|data| data.len() <= INLINE_MAX).and_then(json);
                let seq = (number.0 << 32) | u64::from(count);
                match self.bring(claim.job, Part::Partial, seq, data) {
                    Ok(body) => (Command::Partial { claim: number, body: body.name, inline }, vec![body]),
                    Err(error) => {
                        tracing::error!(job = %claim.job, %error, "a partial result could not be stored");
                        return;
                    }
                }
            }
        };
        self.send(Inner::Report { job: claim.job, command, bodies });
    }

    fn finish(&self, claim: &Claim, leave: Leave, log: Bytes, freed: Box<dyn FnOnce() + Send>) {
        let (command, bodies) = self.ending(claim, leave, log);
        self.send(Inner::Finish { job: claim.job, claim: claim.number, command, bodies, freed });
    }
}

/// JSON text as an event carries it, if it is text.
fn json(data: &Bytes) -> Option<Json> {
    std::str::from_utf8(data).ok().map(|text| Json(text.into()))
}

/// Enough of a result for its summary: a character takes at most twelve bytes of JSON.
const SUMMARY_BYTES: usize = 12 * SUMMARY_CHARS_MAX;

/// The text that a JSON string begins with, where only its beginning is at hand; `None` if it is no string.
fn beginning_of_text(json: &[u8]) -> Option<String> {
    if let Ok(whole) = serde_json::from_slice(json) {
        return Some(whole);
    }
    let start = String::from_utf8_lossy(json.strip_prefix(b"\"")?).into_owned();
    // Cut within an escape, it is one again after at most that many characters less.
    const ESCAPES_MAX: usize = 12;
    let ends = start.char_indices().rev().take(ESCAPES_MAX).map(|(at, _)| at);
    std::iter::once(start.len())
        .chain(ends)
        .find_map(|end| serde_json::from_str(&format!("\"{}\"", &start[..end])).ok())
}

/// The handler's summary, else the beginning of the result's text (contract 1).
fn summary(output: &Output) -> String {
    let text = match (&output.summary, &output.data) {
        (Some(summary), _) => summary.clone(),
        (None, None) => String::new(),
        (None, Some(data)) => {
            let head = &data[..data.len().min(SUMMARY_BYTES)];
            beginning_of_text(head).unwrap_or_else(|| String::from_utf8_lossy(head).into_owned())
        }
    };
    text.chars().take(SUMMARY_CHARS_MAX).collect()
}
