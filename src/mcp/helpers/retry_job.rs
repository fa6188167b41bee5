//! `retry_job`: makes a new job of a failed one, for whoever pressed the app's button.

use serde_json::Value;

use super::{Context, Stop, view_job};
use crate::mcp::reply::Members;
use crate::service::Refused;

pub(super) const DESCRIPTION: &str = "Runs a failed job once more, as a new job, for the view that shows it.";

pub(super) fn schema() -> Value {
    view_job::schema()
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    let (id, status) = (head.job.id(), head.job.status().name());
    let told = |text: String| Err(Stop::Told(Members::complaint(&text).about(id)));
    match context.endpoint.service.retry(context.viewer, id).await {
        Ok(next) => view_job::answer(context, &next).await,
        // Pressed twice, or in two views: both go on with the same job.
        Err(Refused::AlreadyReplayed(next)) => {
            let next = context.endpoint.service.job(context.viewer, next).await?;
            view_job::answer(context, &next).await
        }
        Err(Refused::NotDeadLettered) => told(format!("The job {id} is {status}: only a failed one can be retried.")),
        Err(Refused::NoSuchType(_)) => told(format!("The tool that made the job {id} is not there any more.")),
        Err(refused) => Err(refused.into()),
    }
}
