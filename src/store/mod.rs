//! The Store port: where jobs, their log and their bodies are kept.
//!
//! In: whole changes. Out: positions, and what was durably written. One thread commits; any thread but an async one reads.
//! Nothing newer than the last synced commit is ever returned (the watermark). No transactions, iterators or types of a
//! backend cross this seam; `conformance` is the proof that a backend keeps it.

pub mod backup;
mod chunk;
mod codec;
#[cfg(any(test, debug_assertions, feature = "trial"))]
pub mod conformance;
pub mod memory;
#[cfg(any(debug_assertions, feature = "trial"))]
pub mod reread;
pub mod sled;
pub mod verify;

use std::sync::Arc;

use bytes::Bytes;

use crate::fault::{Step, Steps};
use crate::job::{
    BODY_SMALL_MAX, Body, BodyRef, Entry, Epoch, Head, Job, JobId, Logged, Part, Position, Status, Timestamp,
};

/// Why the store could not do it, sorted by remedy.
#[derive(Debug, Clone)]
pub enum Error {
    /// The disk or the backend refused. Final for the process (design 5.9): stop; never limp.
    Unavailable(String),
    /// Stored bytes make no sense: stop; never guess. Names the place.
    Corrupt {
        /// What was being read.
        at: String,
        /// What is wrong with it.
        why: String,
    },
    /// One large body cannot be read. Not final: only its readers are the worse.
    Body {
        /// Whose it is.
        job: JobId,
        /// Which of the job's.
        part: Part,
        /// What is wrong with it.
        why: String,
    },
    /// Another process holds the directory; says which if it is known.
    Locked(String),
    /// The disk has no room. Make some, then try again: nothing is damaged.
    Full(String),
}

impl Error {
    /// What the operating system's refusal means.
    pub fn refused(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::Full(format!("{what}: {error}"))
            }
            _ => Self::Unavailable(format!("{what}: {error}")),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            Self::Corrupt { at, why } => write!(f, "the store is damaged at {at}: {why}"),
            Self::Body { job, part, why } => write!(f, "the {part:?} of job {job} is damaged: {why}"),
            Self::Locked(who) => write!(f, "the store is locked: {who}"),
            Self::Full(what) => write!(f, "the disk is full: {what}. Free some of it, then start again"),
        }
    }
}

impl std::error::Error for Error {}

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once the disk has it: what was acknowledged survives a power cut.
    #[default]
    Disk,
    /// Once the system has it: what was acknowledged survives the death of the process, not that of the machine.
    Process,
}

/// A precondition of a change did not hold: somebody else changed the subject. Reload and decide again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict;

/// A change that happens whole or not at all. What it was decided from is its precondition.
#[derive(Debug, Default)]
pub struct Change {
    /// One job, or two when a dead letter is replayed. Their entries get consecutive positions in this order.
    pub jobs: Vec<JobChange>,
    /// Small named records that change with them.
    pub cells: Vec<CellChange>,
}

impl Change {
    /// What these changes do, for tests that make the process die at one of them.
    pub fn steps(changes: &[Self]) -> Steps {
        let parts = changes.iter().flat_map(|change| &change.jobs);
        let is_large = |body: &Body| body.name.len > BODY_SMALL_MAX as u64;
        let refers = parts.clone().filter(|part| part.bodies.iter().any(is_large)).map(|_| Step::Refer);
        let cells = changes.iter().filter(|change| !change.cells.is_empty()).map(|_| Step::Cell);
        parts.flat_map(|part| &part.entries).map(step).chain(refers).chain(cells).collect()
    }
}

