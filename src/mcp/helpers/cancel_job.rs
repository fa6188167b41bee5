//! `cancel_job`: stops a job, and tells how far the stopping has come.

use serde_json::{Value, json};

use super::{Context, Stop, structured};
use crate::job::REASON_MAX;
use crate::mcp::reply::Members;

pub(super) const DESCRIPTION: &str = "Cancels one job. A waiting job ends at once; a running one is told to stop, and ends after a short \
grace: the receipt in `cancel` shows requested, delivered, stopped. A job that has ended stays as it is.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "jobId": { "type": "string" },
            "reason": { "type": "string", "maxLength": REASON_MAX, "description": "Kept with the job, for people." },
        },
        "required": ["jobId"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    let id = head.job.id();
    let reason = context.text("reason").map(str::to_owned);
    let canceling = context.endpoint.service.cancel(context.viewer, id, reason).await?;
    let next = canceling
        .under_way
        .then(|| format!("The job is being stopped. Call wait_for_jobs with jobIds [{id}] to see it end."));
    // Only what became of the wish: no result, no partial.
    let view = context.view(&canceling.head, &mut 0).await?;
    Ok(structured(&view, next.as_deref()).about(id))
}
