//! Answers as bytes: results in the dress of their revision, errors, and the HTTP form they go out in.
//!
//! In: what the methods made. Out: an `Answer`. One message is one line, whatever its form. Decides no status of its own.

use std::sync::Arc;

use bytes::Bytes;

use super::accept::Form;
use super::era::Revision;
use super::{Answer, rpc};
use crate::job::JobId;

/// Who answers, as `_meta` of 2026-07-28 and `serverInfo` of `initialize` say it.
pub(super) const SERVER_INFO: &str =
    concat!("{\"name\":\"longhaul\",\"title\":\"longhaul\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// The members of a result, without braces, and the job they are about.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// `"a":1,"b":2`; may be empty. Of 2026-07-28 it is complete, unless it begins with a `resultType` of its own.
    pub json: Vec<u8>,
    /// Named in `_meta["longhaul/jobId"]`.
    pub job: Option<JobId>,
}

impl Members {
    /// A tool result of one text.
    pub(super) fn text(text: &str) -> Self {
        let mut json = Vec::with_capacity(text.len() + 64);
        push_text(&mut json, text);
        Self { json, job: None }
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
}

/// Adds the `content` of one text.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"\"content\":[{\"type\":\"text\",\"text\":");
    rpc::push_string(out, text);
    out.extend_from_slice(b"}]");
}

/// What goes back for one POST.
#[derive(Debug)]
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

    /// A result or an error.
    pub(super) fn of(id: &str, revision: Revision, outcome: Result<Members, rpc::Error>) -> Self {
        match outcome {
            Ok(members) => Self::result(id, revision, &members),
            Err(error) => Self::error(Some(id), &error),
        }
    }

    /// In the form that the client accepts; errors of the HTTP request are always JSON.
    pub(super) fn into_answer(self, form: Form) -> Answer {
        match self {
            Self::Accepted => Answer { status: 202, content_type: None, headers: Vec::new(), body: Bytes::new() },
            Self::Message { status, body, session } => {
                let mut headers: Vec<_> = session.iter().map(|id| ("mcp-session-id", id.to_string())).collect();
                if status == 200 && form == Form::Sse {
                    headers.push(("cache-control", "no-cache, no-transform".into()));
                    headers.push(("x-accel-buffering", "no".into()));
                    let body = [b"event: message\ndata: ", &body[..], b"\n\n"].concat();
                    return Answer { status, content_type: Some("text/event-stream"), headers, body: body.into() };
                }
                Answer { status, content_type: Some("application/json"), headers, body: body.into() }
            }
        }
    }
}

fn result(id: &str, revision: Revision, members: &Members) -> Vec<u8> {
    let mut out = rpc::open_result(id, members.json.len() + 256);
    out.push(b'{');
    if revision.is_modern() && !members.json.starts_with(b"\"resultType\":") {
        out.extend_from_slice(b"\"resultType\":\"complete\"");
    }
    if !members.json.is_empty() {
        comma(&mut out);
        out.extend_from_slice(&members.json);
    }
    if revision.is_modern() || members.job.is_some() {
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
        let reply = Reply::result("1", Revision::June2025, &Members::complaint("line\nline\r"));
        let answer = reply.into_answer(Form::Sse);
        let text = String::from_utf8(answer.body.to_vec()).expect("is text");
        let data = text.strip_prefix("event: message\ndata: ").and_then(|t| t.strip_suffix("\n\n")).expect("one event");
        assert!(!data.contains(['\n', '\r']));
        assert_eq!(value(data.as_bytes())["result"]["isError"], true);
        assert_eq!(answer.content_type, Some("text/event-stream"));
    }

    #[test]
    fn an_error_of_the_request_stays_json_and_leaves_out_an_unknown_id() {
        let error = rpc::Error::refused(400, rpc::PARSE_ERROR, "no");
        let answer = Reply::error(None, &error).into_answer(Form::Sse);
        assert_eq!((answer.status, answer.content_type), (400, Some("application/json")));
        assert_eq!(&answer.body[..], br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#);
    }
}
