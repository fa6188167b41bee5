//! The helper tools: five by which a plain client follows its jobs, and three for the app.
//!
//! In: a call by name. Out: the members of a tool result. What is wrong with the arguments, and an id that nobody knows, is told as a result
//! that a model can act on. One file per tool.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::reply::{Members, push_text};
use super::rpc::{self, Error, INVALID_PARAMS};
use super::tools::Call;
use super::work::Outcome;
use super::{Endpoint, app, refusal, view};
use crate::job::{Head, JobId, Millis, Rules};
use crate::service::{Catalogue, JobView, Refused, TaskSupport, Tool, Viewer, read_json};

mod answer_job;
mod answer_question;
mod cancel_job;
mod change;
mod get_job;
mod list_jobs;
mod retry_job;
mod view_job;
mod wait_for_jobs;

pub use list_jobs::LIST_MAX;
pub(super) use list_jobs::note;
pub(super) use wait_for_jobs::Watch;
pub use wait_for_jobs::{JOBS_MAX, TIMEOUT_DEFAULT_MS, TIMEOUT_MAX_MS};

/// Whether a helper tool has this name: no configured tool may have it while `helpers` is on.
pub fn is_helper(name: &str) -> bool {
    Helper::named(name).is_some()
}

/// Whether the helper of that name only reads; `None` if there is none.
pub(super) fn reads(name: &str) -> Option<bool> {
    Helper::named(name).map(Helper::reads)
}

#[derive(Clone, Copy)]
enum Helper {
    Get,
    Wait,
    Cancel,
    List,
    Answer,
    View,
    Question,
    Retry,
}

impl Helper {
    const ALL: [Self; 8] =
        [Self::Get, Self::Wait, Self::Cancel, Self::List, Self::Answer, Self::View, Self::Question, Self::Retry];

    const fn name(self) -> &'static str {
        match self {
            Self::Get => "get_job",
            Self::Wait => "wait_for_jobs",
            Self::Cancel => "cancel_job",
            Self::List => "list_jobs",
            Self::Answer => "answer_job",
            Self::View => "view_job",
            Self::Question => "answer_question",
            Self::Retry => "retry_job",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|helper| helper.name() == name)
    }

    /// Whether it changes nothing.
    const fn reads(self) -> bool {
        match self {
            Self::Get | Self::Wait | Self::List | Self::View => true,
            Self::Cancel | Self::Answer | Self::Question | Self::Retry => false,
        }
    }

    fn tool(self) -> Tool {
        let (title, description, schema) = match self {
            Self::Get => ("Get a job", get_job::DESCRIPTION, get_job::schema()),
            Self::Wait => ("Wait for jobs", wait_for_jobs::DESCRIPTION, wait_for_jobs::schema()),
            Self::Cancel => ("Cancel a job", cancel_job::DESCRIPTION, cancel_job::schema()),
            Self::List => ("List jobs", list_jobs::DESCRIPTION, list_jobs::schema()),
            Self::Answer => ("Answer a job", answer_job::DESCRIPTION, answer_job::schema()),
            Self::View => ("View a job", view_job::DESCRIPTION, view_job::schema()),
            Self::Question => ("Answer a question", answer_question::DESCRIPTION, answer_question::schema()),
            Self::Retry => ("Retry a job", retry_job::DESCRIPTION, retry_job::schema()),
        };
        Tool {
            name: self.name().into(),
            job_type: self.name().into(),
            title: Some(title.into()),
            description: Some(description.into()),
            input_schema: schema,
            output_schema: None,
            annotations: Some(serde_json::json!({ "readOnlyHint": self.reads(), "openWorldHint": false })),
            inline_wait: Millis(0),
            derive_key: false,
            task_support: TaskSupport::Never,
            expires_in: None,
            cancel_grace: Millis(0),
            max_result: 0,
            rules: Rules::default(),
        }
    }
}

/// What the helper of that name has to do with the app.
pub(super) fn part(name: &str) -> app::Part {
    match Helper::named(name) {
        Some(Helper::View | Helper::Question | Helper::Retry) => app::Part::Own,
        Some(Helper::Get | Helper::Wait | Helper::Cancel | Helper::List | Helper::Answer) | None => app::Part::None,
    }
}

/// The helpers as tools, so that they are listed and their arguments checked as any tool's.
///
/// # Errors
/// Never: their schemas are tested.
pub(super) fn catalogue() -> Result<Catalogue, String> {
    Catalogue::new(Helper::ALL.map(Helper::tool).into())
}

/// Why a helper has no answer of the usual kind.
enum Stop {
    /// A result that tells the model what to do instead.
    Told(Members),
    /// The service refused.
    Refused(Refused),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// What a helper works with.
struct Context<'a> {
    endpoint: &'a Endpoint,
    viewer: &'a Viewer,
    arguments: Map<String, Value>,
}

