//! What only the store on disk promises: its budget of operations, what it leaves in its directory, and how it opens.

mod ends;
mod large;
mod opening;
mod unreadable;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::super::conformance::story::{Story, body, commit_one, job, job_with, key};
use super::super::{Change, Durability, Error, Query, Store};
use super::{Options, Sled, body as files_of_bodies};
use crate::job::{BODY_SMALL_MAX, Body, BodyRef, Carried, Entry, JobId, Part, Position, Progress};

/// A store in a directory that ends with the test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn options(&self) -> Options {
        let dir = self.0.path().join("store");
        Options { dir, cache_bytes: 16 * 1024 * 1024, durability: Durability::Process }
    }

    fn try_open(&self) -> Result<Sled, Error> {
        Sled::open(&self.options())
    }

    fn open(&self) -> Sled {
        self.try_open().expect("the store opens")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.options().dir.join(name)
    }

    /// What keeps it from opening.
    fn refusal(&self) -> String {
        self.try_open().err().expect("the store does not open").to_string()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// How many operations something takes.
fn operations(store: &Sled, work: impl FnOnce(&Sled)) -> u64 {
    let before = store.operations();
    work(store);
    store.operations() - before
}

fn change(story: &mut Story, entries: Vec<Entry>, bodies: Vec<Body>) -> Change {
    let change = story.step(entries, bodies);
    story.landed(&change, Position::ZERO);
    Change { jobs: vec![change], cells: Vec::new() }
}

fn creation(story: &mut Story) -> Change {
    let (created, payload) = (story.created(), body(Part::Payload, 0, &story.payload));
    change(story, vec![created], vec![payload])
}

#[test]
fn a_submit_costs_two_operations_and_a_share_of_a_chunk() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    let group = |from: u64, with_key: bool| -> Vec<Change> {
        let made = |n: u64| job_with(n, |spec| spec.key = key(&n.to_string()).filter(|_| with_key));
        (from..from + 128).map(|n| creation(&mut made(n))).collect()
    };
    let plain = operations(&store, |store| assert!(store.commit(&group(1, false)).is_ok()));
    let chunks = store.with_trees(|trees| Ok(trees.events.iter().count() as u64)).expect("works");
    assert_eq!(plain, 2 * 128 + chunks);
    assert!(chunks <= 4, "128 small entries need {chunks} chunks");
    let keyed = operations(&store, |store| assert!(store.commit(&group(1_000, true)).is_ok()));
    assert!(keyed <= 4 * 128 + 2 * chunks, "a key costs a look and a row: {keyed}");
}

#[test]
fn a_submit_whose_record_carries_its_payload_costs_one_operation_and_a_share_of_a_chunk() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    let mut made = |n: u64| {
        let mut story = job(n);
        Arc::make_mut(&mut story.spec).carried = Carried::of(&story.payload);
        creation(&mut story)
    };
    let group: Vec<Change> = (1..129).map(&mut made).collect();
    let cost = operations(&store, |store| assert!(store.commit(&group).is_ok()));
    let chunks = store.with_trees(|trees| Ok(trees.events.iter().count() as u64)).expect("works");
    assert_eq!(cost, 128 + chunks);
}

#[test]
fn a_life_costs_ten_operations() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    let mut stories: Vec<Story> = (1..129).map(job).collect();
    let mut steps: Vec<Vec<Change>> = vec![stories.iter_mut().map(creation).collect()];
    let max_attempts = stories[0].spec.max_attempts;
    let started = Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts, worker: "w1".into() };
    for entry in [started, Entry::Progress(Progress { step: Some(1), ..Progress::default() })] {
        steps.push(stories.iter_mut().map(|story| change(story, vec![entry.clone()], Vec::new())).collect());
    }
    let result = body(Part::Result, 1, &Bytes::from_static(b"{}"));
    let ends = stories.iter_mut().map(|story| {
        let name = Some(result.name);
        let completion =
            crate::job::Completion { summary: "".into(), result: name, content: None, is_error: false, lossy: false };
        let (completion, duration) = (Arc::new(completion), crate::job::Millis(1));
        let claim = crate::job::ClaimNo(1);
        let end = Entry::Completed { claim, completion, attempts: 1, duration, inline: None, log: None };
        change(story, vec![end], vec![result.clone()])
    });
    steps.push(ends.collect());
    let whole = operations(&store, |store| {
        for group in &steps {
            assert!(store.commit(group).expect("works").iter().all(Result::is_ok));
        }
    });
    let per_life = whole as f64 / 128.0;
    assert!(per_life <= 10.0, "{per_life} operations for created, started, one progress, completed");
}

