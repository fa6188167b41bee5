//! What is wrong with a configuration: where, which key, what was written, what would be right.
//!
//! In: places and expectations. Out: complaints, collected so that all are told at once. Never prints.

use std::fmt;

/// What a complaint keeps from working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No server can be started.
    Error,
    /// A server starts, and does everything else.
    Warning,
}

impl Severity {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The key, such as `queue.workers`, with what was written where that helps; empty for a file that is no TOML.
    pub subject: String,
    /// Where it was written: `line 4 of longhaul.toml`, `LONGHAUL_QUEUE_WORKERS`, `--workers`.
    pub place: String,
    /// What was expected there.
    pub message: String,
    /// What it keeps from working.
    pub severity: Severity,
}

impl Complaint {
    /// The line of the file; 0 of what stands in none, or is about the whole of it. For sorting: a place is a text for people.
    fn line(&self) -> usize {
        let after = self.place.strip_prefix("line ").and_then(|rest| rest.split(' ').next());
        after.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Puts complaints in the order of the file; what is outside of it comes first.
pub(super) fn sort(complaints: &mut [Complaint]) {
    complaints.sort_by_key(Complaint::line);
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject.as_str() {
            "" => write!(f, "{}: {}", self.place, self.message),
            subject => write!(f, "{subject} ({}): {}", self.place, self.message),
        }
    }
}

/// Most that are told, of each severity: a file of nonsense must not fill the screen.
pub const COMPLAINTS_MAX: usize = 100;

/// Lists that grow while the configuration is read.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    wrong: Vec<Complaint>,
    doubts: Vec<Complaint>,
}

impl Complaints {
    /// What no server can be started with.
    pub(super) fn add(&mut self, subject: impl Into<String>, place: &str, message: impl Into<String>) {
        push(&mut self.wrong, Severity::Error, subject.into(), place, message.into());
    }

    /// What will not work as it is written, though a server can do everything else.
    pub(super) fn doubt(&mut self, subject: impl Into<String>, place: &str, message: impl Into<String>) {
        push(&mut self.doubts, Severity::Warning, subject.into(), place, message.into());
    }

    /// What is wrong, and what is doubted, each in the order of the file.
    pub(super) fn into_lists(mut self) -> (Vec<Complaint>, Vec<Complaint>) {
        sort(&mut self.wrong);
        sort(&mut self.doubts);
        (self.wrong, self.doubts)
    }
}

fn push(list: &mut Vec<Complaint>, severity: Severity, subject: String, place: &str, message: String) {
    if list.len() < COMPLAINTS_MAX {
        list.push(Complaint { subject, place: place.to_owned(), message, severity });
    }
}

/// The name that was probably meant, if one is near enough to be worth naming. Names may be dotted: a key in the wrong
/// table is found by its last part.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this two names have nothing to do with each other.
    const NEAR: f64 = 0.85;
    let last = |name: &'_ str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let score = |name: &str| {
        let whole = strsim::jaro_winkler(written, name);
        whole.max(0.99 * strsim::jaro_winkler(&last(written), &last(name)))
    };
    let best = known.into_iter().map(|name| (score(name), name)).max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > NEAR).then_some(best.1)
}
