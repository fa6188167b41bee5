//! `view_job`: a job as the app shows it. For the app alone: models have `get_job`.

use serde_json::{Value, json};

use super::{Context, Stop};
use crate::mcp::ranges::TEXT_DEFAULT;
use crate::mcp::reply::Members;
use crate::mcp::rpc;

pub(super) const DESCRIPTION: &str = "The state of one job, for the view that shows it.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "jobId": { "type": "string" } },
        "required": ["jobId"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(context: &Context<'_>) -> Result<Members, Stop> {
    let head = context.find(context.text("jobId").unwrap_or_default()).await?;
    answer(context, &head).await
}

/// The job, and what time it is here: the view's own clock may be wrong.
pub(super) async fn answer(context: &Context<'_>, head: &std::sync::Arc<crate::job::Head>) -> Result<Members, Stop> {
    let (id, status) = (head.job.id(), head.job.status().name());
    let view = context.view(head, &mut { TEXT_DEFAULT }).await?;
    let mut tree = Vec::new();
    rpc::push_value(&mut tree, &json!({ "job": view, "now": context.endpoint.clock.now() }));
    Ok(Members { structured: Some(tree), ..Members::text(&format!("The job {id} is {status}.")) }.about(id))
}