#[test]
fn sled_makes_no_side_files() {
    let place = Place::new();
    let store = place.open();
    let full: Bytes = vec![b'x'; BODY_SMALL_MAX].into();
    let text = "t".repeat(240);
    for n in 1..60 {
        let mut story = job_with(n, |spec| {
            spec.tags =
                (0..16).map(|_| "tag of some sixty characters, so that records come near 4 KiB".into()).collect();
            spec.key = key(&format!("{text}{n}"));
        });
        story.payload = full.clone();
        story.spec =
            Arc::new(crate::job::Spec { payload: BodyRef::of(Part::Payload, 0, &full), ..(*story.spec).clone() });
        story.create(&store);
        story.start(&store);
        let progress = Entry::Progress(Progress { message: Some(text.as_str().into()), ..Progress::default() });
        story.put(&store, vec![progress; 70], Vec::new());
        story.complete(&store, &full);
    }
    store.close().expect("closes");
    assert_eq!(names(&place.path("blobs")), Vec::<String>::new());
    drop(store);
    place.open();
    assert_eq!(names(&place.path("blobs")), Vec::<String>::new());
}

#[test]
fn a_new_store_is_moved_into_place_whole() {
    let place = Place::new();
    // What a kill in the middle of the first creation leaves.
    let unfinished = place.0.path().join("store.new");
    fs::create_dir_all(unfinished.join("blobs")).expect("made");
    fs::write(unfinished.join("db"), b"half").expect("written");
    place.open().close().expect("closes");
    assert_eq!(names(place.0.path()), ["store"]);
    assert!(names(&place.options().dir).contains(&"FORMAT".to_owned()));
}

#[test]
fn an_empty_directory_becomes_a_store() {
    let place = Place::new();
    fs::create_dir(place.options().dir).expect("made");
    assert_eq!(place.open().bounds().last, Position::ZERO);
}

#[test]
fn what_is_no_store_of_this_version_is_refused_and_left_alone() {
    let place = Place::new();
    fs::create_dir(place.options().dir).expect("made");
    fs::write(place.path("db"), b"somebody's").expect("written");
    assert!(place.refusal().contains("no store of longhaul"), "{}", place.refusal());
    assert_eq!(fs::read(place.path("db")).expect("there"), b"somebody's");
    fs::write(place.path("FORMAT"), "longhaul store, format 9\n").expect("written");
    assert!(place.refusal().contains("format 9"), "{}", place.refusal());
    assert_eq!(names(&place.options().dir), ["FORMAT", "db"]);
}

#[test]
fn a_store_without_its_data_file_does_not_start_empty() {
    for empty in [true, false] {
        let place = Place::new();
        let store = place.open();
        job(1).live(&store);
        store.close().expect("closes");
        if empty {
            fs::write(place.path("db"), b"").expect("emptied");
        } else {
            fs::remove_file(place.path("db")).expect("removed");
        }
        let why = place.refusal();
        for part in [place.options().dir.to_str().expect("text"), "backup", "longhaul verify"] {
            assert!(why.contains(part), "{why:?} does not name {part:?}");
        }
    }
}

