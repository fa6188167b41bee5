//! How much room the disk has, and what is done no more as it shrinks.
//!
//! In: what the store says of its disk. Out: a `Room`. New jobs go first, then new attempts and large bodies; at last nothing
//! is committed at all, and what has to be waits: sled must never meet a full disk. All of it comes back by itself.

use crate::job::{Millis, Timestamp};
use crate::store::Health;

/// The reserve when none is configured: the smaller of this and a twentieth of the disk (contract 7).
pub const DISK_RESERVE_MAX: u64 = 256 * 1024 * 1024;
/// While there is enough, the free disk is looked up at most once in this time; while something waits for room, once.
pub const DISK_LOOK_EVERY: Millis = Millis::seconds(1);
/// And again once so large a part of the reserve may have been written since.
const LOOK_SHARE: u64 = 16;
/// What a job or an end takes beside its bodies, in bytes, for that estimate.
const RECORD_BYTES: u64 = 1024;

/// How much room there is, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Room {
    /// The log has none ahead of it: nothing is committed. Reads go on.
    None,
    /// Less than half the reserve: no attempt starts, and no large body is written. What runs may end.
    Tight,
    /// Less than the reserve: no new jobs and no new small records.
    Low,
    /// Enough.
    #[default]
    Ample,
}

/// `store.disk_reserve`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reserve(pub Option<u64>);

impl Reserve {
    /// In bytes, on this disk.
    pub fn bytes(self, disk: &Health) -> u64 {
        self.0.unwrap_or(DISK_RESERVE_MAX.min(disk.disk_size / 20))
    }

    /// How much room the disk has after `more` bytes.
    pub fn room(self, disk: &Health, more: u64) -> Room {
        let reserve = self.bytes(disk);
        match disk.disk_free.checked_sub(more) {
            Some(free) if free >= reserve => Room::Ample,
            Some(free) if free >= reserve / 2 => Room::Low,
            Some(_) | None => Room::Tight,
        }
    }
}

/// What was last seen of the disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    looked_at: Option<Timestamp>,
    room: Room,
    /// So much may be written before it is looked at again.
    allowance: u64,
}

impl Disk {
    /// What was seen, if that is good enough.
    pub fn fresh(&self, now: Timestamp) -> Option<Room> {
        let at = self.looked_at.filter(|at| *at <= now)?;
        // Room that comes back is seen at once.
        let is_fresh = at == now || (self.room == Room::Ample && now.since(at) < DISK_LOOK_EVERY);
        (is_fresh && self.allowance > 0).then_some(self.room)
    }

    /// It was looked at.
    pub fn see(&mut self, now: Timestamp, disk: &Health, reserve: Reserve) -> Room {
        self.looked_at = Some(now);
        self.room = reserve.room(disk, 0);
        self.allowance = (reserve.bytes(disk) / LOOK_SHARE).max(RECORD_BYTES);
        self.room
    }

    /// Something with bodies of so many bytes is about to be written.
    pub fn wrote(&mut self, body_bytes: u64) {
        self.allowance = self.allowance.saturating_sub(body_bytes + RECORD_BYTES);
    }

    /// When it is to be looked at again, if something may wait for that.
    pub fn due(&self) -> Option<Timestamp> {
        let at = self.looked_at.filter(|_| self.room < Room::Low)?;
        Some(at.plus(DISK_LOOK_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(disk_free: u64, disk_size: u64) -> Health {
        Health { store_bytes: 0, disk_free, disk_size }
    }

    #[test]
    fn the_reserve_is_a_twentieth_of_a_small_disk_and_256_mib_of_a_large_one() {
        assert_eq!(Reserve(None).bytes(&disk(0, 64 << 20)), (64 << 20) / 20);
        assert_eq!(Reserve(None).bytes(&disk(0, 1 << 40)), DISK_RESERVE_MAX);
        assert_eq!(Reserve(Some(7)).bytes(&disk(0, 1 << 40)), 7);
    }

    #[test]
    fn jobs_stop_at_the_reserve_and_attempts_and_large_bodies_at_half_of_it() {
        let room = |free, more| Reserve(Some(100)).room(&disk(free, 1_000), more);
        let seen = [room(100, 0), room(99, 0), room(50, 0), room(49, 0), room(150, 101), room(10, 11)];
        assert_eq!(seen, [Room::Ample, Room::Low, Room::Low, Room::Tight, Room::Tight, Room::Tight]);
        assert_eq!(Reserve(Some(0)).room(&disk(0, 1_000), 0), Room::Ample, "without a reserve only the log's own room");
    }

    #[test]
    fn a_look_is_good_for_a_second_or_a_part_of_the_reserve() {
        let mut seen = Disk::default();
        assert_eq!(seen.fresh(Timestamp(0)), None);
        seen.see(Timestamp(5_000), &disk(200_000, 1_000_000), Reserve(Some(160_000)));
        assert_eq!(seen.fresh(Timestamp(5_999)), Some(Room::Ample));
        assert_eq!((seen.fresh(Timestamp(6_000)), seen.fresh(Timestamp(4_999))), (None, None), "nor after a step back");
        seen.wrote(8_000);
        assert_eq!(seen.fresh(Timestamp(5_000)), Some(Room::Ample));
        seen.wrote(8_000);
        assert_eq!(seen.fresh(Timestamp(5_000)), None);
        seen.see(Timestamp(5_000), &disk(0, 1_000_000), Reserve(Some(160_000)));
        assert_eq!((seen.fresh(Timestamp(5_000)), seen.fresh(Timestamp(5_001))), (Some(Room::Tight), None));
    }
}
