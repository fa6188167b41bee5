//! What is wrong with a configuration: where, which key, what was written, what would be right.
//!
//! In: places and expectations. Out: complaints, collected so that all are told at once. Never prints.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The key, such as `queue.workers`, with what was written where that helps; empty for a file that is no TOML.
    pub subject: String,
    /// Where it was written: `line 4 of longhaul.toml`, `LONGHAUL_QUEUE_WORKERS`, `--workers`.
    pub place: String,
    /// What was expected there.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject.as_str() {
            "" => write!(f, "{}: {}", self.place, self.message),
            subject => write!(f, "{subject} ({}): {}", self.place, self.message),
        }
    }
}

/// All of them, in the order they were met. Most that are told: a file of nonsense must not fill the screen.
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
        push(&mut self.wrong, subject.into(), place, message.into());
    }

    /// What will not work as it is written, though a server can do everything else.
    pub(super) fn doubt(&mut self, subject: impl Into<String>, place: &str, message: impl Into<String>) {
        push(&mut self.doubts, subject.into(), place, message.into());
    }

    /// What is wrong, and what is doubted.
    pub(super) fn into_lists(self) -> (Vec<Complaint>, Vec<Complaint>) {
        (self.wrong, self.doubts)
    }
}

fn push(list: &mut Vec<Complaint>, subject: String, place: &str, message: String) {
    if list.len() < COMPLAINTS_MAX {
        list.push(Complaint { subject, place: place.to_owned(), message });
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
