//! rmcp 3.x: 2026-07-28 without a session, and a session of 2025-11-25 with streams that it resumes.

mod promises;
mod session;

use anyhow::{Context, Result, ensure};
use rmcp::model::{CancelTaskParams, UpdateTaskParams};
use serde_json::{Value, json};

use promises::{ended, interrupted, newest, ok, restart, running};
use session::{Mood, Session, result, told};

#[tokio::main]
async fn main() -> Result<()> {
    for revision in ["2026-07-28", "2025-11-25"] {
        let session = Session::open(revision, false).await?;
        lists(&session).await?;
        handles(&session).await?;
        progresses(&session).await?;
        cancels(&session).await?;
        match revision {
            "2025-11-25" => resumes(&session).await?,
            _ => repeats(&session).await?,
        }
        asks(&session).await?;
        session.client.cancel().await?;
    }
    let session = Session::open("2026-07-28", true).await?;
    tasks(&session).await?;
    session.client.cancel().await?;
    Ok(())
}

async fn lists(session: &Session) -> Result<()> {
    let tools = session.client.list_all_tools().await?;
    for name in ["quick", "slow", "job", "ask", "task", "get_job", "wait_for_jobs", "cancel_job", "list_jobs"] {
        ensure!(tools.iter().any(|tool| tool.name == name), "{name} is listed");
    }
    ok(session.revision, "list", "the tools and the helpers");
    Ok(())
}

