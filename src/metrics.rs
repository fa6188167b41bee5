//! What is counted and timed (contract 10), and its text for Prometheus.
//!
//! In: one call per thing that became durable. Out: the text of `/metrics`. Counting allocates nothing and takes no lock:
//! the handles of every configured type are made at start; jobs of other types are counted as `unconfigured`, so that the
//! number of series has a bound. What merely is, such as the live jobs, is handed in as `Vitals` when somebody looks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::job::{End, Millis, Status};

/// The content type of `Metrics::render`.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The type under which jobs of a type that is no longer configured are counted.
pub const UNCONFIGURED: &str = "unconfigured";

/// `longhaul_jobs_overdue` counts ready jobs that have waited longer than each of these.
pub const OVERDUE_MINUTES: [u64; 4] = [1, 5, 15, 60];

/// How the server is at this moment.
#[derive(Debug, Clone, Default)]
pub struct Vitals {
    /// Unfinished jobs by type and status.
    pub live: Vec<(Arc<str>, Status, u64)>,
    /// Ready jobs that have waited, from their `run_at`, longer than each of `OVERDUE_MINUTES`.
    pub overdue: [u64; 4],
    /// How long the job that has been ready longest has waited; zero if none is ready.
    pub oldest_ready: Millis,
    /// Dead letters by type.
    pub dead_letters: BTreeMap<Arc<str>, u64>,
    /// Entries that became visible since the start.
    pub events: u64,
    /// Open event streams.
    pub streams: u64,
    /// `stream.reset`s sent since the start.
    pub stream_resets: u64,
    /// Bytes of the store on disk.
    pub store_bytes: u64,
    /// Free bytes of the disk it is on.
    pub disk_free: u64,
}

/// Everything that is counted. One for the process, shared; every method may be called from any thread and never blocks.
pub struct Metrics {
    registry: Registry,
    families: Families,
    types: ArcSwap<HashMap<Arc<str>, Arc<OfType>>>,
    unconfigured: Arc<OfType>,
    commit_seconds: Histogram,
    commit_group: Histogram,
    busy: Gauge,
    idle: Gauge,
}

/// The handles of one type, taken from their families once.
struct OfType {
    completed: Counter,
    failed: Counter,
    canceled: Counter,
    ends: [Counter; 6],
    retries: Counter,
    attempt_seconds: Histogram,
    queue_wait_seconds: Histogram,
}