#[test]
fn a_damaged_store_is_one_clear_message() {
    let mut refused = 0;
    for seed in 0..12_usize {
        let place = Place::new();
        let store = place.open();
        (1..30).for_each(|n| drop(job(n).live(&store)));
        store.close().expect("closes");
        drop(store);
        let mut bytes = fs::read(place.path("db")).expect("there");
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let from = used * seed / 12;
        bytes[from..from + 200].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(place.path("db"), bytes).expect("damaged");
        // Whatever is done with it: values as they were, or errors; no panic, and no empty store.
        let looked = place.try_open().and_then(|store| {
            let bounds = store.bounds();
            assert!(bounds.last > Position::ZERO, "an empty start");
            store.live()?;
            store.events(Position::ZERO, 1_000)?;
            store.jobs(&Query { limit: 100, ..Query::default() })
        });
        refused += usize::from(looked.is_err());
    }
    assert!(refused > 0, "none of the damages was noticed");
}

/// sled writes its snapshot at start; killed then, it leaves a file that made it refuse to open for ever.
#[test]
fn case_51_leftovers_of_a_killed_start_do_not_keep_the_store_shut() {
    let place = Place::new();
    let story = {
        let store = place.open();
        let story = job(1).live(&store);
        store.close().expect("closes");
        story
    };
    for (name, bytes) in
        [("snap.FFFFFFFFFFFFFFFF.generating", vec![]), ("snap.ffffffffffffffff.generating", vec![7; 4_096])]
    {
        fs::write(place.path(name), bytes).expect("written");
        let store = place.open();
        assert!(!place.path(name).exists());
        assert_eq!(store.job(story.id()).expect("works"), Some(story.head()));
        store.close().expect("closes");
    }
}

/// A second server on the same directory is told who has it, and harms nobody; the lock is free after closing.
#[test]
fn case_54_the_directory_has_one_owner_at_a_time() {
    let place = Place::new();
    let store = place.open();
    let why = place.refusal();
    assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
    job(1).create(&store);
    store.close().expect("closes");
    assert_eq!(place.open().bounds().last, Position(1), "though the first is not dropped");
}

#[test]
fn bodies_that_no_record_names_are_swept_at_start() {
    let place = Place::new();
    let large: Bytes = vec![b'x'; BODY_SMALL_MAX + 1].into();
    let (mut kept, orphan) = (job(1), BodyRef::of(Part::Result, 1, &large));
    let store = place.open();
    let name = BodyRef::of(Part::Payload, 0, &large);
    kept.spec = Arc::new(crate::job::Spec { payload: name, ..(*kept.spec).clone() });
    store.bring(kept.id(), name, &large).expect("works");
    let created = kept.created();
    kept.put(&store, vec![created], vec![Body { name, bytes: None }]);
    store.bring(kept.id(), orphan, &large).expect("works");
    store.bring(job(2).id(), orphan, &large).expect("works");
    let folder = place.path(files_of_bodies::FOLDER);
    fs::write(folder.join("half.new"), b"half").expect("written");
    fs::write(folder.join("README"), b"somebody's").expect("written");
    let full = store.health().expect("works").store_bytes;
    store.close().expect("closes");
    let store = place.open();
    assert_eq!(names(&folder), [files_of_bodies::file_name(kept.id(), name), "README".to_owned()]);
    assert_eq!(store.body(kept.id(), name, 0, large.len()).expect("works"), Some(large));
    assert!(store.health().expect("works").store_bytes < full);
    store.bring(job(2).id(), orphan, &[b'x'; BODY_SMALL_MAX + 1]).expect("works");
    store.discard(job(2).id(), orphan);
    assert_eq!(names(&folder).len(), 2, "or sooner");
}

#[test]
fn a_brought_body_that_the_disk_refuses_harms_no_other_job() {
    let place = Place::new();
    let store = place.open();
    fs::remove_dir(place.path(files_of_bodies::FOLDER)).expect("removed");
    let name = BodyRef::of(Part::Result, 1, &[0; 70_000]);
    assert!(matches!(store.bring(job(1).id(), name, &[0; 70_000]), Err(Error::Unavailable(_))));
    job(1).create(&store);
}

