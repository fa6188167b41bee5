//! The lines of an `events` program (contract 4).
//!
//! In: what it writes, line by line. Out: progress, partials, questions and log lines as they come, answers back to it, and in
//! the end a result, an error or nothing. A line that is no JSON object is a log line; a type that is unknown is said once and ignored.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lines::{Lines, Long, TooLong};
use super::pump::Sink;
use super::{ask, json};
use crate::handler::{Answer, Asked, RunContext};
use crate::job::json::wrong;
use crate::job::{
    Action, CODE_MAX, ClaimNo, Class, Failing, Failure, JobId, Millis, Outcome, Output, PROGRESS_MESSAGE_MAX, Progress,
    QUESTIONS_MAX, Timestamp, cut,
};
use crate::work::{Claim, content};

/// Longest line, in bytes; a longer one fails the job as `output_too_large`.
pub const LINE_MAX: usize = 1024 * 1024;

/// Longest line of the log, in bytes; the rest of a longer one is dropped.
pub const LOG_LINE_MAX: usize = 8 * 1024;

/// Unknown types that are remembered, so that each is said once; further ones are ignored in silence.
pub const UNKNOWN_MAX: usize = 16;

/// What the program had said by its end.
pub enum End {
    /// Neither result nor error.
    Silent,
    /// Neither, but a question that was new.
    Asked,
    /// A result.
    Result(Output),
    /// An error.
    Error(Failing),
}

/// The program's story so far.
pub struct Story<'a, 'c> {
    lines: Lines,
    told: Told<'a, 'c>,
}

impl<'a, 'c> Story<'a, 'c> {
    /// Nothing told yet.
    pub fn new(context: &'a RunContext<'c>) -> Self {
        let told = Told { context, unknown: HashSet::new(), replies: Vec::new(), end: End::Silent };
        Self { lines: Lines::new(LINE_MAX, Long::Refuse), told }
    }

    /// What was said, the last line without its end included.
    ///
    /// # Errors
    /// As `take`.
    pub fn into_end(mut self) -> Result<End, Outcome> {
        if let Some(line) = self.lines.finish() {
            self.told.line(&line).map_err(|violation| violation.0)?;
        }
        Ok(match self.told.end {
            End::Silent | End::Asked if self.told.context.has_asked() => End::Asked,
            end @ (End::Silent | End::Asked | End::Result(_) | End::Error(_)) => end,
        })
    }
}

impl Sink for Story<'_, '_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Outcome> {
        let told = &mut self.told;
        self.lines.push(bytes, |line| told.line(line)).map_err(|violation: Violation| violation.0)
    }

    fn replies(&mut self) -> Result<Vec<u8>, Outcome> {
        let answers = self.told.context.answers()?;
        let mut lines = std::mem::take(&mut self.told.replies);
        answers.iter().for_each(|answer| lines.extend(ask::answer_line(answer).into_bytes()));
        Ok(lines)
    }
}

struct Violation(Outcome);

impl From<TooLong> for Violation {
    fn from(TooLong: TooLong) -> Self {
        let message = format!("the program wrote a line of more than {LINE_MAX} bytes");
        Self(Outcome::failed(Class::Fatal, Some("output_too_large"), &message))
    }
}

struct Told<'a, 'c> {
    context: &'a RunContext<'c>,
    unknown: HashSet<String>,
    /// Lines that wait to be written to it.
    replies: Vec<u8>,
    end: End,
}

