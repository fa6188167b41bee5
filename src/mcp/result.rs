//! What an ended job has to say, as a CallToolResult.
//!
//! In: a terminal head. Out: the members of a tool result, bounded; or the JSON-RPC error that the handler asked for. Reads bodies, changes
//! nothing.

use std::sync::Arc;

use serde_json::Value;

use super::era::Revision;
use super::ranges::{self, TEXT_DEFAULT};
use super::reply::{Members, push_text};
use super::rpc::{self, Error, INTERNAL_ERROR};
use super::tools::{handle, push_handle};
use super::{Endpoint, refusal};
use crate::job::{Completion, Head, JobId, LastError, State};
use crate::service::Refused;

/// Ready content blocks up to this are handed on; larger ones are read in ranges, as a result is. In bytes.
pub const CONTENT_MAX: u64 = 1024 * 1024;

/// The result of the call that made this job; its handle if it has not ended.
///
/// # Errors
/// The handler's own, from its `protocol_error`; -32603 if the result cannot be read.
pub(super) async fn of_job(endpoint: &Endpoint, revision: Revision, head: &Arc<Head>) -> Result<Members, Error> {
    let id = head.job.id();
    match &head.job.state {
        State::Pending | State::InProgress { .. } | State::InputRequired => Ok(handle(endpoint, head)),
        State::Completed(completion) => {
            let members = completed(endpoint, revision, head, completion).await;
            members.map_err(|refused| refusal::internal(&refused))
        }
        State::Failed { .. } => match error_of(head) {
            Some(error) => Err(error),
            None => Ok(Members::complaint(&(why_failed(head) + &log_hint(endpoint, head))).about(id)),
        },
        State::Canceled { .. } => Ok(Members::complaint(&why_canceled(head)).about(id)),
    }
}

/// Why the job failed, in one line.
pub(super) fn why_failed(head: &Head) -> String {
    let id = head.job.id();
    let Some(last) = &head.job.error else { return format!("The job {id} failed.") };
    let failure = &last.failure;
    let code = failure.code.as_ref().map(|code| format!(", code {code}")).unwrap_or_default();
    let attempts = if head.job.attempts > 1 { format!(" after {} attempts", head.job.attempts) } else { String::new() };
    format!("The job {id} failed{attempts} ({} error{code}): {}", failure.class.name(), failure.message)
}

/// Where more of it stands, if there is more.
fn log_hint(endpoint: &Endpoint, head: &Head) -> String {
    let id = head.job.id();
    match head.job.logs.is_empty() || endpoint.helpers.is_none() {
        true => String::new(),
        false => format!("\n[its log says more: call get_job with jobId {id} and part log]"),
    }
}

/// Why the job was canceled, in one line.
pub(super) fn why_canceled(head: &Head) -> String {
    let id = head.job.id();
    match &head.job.state {
        State::Canceled { by, reason } => format!("The job {id} was canceled by {by}: {reason}"),
        State::Pending
        | State::InProgress { .. }
        | State::InputRequired
        | State::Completed(_)
        | State::Failed { .. } => String::new(),
    }
}

/// The JSON-RPC error that the handler asked for, if the job failed by one.
pub(super) fn error_of(head: &Head) -> Option<Error> {
    let last = head.job.error.as_ref().filter(|_| matches!(head.job.state, State::Failed { .. }))?;
    is_protocol_error(last).then(|| protocol_error(last))
}

fn is_protocol_error(last: &LastError) -> bool {
    last.failure.rpc_code.is_some() && last.failure.code.as_deref() == Some("protocol_error")
}

/// Codes that belong to the specification are not a handler's to send.
fn protocol_error(last: &LastError) -> Error {
    let code = last.failure.rpc_code.filter(|code| !(-32099..=-32020).contains(code) && *code != -32042);
    Error::answered(code.unwrap_or(INTERNAL_ERROR), &*last.failure.message)
}

