//! `POST /api/jobs/{id}/input`: answers to a job's questions.
//!
//! In: `{"answers": {KEY: {"action": "accept" | "decline" | "cancel", "content": {…}}}}`. What may be answered, and with
//! what, `service` knows.

use std::fmt;

use hyper::body::Incoming;
use hyper::http::request::Parts as Head;
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::Fields;
use super::job::small_body;
use super::show;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::job::{Action, JobId, QUESTIONS_MAX};
use crate::service::{Answer, Detail, Refused, Violation};

/// What the field has to be, for a complaint.
const SHAPE: &str =
    "an object with an answer per key: {\"action\": \"accept\", \"content\": {…}}, or \"decline\", or \"cancel\"";

/// Takes the answers, all or none. The job as it is then.
///
/// # Errors
/// `bad_json`, `bad_request`, `media_type`, `too_large`; what `Service::answer` refuses.
pub async fn answer(
    app: &App,
    caller: &Caller,
    id: JobId,
    head: &Head,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let body = small_body(app, head, body).await?;
    let answers = read(&body)?;
    let answered = app.service.answer(&caller.viewer, id, answers).await.map_err(below_answers)?;
    show(app, StatusCode::OK, &answered, Detail::Small).await
}

fn read(body: &[u8]) -> Result<Vec<(String, Answer)>, Problem> {
    let mut fields = Fields::read(body, &["answers"])?;
    let answers: Option<Answers> = fields.take("answers", SHAPE);
    if fields.raw("answers").is_none() {
        fields.complain("answers", format!("is required: {SHAPE}"));
    }
    fields.finish()?;
    Ok(answers.map(|answers| answers.0).unwrap_or_default())
}

/// The pointers of a refusal start at the body.
fn below_answers(refused: Refused) -> Problem {
    let below = |violations: Vec<Violation>| violations.into_iter().map(|v| v.below("/answers")).collect();
    Problem::from(match refused {
        Refused::BadField(violations) => Refused::BadField(below(violations)),
        Refused::Schema(violations) => Refused::Schema(below(violations)),
        other => other,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    action: Action,
    content: Option<Box<RawValue>>,
}

/// In the order in which they were sent, each as often as it was; one more than may be is enough to be refused.
struct Answers(Vec<(String, Answer)>);

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Answers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Answers, A::Error> {
                let mut answers = Vec::new();
                while answers.len() <= QUESTIONS_MAX {
                    let Some((key, Sent { action, content })) = map.next_entry()? else { break };
                    answers.push((key, Answer { action, content }));
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Answers(answers))
            }
        }
        from.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::Code;

    fn keys(body: &str) -> Result<Vec<String>, (Code, Vec<String>)> {
        match read(body.as_bytes()) {
            Ok(answers) => Ok(answers.into_iter().map(|(key, _)| key).collect()),
            Err(problem) => Err((problem.code, problem.errors.into_iter().map(|v| v.pointer).collect())),
        }
    }

    #[test]
    fn answers_are_named_by_key_and_each_has_an_action() {
        let two = r#"{"answers":{"b":{"action":"accept","content":{"x":1.50}},"a":{"action":"decline"}}}"#;
        assert_eq!(keys(two), Ok(vec!["b".into(), "a".into()]));
        assert_eq!(read(two.as_bytes()).ok().unwrap()[0].1.content.as_ref().unwrap().get(), r#"{"x":1.50}"#);
        // That a key is there twice is seen, not lost: `service` refuses it.
        let twice = r#"{"answers":{"a":{"action":"accept"},"a":{"action":"decline"}}}"#;
        assert_eq!(keys(twice), Ok(vec!["a".into(), "a".into()]));
        assert_eq!(keys(r#"{"answers":{}}"#), Ok(vec![]));
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        let bad = |pointers: &[&str]| Err((Code::BadRequest, pointers.iter().map(|p| (*p).to_owned()).collect()));
        for body in [
            "{}",
            r#"{"answers":null}"#,
            r#"{"answers":[]}"#,
            r#"{"answers":{"a":{}}}"#,
            r#"{"answers":{"a":{"action":"yes"}}}"#,
            r#"{"answers":{"a":{"action":"accept","value":1}}}"#,
            r#"{"answers":{"a":"accept"}}"#,
        ] {
            assert_eq!(keys(body), bad(&["/answers"]), "{body}");
        }
        assert_eq!(keys(r#"{"answers":{},"key":1}"#), bad(&["/key"]));
        assert_eq!(keys("{").map_err(|(code, _)| code), Err(Code::BadJson));
        let many: Vec<_> = (0..100).map(|n| format!(r#""k{n}":{{"action":"cancel"}}"#)).collect();
        assert_eq!(keys(&format!(r#"{{"answers":{{{}}}}}"#, many.join(","))).unwrap().len(), QUESTIONS_MAX + 1);
    }
}
