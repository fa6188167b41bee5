//! What is told, the restart of the server, and a look at its jobs from outside of MCP.

use std::env;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::sleep;

/// The server's URL, without a path.
pub fn server() -> Result<String> {
    Ok(env::var("LONGHAUL_URL")?)
}

/// Tells that a promise holds.
pub fn ok(revision: &str, promise: &str, what: &str) {
    println!("ok rmcp {promise}: {revision}: {what}");
}

/// Kills the server and waits for its successor.
pub async fn restart() -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../restart.sh");
    ensure!(Command::new(script).status().await?.success(), "no server came back");
    Ok(())
}

pub async fn api(path: &str) -> Result<Value> {
    let asked = reqwest::Client::new().get(server()? + path).header("accept", "application/json");
    Ok(asked.send().await?.error_for_status()?.json().await?)
}

/// The job's events tell that it ended exactly once, and how.
pub async fn ended(id: &str, how: &str) -> Result<()> {
    let events = api(&format!("/api/jobs/{id}/events")).await?;
    let kinds = events["events"].as_array().into_iter().flatten().filter_map(|event| event["type"].as_str());
    let ends: Vec<_> = kinds.filter(|kind| ["job.completed", "job.failed", "job.canceled"].contains(kind)).collect();
    ensure!(ends == [how], "{events}");
    Ok(())
}

/// The job ran when its server was killed, and ended once.
pub async fn interrupted(id: &str) -> Result<()> {
    let job = api(&format!("/api/jobs/{id}")).await?;
    ensure!(job["interruptions"] == 1, "{job}");
    ended(id, "job.completed").await
}

/// Returns once the job runs.
pub async fn running(id: &str) -> Result<()> {
    for _ in 0..1200 {
        if api(&format!("/api/jobs/{id}")).await?["status"] == "in_progress" {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    bail!("{id} does not start")
}

/// The newest job of a type, once it has ended.
pub async fn newest(job_type: &str) -> Result<Value> {
    let page = api(&format!("/api/jobs?type={job_type}&limit=1")).await?;
    let id = page["jobs"][0]["id"].as_str().unwrap_or_default();
    api(&format!("/api/jobs/{id}?wait=60s")).await
}
