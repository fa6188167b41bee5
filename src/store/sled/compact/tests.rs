//! Compacting keeps everything, however it is cut short.

use std::path::Path;

use bytes::Bytes;

use super::super::super::conformance::story::{job, job_with, key};
use super::super::super::{Store, verify};
use super::*;
use crate::job::{BODY_SMALL_MAX, BodyRef, Part, Position};

fn opened(dir: &Path) -> Sled {
    let options = Options { dir: dir.into(), cache_bytes: 8 << 20, durability: Durability::Process };
    Sled::open(&options).expect("the store opens")
}

/// A store with history, large bodies, forgotten jobs and a floor.
fn filled(dir: &Path) {
    let store = opened(dir);
    let large = Bytes::from(vec![b'1'; BODY_SMALL_MAX + 5]);
    let ended: Vec<_> = (1..200).map(|n| job_with(n, |spec| spec.key = key(&n.to_string())).live(&store)).collect();
    let gone: Vec<_> = ended.iter().step_by(2).map(super::super::super::conformance::story::Story::id).collect();
    store.forget(&gone).expect("works");
    let mut running = job(500);
    running.create(&store);
    running.start(&store);
    running.partial(&store, 0, &large);
    job(501).die(&store);
    store.close().expect("closes");
}

/// Everything that the port shows.
fn picture(dir: &Path) -> String {
    let store = opened(dir);
    let all = store.pin().expect("works");
    let log = store.pinned_entries(&all, Position::ZERO, usize::MAX).expect("works");
    let mut live = store.live().expect("works");
    live.sort_by_key(|head| head.job.id());
    let query = super::super::super::Query { limit: 1_000, ..Default::default() };
    let listing = store.jobs(&query).expect("works");
    let bodies = listing.jobs.iter().map(|head| &**head).chain(&live).flat_map(|head| {
        let names: Vec<_> = head.job.bodies().map(|name| (head.job.id(), name)).collect();
        names.into_iter().map(|(id, name)| store.body(id, name, 0, usize::MAX).expect("works"))
    });
    let bodies: Vec<_> = bodies.map(|bytes| bytes.map(|bytes| crc32fast::hash(&bytes))).collect();
    let text = format!("{:?} {:?} {log:?} {live:?} {listing:?} {bodies:?}", store.bounds(), store.totals());
    store.close().expect("closes");
    text
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_compacted_store_is_the_same_store() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    filled(&dir);
    let before = picture(&dir);
    let inode = std::os::unix::fs::MetadataExt::ino;
    let body = fs::read_dir(dir.join(FOLDER)).expect("bodies").next().expect("a large one").expect("readable");
    let file = inode(&body.metadata().expect("a file"));
    let done = compact(&dir).expect("it compacts");
    assert!(verify::verify(&dir).expect("readable").is_whole());
    assert_eq!(picture(&dir), before, "epoch, positions, records, bodies");
    assert_eq!(done.bounds, opened(&dir).bounds());
    assert_eq!(names(place.path()), ["store"], "nothing beside it");
    let moved = fs::metadata(dir.join(FOLDER).join(body.file_name())).expect("it is there");
    assert_eq!(inode(&moved), file, "linked, not copied");
}

#[test]
fn what_was_forgotten_takes_no_room_after_a_compaction() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    let store = opened(&dir);
    let payload = Bytes::from(format!("\"{}\"", "z".repeat(3_000)));
    let ended = (1..1_500).map(|number| {
        let mut story = job_with(number, |spec| spec.payload = BodyRef::of(Part::Payload, 0, &payload));
        story.payload = payload.clone();
        story.live(&store).id()
    });
    let ended: Vec<_> = ended.collect();
    ended[50..].chunks(64).for_each(|some| store.forget(some).expect("works"));
    store.close().expect("closes");
    let done = compact(&dir).expect("it compacts");
    assert!(done.after * 2 < done.before, "{done:?}");
}

#[test]
fn what_was_left_over_is_gone_after_the_next_start() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    filled(&dir);
    let before = picture(&dir);
    for purpose in [make::COMPACTED, make::OLD, make::RESTORED] {
        fs::create_dir(beside(&dir, purpose)).expect("made");
        fs::write(beside(&dir, purpose).join("db"), b"half").expect("written");
    }
    assert_eq!(picture(&dir), before);
    assert_eq!(names(place.path()), ["store"]);
}

#[test]
fn a_swap_that_was_cut_between_its_two_steps_is_undone() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    filled(&dir);
    let before = picture(&dir);
    fs::rename(&dir, beside(&dir, make::OLD)).expect("the first step");
    fs::create_dir(beside(&dir, make::COMPACTED)).expect("made");
    assert!(verify::verify(&dir).expect("put back").is_whole());
    assert_eq!(picture(&dir), before, "never an empty start");
    assert_eq!(names(place.path()), ["store"]);
}

#[test]
fn a_damaged_store_is_not_compacted_and_stays_as_it_is() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("store");
    filled(&dir);
    let body = fs::read_dir(dir.join(FOLDER)).expect("bodies").next().expect("a large one").expect("readable");
    fs::write(body.path(), b"short").expect("damaged");
    let why = compact(&dir).expect_err("it is damaged").to_string();
    assert!(why.contains("the store was left as it was"), "{why}");
    assert_eq!(names(place.path()), ["store"]);
    assert!(!verify::verify(&dir).expect("readable").is_whole(), "it still says so");
}
