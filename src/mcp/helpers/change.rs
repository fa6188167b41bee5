//! What a wait tells of a job: no more than what a model needs to go on, since it pays for each word.
//!
//! In: the job's view. Out: the few fields that say what is new, and one line of text with the same.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::job::JobId;
use crate::service::{ErrorView, JobView, OpenQuestion, ProgressView};

/// See the head of this file. Fields as in contract 1.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    id: JobId,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<OpenQuestion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    /// In place of a result that is too large to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_summary: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canceled: Option<Arc<str>>,
}

impl Change {
    /// What is new about the job. What it reported before its end is no news once it has ended.
    pub(super) fn of(view: JobView, has_ended: bool) -> Self {
        let JobView {
            id, status, progress, partial, questions, result, result_summary, result_url, error, cancel, ..
        } = view;
        let receipt = cancel.filter(|_| status == "canceled");
        Self {
            id,
            status,
            progress: progress.filter(|_| !has_ended),
            partial: partial.filter(|_| !has_ended),
            questions,
            result_summary: result_summary.filter(|_| result.is_none()),
            result_url: result_url.filter(|_| result.is_none()),
            result,
            error,
            canceled: receipt.map(|receipt| receipt.reason),
        }
    }

    /// The same in one line, but for what the job itself has written.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} {}", self.id, self.status);
        if let Some(ProgressView { step, total_steps, percent, message }) = &self.progress {
            match (step, total_steps, percent) {
                (Some(step), Some(total), _) => drop(write!(line, " {step}/{total}")),
                (Some(step), None, _) => drop(write!(line, " step {step}")),
                (None, _, Some(percent)) => drop(write!(line, " {percent}%")),
                (None, _, None) => {}
            }
            push(&mut line, " ", message.as_deref());
        }
        push(&mut line, ": so far ", self.partial.as_deref().map(RawValue::get));
        for question in &self.questions {
            push(&mut line, "; asks ", Some(&format!("{}: {}", question.key, question.message)));
        }
        push(&mut line, ": ", self.result.as_deref().map(RawValue::get));
        if let Some(summary) = &self.result_summary {
            push(&mut line, ": ", Some(&format!("{summary} (all of it: get_job with part result)")));
        }
        push(&mut line, ": ", self.error.as_ref().map(|error| &*error.message));
        push(&mut line, ": ", self.canceled.as_deref());
        line
    }
}

fn push(line: &mut String, before: &str, text: Option<&str>) {
    if let Some(text) = text {
        line.push_str(before);
        line.push_str(text);
    }
}
