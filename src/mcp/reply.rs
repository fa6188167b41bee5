//! Answers as bytes: results in the dress of their revision, errors, and the HTTP form they go out in.
//!
//! In: what the methods made. Out: an `Answer`. One message is one line, whatever its form. Decides no status of its own.

use std::sync::Arc;

use bytes::Bytes;

use super::accept::{Accepts, Form};
use super::calls::CallInFlight;
use super::era::Revision;
use super::pending::Pending;
use super::stream::Stream;
use super::work::{Asker, Outcome};
use super::{Answer, Endpoint, rpc, voice};
use crate::job::JobId;

/// Who answers, as `_meta` of 2026-07-28 and `serverInfo` of `initialize` say it.
pub(super) const SERVER_INFO: &str =
    concat!("{\"name\":\"longhaul\",\"title\":\"longhaul\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// The members of a result, without braces, and the job they are about.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// `"a":1,"b":2`; may be empty. Of 2026-07-28 it is complete, unless it begins with a `resultType` of its own.
    pub json: Vec<u8>,
    /// `structuredContent`, left out where the revision does not know it.
    pub structured: Option<Vec<u8>>,
    /// Named in `_meta["longhaul/jobId"]`.
    pub job: Option<JobId>,
    /// Further members of `_meta`.
    pub meta: Vec<u8>,
}

impl Members {
    /// A tool result of one text.
    pub(super) fn text(text: &str) -> Self {
        let mut json = Vec::with_capacity(text.len() + 64);
        push_text(&mut json, text);
        Self { json, ..Self::default() }
    }

    /// A tool result that is an error a model can act on.
    pub(super) fn complaint(text: &str) -> Self {
        let mut members = Self::text(text);
        members.json.extend_from_slice(b",\"isError\":true");
        members
    }

    /// The same, about this job.
    #[must_use]
    pub(super) fn about(mut self, job: JobId) -> Self {
        self.job = Some(job);
        self
    }

    /// The same, as the outcome of the task that its job is (2025-11-25).
    #[must_use]
    pub(super) fn related(mut self) -> Self {
        self.meta = self.job.map(related_task).unwrap_or_default().into_bytes();
        self
    }

    /// Adds what a tool result holds, without braces and `_meta`.
    pub(super) fn push(&self, out: &mut Vec<u8>, revision: Revision) {
        if !self.json.is_empty() {
            comma(out);
            out.extend_from_slice(&self.json);
        }
        if let Some(structured) = self.structured.as_ref().filter(|_| revision.is_structured()) {
            comma(out);
            out.extend_from_slice(b"\"structuredContent\":");
            out.extend_from_slice(structured);
        }
    }
}

/// What marks a message as one about a task (2025-11-25): a member of `_meta`.
pub(super) fn related_task(task: JobId) -> String {
    format!("\"io.modelcontextprotocol/related-task\":{{\"taskId\":\"{task}\"}}")
}

/// Adds the `content` of one text.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"\"content\":[{\"type\":\"text\",\"text\":");
    rpc::push_string(out, text);
    out.extend_from_slice(b"}]");
}

/// What goes back for one POST.
pub(super) enum Reply {
    /// A notification or response was taken: 202.
    Accepted,
    /// A message.
    Message {
        /// HTTP status.
        status: u16,
        /// One JSON-RPC message.
        body: Vec<u8>,
        /// The session that was opened, for its header.
        session: Option<Arc<str>>,
    },
    /// A message that is still to come.
    Pending(Box<Pending>),
    /// A stream of messages, the last of which answers the request with this id.
    Stream(Box<str>, Stream),
}

impl Reply {
    /// An error, with the id of its request if that could be read.
    pub(super) fn error(id: Option<&str>, error: &rpc::Error) -> Self {
        Self::Message { status: error.status, body: rpc::error(id, error), session: None }
    }

    /// A result.
    pub(super) fn result(id: &str, revision: Revision, members: &Members) -> Self {
        Self::Message { status: 200, body: result(id, revision, members), session: None }
    }

    /// What a method made of a request.
    pub(super) fn of(
        id: &str,
        asker: Asker,
        token: Option<&str>,
        outcome: Result<Outcome, rpc::Error>,
        call: Option<CallInFlight>,
    ) -> Self {
        match outcome {
            Ok(Outcome::Ready(members)) => Self::result(id, asker.revision, &members),
            Ok(Outcome::Waiting(mut work)) => {
                let (id, token) = (id.into(), token.map(Into::into).or(work.token.take()));
                call.iter().for_each(|call| call.wait_for(&work.waits));
                Self::Pending(Box::new(Pending { id, token, asker, work, heard: None, call }))
            }
            Ok(Outcome::Stream(stream)) => Self::Stream(id.into(), stream),
            Err(error) => Self::error(Some(id), &error),
        }
    }

