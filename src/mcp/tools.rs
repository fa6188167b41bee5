//! `tools/call`: from a name and arguments to a durable job, and to a handle or a result.
//!
//! In: the call as written. Out: the members of a tool result, or a JSON-RPC error. The arguments are handed on as the slice of the body
//! that they are. Knows no headers and no eras but through the revision that the answer is written in.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::era::{Meta, Revision};
use super::reply::{Members, push_text};
use super::rpc::{self, Error, INVALID_PARAMS, Params};
use super::{Endpoint, helpers, refusal, result};
use crate::job::{Head, JobId, Status};
use crate::service::{Refused, Service, Submit, Submitted, Tool, Viewer};

/// One `tools/call`.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// How the answer is written.
    pub revision: Revision,
    /// Who calls.
    pub viewer: &'a Viewer,
    /// What `params` are slices of.
    pub body: &'a Bytes,
    /// As written.
    pub params: Params<'a>,
    /// As written.
    pub meta: Meta<'a>,
}

impl<'a> Call<'a> {
    /// The tool's name.
    ///
    /// # Errors
    /// -32602 if there is none.
    pub(super) fn name(&self) -> Result<Cow<'a, str>, Error> {
        let name = self.params.name.and_then(rpc::text);
        name.ok_or_else(|| Error::answered(INVALID_PARAMS, "params.name must be a string: the name of a tool"))
    }

    /// The arguments as JSON text; an empty object if there are none.
    ///
    /// # Errors
    /// -32602 if they are no object.
    pub(super) fn arguments(&self) -> Result<&'a str, Error> {
        match self.params.arguments {
            None => Ok("{}"),
            Some(raw) if rpc::is_object(raw) => Ok(raw.get()),
            Some(_) => Err(Error::answered(INVALID_PARAMS, "params.arguments must be an object")),
        }
    }

    fn key(&self) -> Result<Option<String>, Error> {
        let text = "params._meta[\"longhaul/idempotencyKey\"] must be a string";
        let read = |raw| rpc::text(raw).map(Cow::into_owned).ok_or_else(|| Error::answered(INVALID_PARAMS, text));
        self.meta.key.map(read).transpose()
    }

    /// A trace context that nobody could read is dropped: it must not fail the call.
    fn traceparent(&self) -> Option<String> {
        let text = self.meta.traceparent.and_then(rpc::text)?;
        (text.len() <= crate::job::TRACEPARENT_MAX && text.is_ascii()).then(|| text.into_owned())
    }
}

/// Answers a call of a configured tool or of a helper.
///
/// # Errors
/// What the client, not the model, has to mend, and what nobody can: see `mcp::refusal`.
pub(super) async fn call(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let name = call.name()?;
    let arguments = call.arguments()?;
    if let Some(tool) = endpoint.service.catalogue.named(&name) {
        return start(endpoint, call, tool, arguments).await;
    }
    match &endpoint.helpers {
        Some(catalogue) if catalogue.named(&name).is_some() => {
            helpers::call(endpoint, catalogue, call, &name, arguments).await
        }
        Some(_) | None => Err(unknown(endpoint, &name)),
    }
}

async fn start(endpoint: &Endpoint, call: &Call<'_>, tool: &Tool, arguments: &str) -> Result<Members, Error> {
    let submit = Submit {
        job_type: tool.job_type.to_string(),
        payload: slice(call.body, arguments),
        key: call.key()?,
        traceparent: call.traceparent(),
        ..Submit::default()
    };
    // Of the revision without sessions, a client that closes the request gives the call up, unless a key says that it will ask again.
    if call.revision.is_modern() && submit.key.is_none() {
        let mut leash = Leash::new(&endpoint.service, call.viewer, submit);
        let submitted = leash.submitted().await;
        let answer = answer(endpoint, call, tool, submitted).await;
        leash.release();
        return answer;
    }
    let submitted = endpoint.service.submit(call.viewer, submit).await;
    answer(endpoint, call, tool, submitted).await
}

async fn answer(
    endpoint: &Endpoint,
    call: &Call<'_>,
    tool: &Tool,
    submitted: Result<Submitted, Refused>,
) -> Result<Members, Error> {
    let head = match submitted {
        Ok(submitted) => submitted.head,
        Err(refused) => return refusal::of_call(&refused, call.revision),
    };
    if tool.inline_wait.0 == 0 {
        return Ok(handle(endpoint, &head));
    }
    let waited = endpoint.service.wait(call.viewer, head.job.id(), tool.inline_wait.duration()).await;
    // The job is durable: whatever the wait ran into, its handle is the truth.
    let head = waited.unwrap_or(head);
    if head.job.status().is_terminal() {
        result::of_job(endpoint, call.revision, &head).await
    } else {
        Ok(handle(endpoint, &head))
    }
}

/// What is answered while, or although, there is more to learn about the job.
pub(super) fn handle(endpoint: &Endpoint, head: &Head) -> Members {
    let (id, status) = (head.job.id(), head.job.status());
    let message = next_step(endpoint, id, status);
    let mut json = Vec::with_capacity(2 * message.len() + 2 * endpoint.links.base.len() + 400);
    push_text(&mut json, &message);
    json.extend_from_slice(b",\"structuredContent\":");
    push_handle(&mut json, endpoint, head, &message);
    json.push(b'}');
    Members { json, job: Some(id) }
}

