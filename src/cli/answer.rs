//! `answer`: what a person says to a job's question.
//!
//! In: a job, a question's key, an answer. Out: how the job goes on, and what it still asks.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::jobs::{check_id, state};
use super::output::Output;
use super::submit::payload;

/// An answer.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// The job
    id: String,
    /// The question, as `get` and `watch` show it
    key: String,
    /// The answer as a JSON object, as @FILE, or - for stdin
    #[arg(value_name = "JSON | @FILE | -", default_value = "{}")]
    content: String,
    /// Say no to it instead
    #[arg(long, conflicts_with_all = ["content", "cancel"])]
    decline: bool,
    /// Put it away without an answer instead
    #[arg(long, conflicts_with = "content")]
    cancel: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    answers: BTreeMap<&'a str, Answer>,
}

#[derive(Serialize)]
struct Answer {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
}

/// Answers one question.
///
/// # Errors
/// `Usage` if the answer is no JSON; what the server refuses.
pub fn answer(client: &Client, output: &Output, wish: &Wish) -> Result<Ending, Failure> {
    let answer = match (wish.decline, wish.cancel) {
        (true, _) => Answer { action: "decline", content: None },
        (_, true) => Answer { action: "cancel", content: None },
        (false, false) => Answer { action: "accept", content: Some(payload(&wish.content)?) },
    };
    let body = Body { answers: BTreeMap::from([(wish.key.as_str(), answer)]) };
    let job = client.post(&format!("/api/jobs/{}/input", check_id(&wish.id)?), &body)?.json()?;
    if output.json {
        output.value(&job)?;
        return Ok(Ending::Done);
    }
    output.line(&state(&job, &wish.id))?;
    questions(&job).iter().try_for_each(|question| output.line(&format!("it asks {question}")))?;
    Ok(Ending::Done)
}

/// A job's open questions, a text each: its key, its words, and what an answer looks like.
pub fn questions(job: &Value) -> Vec<String> {
    let asked = job["questions"].as_array().into_iter().flatten();
    let text = |question: &Value| {
        let text = |name: &str| question[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {} {}", text("key"), text("message"), question["schema"])
    };
    asked.map(text).collect()
}
