//! `wait_for_jobs`: waits until jobs have ended, and tells only what changed since the last time.
//!
//! Holds no thread and no job: a client that goes away ends its own wait and nothing else.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::change::Change;
use super::{Context, Stop};
use crate::job::{EventId, Head, JobId, Millis, Position, Timestamp};
use crate::mcp::ranges::TEXT_DEFAULT;
use crate::mcp::reply::Members;
use crate::mcp::rpc::{self, Error};
use crate::mcp::voice::{Voice, how_far};
use crate::mcp::work::{Asker, Outcome, Waits, Work, deadline};
use crate::mcp::{Endpoint, refusal};
use crate::service::{Bounds, Refused};

/// Most jobs that one call waits for.
pub const JOBS_MAX: usize = 50;
/// How long a call waits when nobody says how long: less than the minute after which many clients give up.
pub const TIMEOUT_DEFAULT_MS: u64 = 45_000;
/// Longest wait of one call.
pub const TIMEOUT_MAX_MS: u64 = 600_000;

/// Looks at jobs that change all the time; then the next answer may repeat a change, but none is passed over.
const SETTLE_MAX: usize = 4;

pub(super) const DESCRIPTION: &str = "Waits until jobs have ended: mode any (the default) until one more of them has, mode all until every \
one has; at most timeoutMs. Answers the jobs that changed, short results included, the ids that are still pending, and a cursor: pass it \
as since to be told only of newer changes.";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "jobIds": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": JOBS_MAX },
            "mode": { "enum": ["any", "all"], "default": "any" },
            "timeoutMs": { "type": "integer", "minimum": 0, "maximum": TIMEOUT_MAX_MS, "default": TIMEOUT_DEFAULT_MS },
            "since": { "type": "string", "description": "The cursor of the answer before." },
        },
        "required": ["jobIds"],
        "additionalProperties": false,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Mode {
    #[serde(rename = "any")]
    Any,
    #[serde(rename = "all")]
    All,
}

#[derive(Serialize)]
struct Report {
    jobs: Vec<Change>,
    pending: Vec<JobId>,
    done: bool,
    cursor: EventId,
}

/// For which jobs a call waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::mcp) struct Watch {
    jobs: Vec<JobId>,
    #[serde(rename = "m")]
    mode: Mode,
    /// The call was made.
    #[serde(rename = "f")]
    from: i64,
    #[serde(rename = "u")]
    until: i64,
    /// What happened up to here was told before.
    #[serde(rename = "s")]
    since: u64,
}

pub(super) async fn call(context: &Context<'_>) -> Result<Outcome, Stop> {
    let mode = if context.text("mode") == Some("all") { Mode::All } else { Mode::Any };
    let timeout = Millis(context.number("timeoutMs").unwrap_or(TIMEOUT_DEFAULT_MS).min(TIMEOUT_MAX_MS));
    let since = since(context, &context.endpoint.service.bounds())?;
    let mut heads = find_all(context).await?;
    if is_enough(mode, &heads, since) || timeout.0 == 0 {
        return Ok(answer(context, &mut heads, since).await?.into());
    }
    let now = context.endpoint.clock.now();
    let jobs = heads.iter().map(|head| head.job.id()).collect();
    let watch = Watch { jobs, mode, from: now.0, until: now.plus(timeout).0, since: since.0 };
    Ok(Outcome::Waiting(Work::of(Waits::Jobs(watch))))
}

impl Watch {
    /// The same, when it has waited as long as it may.
    pub(in crate::mcp) fn over(&self) -> Self {
        Self { until: 0, ..self.clone() }
    }

    /// Waits for the jobs; those that are not kept any more are passed over.
    ///
    /// # Errors
    /// -32603 for what the service cannot do now.
    pub(in crate::mcp) async fn run(
        &self,
        endpoint: &Endpoint,
        asker: &Asker,
        voice: &mut Voice,
    ) -> Result<Members, Error> {
        let context = Context { endpoint, viewer: &asker.viewer, arguments: Map::new() };
        self.wait(&context, voice).await.map_err(|refused| refusal::internal(&refused))
    }

    async fn wait(&self, context: &Context<'_>, voice: &mut Voice) -> Result<Members, Refused> {
        let service = &context.endpoint.service;
        let (since, deadline) = (Position(self.since), deadline(context.endpoint, Timestamp(self.until)));
        let mut heads = Vec::new();
        for id in self.jobs.iter().take(JOBS_MAX) {
            match service.job(context.viewer, *id).await {
                Err(Refused::NoSuchJob) => {}
                head => heads.push(head?),
            }
        }
        while !is_enough(self.mode, &heads, since) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.tell(context, &heads, voice).await;
            let seen: Vec<_> = unfinished(&heads).map(|head| (head.job.id(), head.job.revision)).collect();
            for head in service.wait_any(context.viewer, &seen, left.min(voice.patience())).await? {
                heads.iter_mut().filter(|old| old.job.id() == head.job.id()).for_each(|old| *old = head.clone());
            }
        }
        answer(context, &mut heads, since).await
    }

    async fn tell(&self, context: &Context<'_>, heads: &[Arc<Head>], voice: &mut Voice) {
        let ended = heads.len() - unfinished(heads).count();
        let message = match heads {
            // Its own words: who waits for one job wants to know how far that is.
            [one] => how_far(one),
            _ => format!("{ended} of {} jobs have ended", heads.len()),
        };
        let (done, total) = (ended as f64, heads.len() as f64);
        voice.rise(done, Some(total), Timestamp(self.from), &message, context.endpoint.clock.now()).await;
    }
}

