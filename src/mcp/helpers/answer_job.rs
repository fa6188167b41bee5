//! `answer_job`: answers a job's questions for clients that cannot ask their user themselves.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Context, Stop, structured};
use crate::job::{Action, QUESTIONS_MAX};
use crate::mcp::refusal;
use crate::mcp::reply::Members;
use crate::service::{Answer, Refused};

pub(super) const DESCRIPTION: &str = "Answers questions of a job whose status is input_required; get_job shows them, each with its key \
and the schema of its content. Ask the user first: these answers are theirs to give. All of the answers are taken, or none; each question is answered once.";

pub(super) fn schema() -> Value {
    let answer = json!({
        "type": "object",
        "properties": {
            "action": { "enum": ["accept", "decline", "cancel"], "description": "accept: with content; decline: the user says no; cancel: the user put it away." },
            "content": { "type": "object", "description": "With accept: what fits the question's schema." },
        },
        "required": ["action"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "jobId": { "type": "string" },
            "answers": {
                "type": "object",
                "description": "The answers by the keys of their questions.",
                "minProperties": 1,
                "maxProperties": QUESTIONS_MAX,
                "additionalProperties": answer,
            },
        },
        "required": ["jobId", "answers"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    let id = head.job.id();
    let answers = context.arguments.get("answers").and_then(Value::as_object).into_iter().flatten();
    let answers = answers.filter_map(|(key, answer)| Some((key.clone(), read(answer)?))).collect();
    let told = |text: String| Err(Stop::Told(Members::complaint(&text).about(id)));
    let answered = match context.endpoint.service.answer(context.viewer, id, answers).await {
        Ok(head) => head,
        Err(Refused::Schema(violations) | Refused::BadField(violations)) => {
            return told(refusal::misfit_answer(&violations));
        }
        Err(Refused::NotWaiting(why)) => return told(format!("Nothing was answered: {why}.")),
        Err(refused) => return Err(refused.into()),
    };
    let next = match answered.job.awaits_input() {
        true => format!("The job {id} still waits for answers to the questions that are shown."),
        false => format!("The job {id} goes on. Call wait_for_jobs with jobIds [{id}] to learn how it ends."),
    };
    let view = context.view(&answered, &mut 0).await?;
    Ok(structured(&view, Some(&next)).about(id))
}

fn read(answer: &Value) -> Option<Answer> {
    let action = answer.get("action").and_then(|action| serde_json::from_value::<Action>(action.clone()).ok())?;
    let content = answer.get("content").and_then(|content| RawValue::from_string(content.to_string()).ok());
    Some(Answer { action, content })
}
