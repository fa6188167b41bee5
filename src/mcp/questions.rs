//! Questions of jobs as MCP asks them, by forms, and what clients send back.
//!
//! In: open questions; answers as written. Out: requests for input; answers, as far as they are open and fit. An answer that does not fit leaves its
//! question open.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Endpoint;
use super::rpc::{self, Error, INVALID_PARAMS};
use crate::job::{Action, Head, QUESTION_KEY_MAX, Standing, cut};
use crate::service::{Answer, OpenQuestion, Refused, Viewer, Violation};

/// Answers by the keys of their questions; `None` for one that cannot be meant.
pub(super) type Answers = BTreeMap<String, Option<Answer>>;

/// What an answer has to be.
const SHAPE: &str = "must be {\"action\": \"accept\", \"content\": {…}}, or have the action decline or cancel";

/// The members of an object as they were sent, each as often as it was.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Each)
    }
}

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

/// `params.inputResponses`; `None` if there is none.
///
/// # Errors
/// -32602 if it is no object, or names a key twice: whoever shows it and who takes it might each believe another answer.
pub(super) fn answers(raw: Option<&RawValue>) -> Result<Option<Answers>, Error> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(None) };
    let invalid = || Error::answered(INVALID_PARAMS, "params.inputResponses must be an object: an answer per key");
    if !rpc::is_object(raw) {
        return Err(invalid());
    }
    let Members(sent) = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    let mut answers = Answers::new();
    for (key, raw) in sent {
        if answers.contains_key(&key) {
            let text = format!("params.inputResponses has {} more than once", cut(&key, QUESTION_KEY_MAX));
            return Err(Error::answered(INVALID_PARAMS, text));
        }
        answers.insert(key, answer(raw));
    }
    Ok(Some(answers))
}

/// Gives the job those of the answers that are to open questions and fit them; durable when it returns. The job as it is then, and what is
/// wrong with the others to open questions, by pointers such as `/KEY/content/size`.
///
/// # Errors
/// `NoSuchJob`, `Busy`, `Draining`, `DiskFull`, `Unhealthy`.
pub(super) async fn apply(
    endpoint: &Endpoint,
    viewer: &Viewer,
    mut head: Arc<Head>,
    answers: &Answers,
) -> Result<(Arc<Head>, Vec<Violation>), Refused> {
    let mut unfit = Vec::new();
    for (key, answer) in answers {
        if !is_open(&head, key) {
            continue;
        }
        let Some(answer) = answer else {
            unfit.push(Violation { pointer: format!("/{key}"), message: SHAPE.into() });
            continue;
        };
        match endpoint.service.answer(viewer, head.job.id(), vec![(key.clone(), answer.clone())]).await {
            Ok(newer) => head = newer,
            Err(Refused::Schema(violations) | Refused::BadField(violations)) => unfit.extend(violations),
            Err(Refused::NotWaiting(_)) => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok((head, unfit))
}

fn is_open(head: &Head, key: &str) -> bool {
    let standing = head.job.questions.keyed(key).map(|question| question.standing);
    head.job.awaits_input() && matches!(standing, Some(Standing::Open { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_cannot_be_meant_are_none_and_what_is_no_object_or_names_a_key_twice_is_refused() {
        let read = |json: &str| {
            let raw: &RawValue = serde_json::from_str(json).expect("is JSON");
            let meant = |(key, answer): (String, Option<Answer>)| answer.map(|_| key);
            answers(Some(raw)).map(|answers| answers.map(|all| all.into_iter().filter_map(meant).collect::<Vec<_>>()))
        };
        assert!(answers(None).is_ok_and(|answers| answers.is_none()));
        assert_eq!(read("null"), Ok(None));
        let some =
            r#"{"a":{"action":"accept","content":{"x":1}},"b":{"action":"later"},"c":7,"d":{"action":"decline"}}"#;
        assert_eq!(read(some), Ok(Some(vec!["a".into(), "d".into()])));
        let twice = r#"{"a":{"action":"accept"},"b":7,"\u0061":{"action":"decline"}}"#;
        for bad in ["[]", "7", "\"a\"", twice] {
            assert_eq!(read(bad).map_err(|error| error.code), Err(INVALID_PARAMS));
        }
    }
}
