//! The demo: finds gifts in a purchase history, in four visible stages.
//!
//! In: whom it is for, a budget, a purchase history as CSV text or the embedded one. Out: ranked gifts with reasons, and what was
//! wrong with the history. Computes everything from its input; never opens a file, and the same input gives the same gifts.

mod gifts;
mod history;
mod ideas;
mod segments;
mod tool;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::tool::{DESCRIPTION, JOB_TYPE, NAME, TITLE, input_schema, output_schema};

use self::history::History;
use self::ideas::Idea;
use self::segments::Segment;
use super::{Handler, RunContext};
use crate::job::{Class, Millis, Outcome, Output, Progress};
use crate::work::Claim;

const STAGES: u32 = 4;

/// Gifts shown before the ranking is done.
const FIRST_IDEAS: usize = 3;

/// Gifts in the result.
pub const GIFTS_MAX: usize = 10;

/// Segments in the result, the largest first.
pub const SEGMENTS_MAX: usize = 12;

/// Broken lines that the log names one by one; the rest is counted.
pub const BROKEN_LOGGED_MAX: usize = 40;

/// How long a stage is made to take if the configuration does not say.
pub const DEFAULT_PACE: Millis = Millis::seconds(1);

/// Largest budget, in whole units of money.
const BUDGET_MAX: f64 = 1e9;

/// The handler of `deep_gift_analysis`.
#[derive(Debug, Clone, Copy)]
pub struct Analysis {
    pace: Millis,
}

impl Analysis {
    /// Each stage is made to take at least `pace`, so that somebody can watch.
    pub fn new(pace: Millis) -> Self {
        Self { pace }
    }

    /// `Err` is an outcome as well: the one of an analysis that ended early.
    fn analyse(&self, payload: &Bytes, context: &RunContext<'_>) -> Result<Outcome, Outcome> {
        let request = Request::read(payload)?;
        let gifts = gifts::embedded();

        let history = History::read(request.history.as_deref().unwrap_or(history::EMBEDDED)).map_err(permanent)?;
        log_broken(&history, context);
        self.stage_done(1, &history.summary(), context)?;

        let segments = segments::of(&history.purchases, &gifts);
        let message = format!("{} segments by category, recency and price band", segments.len());
        self.stage_done(2, &message, context)?;

        let ideas = ideas::first(&gifts, &segments, &request.profile, request.budget_cents).map_err(permanent)?;
        let first: Vec<Value> = ideas.iter().take(FIRST_IDEAS).map(Idea::to_json).collect();
        context.partial(json!({"gifts": first}).to_string().into());
        self.stage_done(3, &format!("{} gifts within the budget", ideas.len()), context)?;

        let mut ranked = ideas::ranked(ideas, &segments, &history.purchases, request.budget_cents);
        ranked.truncate(GIFTS_MAX);
        self.stage_done(4, "Ranked", context)?;
        Ok(Outcome::Done(output(&ranked, &segments, &history)))
    }

    fn stage_done(&self, stage: u32, message: &str, context: &RunContext<'_>) -> Result<(), Outcome> {
        context.pause(self.pace)?;
        context.progress(Progress {
            step: Some(stage),
            total_steps: Some(STAGES),
            percent: Some(f64::from(stage * 100 / STAGES)),
            message: Some(message.into()),
        });
        Ok(())
    }
}

impl Handler for Analysis {
    fn run(&self, _: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Outcome {
        match self.analyse(payload, context) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }
}

/// What is asked for.
struct Request {
    profile: String,
    budget_cents: i64,
    history: Option<String>,
}

impl Request {
    fn read(payload: &[u8]) -> Result<Self, Outcome> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            recipient_profile: String,
            budget: f64,
            purchase_history: Option<String>,
        }
        let raw: Raw = serde_json::from_slice(payload).map_err(|why| permanent(format!("the payload: {why}")))?;
        if !(raw.budget > 0.0 && raw.budget <= BUDGET_MAX) {
            return Err(permanent("budget: expected a number above 0".into()));
        }
        // In range, as checked above.
        let budget_cents = (raw.budget * 100.0).round() as i64;
        Ok(Self { profile: raw.recipient_profile, budget_cents, history: raw.purchase_history })
    }
}

fn permanent(message: String) -> Outcome {
    Outcome::failed(Class::Permanent, None, &message)
}

fn log_broken(history: &History, context: &RunContext<'_>) {
    for broken in history.broken.iter().take(BROKEN_LOGGED_MAX) {
        context.log(&format!("line {}: {}", broken.line, broken.fault.text()));
    }
    let more = history.broken.len().saturating_sub(BROKEN_LOGGED_MAX);
    if more > 0 {
        context.log(&format!("and {more} more broken lines"));
    }
}

fn output(ranked: &[Idea<'_>], segments: &[Segment], history: &History) -> Output {
    let data = json!({
        "gifts": ranked.iter().map(Idea::to_json).collect::<Vec<_>>(),
        "segments": segments.iter().take(SEGMENTS_MAX).map(Segment::to_json).collect::<Vec<_>>(),
        "history": history.to_json(),
    });
    let best = ranked.first().map_or_else(String::new, |idea| format!("; the first is {}", idea.gift.name));
    let summary = format!("{} gifts{best}. {}", ranked.len(), history.summary());
    Output { data: Some(data.to_string().into()), summary: Some(summary), ..Output::default() }
}

/// Cents as the number that people write: 2490 is 24.9.
fn money(cents: i64) -> Value {
    // Sums of money stay far below the 2^53 cents that a float keeps exactly.
    Value::from(cents as f64 / 100.0)
}
