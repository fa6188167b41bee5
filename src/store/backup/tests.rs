//! A backup taken while everything goes on is the state at its position, and whatever else claims to be one is refused at
//! the line that is wrong.

#[path = "tests/hostile.rs"]
mod hostile;
#[path = "tests/world.rs"]
mod world;

use std::path::Path;
use std::sync::Arc;

use super::{Dump, restore};
use crate::job::Timestamp;
use crate::store::memory::Memory;
use crate::store::sled::{Options, Sled};
use crate::store::{Durability, Store, verify};
use world::{World, chance};

/// A moment for headers.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn sled(dir: &Path) -> Arc<dyn Store> {
    let options = Options { dir: dir.to_owned(), cache_bytes: 8 * 1024 * 1024, durability: Durability::Process };
    Arc::new(Sled::open(&options).expect("the store opens"))
}

/// All pages; between two of them, something else.
fn pages(store: &dyn Store, dump: &mut Dump, mut between: impl FnMut()) -> Vec<u8> {
    let mut file = Vec::new();
    while let Some(page) = dump.page(store).expect("the pin holds") {
        file.extend_from_slice(&page);
        between();
    }
    file
}

/// Lives of jobs go on while their backup is written in small pages: it restores to how they stood when it began.
fn a_backup_under_load_is_the_state_at_its_position(seed: u64, store: &Arc<dyn Store>) {
    let mut world = World::new(seed, store.clone());
    let before = 100 + world.below(200);
    (0..before).for_each(|_| world.step());
    let pin = store.pin().expect("works");
    let expected = world.picture(&pin);
    let mut dump = Dump::in_pages(pin, NOW, 1 + chance(seed, 1) as usize % 3_000);
    let file = pages(&**store, &mut dump, || (0..3).for_each(|_| world.step()));
    store.unpin(&pin);
    (0..20).for_each(|_| world.step());
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("deep").join("store");
    let restored = restore(&file[..], &dir).unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
    assert_ne!(restored.epoch, pin.bounds.epoch);
    let report = verify::verify(&dir).expect("it can be read");
    assert!(report.is_whole(), "seed {seed}: {report:?}");
    let again = sled(&dir);
    expected.check(&*again, restored.epoch, seed);
    again.close().expect("closes");
}

#[test]
fn a_backup_of_the_store_on_disk_under_load_is_the_state_at_its_position() {
    let rounds = std::env::var("LONGHAUL_LONG").map_or(12, |_| 1_000);
    for seed in world::seeds(rounds) {
        let place = tempfile::tempdir().expect("a directory");
        let dir = place.path().join("store");
        let store = sled(&dir);
        a_backup_under_load_is_the_state_at_its_position(seed, &store);
        store.close().expect("closes");
        let report = verify::verify(&dir).expect("it can be read");
        assert!(report.is_whole() && report.leftovers == 0, "seed {seed}: the pin left something behind: {report:?}");
    }
}

#[test]
fn a_backup_of_the_store_in_memory_under_load_is_the_state_at_its_position() {
    for seed in world::seeds(6) {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        a_backup_under_load_is_the_state_at_its_position(seed, &store);
    }
}

#[test]
fn a_backup_whose_hold_has_ended_breaks_off() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut world = World::new(1, store.clone());
    (0..100).for_each(|_| world.step());
    let pin = store.pin().expect("works");
    let mut dump = Dump::in_pages(pin, NOW, 100);
    assert!(dump.page(&*store).expect("it holds").is_some());
    store.unpin(&pin);
    let why = dump.page(&*store).expect_err("it has ended").to_string();
    assert!(why.contains("pin"), "{why}");
}

#[test]
fn an_empty_store_is_restored_as_an_empty_store() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let pin = store.pin().expect("works");
    let file = pages(&*store, &mut Dump::new(pin, NOW), || ());
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    restore(&file[..], &dir).expect("it is whole");
    let again = sled(&dir);
    assert_eq!(again.bounds().last, pin.bounds.last);
}
