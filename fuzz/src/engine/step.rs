//! What may happen, as read from bytes: wishes about jobs, cells, retention, a clock that jumps, and reboots.
//!
//! In: choices. Out: one step at a time. Names jobs by their number in the order they were made, so that it makes sense
//! whatever came before.

use super::choices::Choices;

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// Somebody submits a job.
    Create(Creation),
    /// A dead letter is replayed as a new job.
    Replay { job: usize },
    /// A command to one job.
    Tell { job: usize, wish: Wish },
    /// So many entries of progress in one change.
    Burst { job: usize, entries: u8 },
    /// A change decided from a head that has moved on: a conflict.
    Late { job: usize },
    /// A job is created again: a conflict.
    Again { job: usize },
    /// A large body is brought that no commit will name, and perhaps taken back.
    Stray { job: usize, is_discarded: bool },
    /// A small named record.
    Cell { name: u8, expect: Expect, value: Option<u8> },
    /// Retention: some that are due, or any job at all.
    Forget { due: bool, jobs: Vec<usize>, dies: bool },
    /// The clock moves, also backwards.
    Jump { millis: i64 },
    /// The process ends and starts again.
    Reboot(Reboot),
}

/// A new job.
#[derive(Debug, Clone)]
pub struct Creation {
    pub job_type: u8,
    pub owner: u8,
    pub key: Option<u8>,
    pub size: u8,
    pub tags: u8,
    pub delayed: bool,
    pub expires: bool,
    pub older: bool,
}

/// What is wanted of a job; `stale` names an old claim.
#[derive(Debug, Clone)]
pub enum Wish {
    Start,
    Report {
        step: u8,
        percent: Option<u8>,
        message: u8,
    },
    Partial {
        size: u8,
    },
    Complete {
        size: u8,
        content: bool,
        log: bool,
    },
    Fail {
        class: u8,
        after: bool,
        log: bool,
    },
    Release,
    Cancel,
    Delivered,
    Expire,
    Stale,
    Ask {
        key: u8,
        size: u8,
    },
    /// Some of the open questions, at least one.
    Answer {
        open: u8,
        size: u8,
    },
}

/// What a cell must hold.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    Anything,
    Nothing,
    Value(u8),
}

/// How the process ends.
#[derive(Debug, Clone, Copy)]
pub enum Reboot {
    /// It closes the store.
    Graceful,
    /// It is killed between two commits.
    Killed,
    /// It is killed before it commits what it has decided.
    Undecided,
    /// It is killed within the commit, between the write and the sync.
    Committing,
    /// It is killed, and killed again while it starts.
    Starting,
}

impl Step {
    /// Reads one, and whether the next one belongs to the same commit.
    pub fn read(from: &mut Choices<'_>) -> (Self, bool) {
        let first = from.byte();
        let step = match first & 0x1f {
            0..=3 => Self::Create(Creation::read(from)),
            4 => Self::Replay { job: from.below(256) },
            5 => Self::Burst { job: from.below(256), entries: from.byte() },
            6 => Self::Late { job: from.below(256) },
            7 => Self::Again { job: from.below(256) },
            8 => Self::Stray { job: from.below(256), is_discarded: from.once_in(2) },
            9 | 10 => Self::Cell { name: from.byte() % 6, expect: expect(from), value: value(from) },
            11 | 12 => Self::forget(from),
            13 => Self::Jump { millis: jump(from) },
            14 | 15 => Self::Reboot(reboot(from)),
            30 => Self::Tell { job: from.below(256), wish: Wish::Ask { key: from.byte() % 40, size: from.byte() } },
            31 => Self::Tell { job: from.below(256), wish: Wish::Answer { open: from.byte(), size: from.byte() } },
            _ => Self::Tell { job: from.below(256), wish: Wish::read(from) },
        };
        (step, first & 0x80 != 0)
    }

    fn forget(from: &mut Choices<'_>) -> Self {
        let count = from.below(8);
        let due = from.once_in(2);
        let jobs = if due { vec![0; count] } else { (0..count).map(|_| from.below(256)).collect() };
        Self::Forget { due, jobs, dies: from.once_in(4) }
    }
}

impl Creation {
    fn read(from: &mut Choices<'_>) -> Self {
        let flags = from.byte();
        Self {
            job_type: flags & 3,
            owner: flags >> 2 & 1,
            delayed: flags & 8 != 0,
            expires: flags & 16 != 0,
            older: flags & 32 != 0,
            key: (flags & 64 != 0).then(|| from.byte() % 5),
            tags: if flags & 128 != 0 { from.byte() } else { 0 },
            size: from.byte(),
        }
    }
}

impl Wish {
    fn read(from: &mut Choices<'_>) -> Self {
        match from.below(16) {
            0..=4 => Self::Start,
            5 => Self::Report {
                step: from.byte() % 8,
                percent: Some(from.byte()).filter(|percent| *percent < 110),
                message: from.byte(),
            },
            6 => Self::Partial { size: from.byte() },
            7 | 8 => Self::Complete { size: from.byte(), content: from.once_in(3), log: from.once_in(3) },
            9 | 10 => Self::Fail { class: from.byte(), after: from.once_in(4), log: from.once_in(3) },
            11 => Self::Release,
            12 => Self::Cancel,
            13 => Self::Delivered,
            14 => Self::Expire,
            _ => Self::Stale,
        }
    }
}

fn expect(from: &mut Choices<'_>) -> Expect {
    match from.below(4) {
        0 | 1 => Expect::Anything,
        2 => Expect::Nothing,
        _ => Expect::Value(from.byte() % 4),
    }
}

fn value(from: &mut Choices<'_>) -> Option<u8> {
    let value = from.byte() % 5;
    (value < 4).then_some(value)
}

fn jump(from: &mut Choices<'_>) -> i64 {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    [1, 700, 60_000, DAY, -1, -60_000, -DAY, -40_000 * DAY, 40_000 * DAY, i64::MAX / 8][from.below(10)]
}

fn reboot(from: &mut Choices<'_>) -> Reboot {
    match from.below(6) {
        0 => Reboot::Graceful,
        1 | 2 => Reboot::Killed,
        3 => Reboot::Undecided,
        4 => Reboot::Committing,
        _ => Reboot::Starting,
    }
}
