//! A job as JSON, field by field as contract 1 has it.
//!
//! In: a head and the bodies that were loaded for it. Out: a value that serialises to the answer.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::OpenQuestion;
use crate::job::{Head, JobId, State, Timestamp};

/// A result above this has its own URL instead of its place in the answer (contract 1), in bytes.
pub const RESULT_INLINE_MAX: u64 = 64 * 1024;

/// What a job's answer links to.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// `public_url` without a trailing slash; empty: links are paths.
    pub base: String,
    /// Which of the job's bodies the answer holds.
    pub detail: Detail,
}

/// Which of a job's bodies an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// None: the line of a list. Reads nothing from the disk.
    Line,
    /// Payload, partial and result as far as they are at most `RESULT_INLINE_MAX`; beyond, their URL.
    #[default]
    Small,
    /// A partial of any size too. A larger result is left out still: whoever wants it reads it piece by piece (`?inline=true`).
    Whole,
}

impl Links {
    /// The job's own URL.
    pub fn status_url(&self, id: JobId) -> String {
        format!("{}/api/jobs/{id}", self.base)
    }

    /// The job's event stream.
    pub fn events_url(&self, id: JobId) -> String {
        format!("{}/api/jobs/{id}/events", self.base)
    }

    /// The result's own URL.
    pub fn result_url(&self, id: JobId) -> String {
        format!("{}/api/jobs/{id}/result", self.base)
    }

    /// The last partial result's own URL.
    pub fn partial_url(&self, id: JobId) -> String {
        format!("{}/api/jobs/{id}/partial", self.base)
    }
}

/// The bodies that go into the answer, as JSON text.
#[derive(Debug, Default)]
pub struct Bodies {
    /// The arguments.
    pub payload: Option<Box<RawValue>>,
    /// The result, unless it is too large.
    pub result: Option<Box<RawValue>>,
    /// The last partial result, unless it is too large.
    pub partial: Option<Box<RawValue>>,
    /// The open questions.
    pub questions: Vec<OpenQuestion>,
}

/// A job as one JSON object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "each field is a row of contract 1")]
pub struct JobView {
    pub id: JobId,
    #[serde(rename = "type")]
    pub job_type: Arc<str>,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_summary: Option<Arc<str>>,
    /// Bytes of the result that were no UTF-8 became U+FFFD (contract 4).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    pub attempts: u32,
    pub max_attempts: u32,
    pub interruptions: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    pub run_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub priority: i8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_url: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<ReceiptView>,
    pub owner: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Arc<str>>,
    pub dead_lettered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_as: Option<JobId>,
    pub status_url: String,
    pub events_url: String,
}

/// The latest failure.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "contract 1, `error`")]
pub struct ErrorView {
    pub class: &'static str,
    pub message: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    pub attempt: u32,
}

/// The last progress.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "contract 1, `progress`")]
pub struct ProgressView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

/// The cancel receipt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "contract 1, `cancel`")]
pub struct ReceiptView {
    pub requested_at: Timestamp,
    pub requested_by: Arc<str>,
    pub reason: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Timestamp>,
}

impl JobView {
    /// The view of this head, with these bodies.
    pub fn new(head: &Head, bodies: Bodies, links: &Links) -> Self {
        let job = &head.job;
        let spec = &job.spec;
        let (completion, replayed_as) = match &job.state {
            State::Completed(completion) => (Some(completion), None),
            State::Failed { replayed_as } => (None, *replayed_as),
            State::Pending | State::InProgress { .. } | State::InputRequired | State::Canceled { .. } => (None, None),
        };
        let has_result = completion.is_some_and(|completion| completion.result.is_some());
        let result_url = (has_result && bodies.result.is_none()).then(|| links.result_url(spec.id));
        // A completed job has a result, be it `null`.
        let result = match completion.is_some() && !has_result {
            true => Some(RawValue::NULL.to_owned()),
            false => bodies.result,
        };
        let has_partial_elsewhere = job.partial.is_some() && bodies.partial.is_none();
        Self {
            id: spec.id,
            job_type: spec.job_type.clone(),
            status: job.status().name(),
            payload: bodies.payload,
            result,
            result_url,
            result_summary: completion.map(|completion| completion.summary.clone()),
            lossy: completion.is_some_and(|completion| completion.lossy),
            error: error_view(head),
            attempts: job.attempts,
            max_attempts: spec.max_attempts,
            interruptions: job.interruptions,
            created_at: spec.created_at,
            updated_at: job.updated_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            run_at: job.run_at,
            expires_at: spec.expires_at,
            priority: spec.priority,
            progress: progress_view(head),
            partial: bodies.partial,
            partial_url: has_partial_elsewhere.then(|| links.partial_url(spec.id)),
            questions: bodies.questions,
            cancel: receipt_view(head),
            owner: spec.owner.clone(),
            idempotency_key: spec.key.as_ref().map(|key| key.text.clone()),
            tags: spec.tags.to_vec(),
            traceparent: spec.traceparent.clone(),
            dead_lettered: job.is_dead_letter(),
            replay_of: spec.replay_of,
            replayed_as,
            status_url: links.status_url(spec.id),
            events_url: links.events_url(spec.id),
        }
    }
}

fn error_view(head: &Head) -> Option<ErrorView> {
    head.job.error.as_ref().map(|last| ErrorView {
        class: last.failure.class.name(),
        message: last.failure.message.clone(),
        code: last.failure.code.clone(),
        attempt: last.attempt,
    })
}

fn progress_view(head: &Head) -> Option<ProgressView> {
    head.job.progress.as_ref().map(|progress| ProgressView {
        step: progress.step,
        total_steps: progress.total_steps,
        percent: progress.percent,
        message: progress.message.clone(),
    })
}

fn receipt_view(head: &Head) -> Option<ReceiptView> {
    head.job.cancel.as_ref().map(|receipt| ReceiptView {
        requested_at: receipt.requested_at,
        requested_by: receipt.requested_by.clone(),
        reason: receipt.reason.clone(),
        delivered_at: receipt.delivered_at,
        stopped_at: receipt.stopped_at,
    })
}