impl Told<'_, '_> {
    fn line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (text, lossy) = match String::from_utf8_lossy(line) {
            Cow::Borrowed(text) => (Cow::Borrowed(text), false),
            Cow::Owned(text) => (Cow::Owned(text), true),
        };
        let text = text.trim();
        if !text.starts_with('{') || serde_json::from_str::<&RawValue>(text).is_err() {
            self.log(text);
            return Ok(());
        }
        let kind = serde_json::from_str::<Kind<'_>>(text).ok().and_then(|line| line.kind).unwrap_or_default();
        match (&*kind, &self.end) {
            ("log", _) => self.read(text, |line: LogLine, told| told.log_line(&line)),
            ("result", End::Silent | End::Asked) => self.end = End::Result(result(text, lossy)?),
            // An error decides over everything else, also over a result that was reported before.
            ("error", End::Silent | End::Asked | End::Result(_)) => self.end = End::Error(error(text)?),
            ("progress", End::Silent | End::Asked) => {
                self.read(text, |line: ProgressLine<'_>, told| told.progress(line))
            }
            ("partial", End::Silent | End::Asked) => self.read(text, |line: PartialLine<'_>, told| told.partial(&line)),
            ("ask", End::Silent | End::Asked) => self.ask(text)?,
            ("result" | "error" | "progress" | "partial" | "ask", End::Result(_) | End::Error(_)) => {
                self.log(&format!("longhaul: ignored a {kind} line after the end was reported"));
            }
            (_, End::Silent | End::Asked | End::Result(_) | End::Error(_)) => self.unknown(&kind),
        }
        Ok(())
    }

    fn ask(&mut self, text: &str) -> Result<(), Violation> {
        let wrong = |why: &str| Violation(violation(&format!("the ask line: {why}")));
        let asking = ask::asking(text).map_err(|why| wrong(&why))?;
        match self.context.ask(asking).map_err(Violation)? {
            Asked::Answered(answer) => self.replies.extend(ask::answer_line(&answer).into_bytes()),
            Asked::New(_) | Asked::Open => {}
            Asked::TooMany => return Err(wrong(&format!("a job has at most {QUESTIONS_MAX} questions"))),
        }
        Ok(())
    }

    /// What only tells and is not understood is kept as it is, for whoever mends the program.
    fn read<'t, T: Deserialize<'t>>(&mut self, text: &'t str, tell: impl FnOnce(T, &Self)) {
        match serde_json::from_str(text) {
            Ok(line) => tell(line, self),
            Err(why) => {
                self.log(&format!("longhaul: ignored a line ({}): {}", wrong("", text, &why), cut(text, LOG_LINE_MAX)));
            }
        }
    }

    fn progress(&self, line: ProgressLine<'_>) {
        self.context.progress(Progress {
            step: line.step,
            total_steps: line.total_steps,
            percent: line.percent.map(|percent| percent.clamp(0.0, 100.0)),
            message: line.message.map(|message| cut(&message, PROGRESS_MESSAGE_MAX).into()),
        });
    }

    fn partial(&self, line: &PartialLine<'_>) {
        match json::compact(line.data.get()) {
            Some(data) => self.context.partial(data.into()),
            None => self.log(&format!("longhaul: ignored a partial: {}", json::UNSOUND)),
        }
    }

    fn log_line(&self, line: &LogLine) {
        match &line.level {
            Some(level) => self.log(&format!("{}: {}", cut(level, CODE_MAX), line.message)),
            None => self.log(&line.message),
        }
    }

    fn log(&self, text: &str) {
        for line in text.lines() {
            self.context.log(cut(line, LOG_LINE_MAX));
        }
    }

    fn unknown(&mut self, kind: &str) {
        let kind = cut(kind, CODE_MAX);
        if self.unknown.len() < UNKNOWN_MAX && self.unknown.insert(kind.to_owned()) {
            self.log(&format!("longhaul: ignored a line of unknown type {kind:?}"));
        }
    }
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ProgressLine<'a> {
    step: Option<u32>,
    #[serde(rename = "totalSteps")]
    total_steps: Option<u32>,
    percent: Option<f64>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct PartialLine<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct LogLine {
    level: Option<String>,
    message: String,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    summary: Option<String>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorLine {
    class: Class,
    message: String,
    code: Option<String>,
    retry_after_ms: Option<u64>,
    rpc_code: Option<i64>,
}

fn result(text: &str, lossy: bool) -> Result<Output, Violation> {
    let line: ResultLine<'_> = serde_json::from_str(text).map_err(|why| unread("result", text, &why))?;
    let compact = |value: &RawValue| {
        let deep = || Violation(violation(&format!("the result line: {}", json::UNSOUND)));
        json::compact(value.get()).map(Bytes::from).ok_or_else(deep)
    };
    if let Some(Err(why)) = line.content.map(|blocks| content::check(blocks.get())) {
        return Err(Violation(violation(&format!("the result line's {why}"))));
    }
    Ok(Output {
        data: line.data.map(compact).transpose()?,
        summary: line.summary,
        content: line.content.map(compact).transpose()?,
        is_error: line.is_error,
        lossy,
    })
}

fn error(text: &str) -> Result<Failing, Violation> {
    let line: ErrorLine = serde_json::from_str(text).map_err(|why| unread("error", text, &why))?;
    let mut failure = Failure::new(line.class, line.code.as_deref(), &line.message);
    failure.rpc_code = line.rpc_code;
    Ok(Failing { failure, end: crate::job::End::Failed, retry_after: line.retry_after_ms.map(Millis) })
}

fn unread(line: &str, text: &str, why: &serde_json::Error) -> Violation {
    Violation(violation(&format!("the {line} line: {}", wrong("", text, why))))
}

fn violation(message: &str) -> Outcome {
    Outcome::failed(Class::Fatal, Some("protocol_error"), message)
}

/// What the first line says of an answer; its key stands before it.
#[derive(Serialize)]
struct Said<'a> {
    action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
}

/// The first line to the program, with this payload, compact, and what was answered before.
pub fn job_line(claim: &Claim, payload: &str, answers: &[Arc<Answer>]) -> String {
    #[derive(Serialize)]
    struct JobLine<'a> {
        r#type: &'static str,
        job_id: JobId,
        job_type: &'a str,
        claim: ClaimNo,
        attempt: u32,
        max_attempts: u32,
        payload: &'a RawValue,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        answers: BTreeMap<&'a str, Said<'a>>,
        deadline: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<&'a str>,
    }
    fn said(answer: &Arc<Answer>) -> (&str, Said<'_>) {
        (&answer.key, Said { action: answer.action, content: answer.content.as_deref() })
    }
    let line = |payload| JobLine {
        r#type: "job",
        job_id: claim.job,
        job_type: &claim.job_type,
        claim: claim.number,
        attempt: claim.attempt,
        max_attempts: claim.max_attempts,
        payload,
        answers: answers.iter().map(said).collect(),
        deadline: claim.deadline,
        idempotency_key: claim.idempotency_key.as_deref(),
    };
    // What the store gives back was checked to be an object when it came in; what is not is sent as null.
    let payload = serde_json::from_str(payload).unwrap_or(RawValue::NULL);
    serde_json::to_string(&line(payload)).unwrap_or_default()
}

/// The line that says: stop, SIGTERM follows, and SIGKILL after the grace.
pub fn cancel_line(grace: Millis, reason: &str) -> Vec<u8> {
    let line = serde_json::json!({"type": "cancel", "grace_ms": grace.0, "reason": reason});
    format!("{line}\n").into_bytes()
}