type Labels = Vec<(&'static str, String)>;

/// The families that have a series per type.
struct Families {
    jobs: Family<Labels, Counter>,
    attempts: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    attempt_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    queue_wait_seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Metrics {
    /// Counters at zero for these job types and so many worker slots.
    pub fn new(types: impl IntoIterator<Item = Arc<str>>, workers: usize) -> Self {
        let mut registry = Registry::with_prefix("longhaul");
        let families = Families::new();
        families.register(&mut registry);
        let metrics = Self {
            types: ArcSwap::default(),
            unconfigured: Arc::new(families.of_type(UNCONFIGURED)),
            families,
            // 50 µs to 1.6 s; 1 to 128.
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            commit_group: Histogram::new(exponential_buckets(1.0, 2.0, 8)),
            busy: Gauge::default(),
            idle: Gauge::default(),
            registry,
        };
        metrics.configure(types);
        metrics.idle.set(i64::try_from(workers).unwrap_or(i64::MAX));
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("commit_seconds", "Time of one durable commit", self.commit_seconds.clone());
        registry.register("commit_group_size", "Commands per commit", self.commit_group.clone());
        let workers = Family::<Labels, Gauge>::default();
        registry.register("workers", "Worker slots of this process", workers.clone());
        self.idle = moved(&workers, "idle", &self.idle);
        self.busy = moved(&workers, "busy", &self.busy);
        self
    }

    /// Counts jobs of these types each by itself from now on, and those of others together. What was counted stays.
    pub fn configure(&self, types: impl IntoIterator<Item = Arc<str>>) {
        let of = |name: Arc<str>| (name.clone(), Arc::new(self.families.of_type(&name)));
        self.types.store(Arc::new(types.into_iter().map(of).collect()));
    }

    /// A job has ended. For a status that is no end: nothing.
    pub fn job_ended(&self, job_type: &str, outcome: Status) {
        let of_type = self.of(job_type);
        match outcome {
            Status::Completed => of_type.completed.inc(),
            Status::Failed => of_type.failed.inc(),
            Status::Canceled => of_type.canceled.inc(),
            Status::Pending | Status::InProgress | Status::InputRequired => 0,
        };
    }

    /// An attempt has begun, so long after its job was ready.
    pub fn attempt_started(&self, job_type: &str, waited: Millis) {
        self.of(job_type).queue_wait_seconds.observe(waited.duration().as_secs_f64());
    }

    /// An attempt has ended like this, so long after it began.
    pub fn attempt_ended(&self, job_type: &str, end: End, length: Millis) {
        let of_type = self.of(job_type);
        of_type.ends[place(end)].inc();
        of_type.attempt_seconds.observe(length.duration().as_secs_f64());
    }

    /// A failed attempt's job will be tried again.
    pub fn retried(&self, job_type: &str) {
        self.of(job_type).retries.inc();
    }

    /// A group of `group` commands has become durable.
    pub fn committed(&self, length: Duration, group: usize) {
        self.commit_seconds.observe(length.as_secs_f64());
        self.commit_group.observe(f64::from(u32::try_from(group).unwrap_or(u32::MAX)));
    }

    /// A worker slot has work.
    pub fn slot_taken(&self) {
        self.idle.dec();
        self.busy.inc();
    }

    /// It is free again.
    pub fn slot_freed(&self) {
        self.busy.dec();
        self.idle.inc();
    }

    /// Everything as Prometheus text 0.0.4.
    pub fn render(&self, vitals: &Vitals) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail, and a failure here must not take the server down.
        let _ = prometheus_text::encode(&mut text, &vitals.registry());
        let _ = prometheus_text::encode(&mut text, &self.registry);
        text
    }

    fn of(&self, job_type: &str) -> Arc<OfType> {
        self.types.load().get(job_type).unwrap_or(&self.unconfigured).clone()
    }
}

fn moved(family: &Family<Labels, Gauge>, state: &str, from: &Gauge) -> Gauge {
    let gauge = family.get_or_create_owned(&vec![("state", state.into())]);
    gauge.set(from.get());
    gauge
}

const fn place(end: End) -> usize {
    match end {
        End::Succeeded => 0,
        End::Failed => 1,
        End::TimedOut => 2,
        End::Canceled => 3,
        End::Released => 4,
        End::Interrupted => 5,
    }
}

const ENDS: [End; 6] = [End::Succeeded, End::Failed, End::TimedOut, End::Canceled, End::Released, End::Interrupted];

/// 1 ms to 9 hours.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 13))
}

