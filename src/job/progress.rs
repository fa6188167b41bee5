//! Progress is news, not noise (design 3): what of an attempt's reports reaches the log.
//!
//! In: a report, the job, and what was held back so far. Out: the progress to log now, if any. The log never moves back
//! and never repeats itself, over retries and restarts too; what comes too often is merged and held.
//!
//! A report that makes no sense in part is taken for the rest: step 0, `totalSteps` 0 and an empty message count as
//! absent, so does a `totalSteps` below the step and a percentage that is no finite number; others are clamped to 0..100,
//! and a long message is cut.

use super::machine::Moment;
use super::{Job, PROGRESS_MESSAGE_MAX, Progress, cut};

/// How far a job is: by steps, then by the percentage (within the step, if there are steps).
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, bincode::Encode, bincode::Decode)]
pub struct Place {
    /// 0 for a job that reports no steps.
    pub step: u32,
    /// 0 to 100; 0 if none was reported.
    pub percent: f64,
}

impl Place {
    /// Where a report puts the job, what it leaves out taken from where the attempt is; `None` if it says nothing of it.
    pub fn of(job: &Job, report: &Progress) -> Option<Self> {
        if report.step.is_none() && report.percent.is_none() {
            return None;
        }
        // What was reached counts for this attempt only if this attempt reached it.
        let here = job.reached.filter(|_| job.reached > job.reached_before);
        let step = report.step.or(here.map(|place| place.step)).unwrap_or(0);
        let percent = report.percent.or(here.filter(|place| place.step == step).map(|place| place.percent));
        Some(Self { step, percent: percent.unwrap_or(0.0) })
    }
}

/// What to log of a report by the job's current attempt. What is not logged now and is news stays in `held`.
pub(super) fn news(job: &Job, held: &mut Option<Progress>, report: &Progress, moment: &Moment<'_>) -> Option<Progress> {
    let report = sound(report);
    if repeats(job, &report) || moves_back(job, &report) {
        return None;
    }
    let merged = match held.take() {
        Some(earlier) => merge(&earlier, &report),
        None => report,
    };
    if is_due(job, &merged, moment) {
        return Some(merged);
    }
    *held = Some(merged);
    None
}

/// The report without what makes no sense in it.
fn sound(report: &Progress) -> Progress {
    let step = report.step.filter(|step| *step > 0);
    let finite = report.percent.filter(|percent| percent.is_finite());
    Progress {
        step,
        total_steps: report.total_steps.filter(|total| *total >= step.unwrap_or(1)),
        // Adding zero makes a negative zero positive: equal values, equal bytes.
        percent: finite.map(|percent| percent.clamp(0.0, 100.0) + 0.0),
        message: report.message.as_ref().filter(|text| !text.is_empty()).map(|text| {
            if text.len() > PROGRESS_MESSAGE_MAX { cut(text, PROGRESS_MESSAGE_MAX).into() } else { text.clone() }
        }),
    }
}

/// Whether the report says nothing that the log has not said last.
fn repeats(job: &Job, report: &Progress) -> bool {
    let nothing = Progress::default();
    let last = job.progress.as_deref().unwrap_or(&nothing);
    report.step.is_none_or(|step| last.step == Some(step))
        && report.total_steps.is_none_or(|total| last.total_steps == Some(total))
        && report.percent.is_none_or(|percent| last.percent == Some(percent))
        && report.message.as_ref().is_none_or(|message| last.message.as_ref() == Some(message))
}

/// Whether the report lies behind what this attempt logged, or not beyond what earlier ones did.
fn moves_back(job: &Job, report: &Progress) -> bool {
    let place = Place::of(job, report);
    let steps_before = job.reached_before.map_or(0, |place| place.step);
    report.step.is_some_and(|step| step <= steps_before)
        || place.is_some() && (place <= job.reached_before || place < job.reached)
}

/// Later fields win. A percentage and a message belong to their step: a report of another step drops them.
pub(super) fn merge(earlier: &Progress, later: &Progress) -> Progress {
    let step_changed = later.step.is_some() && later.step != earlier.step;
    Progress {
        step: later.step.or(earlier.step),
        total_steps: later.total_steps.or(earlier.total_steps),
        percent: later.percent.or(earlier.percent.filter(|_| !step_changed)),
        message: later.message.clone().or(earlier.message.clone().filter(|_| !step_changed)),
    }
}

/// Whether this is to be logged at once: the first, or after the interval, or a new step or message, or a percentage that
/// moved far enough. A clock set back makes it due: waiting for it to catch up could take for ever.
fn is_due(job: &Job, progress: &Progress, moment: &Moment<'_>) -> bool {
    let (Some(last), Some(at)) = (&job.progress, job.progress_at) else { return true };
    let moved = progress.percent.map(|percent| (percent - last.percent.unwrap_or(0.0)).abs());
    moment.now < at
        || moment.now.since(at) >= moment.throttle.min_interval
        || (progress.step.is_some() && progress.step != last.step)
        || (progress.message.is_some() && progress.message != last.message)
        || moved.is_some_and(|moved| moved >= moment.throttle.min_delta)
}
