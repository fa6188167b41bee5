//! Questions of a job as requests to a session's client, on the stream that waits for the job; and what the client posts back.
//!
//! In: a job that asks. Out: `elicitation/create`, each question once on a stream. The id of such a request is the job's and the question's key, so that its
//! answer finds them whatever became of the stream or the server.

use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::questions::{self, form};
use super::rpc::{self, Error, INVALID_PARAMS, Message};
use super::tools::unfinished;
use super::voice::Voice;
use super::work::Asker;
use super::{Endpoint, refusal};
use crate::job::{Action, Head, JobId, Mark};
use crate::mcp::reply::Members;
use crate::mcp::rounds::Round;
use crate::service::{Answer, Refused, Viewer};

/// What became of a job's questions.
pub(super) enum Put {
    /// What the client had sent along answers some of them: the job as it is then.
    Answered(Arc<Head>),
    /// They are asked on the stream.
    Asked,
    /// They, or where to answer them, are the answer.
    Instead(Members),
}

/// Puts the questions of a job whose call waits for it to the client, in the way that it knows.
///
/// # Errors
/// -32603 for what the service cannot do now.
pub(super) async fn put(
    endpoint: &Endpoint,
    asker: &Asker,
    voice: &mut Voice,
    round: Option<&Round>,
    head: &Arc<Head>,
) -> Result<Put, Error> {
    if ask(endpoint, asker, voice, head).await? {
        return Ok(Put::Asked);
    }
    let Some(round) = round else { return Ok(Put::Instead(unfinished(endpoint, asker, head))) };
    let internal = |refused| refusal::internal(&refused);
    let (newer, _) =
        questions::apply(endpoint, &asker.viewer, head.clone(), round.answers()).await.map_err(internal)?;
    if newer.job.revision != head.job.revision {
        return Ok(Put::Answered(newer));
    }
    let open = endpoint.service.questions(head).await.map_err(internal)?;
    if open.is_empty() {
        // Somebody else has just answered.
        return endpoint.service.job(&asker.viewer, head.job.id()).await.map(Put::Answered).map_err(internal);
    }
    Ok(Put::Instead(round.result(endpoint, head, &open)))
}

/// Asks on the stream what was not asked there before; false if the client cannot be asked so.
///
/// # Errors
/// -32603 for what the service cannot do now.
pub(super) async fn ask(
    endpoint: &Endpoint,
    asker: &Asker,
    voice: &mut Voice,
    head: &Arc<Head>,
) -> Result<bool, Error> {
    let can_be_asked = asker.session.is_some() && asker.abilities.elicitation && asker.revision.has_elicitation();
    if !can_be_asked || !voice.is_heard() {
        return Ok(false);
    }
    let open = endpoint.service.questions(head).await.map_err(|refused| refusal::internal(&refused))?;
    for question in open {
        let mark = Mark::of(&question.key);
        let at = head.job.questions.all().iter().position(|asked| asked.mark == mark).unwrap_or_default();
        if at < voice.asked() {
            continue;
        }
        let mut params = form(&question);
        if !asker.revision.has_tasks()
            && let Some(params) = params.as_object_mut()
        {
            // There is only one mode before 2025-11-25.
            params.remove("mode");
        }
        let id = format!("{}/{}", head.job.id(), question.key);
        let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params });
        if let Some(mark) = voice.related() {
            message["params"]["_meta"] = mark;
        }
        voice.ask(at + 1, message.to_string().as_bytes(), endpoint.clock.now()).await;
    }
    Ok(true)
}

/// Takes a client's response to a request of ours. One that is to no open question, or comes a second time, is passed over.
///
/// # Errors
/// HTTP 400, -32602, for an answer that does not fit: the question stays open. HTTP 503 for what the service cannot do now.
pub(super) async fn answered(endpoint: &Endpoint, viewer: &Viewer, message: &Message<'_>) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        #[serde(borrow, default)]
        result: Option<&'a RawValue>,
    }
    let Ok(Response { id, result }) = serde_json::from_str(message.text) else { return Ok(()) };
    let id = rpc::text(id).unwrap_or_default();
    let Some((Ok(job), key)) = id.split_once('/').map(|(job, key)| (JobId::from_str(job), key)) else { return Ok(()) };
    let answer = match result {
        Some(result) => questions::answer(result),
        // The client could not ask: nobody will answer there.
        None => Some(Answer { action: Action::Cancel, content: None }),
    };
    let refuse = |text: String| Err(Error::refused(400, INVALID_PARAMS, text));
    let Some(answer) = answer else { return refuse("the result has no action that is known".into()) };
    match endpoint.service.answer(viewer, job, vec![(key.to_owned(), answer)]).await {
        Ok(_) | Err(Refused::NotWaiting(_) | Refused::NoSuchJob) => Ok(()),
        Err(Refused::Schema(violations) | Refused::BadField(violations)) => refuse(refusal::misfit_answer(&violations)),
        Err(refused) => Err(Error { status: 503, ..refusal::internal(&refused) }),
    }
}