async fn completed(
    endpoint: &Endpoint,
    revision: Revision,
    head: &Arc<Head>,
    completion: &Completion,
) -> Result<Members, Refused> {
    let (service, id) = (&endpoint.service, head.job.id());
    let (mut json, mut structured) = (Vec::new(), None);
    let content = completion.content.filter(|content| content.len <= CONTENT_MAX);
    let small = completion.result.filter(|result| result.len <= TEXT_DEFAULT);
    if let Some(content) = content {
        json.extend_from_slice(b"\"content\":");
        let content = service.body(id, content, 0, usize::MAX).await?;
        match revision.is_structured() {
            true => rpc::push_raw(&mut json, &content),
            false => rpc::push_value(&mut json, &without_links(&content)),
        }
    }
    if let Some(result) = small {
        let result = service.body(id, result, 0, usize::MAX).await?;
        if content.is_none() {
            push_text(&mut json, &said(&result));
        }
        if is_structured(endpoint, revision, head, &result) {
            rpc::push_raw(structured.get_or_insert_default(), &result);
        }
    } else if let Some(large) = completion.result.or(completion.content.filter(|_| content.is_none())) {
        let range = ranges::json(service, id, large, 0, TEXT_DEFAULT).await?;
        let url = endpoint.links.result_url(id);
        let more = more(endpoint, &range, id, &url);
        if content.is_none() {
            push_text(&mut json, &format!("{}\n[{more}]", range.text));
            if revision.is_structured() {
                // Before the bracket that ends the content.
                json.pop();
                push_link(&mut json, id, range.total);
            }
        }
        // In place of the result: clients that were told a schema want something that fits it.
        let handle = structured.get_or_insert_default();
        push_handle(handle, endpoint, head, &more);
        handle.extend_from_slice(b",\"resultUrl\":");
        rpc::push_string(handle, &url);
        handle.push(b'}');
    } else if content.is_none() {
        push_text(&mut json, "null");
    }
    if completion.is_error {
        json.extend_from_slice(b",\"isError\":true");
    }
    Ok(Members { json, structured, ..Members::default() }.about(id))
}

/// A handler's content for 2025-03-26, which has no links: they are texts there.
fn without_links(content: &[u8]) -> Vec<Value> {
    let mut blocks: Vec<Value> = serde_json::from_slice(content).unwrap_or_default();
    for block in blocks.iter_mut().filter(|block| block["type"] == "resource_link") {
        let said = |name: &str| block[name].as_str().unwrap_or_default();
        *block = serde_json::json!({ "type": "text", "text": format!("{}: {}", said("name"), said("uri")) });
    }
    blocks
}

/// Adds a link to the result as a resource, and ends the content.
fn push_link(json: &mut Vec<u8>, id: JobId, size: u64) {
    let link = serde_json::json!({
        "type": "resource_link", "uri": format!("job://{id}/result"), "name": format!("result of job {id}"), "size": size,
    });
    json.push(b',');
    rpc::push_value(json, &link);
    json.push(b']');
}

/// The mark of a cut: how much there is, and how to read on.
pub(super) fn more(endpoint: &Endpoint, range: &ranges::Range, id: JobId, url: &str) -> String {
    let next = range.next.unwrap_or(range.total);
    let total = range.total;
    if endpoint.helpers.is_none() {
        return format!("cut at byte {next} of {total}; the whole result is at {url}");
    }
    format!(
        "cut at byte {next} of {total}; to read on, call get_job with jobId {id}, part result and offset {next}, \
         or fetch all of it from {url}"
    )
}

/// A string says what it says; any other value is its JSON.
fn said(result: &[u8]) -> String {
    match result.first() {
        Some(b'"') => serde_json::from_slice(result).unwrap_or_else(|_| String::from_utf8_lossy(result).into_owned()),
        Some(_) | None => String::from_utf8_lossy(result).into_owned(),
    }
}

/// Objects are structured in every revision; other values only in the newest, and only where a schema promises them.
fn is_structured(endpoint: &Endpoint, revision: Revision, head: &Head, result: &[u8]) -> bool {
    let has_schema = || {
        endpoint.service.catalogue().of_type(&head.job.spec.job_type).is_some_and(|tool| tool.output_schema.is_some())
    };
    result.first() == Some(&b'{') || (revision.is_modern() && has_schema())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Class, Failure};

    #[test]
    fn a_handler_cannot_send_codes_that_belong_to_the_specification() {
        let code = |rpc_code| {
            let failure =
                Failure { rpc_code: Some(rpc_code), ..Failure::new(Class::Fatal, Some("protocol_error"), "no") };
            let last = LastError { failure, attempt: 1 };
            assert!(is_protocol_error(&last));
            protocol_error(&last).code
        };
        assert_eq!(code(-32001), -32001);
        assert_eq!(code(7), 7);
        for taken in [-32020, -32021, -32022, -32042, -32099] {
            assert_eq!(code(taken), INTERNAL_ERROR);
        }
    }

    #[test]
    fn a_text_result_is_shown_without_quotes() {
        assert_eq!(said(br#""a\nb""#), "a\nb");
        assert_eq!(said(br#"{"a":1}"#), r#"{"a":1}"#);
        assert_eq!(said(b"7"), "7");
    }
}
