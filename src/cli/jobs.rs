//! `get`, `list`, `cancel`, `retry`: one question to the server each.
//!
//! In: an id or filters. Out: the job, or a row for each.

use serde_json::{Value, json};

use super::client::Client;
use super::failure::{Ending, Failure};
use super::output::Output;
use crate::job::JobId;

/// The id if it is one; so that what is no id never becomes part of a path.
///
/// # Errors
/// `Usage`.
pub fn check_id(id: &str) -> Result<JobId, Failure> {
    let no_id = |_| Failure::Usage(format!("{id:?} is no job id such as 0192f0c1-2b3c-7d4e-8f5a-6b7c8d9e0f1a"));
    id.parse().map_err(no_id)
}

/// Shows a job.
///
/// # Errors
/// What the server refuses.
pub fn get(client: &Client, output: &Output, id: &str) -> Result<Ending, Failure> {
    let job = client.get(&format!("/api/jobs/{}", check_id(id)?), &[])?.json()?;
    if output.json {
        output.value(&job)?;
        return Ok(Ending::Done);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for question in super::answer::questions(&job) {
        output.line(&format!("{:18} {question}", "question"))?;
    }
    for (name, value) in job.as_object().into_iter().flatten().filter(|(name, _)| *name != "questions") {
        output.line(&format!("{name:18} {}", text(value)))?;
    }
    Ok(Ending::Done)
}

/// What `list` can be asked to leave out.
#[derive(Debug, Default, Clone, clap::Args)]
pub struct Filters {
    /// Only this status: pending, in_progress, input_required, completed, failed or canceled
    #[arg(long)]
    status: Option<String>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Only with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only this principal's (needs the scope admin)
    #[arg(long)]
    owner: Option<String>,
    /// Only dead letters: failed jobs that were not replayed
    #[arg(long)]
    dead_lettered: bool,
    /// Only those created after this time, such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only those created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Only those that wait for a worker for longer than this, such as 5m
    #[arg(long, value_name = "DURATION")]
    pending_longer_than: Option<String>,
    /// At most so many, the newest [list: 50; export: all]
    #[arg(long)]
    limit: Option<usize>,
}

impl Filters {
    fn query(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("status", &self.status),
            ("type", &self.job_type),
            ("tag", &self.tag),
            ("owner", &self.owner),
            ("createdAfter", &self.created_after),
            ("createdBefore", &self.created_before),
            ("pendingLongerThan", &self.pending_longer_than),
        ];
        let mut query: Vec<_> = texts.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
        query.extend(self.dead_lettered.then(|| ("deadLettered", "true".to_owned())));
        query
    }
}

/// How many `list` shows unless told.
const LIST: usize = 50;
/// Most jobs of one page (contract 5).
const PAGE_MAX: usize = 1_000;

/// Lists jobs, newest first, page by page.
///
/// # Errors
/// What the server refuses.
pub fn list(client: &Client, output: &Output, filters: &Filters) -> Result<Ending, Failure> {
    let mut rows = Vec::new();
    let filters = Filters { limit: Some(filters.limit.unwrap_or(LIST)), ..filters.clone() };
    each(client, &filters, |job| {
        if output.json {
            return output.value(job);
        }
        rows.push(row(job));
        Ok(())
    })?;
    if !output.json {
        output.table(&["ID", "TYPE", "STATUS", "ATTEMPTS", "CREATED", "WHAT"], &rows)?;
    }
    Ok(Ending::Done)
}

/// Does something with each job that the filters admit, newest first, page by page; with all of them unless there is a limit.
///
/// # Errors
/// What the server refuses, and what is done.
pub fn each(
    client: &Client,
    filters: &Filters,
    mut with: impl FnMut(&Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = filters.limit.unwrap_or(usize::MAX);
    let mut cursor: Option<String> = None;
    while left > 0 {
        let mut query = filters.query();
        query.push(("limit", left.min(PAGE_MAX).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = client.get("/api/jobs", &query)?.json()?;
        for job in page["jobs"].as_array().into_iter().flatten().take(left) {
            left -= 1;
            with(job)?;
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}

fn row(job: &Value) -> Vec<String> {
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    let said = [&job["resultSummary"], &job["error"]["message"], &job["progress"]["message"]];
    let what = said.iter().find_map(|value| value.as_str()).unwrap_or_default();
    let what = what.lines().next().unwrap_or_default().chars().take(60).collect();
    let attempts = format!("{}/{}", job["attempts"], job["maxAttempts"]);
    vec![text("id"), text("type"), text("status"), attempts, text("createdAt"), what]
}

/// Cancels a job.
///
/// # Errors
/// What the server refuses.
pub fn cancel(client: &Client, output: &Output, id: &str, reason: Option<&str>) -> Result<Ending, Failure> {
    let body = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
    let answer = client.post(&format!("/api/jobs/{}/cancel", check_id(id)?), &body)?;
    let job = answer.json()?;
    if output.json {
        output.value(&job)?;
    } else if answer.status == 202 {
        output.line(&format!("{id} is being stopped"))?;
    } else {
        output.line(&state(&job, id))?;
    }
    Ok(Ending::Done)
}

/// "ID is canceled".
pub fn state(job: &Value, id: &str) -> String {
    format!("{id} is {}", job["status"].as_str().unwrap_or("in an unknown state"))
}

/// Makes a new job from a failed one, and prints its id.
///
/// # Errors
/// What the server refuses.
pub fn retry(client: &Client, output: &Output, id: &str) -> Result<Ending, Failure> {
    let job = client.post(&format!("/api/jobs/{}/retry", check_id(id)?), &json!({}))?.json()?;
    if output.json {
        output.value(&job)?
    } else {
        output.line(job["id"].as_str().unwrap_or_default())?
    }
    Ok(Ending::Done)
}
