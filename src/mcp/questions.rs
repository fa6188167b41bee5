//! Questions of jobs as MCP asks them, by forms, and what clients send back.
//!
//! In: open questions; answers as written. Out: requests for input; answers, as far as they are open and fit. An answer that does not fit leaves its
//! question open.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Endpoint;
use super::rpc::{self, Error, INVALID_PARAMS};
use crate::job::{Action, Head, Standing};
use crate::service::{Answer, OpenQuestion, Refused, Viewer};

/// Answers by the keys of their questions.
pub(super) type Answers = BTreeMap<String, Answer>;

/// What a client sends back for one question.
#[derive(Deserialize)]
struct Sent {
    action: Action,
    #[serde(default)]
    content: Option<Box<RawValue>>,
}

/// The questions as requests for input, by their keys.
pub(super) fn requests(open: &[OpenQuestion]) -> Map<String, Value> {
    let request = |question: &OpenQuestion| json!({ "method": "elicitation/create", "params": form(question) });
    open.iter().map(|question| (question.key.clone(), request(question))).collect()
}

/// A question as `params` of `elicitation/create`.
pub(super) fn form(question: &OpenQuestion) -> Value {
    json!({ "mode": "form", "message": question.message, "requestedSchema": question.schema })
}

/// One answer, as its client sends it; `None` if it cannot be meant.
pub(super) fn answer(raw: &RawValue) -> Option<Answer> {
    let Sent { action, content } = serde_json::from_str(raw.get()).ok()?;
    Some(Answer { action, content })
}

/// `params.inputResponses`, what of it can be meant; `None` if there is none.
///
/// # Errors
/// -32602 if it is no object.
pub(super) fn answers(raw: Option<&RawValue>) -> Result<Option<Answers>, Error> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(None) };
    let invalid = || Error::answered(INVALID_PARAMS, "params.inputResponses must be an object: an answer per key");
    if !rpc::is_object(raw) {
        return Err(invalid());
    }
    let sent: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    Ok(Some(sent.into_iter().filter_map(|(key, raw)| Some((key, answer(raw)?))).collect()))
}

/// Gives the job those of the answers that are to open questions and fit them; durable when it returns. The job as it is then.
///
/// # Errors
/// `NoSuchJob`, `Busy`, `Draining`, `DiskFull`, `Unhealthy`.
pub(super) async fn apply(
    endpoint: &Endpoint,
    viewer: &Viewer,
    mut head: Arc<Head>,
    answers: &Answers,
) -> Result<Arc<Head>, Refused> {
    for (key, answer) in answers {
        if !is_open(&head, key) {
            continue;
        }
        match endpoint.service.answer(viewer, head.job.id(), vec![(key.clone(), answer.clone())]).await {
            Ok(newer) => head = newer,
            Err(Refused::Schema(_) | Refused::BadField(_) | Refused::NotWaiting(_)) => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(head)
}

fn is_open(head: &Head, key: &str) -> bool {
    let standing = head.job.questions.keyed(key).map(|question| question.standing);
    head.job.awaits_input() && matches!(standing, Some(Standing::Open { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_cannot_be_meant_are_left_out_and_what_is_no_object_is_refused() {
        let read = |json: &str| {
            let raw: &RawValue = serde_json::from_str(json).expect("is JSON");
            answers(Some(raw)).map(|answers| answers.map(|answers| answers.into_keys().collect::<Vec<_>>()))
        };
        assert!(answers(None).is_ok_and(|answers| answers.is_none()));
        assert_eq!(read("null"), Ok(None));
        let some =
            r#"{"a":{"action":"accept","content":{"x":1}},"b":{"action":"later"},"c":7,"d":{"action":"decline"}}"#;
        assert_eq!(read(some), Ok(Some(vec!["a".into(), "d".into()])));
        for bad in ["[]", "7", "\"a\""] {
            assert_eq!(read(bad).map_err(|error| error.code), Err(INVALID_PARAMS));
        }
    }
}
