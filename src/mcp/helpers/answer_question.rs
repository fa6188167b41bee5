//! `answer_question`: what a person said to a job's question, in the form that the app shows.

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::{Context, Stop, view_job};
use crate::job::Action;
use crate::mcp::reply::Members;
use crate::service::{Answer, Refused};

pub(super) const DESCRIPTION: &str = "Answers a question of a job, for the view that shows it.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "jobId": { "type": "string" },
            "key": { "type": "string", "description": "The question." },
            "action": { "enum": ["accept", "decline"] },
            "content": { "type": "object", "description": "The answer, if it is accepted." },
        },
        "required": ["jobId", "key", "action"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    let id = head.job.id();
    let action = if context.text("action") == Some("accept") { Action::Accept } else { Action::Decline };
    let content = context.arguments.get("content").and_then(|content| to_raw_value(content).ok());
    let key = context.text("key").unwrap_or_default().to_owned();
    let told = |text: String| Err(Stop::Told(Members::complaint(&text).about(id)));
    match context.endpoint.service.answer(context.viewer, id, vec![(key, Answer { action, content })]).await {
        Ok(head) => view_job::answer(context, &head).await,
        Err(Refused::Schema(violations) | Refused::BadField(violations)) => {
            let words: Vec<_> = violations.into_iter().map(|violation| violation.message).collect();
            told(format!("The answer does not fit: {}", words.join("; ")))
        }
        Err(Refused::NotWaiting(_)) => told("This question is not open any more.".into()),
        Err(refused) => Err(refused.into()),
    }
}