/// Calls the helper of that name.
///
/// # Errors
/// -32602 for arguments that are no JSON, -32603 for what the service cannot do now.
pub(super) async fn call(
    endpoint: &Endpoint,
    catalogue: &Catalogue,
    call: &Call<'_>,
    name: &str,
    arguments: &str,
) -> Result<Outcome, Error> {
    let invalid = |why: serde_json::Error| Error::answered(INVALID_PARAMS, format!("params.arguments: {why}"));
    let arguments: Value = read_json(arguments.as_bytes()).map_err(invalid)?;
    let violations = catalogue.check_input(name, &arguments);
    if !violations.is_empty() {
        return refusal::complain(call.revision, &refusal::misfit(&violations)).map(Outcome::Ready);
    }
    let Value::Object(arguments) = arguments else {
        return Err(Error::answered(INVALID_PARAMS, "params.arguments must be an object"));
    };
    let context = Context { endpoint, viewer: call.viewer, arguments };
    let answer = match Helper::named(name) {
        Some(Helper::Get) => get_job::call(&context).await.map(Outcome::Ready),
        Some(Helper::Wait) => wait_for_jobs::call(&context).await,
        Some(Helper::Cancel) => cancel_job::call(&context).await.map(Outcome::Ready),
        Some(Helper::List) => list_jobs::call(&context).await.map(Outcome::Ready),
        Some(Helper::Answer) => answer_job::call(&context).await.map(Outcome::Ready),
        Some(Helper::View) => view_job::call(&context).await.map(Outcome::Ready),
        Some(Helper::Question) => answer_question::call(&context).await.map(Outcome::Ready),
        Some(Helper::Retry) => retry_job::call(&context).await.map(Outcome::Ready),
        None => Err(Stop::Told(Members::complaint("There is no such helper."))),
    };
    match answer {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Told(members)) => Ok(members.into()),
        Err(Stop::Refused(refused)) => Err(refusal::internal(&refused)),
    }
}

impl Context<'_> {
    /// A string argument; absent if it is not there.
    fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).and_then(Value::as_str)
    }

    /// A whole number, however spelled: the schema has seen to its range.
    fn number(&self, name: &str) -> Option<u64> {
        let value = self.arguments.get(name)?;
        value.as_u64().or_else(|| value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64))
    }

    /// The job with this id, or a word on ids like it.
    async fn find(&self, id: &str) -> Result<Arc<Head>, Stop> {
        if let Ok(parsed) = JobId::from_str(id) {
            match self.endpoint.service.job(self.viewer, parsed).await {
                Err(Refused::NoSuchJob) => {}
                other => return Ok(other?),
            }
        }
        let shown = crate::job::cut(id, 64);
        let near = self.endpoint.service.near_misses(self.viewer, shown).await;
        let near: Vec<_> = near.iter().map(JobId::to_string).collect();
        let text = match near.is_empty() {
            true => format!("There is no job {shown}. Call list_jobs to see yours."),
            false => format!(
                "There is no job {shown}. Ids like it: {}. Call list_jobs to see all of yours.",
                near.join(", ")
            ),
        };
        Err(Stop::Told(Members::complaint(&text)))
    }

    /// The job as contract 1 has it, without the payload; its result and partial as far as `budget` bytes go.
    async fn view(&self, head: &Arc<Head>, budget: &mut u64) -> Result<JobView, Refused> {
        view::of(self.endpoint, head, budget).await
    }
}

/// A result whose text is the JSON of its structured content, and a sentence for the model.
fn structured(value: &impl serde::Serialize, next: Option<&str>) -> Members {
    let mut tree = Vec::new();
    rpc::push_value(&mut tree, value);
    let text = String::from_utf8_lossy(&tree);
    let mut json = Vec::with_capacity(2 * tree.len());
    match next {
        None => push_text(&mut json, &text),
        Some(next) => {
            json.extend_from_slice(b"\"content\":[{\"type\":\"text\",\"text\":");
            rpc::push_string(&mut json, &text);
            json.extend_from_slice(b"},{\"type\":\"text\",\"text\":");
            rpc::push_string(&mut json, next);
            json.extend_from_slice(b"}]");
        }
    }
    Members { json, structured: Some(tree), ..Members::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_the_helpers_are_schemas_and_take_what_they_describe() {
        let catalogue = catalogue().expect("schemas that compile");
        let id = "0190b5a0-0000-7000-8000-000000000000";
        let fits = |name: &str, arguments: Value| catalogue.check_input(name, &arguments).is_empty();
        assert!(fits("get_job", serde_json::json!({"jobId": id})));
        assert!(fits("get_job", serde_json::json!({"jobId": id, "part": "log", "offset": 0, "limit": 100})));
        assert!(!fits("get_job", serde_json::json!({"jobId": id, "part": "payload"})));
        assert!(!fits("get_job", serde_json::json!({"jobId": id, "offset": -1})));
        assert!(!fits("get_job", serde_json::json!({})));
        assert!(fits("wait_for_jobs", serde_json::json!({"jobIds": [id], "mode": "all", "timeoutMs": 0, "since": ""})));
        assert!(!fits("wait_for_jobs", serde_json::json!({"jobIds": []})));
        assert!(!fits("wait_for_jobs", serde_json::json!({"jobIds": vec![id; JOBS_MAX + 1]})));
        assert!(!fits("wait_for_jobs", serde_json::json!({"jobIds": [id], "timeoutMs": TIMEOUT_MAX_MS + 1})));
        assert!(fits("cancel_job", serde_json::json!({"jobId": id, "reason": "no more"})));
        assert!(!fits("cancel_job", serde_json::json!({"jobId": 7})));
        let answers = serde_json::json!({"size": {"action": "accept", "content": {"n": 1}}});
        assert!(fits("answer_job", serde_json::json!({"jobId": id, "answers": answers})));
        assert!(!fits("answer_job", serde_json::json!({"jobId": id, "answers": {}})));
        assert!(!fits("answer_job", serde_json::json!({"jobId": id, "answers": {"size": {"action": "perhaps"}}})));
        assert!(fits("list_jobs", serde_json::json!({"status": "failed", "limit": 5})));
        assert!(!fits("list_jobs", serde_json::json!({"status": "waiting"})));
        assert!(!fits("list_jobs", serde_json::json!({"state": "failed"})));
    }

    #[test]
    fn only_the_helpers_names_are_taken() {
        assert!(Helper::ALL.into_iter().all(|helper| is_helper(helper.name())));
        assert!(!is_helper("get_jobs"));
    }
}
