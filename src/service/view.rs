//! A job as JSON, as contract 1 has it.

/// What a job's answer links to.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// `public_url` without a trailing slash; empty: links are paths.
    pub base: String,
    /// Puts a result of any size into the answer (`?inline=true`).
    pub inline: bool,
}

/// The job as one JSON object, with `statusUrl`, `eventsUrl` and, where due, `resultUrl`.
pub type JobView = serde_json::Map<String, serde_json::Value>;