    /// In the form that the client accepts, waited for if it takes no stream; errors of the HTTP request are always JSON.
    pub(super) async fn into_answer(self, endpoint: &Arc<Endpoint>, accepts: Accepts) -> Answer {
        match self {
            Self::Accepted => Answer::empty(202),
            Self::Message { status, body, session } => {
                let mut answer = message(status, body, accepts.form);
                answer.headers.extend(session.iter().map(|id| ("mcp-session-id", id.to_string())));
                answer
            }
            Self::Pending(pending) if accepts.streams => Answer::streaming(pending.stream(endpoint)),
            Self::Pending(pending) => match pending.message(endpoint).await {
                Some(body) => message(200, body, accepts.form),
                None => Answer::empty(202),
            },
            Self::Stream(_, stream) if accepts.takes_streams => Answer::streaming(stream),
            Self::Stream(id, _) => {
                let text = "the answer is a stream: accept text/event-stream";
                let error = rpc::Error::refused(406, rpc::INVALID_REQUEST, text);
                message(406, rpc::error(Some(&id), &error), Form::Json)
            }
        }
    }
}

impl Answer {
    pub(super) fn empty(status: u16) -> Self {
        Self { status, content_type: None, headers: Vec::new(), body: Bytes::new(), stream: None }
    }

    /// An error of the HTTP request.
    pub(super) fn error(id: Option<&str>, error: &rpc::Error) -> Self {
        message(error.status, rpc::error(id, error), Form::Json)
    }

    pub(super) fn streaming(stream: Stream) -> Self {
        Self { stream: Some(stream), ..events(Vec::new()) }
    }
}

fn message(status: u16, body: Vec<u8>, form: Form) -> Answer {
    if status == 200 && form == Form::Sse {
        return events(voice::event(None, &body));
    }
    let (content_type, body) = (Some("application/json"), body.into());
    Answer { status, content_type, headers: Vec::new(), body, stream: None }
}

fn events(body: Vec<u8>) -> Answer {
    let headers = vec![("cache-control", "no-cache, no-transform".into()), ("x-accel-buffering", "no".into())];
    let (content_type, body) = (Some("text/event-stream"), body.into());
    Answer { status: 200, content_type, headers, body, stream: None }
}

/// A result in the dress of its revision: one JSON-RPC message.
pub(super) fn result(id: &str, revision: Revision, members: &Members) -> Vec<u8> {
    let mut out = rpc::open_result(id, members.json.len() + 256);
    out.push(b'{');
    if revision.is_modern() && !members.json.starts_with(b"\"resultType\":") {
        out.extend_from_slice(b"\"resultType\":\"complete\"");
    }
    members.push(&mut out, revision);
    if revision.is_modern() || members.job.is_some() || !members.meta.is_empty() {
        comma(&mut out);
        out.extend_from_slice(b"\"_meta\":{");
        if revision.is_modern() {
            out.extend_from_slice(b"\"io.modelcontextprotocol/serverInfo\":");
            out.extend_from_slice(SERVER_INFO.as_bytes());
        }
        if let Some(job) = members.job {
            comma(&mut out);
            out.extend_from_slice(b"\"longhaul/jobId\":");
            rpc::push_value(&mut out, &job);
        }
        if !members.meta.is_empty() {
            comma(&mut out);
            out.extend_from_slice(&members.meta);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    out
}

/// Between members, but not before the first.
fn comma(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> serde_json::Value {
        serde_json::from_slice(bytes).expect("is JSON")
    }

    #[test]
    fn an_empty_result_has_no_keys_where_none_are_due() {
        let body = result("0", Revision::November2025, &Members::default());
        assert_eq!(body, br#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
        let modern = value(&result("\"a\"", Revision::July2026, &Members::default()));
        assert_eq!(modern["result"]["resultType"], "complete");
        assert_eq!(modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "longhaul");
    }

    #[test]
    fn the_job_is_named_in_meta_in_every_revision() {
        let id = JobId::from_u128(7);
        for revision in Revision::ALL {
            let body = value(&result("1", revision, &Members::text("a \"b\"\n").about(id)));
            assert_eq!(body["result"]["_meta"]["longhaul/jobId"], id.to_string());
            assert_eq!(body["result"]["content"][0]["text"], "a \"b\"\n");
        }
    }

    #[test]
    fn a_stream_of_one_message_is_one_data_line() {
        let body = result("1", Revision::June2025, &Members::complaint("line\nline\r"));
        let answer = message(200, body, Form::Sse);
        let text = String::from_utf8(answer.body.to_vec()).expect("is text");
        let data = text.strip_prefix("event: message\ndata: ").and_then(|t| t.strip_suffix("\n\n")).expect("one event");
        assert!(!data.contains(['\n', '\r']));
        assert_eq!(value(data.as_bytes())["result"]["isError"], true);
        assert_eq!(answer.content_type, Some("text/event-stream"));
    }

    #[test]
    fn an_error_of_the_request_stays_json_and_leaves_out_an_unknown_id() {
        let error = rpc::Error::refused(400, rpc::PARSE_ERROR, "no");
        let answer = message(error.status, rpc::error(None, &error), Form::Sse);
        assert_eq!((answer.status, answer.content_type), (400, Some("application/json")));
        assert_eq!(&answer.body[..], br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#);
    }
}
