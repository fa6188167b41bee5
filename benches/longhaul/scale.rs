//! How much is done: the whole measurement, or a short one that shows that everything works.

use std::time::Duration;

/// Sizes of everything.
pub struct Scale {
    /// How often each thing and its bare loop are measured, in turn; medians are reported.
    pub rounds: usize,
    /// How long a load lasts once it is warm.
    pub length: Duration,
    /// How long it warms up.
    pub warm_up: Duration,
    /// Lifecycles of one round.
    pub lifecycles: usize,
    /// Jobs of one round that are started one by one.
    pub starts: usize,
    /// Event streams of a round.
    pub streams: &'static [usize],
    /// Jobs of the long run under retention, and how many of them are kept.
    pub expired: usize,
    /// See `expired`.
    pub kept: u64,
    /// Ended jobs of the large store.
    pub finished: usize,
    /// Its waiting jobs.
    pub waiting: usize,
    /// How often the server is started on it.
    pub boots: usize,
    /// Delayed jobs of the idle server.
    pub delayed: usize,
    /// Its streams.
    pub idle_streams: usize,
    /// Clients that wait for one job.
    pub clients: usize,
    /// How long it is watched.
    pub watched: Duration,
}

impl Scale {
    /// What the README's table is measured with.
    pub const FULL: Self = Self {
        rounds: 3,
        length: Duration::from_secs(8),
        warm_up: Duration::from_secs(2),
        lifecycles: 150_000,
        starts: 300,
        streams: &[1_000, 5_000],
        expired: 2_000_000,
        kept: 100_000,
        finished: 1_000_000,
        waiting: 10_000,
        boots: 5,
        delayed: 100_000,
        idle_streams: 1_000,
        clients: 10_000,
        watched: Duration::from_secs(60),
    };

    /// A few seconds for each part.
    pub const SHORT: Self = Self {
        rounds: 1,
        length: Duration::from_secs(2),
        warm_up: Duration::from_millis(500),
        lifecycles: 20_000,
        starts: 50,
        streams: &[200, 1_000],
        expired: 50_000,
        kept: 5_000,
        finished: 30_000,
        waiting: 1_000,
        boots: 2,
        delayed: 10_000,
        idle_streams: 200,
        clients: 500,
        watched: Duration::from_secs(10),
    };
}