async fn handles(session: &Session) -> Result<()> {
    let (arguments, key) = (
        json!({"label": "handle", "steps": 3}),
        json!({"longhaul/idempotencyKey": format!("handle {}", session.revision).replace(' ', "-")}),
    );
    let first = session.call("job", arguments.clone(), key.clone()).await?;
    let id = first["structuredContent"]["jobId"].as_str().context("a handle")?;
    let text = first["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(text.contains("wait_for_jobs") && text.contains(id), "{first}");
    let again = session.call("job", arguments.clone(), key).await?;
    ensure!(again["structuredContent"]["jobId"] == *id, "{again}");
    ok(session.revision, "start", "a call is answered by a handle at once, and its key names one job");

    let mut report = json!({"done": false, "cursor": ""});
    while report["done"] != true {
        let asked = json!({"jobIds": [id], "timeoutMs": 10_000, "since": report["cursor"]});
        report = session.structured("wait_for_jobs", asked).await?;
    }
    ensure!(report["jobs"][0]["status"] == "completed", "{report}");
    ok(session.revision, "wait", "wait_for_jobs tells by its cursor what changed, until the end");

    let (mut text, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let asked = json!({"jobId": id, "part": "result", "offset": offset, "limit": 20});
        let range = session.structured("get_job", asked).await?;
        text += range["text"].as_str().context("a range")?;
        offset = range["nextOffset"].clone();
    }
    ensure!(serde_json::from_str::<Value>(&text)? == arguments, "{text}");
    ended(id, "job.completed").await?;
    ensure!(session.structured("quick", json!({"a": 2, "b": 3})).await? == json!({"sum": 5}), "2 + 3");
    ok(session.revision, "result", "inline, and in ranges by get_job");

    let wrong = session.call("quick", json!({"a": "two", "b": 3}), Value::Null).await?;
    let text = wrong["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(wrong["isError"] == true && text.contains("/a"), "{wrong}");
    ok(session.revision, "start", "wrong arguments are told to the model");
    Ok(())
}

async fn progresses(session: &Session) -> Result<()> {
    let arguments = json!({"label": "progress", "steps": 4});
    let answer = session.call("slow", arguments.clone(), Value::Null).await?;
    ensure!(told(&answer)? == arguments, "{answer}");
    session.at_two().await;
    session.has_risen(4, false)?;
    ok(session.revision, "progress", "rising, up to the last of its steps, before the result");
    Ok(())
}

async fn cancels(session: &Session) -> Result<()> {
    let handle = session.structured("job", json!({"steps": 10_000})).await?;
    let id = handle["jobId"].as_str().context("a handle")?;
    let canceling = session.structured("cancel_job", json!({"jobId": id, "reason": "changed my mind"})).await?;
    ensure!(canceling["cancel"]["requestedAt"].is_string(), "{canceling}");
    let report =
        session.structured("wait_for_jobs", json!({"jobIds": [id], "mode": "all", "timeoutMs": 30_000})).await?;
    ensure!(report["jobs"][0]["status"] == "canceled", "{report}");
    ended(id, "job.canceled").await?;
    ok(session.revision, "cancel", "cancel_job stops a job, and its waiters hear");

    let call = session.send("slow", json!({"label": "abort", "steps": 10_000}), Value::Null).await?;
    session.at_two().await;
    call.cancel(Some("enough".into())).await?;
    let job = newest("slow").await?;
    ensure!((&job["payload"]["label"], &job["status"]) == (&json!("abort"), &json!("canceled")), "{job}");
    ok(session.revision, "cancel", "an aborted call cancels its job");
    Ok(())
}

async fn asks(session: &Session) -> Result<()> {
    let answer = session.ask(Mood::Names).await?;
    ensure!(told(&answer)? == json!({"greeting": "Hello, Ada!"}), "{answer}");
    ok(session.revision, "question", "what a program asks is shown as a form, and the program gets the answer");

    let declined = session.ask(Mood::Declines).await?;
    let text = declined["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(declined["isError"] == true && text.contains("nobody was named"), "{declined}");
    ok(session.revision, "question", "a person may decline");

    let answer = session.ask(Mood::NamesAfterAKill).await?;
    ensure!(told(&answer)? == json!({"greeting": "Hello, Ada!"}), "{answer}");
    ok(session.revision, "question", "asked before a kill of the server, it is answered after it");
    Ok(())
}

/// The extension of 2026-07-28.
async fn tasks(session: &Session) -> Result<()> {
    let arguments = json!({"label": "task", "steps": 3});
    let task = session.settled(&session.create("task", &arguments).await?).await?;
    ensure!(task["status"] == "completed" && told(&task["result"])? == arguments, "{task}");
    ok(session.revision, "tasks", "a call becomes a task, is polled, and its result comes");

    let id = session.create("ask", &json!({})).await?;
    let task = session.settled(&id).await?;
    ensure!(task["inputRequests"]["name"]["method"] == "elicitation/create", "{task}");
    let answers = [("name".to_owned(), json!({"action": "accept", "content": {"name": "Ada"}}))];
    session.client.update_task(UpdateTaskParams::new(&id, answers.into())).await?;
    let task = session.settled(&id).await?;
    ensure!(told(&task["result"])? == json!({"greeting": "Hello, Ada!"}), "{task}");
    ok(session.revision, "tasks", "a task asks, and is answered by tasks/update");

    let arguments = json!({"label": "kill", "steps": 20, "stepMs": 250});
    let id = session.create("task", &arguments).await?;
    running(&id).await?;
    restart().await?;
    let task = session.settled(&id).await?;
    ensure!(told(&task["result"])? == arguments, "{task}");
    interrupted(&id).await?;
    ok(session.revision, "tasks", "after a kill of the server the task is there, and its result comes");

    let id = session.create("task", &json!({"steps": 10_000})).await?;
    session.client.cancel_task(CancelTaskParams::new(&id)).await?;
    ensure!(session.settled(&id).await?["status"] == "cancelled", "{id}");
    ended(&id, "job.canceled").await?;
    ok(session.revision, "tasks", "tasks/cancel stops it");
    Ok(())
}

/// Waits on a stream that rmcp resumes by itself.
async fn resumes(session: &Session) -> Result<()> {
    let arguments = json!({"label": "resume", "steps": 12, "stepMs": 250});
    let call = session.send("slow", arguments.clone(), Value::Null).await?;
    session.at_two().await;
    let (restarted, answer) = tokio::join!(restart(), result(call));
    restarted?;
    let answer = answer?;
    ensure!(told(&answer)? == arguments, "{answer}");
    session.has_risen(12, true)?;
    interrupted(answer["_meta"]["longhaul/jobId"].as_str().unwrap_or_default()).await?;
    session.client.list_all_tools().await?;
    ok(
        session.revision,
        "resume",
        "over a kill of the server the stream goes on, no step comes twice, and the result comes",
    );
    Ok(())
}

/// Where no stream is resumed: the call fails, and made again with its key it finds its job.
async fn repeats(session: &Session) -> Result<()> {
    let (arguments, key) =
        (json!({"label": "repeat", "steps": 12, "stepMs": 250}), json!({"longhaul/idempotencyKey": "repeat"}));
    let call = session.send("slow", arguments.clone(), key.clone()).await?;
    session.at_two().await;
    let (restarted, lost) = tokio::join!(restart(), result(call));
    restarted?;
    ensure!(lost.is_err(), "the call outlived its server: {lost:?}");
    let answer = session.call("slow", arguments.clone(), key).await?;
    ensure!(told(&answer)? == arguments, "{answer}");
    interrupted(answer["_meta"]["longhaul/jobId"].as_str().unwrap_or_default()).await?;
    ok(
        session.revision,
        "resume",
        "made again with its key after a kill of the server, a call finds its job and its result",
    );
    Ok(())
}