/// Adds the handle's object, without its closing brace.
pub(super) fn push_handle(json: &mut Vec<u8>, endpoint: &Endpoint, head: &Head, message: &str) {
    let id = head.job.id();
    json.extend_from_slice(b"{\"jobId\":");
    rpc::push_value(json, &id);
    json.extend_from_slice(b",\"status\":\"");
    json.extend_from_slice(head.job.status().name().as_bytes());
    json.extend_from_slice(b"\",\"message\":");
    rpc::push_string(json, message);
    json.extend_from_slice(b",\"statusUrl\":");
    rpc::push_string(json, &endpoint.links.status_url(id));
    json.extend_from_slice(b",\"eventsUrl\":");
    rpc::push_string(json, &endpoint.links.events_url(id));
}

/// What the model should do with a job that it was handed.
fn next_step(endpoint: &Endpoint, id: JobId, status: Status) -> String {
    let name = status.name();
    if endpoint.helpers.is_none() {
        return format!("The job {id} is {name}. Its state is at {}.", endpoint.links.status_url(id));
    }
    match status {
        Status::Pending | Status::InProgress | Status::InputRequired => format!(
            "The job {id} is {name}: it runs in the background and outlives this conversation. Next, call wait_for_jobs with \
             jobIds [{id}] to learn how it ends; do not call this tool again for the same work."
        ),
        Status::Completed => {
            format!("The job {id} is completed. Call get_job with jobId {id} and part result to read its result.")
        }
        Status::Failed | Status::Canceled => {
            format!("The job {id} is {name}. Call get_job with jobId {id} to see why.")
        }
    }
}

/// The part of the body that `text` is, without a copy.
fn slice(body: &Bytes, text: &str) -> Bytes {
    let (start, inside) = (body.as_ptr() as usize, text.as_ptr() as usize);
    match inside.checked_sub(start) {
        Some(offset) if offset + text.len() <= body.len() => body.slice(offset..offset + text.len()),
        // The empty object of a call without arguments.
        Some(_) | None => Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn unknown(endpoint: &Endpoint, name: &str) -> Error {
    let configured = endpoint.service.catalogue.tools();
    let helpers = endpoint.helpers.iter().flat_map(|catalogue| catalogue.tools());
    let names: Vec<&str> = configured.chain(helpers).map(|tool| &*tool.name).collect();
    let shown = crate::job::cut(name, 64);
    let mut text = format!("there is no tool {shown}");
    match nearest(shown, names.iter().copied()) {
        Some(near) => text.push_str(&format!("; did you mean {near}? ")),
        None => text.push_str(". "),
    }
    text.push_str("tools/list shows all of them");
    Error::answered(INVALID_PARAMS, text)
}

/// The name that is most like `text`, if one is like it at all.
pub(super) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::jaro_winkler(text, name);
    let best = names.map(|name| (likeness(name), name)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness >= 0.75).map(|(_, name)| name)
}

type Submitting = Pin<Box<dyn Future<Output = Result<Submitted, Refused>> + Send>>;

/// Holds a job to the request that made it: dropped before it is released, it cancels the job, even if the job does not exist yet.
struct Leash {
    service: Arc<Service>,
    viewer: Viewer,
    hold: Hold,
}

enum Hold {
    Submitting(Submitting),
    Job(JobId),
    Nothing,
}

impl Leash {
    fn new(service: &Arc<Service>, viewer: &Viewer, submit: Submit) -> Self {
        let (service, viewer) = (service.clone(), viewer.clone());
        let submitting: Submitting = {
            let (service, viewer) = (service.clone(), viewer.clone());
            Box::pin(async move { service.submit(&viewer, submit).await })
        };
        Self { service, viewer, hold: Hold::Submitting(submitting) }
    }

    /// What became of the submit.
    async fn submitted(&mut self) -> Result<Submitted, Refused> {
        let Hold::Submitting(submitting) = &mut self.hold else { return Err(Refused::Unhealthy) };
        let submitted = submitting.await;
        self.hold = submitted.as_ref().map_or(Hold::Nothing, |submitted| Hold::Job(submitted.head.job.id()));
        submitted
    }

    fn release(&mut self) {
        self.hold = Hold::Nothing;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let hold = std::mem::replace(&mut self.hold, Hold::Nothing);
        // Outside a runtime there is no transport, and nobody who could have gone away.
        let (false, Ok(runtime)) = (matches!(hold, Hold::Nothing), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (service, viewer) = (self.service.clone(), self.viewer.clone());
        runtime.spawn(async move {
            let id = match hold {
                Hold::Submitting(submitting) => submitting.await.ok().map(|submitted| submitted.head.job.id()),
                Hold::Job(id) => Some(id),
                Hold::Nothing => None,
            };
            if let Some(id) = id {
                // It may have ended meanwhile; then there is nothing to give up.
                let _ = service.cancel(&viewer, id, Some("the client closed the request".into())).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_slice_of_the_body() {
        let body = Bytes::from_static(br#"{"arguments":{"a":1}}"#);
        let text = std::str::from_utf8(&body).expect("is text");
        let payload = slice(&body, &text[13..20]);
        assert_eq!(&payload[..], br#"{"a":1}"#);
        assert_eq!(payload.as_ptr(), body[13..].as_ptr());
        assert_eq!(&slice(&body, "{}")[..], b"{}");
    }

    #[test]
    fn the_nearest_name_is_only_named_if_it_is_near() {
        let names = || ["start_deep_analysis", "get_job", "wait_for_jobs"].into_iter();
        assert_eq!(nearest("start_deep_analisys", names()), Some("start_deep_analysis"));
        assert_eq!(nearest("wait_for_job", names()), Some("wait_for_jobs"));
        assert_eq!(nearest("x", names()), None);
        assert_eq!(nearest("", names()), None);
    }
}