async fn answer(context: &Context<'_>, heads: &mut [Arc<Head>], since: Position) -> Result<Members, Refused> {
    let bounds = settle(context, heads).await?;
    report(context, heads, since, &bounds).await
}

/// Reads the heads once more, so that they hold all that the log held when it was looked at, and as a rule nothing newer: then its end is a
/// cursor that neither passes over a change nor repeats one.
async fn settle(context: &Context<'_>, heads: &mut [Arc<Head>]) -> Result<Bounds, Refused> {
    let service = &context.endpoint.service;
    let mut bounds = service.bounds();
    for _ in 0..SETTLE_MAX {
        bounds = service.bounds();
        for head in heads.iter_mut().filter(|head| !head.job.status().is_terminal()) {
            match service.job(context.viewer, head.job.id()).await {
                Err(Refused::NoSuchJob) => {}
                newer => *head = newer?,
            }
        }
        if heads.iter().all(|head| head.trail.last() <= bounds.last) {
            break;
        }
        // Heads become visible just before the log's end moves.
        tokio::task::yield_now().await;
    }
    Ok(bounds)
}

/// The cursor that was passed. One of another log, or ahead of this one, knows nothing of these jobs: all of them are told.
fn since(context: &Context<'_>, bounds: &Bounds) -> Result<Position, Stop> {
    match context.text("since").filter(|text| !text.is_empty()).map(EventId::from_str) {
        None => Ok(Position::ZERO),
        Some(Ok(cursor)) if cursor.epoch == bounds.epoch && cursor.position <= bounds.last => Ok(cursor.position),
        Some(Ok(_)) => Ok(Position::ZERO),
        Some(Err(_)) => {
            let text = "since is not the cursor of an answer of wait_for_jobs; leave it out to be told of every job";
            Err(Stop::Told(Members::complaint(text)))
        }
    }
}

/// The jobs, each once, in the order of their ids in the call.
async fn find_all(context: &Context<'_>) -> Result<Vec<Arc<Head>>, Stop> {
    let ids = context.arguments.get("jobIds").and_then(Value::as_array).into_iter().flatten();
    let (mut heads, mut seen) = (Vec::new(), HashSet::new());
    for id in ids.filter_map(Value::as_str) {
        if seen.insert(id) {
            heads.push(context.find(id).await?);
        }
    }
    Ok(heads)
}

fn unfinished(heads: &[Arc<Head>]) -> impl Iterator<Item = &Arc<Head>> {
    heads.iter().filter(|head| !head.job.status().is_terminal())
}

fn has_changed(head: &Head, since: Position) -> bool {
    head.trail.last() > since
}

fn is_enough(mode: Mode, heads: &[Arc<Head>], since: Position) -> bool {
    let has_ended = |head: &Arc<Head>| head.job.status().is_terminal() && has_changed(head, since);
    // Nobody but who waits here may be there to answer.
    let has_asked = |head: &Arc<Head>| head.job.awaits_input() && has_changed(head, since);
    unfinished(heads).next().is_none()
        || heads.iter().any(has_asked)
        || (mode == Mode::Any && heads.iter().any(has_ended))
}

async fn report(
    context: &Context<'_>,
    heads: &[Arc<Head>],
    since: Position,
    bounds: &Bounds,
) -> Result<Members, Refused> {
    let mut budget = TEXT_DEFAULT;
    let mut jobs = Vec::new();
    for head in heads.iter().filter(|head| has_changed(head, since)) {
        let view = context.view(head, &mut budget).await?;
        jobs.push(Change::of(view, head.job.status().is_terminal()));
    }
    let pending: Vec<_> = unfinished(heads).map(|head| head.job.id()).collect();
    let cursor = EventId { epoch: bounds.epoch, position: bounds.last };
    let mut text = String::new();
    for change in &jobs {
        text.push_str(&change.line());
        text.push('\n');
    }
    match pending.len() {
        0 => text.push_str("All have ended."),
        // Said again and again over a long job: the cursor that was passed is as good as the new one.
        _ if jobs.is_empty() => text.push_str("Nothing new."),
        some => drop(write!(text, "{some} of {} not ended; wait on with since {cursor}.", heads.len())),
    }
    let report = Report { jobs, done: pending.is_empty(), pending, cursor };
    let mut tree = Vec::new();
    rpc::push_value(&mut tree, &report);
    Ok(Members { structured: Some(tree), ..Members::text(&text) })
}
