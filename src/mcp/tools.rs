//! `tools/call`: from a name and arguments to a durable job, and to a handle or a result.
//!
//! In: the call as written. Out: the members of a tool result, or a JSON-RPC error. The arguments are handed on as the slice of the body
//! that they are. Knows no headers and no eras but through the revision that the answer is written in.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::era::{Meta, Revision};
use super::leash::Leash;
use super::log::Level;
use super::reply::Members;
use super::rights::Rights;
use super::rounds::Round;
use super::rpc::{self, Error, INVALID_PARAMS, METHOD_NOT_FOUND, Params};
use super::session::{Abilities, Session};
use super::work::{Asker, Outcome, Waits, Work};
use super::{Endpoint, helpers, refusal, result, tasks};
use crate::job::{Head, Status};
use crate::service::{Refused, Submit, Submitted, TaskSupport, Tool, Viewer};

/// One `tools/call`.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// How the answer is written.
    pub revision: Revision,
    /// Who calls.
    pub viewer: &'a Viewer,
    /// What they may do.
    pub rights: Rights,
    /// What `params` are slices of.
    pub body: &'a Bytes,
    /// As written.
    pub params: Params<'a>,
    /// As written.
    pub meta: Meta<'a>,
    /// The session, in the revisions that have them.
    pub session: Option<&'a Session>,
    /// What the client can do.
    pub abilities: Abilities,
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

    /// Who waits for the answer.
    pub(super) fn asker(&self, session: Option<Arc<Session>>) -> Asker {
        let (viewer, revision, abilities) = (self.viewer.clone(), self.revision, self.abilities);
        Asker { viewer, revision, session, abilities, level: self.level() }
    }

    /// The progress token as written; anything but a string or an integer is none.
    pub(super) fn token(&self) -> Option<&'a str> {
        self.meta.token.map(RawValue::get).filter(|raw| rpc::is_id(raw))
    }

    fn level(&self) -> Option<Level> {
        self.meta.level.filter(|_| self.revision.is_modern()).and_then(|raw| Level::of_json(raw.get()))
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
pub(super) async fn call(endpoint: &Endpoint, call: &Call<'_>) -> Result<Outcome, Error> {
    let name = call.name()?;
    let arguments = call.arguments()?;
    if let Some(tool) = endpoint.service.catalogue().named(&name) {
        return start(endpoint, call, tool, arguments).await;
    }
    match &endpoint.helpers {
        Some(catalogue) if catalogue.named(&name).is_some() => {
            is_task_wanted(call, &name, TaskSupport::Never)?;
            helpers::call(endpoint, catalogue, call, &name, arguments).await
        }
        Some(_) | None => Err(unknown(endpoint, &name)),
    }
}

/// In what form a call hands out a job that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Handle,
    LegacyTask,
    ModernTask,
}

/// The table of contract 6.
fn form(call: &Call<'_>, tool: &Tool) -> Result<Form, Error> {
    if !call.revision.is_modern() {
        let is_task = is_task_wanted(call, &tool.name, tool.task_support)?;
        return Ok(if is_task { Form::LegacyTask } else { Form::Handle });
    }
    match tool.task_support {
        TaskSupport::Auto if call.abilities.tasks => Ok(Form::ModernTask),
        TaskSupport::Auto | TaskSupport::Never => Ok(Form::Handle),
        TaskSupport::Required => tasks::modern::declared(call).map(|()| Form::ModernTask),
    }
}

/// Whether a session's call asks for a task.
///
/// # Errors
/// -32601 if the tool does not allow what it asks for; -32602 if that makes no sense.
fn is_task_wanted(call: &Call<'_>, name: &str, support: TaskSupport) -> Result<bool, Error> {
    let is_wanted = call.revision.has_tasks() && tasks::legacy::is_wanted(call.params.task)?;
    let refuse = |what: &str| Err(Error::answered(METHOD_NOT_FOUND, format!("the tool {name} {what}")));
    match (support, is_wanted) {
        (TaskSupport::Auto | TaskSupport::Never, false) => Ok(false),
        (TaskSupport::Auto | TaskSupport::Required, true) => Ok(true),
        (TaskSupport::Never, true) => refuse("cannot be called as a task: leave out params.task"),
        (TaskSupport::Required, false) => {
            refuse("can only be called as a task: add params.task in a session of 2025-11-25")
        }
    }
}

