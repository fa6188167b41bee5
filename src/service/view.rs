//! A job as JSON, as contract 1 has it.

/// What a job's answer links to.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// `public_url` without a trailing slash; empty: links are paths.
    pub base: String,
    /// Which of the job's bodies the answer holds.
    pub bodies: Bodies,
}

/// Which bodies a job's answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bodies {
    /// None: the line of a list. Reads nothing from the disk.
    Without,
    /// Payload, partial and result as far as they are at most 64 KiB; beyond, their URL.
    #[default]
    Small,
    /// A result of any size too (`?inline=true`).
    Any,
}

/// The job as one JSON object, with `statusUrl`, `eventsUrl` and, where due, `resultUrl`.
pub type JobView = serde_json::Map<String, serde_json::Value>;
