//! Work for this process: the WorkSource of the core.
//!
//! In: calls of the dispatcher and of worker threads. Out: commands. Large bodies are put on disk here, by the thread
//! that brings them, before the core hears of them.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::Sender;

use super::handle::Handle;
use super::inbox::Inner;
use crate::job::{
    BODY_SMALL_MAX, Body, BodyRef, Command, Completion, INLINE_MAX, JobId, Json, Outcome, Output, Part,
    SUMMARY_CHARS_MAX,
};
use crate::store::{self, Store};
use crate::work::{Claim, Closed, Leave, NoPayload, Report, WorkSource};

/// See the head of this file.
pub struct LocalWork {
    inner: Sender<Inner>,
    store: Arc<dyn Store>,
}

impl LocalWork {
    /// Work from this core, whose bodies are in this store.
    pub fn new(core: &Handle, store: Arc<dyn Store>) -> Self {
        Self { inner: core.inner.clone(), store }
    }

    /// Names a body and, if it is large, puts it on disk. A store that cannot is about to end the process: the commit
    /// that names the body will fail too.
    fn bring(&self, job: JobId, part: Part, seq: u64, bytes: Bytes) -> Result<Body, store::Error> {
        let name = BodyRef::of(part, seq, &bytes);
        if bytes.len() <= BODY_SMALL_MAX {
            return Ok(Body { name, bytes: Some(bytes) });
        }
        self.store.bring(job, name, &bytes)?;
        Ok(Body { name, bytes: None })
    }

    fn complete(&self, claim: &Claim, output: Output, log: Option<Body>) -> Result<(Command, Vec<Body>), store::Error> {
        let number = claim.number;
        let summary = summary(&output);
        let inline = output.data.as_ref().filter(|data| data.len() <= INLINE_MAX).and_then(json);
        let bring = |part, bytes| self.bring(claim.job, part, number.0, bytes);
        let result = output.data.map(|data| bring(Part::Result, data)).transpose()?;
        let content = output.content.map(|content| bring(Part::Content, content)).transpose()?;
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
            Leave::Released => (Command::Release { claim: number, log: log_name }, log.into_iter().collect()),
        })
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

    fn payload(&self, claim: &Claim) -> Result<Bytes, NoPayload> {
        let len = usize::try_from(claim.payload.len).unwrap_or(usize::MAX);
        match self.store.body(claim.job, claim.payload, 0, len) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(NoPayload("the payload is missing from the store".into())),
            Err(error) => Err(NoPayload(error.to_string())),
        }
    }

    fn report(&self, claim: &Claim, report: Report) {
        let number = claim.number;
        let (command, bodies) = match report {
            Report::Progress(progress) => (Command::Report { claim: number, progress }, Vec::new()),
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
        let (command, bodies) = self.end(claim, leave, log).unwrap_or_else(|error| {
            tracing::error!(job = %claim.job, %error, "a result could not be stored");
            let outcome =
                Outcome::failed(crate::job::Class::Transient, Some("store"), "the result could not be stored");
            match outcome {
                Outcome::Failed(failing) => (Command::Fail { claim: claim.number, failing, log: None }, Vec::new()),
                Outcome::Done(_) => (Command::Release { claim: claim.number, log: None }, Vec::new()),
            }
        });
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
