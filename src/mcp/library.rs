//! The methods that are the same in every revision: resources, prompts and completion.
//!
//! In: a request. Out: the members of its result, or that its method is none of these. What is not configured is not offered.

use super::reply::Members;
use super::rpc::{Error, Message};
use super::tools::Call;
use super::{Endpoint, completion, prompts, resources};

/// Answers the request; `None` if its method is not offered here.
pub(super) async fn answer(
    endpoint: &Endpoint,
    message: &Message<'_>,
    call: &Call<'_>,
) -> Option<Result<Members, Error>> {
    Some(match &*message.method {
        "resources/list" => resources::list(endpoint, call).await,
        "resources/templates/list" => resources::templates(endpoint, call),
        "resources/read" => resources::read(endpoint, call).await,
        "prompts/list" => prompts::list(endpoint, call),
        "prompts/get" => prompts::get(endpoint, call),
        "completion/complete" => completion::complete(endpoint, call.viewer, message).await,
        _ => return None,
    })
}