/// What an entry says that was done.
const fn step(entry: &Entry) -> Step {
    match entry {
        Entry::Created { .. } => Step::Create,
        Entry::Started { .. } => Step::Claim,
        Entry::Progress(_) | Entry::Partial { .. } | Entry::CancelDelivered { .. } => Step::Report,
        Entry::Asked { .. } => Step::Ask,
        Entry::Answered { .. } => Step::Answer,
        Entry::Retrying { .. } => Step::Retry,
        Entry::Released { .. } => Step::Release,
        Entry::Interrupted { .. } => Step::Interrupt,
        Entry::CancelRequested { .. } | Entry::Canceled { .. } => Step::Cancel,
        Entry::Completed { .. } | Entry::Failed { .. } => Step::Finish,
        Entry::Replayed { .. } => Step::Replay,
    }
}

/// One job's part of a change.
#[derive(Debug)]
pub struct JobChange {
    /// The head it was decided from; the job must still stand at that revision. `None`: the job, and its idempotency
    /// key if it has one, must not exist.
    pub before: Option<Arc<Head>>,
    /// The fold of `entries` over `before`.
    pub after: Job,
    /// What happened, in order; never empty.
    pub entries: Vec<Entry>,
    /// When it was decided: the time of each of the entries.
    pub at: Timestamp,
    /// Bodies that `after` names and `before` does not. Large ones were brought already and come without bytes.
    pub bodies: Vec<Body>,
    /// Bodies that `before` names and `after` does not.
    pub dropped: Vec<BodyRef>,
}

/// A small named record, at most 4 KiB, that changes with a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellChange {
    /// At most 255 bytes; a family of cells shares a prefix such as `session/`.
    pub name: String,
    /// What it must hold now (`None`: nothing), or no precondition.
    pub expect: Option<Option<Bytes>>,
    /// What it holds afterwards; `None` removes it.
    pub value: Option<Bytes>,
}

/// The log as far as it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Which history.
    pub epoch: Epoch,
    /// At and above it every entry exists. 1 in a log that was never trimmed.
    pub floor: Position,
    /// The watermark: the last synced position, `Position::ZERO` in a new log. Never below `floor` - 1.
    pub last: Position,
}

/// Largest value of a cell, in bytes. A larger one is a bug of the caller: the store keeps it, but no longer promises
/// that its files stay small.
pub const CELL_MAX: usize = 4 * 1024;

/// Which ended jobs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only jobs created before this one: where the last page ended.
    pub before: Option<JobId>,
    /// Only this principal's.
    pub owner: Option<Arc<str>>,
    /// Only this type.
    pub job_type: Option<Arc<str>>,
    /// Only this status.
    pub status: Option<Status>,
    /// Only with this tag.
    pub tag: Option<Arc<str>>,
    /// Only those created at or after.
    pub created_after: Option<Timestamp>,
    /// Only those created before.
    pub created_before: Option<Timestamp>,
    /// Only dead letters, or only others.
    pub dead_lettered: Option<bool>,
    /// Only pending ones that were ready before this; so no ended one.
    pub ready_before: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
}

impl Query {
    /// Whether the job belongs in the list, `limit` apart. One rule for the store and for the heads in memory.
    pub fn admits(&self, job: &Job) -> bool {
        let spec = &job.spec;
        self.before.is_none_or(|before| spec.id < before)
            && self.owner.as_ref().is_none_or(|owner| *owner == spec.owner)
            && self.job_type.as_ref().is_none_or(|job_type| *job_type == spec.job_type)
            && self.status.is_none_or(|status| status == job.status())
            && self.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
            && self.created_after.is_none_or(|after| spec.created_at >= after)
            && self.created_before.is_none_or(|before| spec.created_at < before)
            && self.dead_lettered.is_none_or(|dead| dead == job.is_dead_letter())
            && self.ready_before.is_none_or(|t| job.status() == Status::Pending && job.run_at < t)
    }

    /// Whether any ended job can belong in the list at all.
    pub fn admits_ended(&self) -> bool {
        self.ready_before.is_none() && self.status.is_none_or(Status::is_terminal)
    }
}

/// Ended jobs, newest first.
#[derive(Debug, Default)]
pub struct Listing {
    /// At most `Query::limit`.
    pub jobs: Vec<Arc<Head>>,
    /// Everything down to and including this id was looked at; go on with it as `before`. `None`: there is no more.
    /// Set with fewer jobs than the limit when the look-up ran into `SCAN_MAX`.
    pub next: Option<JobId>,
}