#[test]
fn after_an_error_nothing_more_is_tried() {
    let place = Place::new();
    let store = place.open();
    let story = job(1).live(&store);
    store
        .with_trees(|trees| {
            trees.jobs.insert(super::keys::job(story.id()), b"nonsense").map_err(super::failure)?;
            Ok(())
        })
        .expect("works");
    assert!(matches!(store.job(story.id()), Err(Error::Corrupt { at, .. }) if at.contains(&story.id().to_string())));
    let mut next = job(2);
    let created = next.step(vec![next.created()], Vec::new());
    assert!(store.commit(&[Change { jobs: vec![created], cells: Vec::new() }]).is_err());
}

#[test]
fn a_large_body_that_was_not_brought_before_is_kept_all_the_same() {
    let place = Place::new();
    let store = place.open();
    let mut story = job(1);
    story.payload = vec![b'x'; 5 * 1024 * 1024].into();
    let name = BodyRef::of(Part::Payload, 0, &story.payload);
    story.spec = Arc::new(crate::job::Spec { payload: name, ..(*story.spec).clone() });
    story.create(&store);
    assert_eq!(store.body(story.id(), name, 0, usize::MAX).expect("works"), Some(story.payload));
}

#[test]
fn a_store_deep_in_new_folders_is_made_with_them() {
    let place = Place::new();
    let mut options = place.options();
    options.dir = place.0.path().join("a/b/c/store");
    Sled::open(&options).expect("it opens").close().expect("closes");
    assert_eq!(names(&place.0.path().join("a/b/c")), ["store"]);
}

#[test]
fn an_old_id_is_looked_up_before_it_is_taken_for_new() {
    let place = Place::new();
    let store = place.open();
    let ended: Vec<JobId> = (10..20).map(|n| job(n).live(&store).id()).collect();
    store.close().expect("closes");
    let store = place.open();
    for n in [10, 15, 19] {
        let mut again = job(n);
        let created = again.step(vec![again.created()], Vec::new());
        assert_eq!(commit_one(&store, created, |_, _| ()), None, "{ended:?}");
    }
    job(5).create(&store);
}

/// sled takes what it can read of a damaged file for all there is: acknowledged jobs were silently gone, and ids issued again.
#[test]
fn a_data_file_that_holds_less_than_was_acknowledged_is_refused_and_nothing_is_swept() {
    let place = Place::new();
    let (mut first, mut second) = (job(1), job(2));
    let store = place.open();
    store.commit(&[creation(&mut first)]).expect("works")[0].expect("new");
    store.close().expect("closes");
    let saved: Vec<_> = ["db", "conf"].map(|name| (name, fs::read(place.path(name)).expect("readable"))).into();
    let store = place.open();
    store.commit(&[creation(&mut second)]).expect("works")[0].expect("new");
    let large = vec![7; BODY_SMALL_MAX + 1];
    let name = BodyRef::of(Part::Result, 1, &large);
    store.bring(second.spec.id, name, &large).expect("brought");
    store.close().expect("closes");
    for snapshot in names(&place.options().dir).iter().filter(|name| name.starts_with("snap.")) {
        fs::remove_file(place.path(snapshot)).expect("removed");
    }
    for (name, bytes) in saved {
        fs::write(place.path(name), bytes).expect("put back");
    }
    let why = place.refusal();
    assert!(why.contains("entries are lost") && why.contains("-2 and now ends at"), "{why}");
    assert_eq!(names(&place.path("bodies")).len(), 1, "what may yet be needed is left alone");
}

#[test]
fn a_small_body_that_its_record_names_and_nobody_finds_is_damage_and_no_absence() {
    let place = Place::new();
    let store = place.open();
    let mut story = job(1);
    story.create(&store);
    let (id, name) = (story.id(), story.spec.payload);
    store.with_trees(|trees| trees.bodies.clear().map_err(super::failure)).expect("works");
    let found = store.body(id, name, 0, 99);
    assert!(matches!(&found, Err(Error::Corrupt { why, .. }) if why.contains("missing")), "{found:?}");
}