impl Families {
    fn new() -> Self {
        Self {
            attempt_seconds: Family::new_with_constructor(seconds),
            queue_wait_seconds: Family::new_with_constructor(seconds),
            jobs: Family::default(),
            attempts: Family::default(),
            retries: Family::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("jobs", "Jobs that have ended", self.jobs.clone());
        registry.register("attempts", "Attempts that have ended", self.attempts.clone());
        registry.register("retries", "Failed attempts after which the job waits for another", self.retries.clone());
        registry.register("attempt_seconds", "Time of one attempt", self.attempt_seconds.clone());
        let waits = self.queue_wait_seconds.clone();
        registry.register("queue_wait_seconds", "Time from ready to started", waits);
    }

    fn of_type(&self, name: &str) -> OfType {
        let plain = || vec![("type", name.to_string())];
        let with = |key: &'static str, value: &str| vec![("type", name.to_string()), (key, value.to_string())];
        let ended = |status: Status| self.jobs.get_or_create_owned(&with("outcome", status.name()));
        OfType {
            completed: ended(Status::Completed),
            failed: ended(Status::Failed),
            canceled: ended(Status::Canceled),
            ends: ENDS.map(|end| self.attempts.get_or_create_owned(&with("end", end.name()))),
            retries: self.retries.get_or_create_owned(&plain()),
            attempt_seconds: self.attempt_seconds.get_or_create_owned(&plain()),
            queue_wait_seconds: self.queue_wait_seconds.get_or_create_owned(&plain()),
        }
    }
}

impl Vitals {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("longhaul");
        let live = Family::<Labels, Gauge>::default();
        for (job_type, status, count) in &self.live {
            let labels = vec![("type", job_type.to_string()), ("status", status.name().into())];
            live.get_or_create_owned(&labels).set(signed(*count));
        }
        registry.register("jobs", "Unfinished jobs", live);
        let overdue = Family::<Labels, Gauge>::default();
        for (minutes, count) in OVERDUE_MINUTES.iter().zip(self.overdue) {
            overdue.get_or_create_owned(&vec![("minutes", minutes.to_string())]).set(signed(count));
        }
        registry.register("jobs_overdue", "Ready jobs that have waited longer", overdue);
        let dead = Family::<Labels, Gauge>::default();
        for (job_type, count) in &self.dead_letters {
            dead.get_or_create_owned(&vec![("type", job_type.to_string())]).set(signed(*count));
        }
        registry.register("dead_letters", "Failed jobs not yet replayed or discarded", dead);
        let oldest = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        oldest.set(self.oldest_ready.duration().as_secs_f64());
        registry.register("oldest_ready_seconds", "Wait of the job that has been ready longest", oldest);
        for (name, help, count) in [
            ("events", "Entries of the log that clients can see", self.events),
            ("stream_resets", "Times that a stream said stream.reset", self.stream_resets),
        ] {
            let counter = Counter::<u64>::default();
            counter.inc_by(count);
            registry.register(name, help, counter);
        }
        for (name, help, count) in [
            ("streams", "Open event streams", self.streams),
            ("store_bytes", "Bytes of the store on disk", self.store_bytes),
            ("disk_free_bytes", "Free bytes of the disk it is on", self.disk_free),
        ] {
            let gauge = Gauge::<i64>::default();
            gauge.set(signed(count));
            registry.register(name, help, gauge);
        }
        registry
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(tell: impl FnOnce(&Metrics), vitals: &Vitals) -> String {
        let metrics = Metrics::new(["echo".into()], 4);
        tell(&metrics);
        metrics.render(vitals)
    }

    #[test]
    fn every_name_of_the_contract_is_there_from_the_start() {
        let vitals = Vitals { live: vec![("echo".into(), Status::Pending, 3)], ..Vitals::default() };
        let dead = Vitals { dead_letters: BTreeMap::from([("echo".into(), 2)]), ..vitals };
        let text = rendered(|_| {}, &dead);
        for line in [
            r#"longhaul_jobs{type="echo",status="pending"} 3"#,
            r#"longhaul_jobs_total{type="echo",outcome="completed"} 0"#,
            r#"longhaul_jobs_overdue{minutes="15"} 0"#,
            "longhaul_oldest_ready_seconds 0",
            r#"longhaul_attempts_total{type="echo",end="timed_out"} 0"#,
            r#"longhaul_retries_total{type="echo"} 0"#,
            r#"longhaul_attempt_seconds_count{type="echo"} 0"#,
            r#"longhaul_queue_wait_seconds_count{type="echo"} 0"#,
            r#"longhaul_dead_letters{type="echo"} 2"#,
            "longhaul_events_total 0",
            "longhaul_streams 0",
            "longhaul_stream_resets_total 0",
            "longhaul_commit_seconds_count 0",
            "longhaul_commit_group_size_count 0",
            "longhaul_store_bytes 0",
            "longhaul_disk_free_bytes 0",
            r#"longhaul_workers{state="idle"} 4"#,
            r#"longhaul_workers{state="busy"} 0"#,
        ] {
            assert!(text.lines().any(|l| l.starts_with(line)), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn what_is_told_is_counted_under_its_type() {
        let text = rendered(
            |metrics| {
                metrics.job_ended("echo", Status::Failed);
                metrics.job_ended("echo", Status::Pending);
                metrics.attempt_ended("gone", End::Interrupted, Millis(1_500));
                metrics.committed(Duration::from_millis(1), 7);
                metrics.slot_taken();
            },
            &Vitals::default(),
        );
        for line in [
            r#"longhaul_jobs_total{type="echo",outcome="failed"} 1"#,
            r#"longhaul_attempts_total{type="unconfigured",end="interrupted"} 1"#,
            r#"longhaul_attempt_seconds_sum{type="unconfigured"} 1.5"#,
            "longhaul_commit_group_size_sum 7",
            r#"longhaul_workers{state="idle"} 3"#,
        ] {
            assert!(text.lines().any(|l| l == line || l == format!("{line}.0")), "{line} is missing in\n{text}");
        }
    }
}