/// Most index rows that one `jobs` call looks at.
pub const SCAN_MAX: usize = 10_000;

/// The right to read the store as it was at one position, for a backup. See `Store::pin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Which one: a later one ends it.
    pub number: u64,
    /// The log as it was when it was taken: what it shows ends with `bounds.last`.
    pub bounds: Bounds,
}

/// What is kept of the ended jobs of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Kept {
    /// How many there are.
    pub jobs: u64,
    /// What they count as together: the sum of `Job::kept_bytes`.
    pub bytes: u64,
    /// How many of them are dead letters.
    pub dead_letters: u64,
}

impl Kept {
    /// With this ended job.
    fn add(&mut self, job: &Job) {
        self.jobs += 1;
        self.bytes += job.kept_bytes();
        self.dead_letters += u64::from(job.is_dead_letter());
    }

    /// Without this ended job.
    fn remove(&mut self, job: &Job) {
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(job.kept_bytes());
        self.dead_letters = self.dead_letters.saturating_sub(u64::from(job.is_dead_letter()));
    }
}

/// Totals of the ended jobs that are kept, by type; they survive restarts without counting the history at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Every type of which a job is kept.
    pub types: std::collections::BTreeMap<Arc<str>, Kept>,
}

impl Totals {
    /// All types together.
    pub fn all(&self) -> Kept {
        self.types.values().fold(Kept::default(), |sum, kept| Kept {
            jobs: sum.jobs + kept.jobs,
            bytes: sum.bytes.saturating_add(kept.bytes),
            dead_letters: sum.dead_letters + kept.dead_letters,
        })
    }
}

/// How the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Bytes of the store on disk, 0 for one in memory.
    pub store_bytes: u64,
    /// Free bytes of the disk it is on.
    pub disk_free: u64,
    /// All bytes of that disk.
    pub disk_size: u64,
}

/// Where jobs are kept. Every method blocks on the disk: never call it from async code (design 5.7).
///
/// # Errors
/// Any method: `Error::Unavailable`, `Error::Full` and `Error::Corrupt`, all final unless the method says otherwise.
pub trait Store: Send + Sync {
    /// Heads of all unfinished jobs, in no order. Called once, before the first commit.
    fn live(&self) -> Result<Vec<Head>, Error>;

    /// Makes the changes durable, in order, and only then returns. Per change, the position of its first entry (its
    /// others follow without a gap), or for a change of cells alone the watermark; or the conflict that kept it out.
    /// Changes of one call see each other: the second may build on the first.
    ///
    /// Only one thread calls this and `forget`. Who asked `room` before does not meet a full disk here.
    fn commit(&self, changes: &[Change]) -> Result<Vec<Result<Position, Conflict>>, Error>;

    /// Puts a body larger than `BODY_SMALL_MAX` on disk, synced, before the commit that names it. On the thread that
    /// brings it. A body that no commit names is swept at the next start; `discard` removes it sooner. It may be read
    /// as soon as it was brought.
    ///
    /// # Errors
    /// `Error::Full` if the disk has no room for it, `Error::Unavailable` if it refuses otherwise. Not final: nothing is
    /// left behind, and only this job is the worse.
    fn bring(&self, job: JobId, name: BodyRef, bytes: &[u8]) -> Result<(), Error>;

    /// Removes a brought body that no commit will name.
    fn discard(&self, job: JobId, name: BodyRef);

    /// The job, unfinished or ended.
    fn job(&self, id: JobId) -> Result<Option<Arc<Head>>, Error>;

    /// Ended jobs, newest first. Unfinished ones are in memory; the caller merges them.
    fn jobs(&self, query: &Query) -> Result<Listing, Error>;

    /// The job that this key names for this owner and type.
    fn keyed(&self, owner: &str, job_type: &str, key: &str) -> Result<Option<JobId>, Error>;