async fn start(endpoint: &Endpoint, call: &Call<'_>, tool: &Tool, arguments: &str) -> Result<Outcome, Error> {
    let form = form(call, tool)?;
    // Where the client asks its user. A task does that later, unless it is one that only begins when nothing more is asked.
    let asks = call.revision.is_modern() && call.abilities.elicitation && tool.inline_wait.0 > 0;
    let asks = asks && (form == Form::Handle || tool.task_support == TaskSupport::Required);
    let is_retry = call.revision.is_modern() && call.params.request_state.is_some();
    let round = if asks || is_retry { Some(Round::of(call, tool, arguments)?) } else { None };
    let resumed = match &round {
        Some(round) => round.resumed(endpoint, call).await?,
        None => None,
    };
    let round = round.filter(|_| asks);
    if let Some(head) = resumed {
        return Ok(hand_out(endpoint, call, (tool, form), &head, (None, round)));
    }
    let submit = Submit {
        job_type: tool.job_type.to_string(),
        payload: slice(call.body, arguments),
        key: call.key()?,
        traceparent: call.traceparent(),
        ..Submit::default()
    };
    // Of the revision without sessions, a client that closes the request gives the call up, unless a key says that it will ask again.
    if call.revision.is_modern() && submit.key.is_none() && !tool.derive_key {
        let mut leash = Leash::new(&endpoint.service, call.viewer, submit);
        let submitted = leash.submitted().await;
        return answer(endpoint, call, (tool, form), submitted, (Some(leash), round));
    }
    let submitted = endpoint.service.submit(call.viewer, submit).await;
    answer(endpoint, call, (tool, form), submitted, (None, round))
}

fn answer(
    endpoint: &Endpoint,
    call: &Call<'_>,
    (tool, form): (&Tool, Form),
    submitted: Result<Submitted, Refused>,
    (leash, round): (Option<Leash>, Option<Round>),
) -> Result<Outcome, Error> {
    match submitted {
        Ok(submitted) => Ok(hand_out(endpoint, call, (tool, form), &submitted.head, (leash, round))),
        Err(refused) if form == Form::LegacyTask => Err(refusal::of_task(&refused)),
        Err(refused) => refusal::of_call(&refused, call.revision).map(Outcome::Ready),
    }
}

/// What is answered at once, or the wait for more.
fn hand_out(
    endpoint: &Endpoint,
    call: &Call<'_>,
    (tool, form): (&Tool, Form),
    head: &Head,
    (mut leash, round): (Option<Leash>, Option<Round>),
) -> Outcome {
    let waits = tool.inline_wait.0 > 0 && (tool.task_support != TaskSupport::Required || round.is_some());
    let members = match form {
        Form::LegacyTask => tasks::legacy::created(endpoint, call, head),
        Form::ModernTask | Form::Handle if waits => {
            let until = endpoint.clock.now().plus(tool.inline_wait);
            return Outcome::Waiting(Work { leash, round, ..Work::of(Waits::Call(head.job.id(), until.0)) });
        }
        Form::ModernTask => tasks::modern::created(endpoint, head),
        Form::Handle => handle(endpoint, head),
    };
    leash.iter_mut().for_each(Leash::release);
    members.into()
}

/// What is answered for a job that goes on: a task where the client takes one, else its handle.
pub(super) fn unfinished(endpoint: &Endpoint, asker: &Asker, head: &Head) -> Members {
    if asker.revision.is_modern() && asker.abilities.tasks && task_support(endpoint, head) != TaskSupport::Never {
        return tasks::modern::created(endpoint, head);
    }
    handle(endpoint, head)
}

/// What is answered for a job that has ended: its result, but a tool that is always a task is one even then.
///
/// # Errors
/// As `result::of_job`.
pub(super) async fn ended(endpoint: &Endpoint, asker: &Asker, head: &Arc<Head>) -> Result<Members, Error> {
    if asker.revision.is_modern() && task_support(endpoint, head) == TaskSupport::Required {
        return Ok(tasks::modern::created(endpoint, head));
    }
    result::of_job(endpoint, asker.revision, head).await
}

fn task_support(endpoint: &Endpoint, head: &Head) -> TaskSupport {
    let catalogue = endpoint.service.catalogue();
    catalogue.of_type(&head.job.spec.job_type).map(|tool| tool.task_support).unwrap_or_default()
}

/// What is answered while, or although, there is more to learn about the job.
pub(super) fn handle(endpoint: &Endpoint, head: &Head) -> Members {
    let message = next_step(endpoint, head);
    let mut structured = Vec::with_capacity(message.len() + 2 * endpoint.links.base.len() + 300);
    push_handle(&mut structured, endpoint, head, &message);
    structured.push(b'}');
    Members { structured: Some(structured), ..Members::text(&message) }.about(head.job.id())
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
pub(super) fn next_step(endpoint: &Endpoint, head: &Head) -> String {
    let (id, status) = (head.job.id(), head.job.status());
    let name = status.name();
    if endpoint.helpers.is_none() {
        return format!("The job {id} is {name}. Its state is at {}.", endpoint.links.status_url(id));
    }
    match status {
        Status::InputRequired => format!(
            "The job {id} is {name}: it waits for answers to its questions. Next, call get_job with jobId {id} to read them, ask the user, \
             and call answer_job with jobId {id} and the answers; do not call this tool again for the same work."
        ),
        Status::Pending | Status::InProgress => format!(
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
    let catalogue = endpoint.service.catalogue();
    let configured = catalogue.tools();
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