    /// Bytes `offset..offset + limit` of a body, fewer at its end; `None` if there is no such body. Checked against
    /// its CRC when read whole, and a large one in any part.
    ///
    /// # Errors
    /// Also `Error::Body` for a large one that cannot be read: not final.
    fn body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error>;

    /// The log as far as it is durable.
    fn bounds(&self) -> Bounds;

    /// Entries after `after`, in order, quiet ones included, at most about `limit` (whole chunks are decoded; at
    /// least one entry if there is any). Starts at the floor if `after` is below it; the floor may rise meanwhile, so
    /// whoever needs to know of a hole asks for `bounds` afterwards. A key seek, not a search.
    fn events(&self, after: Position, limit: usize) -> Result<Vec<Logged>, Error>;

    /// The entries at these positions (rising), as far as they are kept, also below the floor. Those of a job that is
    /// forgotten meanwhile may be there in part: who must know asks for the job afterwards.
    fn entries(&self, positions: &[Position]) -> Result<Vec<Logged>, Error>;

    /// Block `number` of a job's older positions: 64 of them.
    fn trail(&self, job: JobId, number: u32) -> Result<Vec<Position>, Error>;

    /// Cells whose name starts with `prefix`, by name.
    fn cells(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, Error>;

    /// Ended jobs of a type, the longest ended first and those of one time in any order, that ended before `before`, each with
    /// its end (`failed` ones have their own term).
    fn ends(
        &self,
        job_type: &str,
        failed: bool,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, Error>;

    /// Removes ended jobs with their records, bodies, keys, index rows and entries, and raises the floor past the
    /// last of those entries, in one durable step. Ids that are not there, or not ended, are passed over. The
    /// floor rises for readers a moment before that, and then the jobs are gone: a crash in between brings them back
    /// whole.
    ///
    /// Only one thread calls this and `commit`.
    fn forget(&self, ids: &[JobId]) -> Result<(), Error>;

    /// Keeps everything that there is now: until `unpin` or the next `pin`, `forget` passes every id over, and a body
    /// that a commit drops stays there for `pinned_body`. Not kept over a restart.
    ///
    /// Only one thread calls this, `commit` and `forget`; so nothing is in flight.
    fn pin(&self) -> Result<Pin, Error>;

    /// Ends it; what was kept for it alone goes. Nothing if it has ended. On the thread that commits.
    fn unpin(&self, pin: &Pin);

    /// Whether it still pins: whoever has read under it asks afterwards, and believes nothing read if not.
    fn is_pinned(&self, pin: &Pin) -> bool;

    /// Entries after `after`, in order, quiet ones and those below the floor included, none after `pin.bounds.last`;
    /// at most about `limit` (whole chunks are decoded), at least one if there is any.
    fn pinned_entries(&self, pin: &Pin, after: Position, limit: usize) -> Result<Vec<Logged>, Error>;

    /// As `body`, and for a body that was dropped since the pin was taken what it was.
    fn pinned_body(&self, job: JobId, name: BodyRef, offset: u64, limit: usize) -> Result<Option<Bytes>, Error>;

    /// Totals as of the watermark.
    fn totals(&self) -> Arc<Totals>;

    /// Whether a commit or a `forget` of the core surely fits on the disk, whatever others write to it meanwhile. Takes
    /// the room ahead if it can; false while there is none. Cheap: called before every commit.
    fn room(&self) -> Result<bool, Error> {
        Ok(true)
    }

    /// How the store is. Cheap enough for once a second, not for a hot path.
    fn health(&self) -> Result<Health, Error>;

    /// Flushes and gives up the directory's lock; the store is not used afterwards.
    fn close(&self) -> Result<(), Error>;
}

/// A number that tells a new log from every other.
fn mint_epoch() -> Epoch {
    // The random half of a UUID whose time is fixed: chance without a clock.
    let chance = uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)).as_u128();
    Epoch((chance & u128::from(u32::MAX)) as u32)
}
