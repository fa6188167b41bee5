//! Real stores, damaged in each way that verify must name.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ::sled::IVec;
use bytes::Bytes;

use super::super::super::chunk::{Chunk, Chunks, Item};
use super::super::super::codec::{self, Buffer, Kind};
use super::super::super::conformance::story::{Story, body, commit_one, job, job_with, key};
use super::super::super::verify::{Complaint, Report, verify};
use super::super::super::{Change, Durability, Error, Store};
use super::super::body::{FOLDER, file_name};
use super::super::writer::TypeRow;
use super::super::{Options, Sled, Trees, commit, ends, keys};
use crate::job::{
    BODY_SMALL_MAX, Body, BodyRef, ClaimNo, Class, End, Entry, Failure, JobId, Logged, Part, Position, Progress, Spec,
    Timestamp,
};

/// A store with some of everything in it.
struct Cast {
    place: tempfile::TempDir,
    ended: Story,
    dead: Story,
    replayed: Story,
    running: Story,
    long: Story,
    keyed: Story,
    large: Story,
}

const FORGOTTEN: u64 = 50;

impl Cast {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = open(&place);
        let mut running = job(1);
        running.create(&store);
        running.start(&store);
        running.partial(&store, 0, &vec![1; 6_000].into());
        running.partial(&store, 1, &vec![2; 6_000].into());
        let gone: Vec<JobId> = (FORGOTTEN..FORGOTTEN + 5).map(|n| job(n).die(&store).id()).collect();
        running.progress(&store, 1);
        let ended = job_with(2, |spec| spec.owner = "ann".into()).live(&store);
        let (dead, replayed) = (job(3).die(&store), replay(&store, job(4).die(&store)));
        let mut long = job(6);
        long.create(&store);
        long.start(&store);
        long.put(&store, vec![Entry::Progress(Progress::default()); 200], Vec::new());
        long.complete(&store, &Bytes::from_static(b"[]"));
        let keyed = job_with(7, |spec| spec.key = key("k")).live(&store);
        let large = large(&store);
        store.forget(&gone).expect("works");
        store.close().expect("closes");
        Self { place, ended, dead, replayed, running, long, keyed, large }
    }

    fn dir(&self) -> PathBuf {
        self.place.path().join("store")
    }

    /// Does this to the trees behind the store's back, and tells what verify makes of it.
    fn damaged(&self, damage: impl FnOnce(&Trees)) -> Report {
        let store = open(&self.place);
        store
            .with_trees(|trees| {
                damage(trees);
                Ok(())
            })
            .expect("works");
        store.close().expect("closes");
        drop(store);
        verify(&self.dir()).expect("verify looks through it")
    }

    /// As `damaged`; there must be a complaint with all of these words in it.
    fn finds(&self, words: &[String], damage: impl FnOnce(&Trees)) {
        let report = self.damaged(damage);
        named(&report, words);
    }
}

fn named(report: &Report, words: &[String]) {
    let has = |complaint: &Complaint| words.iter().all(|word| complaint.to_string().contains(word.as_str()));
    assert!(report.complaints.iter().any(has), "{words:?} in none of {:#?}", report.complaints);
    assert!(report.wrong <= 6, "one damage makes few complaints: {:#?}", report.complaints);
}

fn open(place: &tempfile::TempDir) -> Sled {
    let dir = place.path().join("store");
    Sled::open(&Options { dir, cache_bytes: 16 * 1024 * 1024, durability: Durability::Process }).expect("it opens")
}

fn replay(store: &Sled, mut dead: Story) -> Story {
    let mut copy = job_with(5, |spec| spec.replay_of = Some(dead.id()));
    let replayed = dead.step(vec![Entry::Replayed { as_job: copy.id() }], Vec::new());
    let created = copy.step(vec![copy.created()], vec![body(Part::Payload, 0, &copy.payload)]);
    let change = Change { jobs: vec![replayed, created], cells: Vec::new() };
    let done = store.commit(std::slice::from_ref(&change)).expect("works")[0].expect("no conflict");
    dead.landed(&change.jobs[0], done);
    dead
}

fn large(store: &Sled) -> Story {
    let mut story = job(8);
    story.payload = vec![b'x'; BODY_SMALL_MAX + 10].into();
    let name = BodyRef::of(Part::Payload, 0, &story.payload);
    story.spec = Arc::new(Spec { payload: name, ..(*story.spec).clone() });
    store.bring(story.id(), name, &story.payload).expect("works");
    story.put(store, vec![story.created()], vec![Body { name, bytes: None }]);
    story
}

fn of(story: &Story) -> String {
    format!("job {}", story.id())
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// The chunk that holds a position: its key, its entries.
fn chunk_at(trees: &Trees, position: Position) -> (IVec, Chunk) {
    let (key, bytes) = trees.events.get_lt(keys::chunk(position.next())).expect("works").expect("a chunk");
    let first = keys::position(&key).expect("a position");
    (key, Chunk::decode(first, &bytes).expect("a chunk"))
}

/// Writes these entries where a chunk stands.
fn write_chunk(trees: &Trees, key: &[u8], entries: &[Logged]) {
    let mut chunks = Chunks::default();
    entries.iter().for_each(|logged| chunks.push(&Item::from(logged)));
    let all: Vec<_> = chunks.finish().collect();
    assert_eq!(all.len(), 1);
    trees.events.insert(key, &all[0].1[..]).expect("works");
}

/// Writes another record of the job.
fn write_head(tree: &::sled::Tree, story: &Story, change: impl FnOnce(&mut crate::job::Head)) {
    let mut head = (*story.head()).clone();
    change(&mut head);
    let mut buffer = Buffer::default();
    tree.insert(keys::job(story.id()), buffer.head(&head.job, &head.trail)).expect("works");
}

#[test]
fn a_whole_store_is_found_whole() {
    let cast = Cast::new();
    let report = cast.damaged(|_| ());
    assert!(report.is_whole(), "{:#?}", report.complaints);
    assert_eq!((report.jobs, report.leftovers), (8, 0));
    assert_eq!(report.entries, open(&cast.place).bounds().last.0 - 5 * 3);
}

#[test]
fn the_store_is_not_verified_under_a_server() {
    let cast = Cast::new();
    let _server = open(&cast.place);
    assert!(matches!(verify(&cast.dir()), Err(Error::Locked(_))));
    assert!(matches!(verify(&cast.place.path().join("none")), Err(Error::Unavailable(_))));
}

#[test]
fn a_removed_event_is_named() {
    let cast = Cast::new();
    let gone = cast.ended.head().trail.recent[1];
    let position = gone.0.to_string();
    cast.finds(&[of(&cast.ended), format!("entry at position {position} is missing")], |trees| {
        let (key, chunk) = chunk_at(trees, gone);
        let rest: Vec<_> = chunk.entries.into_iter().filter(|logged| logged.position != gone).collect();
        write_chunk(trees, &key, &rest);
    });
    named(&verify(&cast.dir()).expect("works"), &words([&format!("position {position}: no entry there")]));
}

#[test]
fn a_removed_chunk_is_a_hole_between_named_positions() {
    let cast = Cast::new();
    let trail = cast.ended.head().trail.clone();
    let (first, last) = (trail.recent[0].0, trail.last().0);
    let report = cast.damaged(|trees| {
        trees.events.remove(keys::chunk(Position(first))).expect("works");
    });
    named(&report, &[format!("positions {first} to {last}: no entry there")]);
}

#[test]
fn a_removed_event_below_the_floor_is_named_too() {
    let cast = Cast::new();
    let gone = cast.running.head().trail.recent[1];
    cast.finds(&[of(&cast.running), format!("position {} is missing", gone.0)], |trees| {
        trees.events.remove(keys::chunk(gone)).expect("works");
    });
}

fn failed() -> Entry {
    let failure = Failure::new(Class::Fatal, None, "again");
    Entry::Failed { claim: Some(ClaimNo(1)), end: Some(End::Failed), failure, attempts: 1, log: None }
}

/// In the log and in the trail: a bug of the writer. In the log only: somebody's hand.
#[test]
fn a_second_terminal_event_is_named() {
    for in_trail in [true, false] {
        let cast = Cast::new();
        let position = open(&cast.place).bounds().last.next();
        let why = format!("position {}", position.0);
        cast.finds(&[of(&cast.ended), "second terminal event".into(), why], |trees| {
            let (_, own) = chunk_at(trees, cast.ended.head().trail.last());
            let second = Logged { position, entry: failed(), ..own.entries[0].clone() };
            write_chunk(trees, &keys::chunk(position), &[second]);
            if in_trail {
                write_head(&trees.jobs, &cast.ended, |head| drop(head.trail.push(position)));
            }
        });
    }
}

#[test]
fn a_changed_record_is_named_with_the_field() {
    let cast = Cast::new();
    cast.finds(&[of(&cast.ended), "not the fold of its entries: attempts, updated_at".into()], |trees| {
        write_head(&trees.jobs, &cast.ended, |head| {
            (head.job.attempts, head.job.updated_at) = (9, Timestamp(1));
        });
    });
    let other = Cast::new();
    other.finds(&[of(&other.running), "fold of its entries: claims".into()], |trees| {
        write_head(&trees.live, &other.running, |head| head.job.claims = 3);
    });
}

#[test]
fn bytes_that_are_no_record_are_named() {
    let cast = Cast::new();
    let long = cast.long.head().trail.recent[0];
    let report = cast.damaged(|trees| {
        trees.jobs.insert(keys::job(cast.dead.id()), b"nonsense").expect("works");
    });
    assert!(report.complaints[0].to_string().contains(&format!("the record of {}", of(&cast.dead))));
    let cast = Cast::new();
    let report = cast.damaged(|trees| {
        let (key, _) = chunk_at(trees, long);
        let mut bytes = trees.events.get(&key).expect("works").expect("a chunk").to_vec();
        bytes[20] ^= 1;
        trees.events.insert(&key, bytes).expect("works");
    });
    let has = |c: &Complaint| c.at.starts_with("the chunk at position") && c.why.contains("checksum");
    assert!(report.complaints.iter().any(has), "{:#?}", report.complaints);
}

#[test]
fn a_record_in_the_wrong_tree_is_named() {
    let cast = Cast::new();
    cast.finds(&[of(&cast.ended), "kept twice".into()], |trees| write_head(&trees.live, &cast.ended, |_| ()));
    let cast = Cast::new();
    cast.finds(&[of(&cast.running), "kept among the ended".into()], |trees| {
        write_head(&trees.jobs, &cast.running, |_| ());
        trees.live.remove(keys::job(cast.running.id())).expect("works");
    });
}

#[test]
fn a_trail_that_differs_from_the_log_is_named() {
    let cast = Cast::new();
    let lost = cast.dead.head().trail.last();
    cast.finds(&[format!("position {}: ", lost.0), of(&cast.dead), "trail does not name".into()], |trees| {
        write_head(&trees.jobs, &cast.dead, |head| head.trail.recent.truncate(2));
        // The same record without its end: the fold complains as well.
    });
    let cast = Cast::new();
    cast.finds(&[of(&cast.dead), "an entry of job".into()], |trees| {
        let other = cast.ended.head().trail.last();
        write_head(&trees.jobs, &cast.dead, |head| head.trail.recent[0] = other);
    });
    let cast = Cast::new();
    let report = cast.damaged(|trees| {
        trees.bodies.remove(keys::block(cast.long.id(), 1)).expect("works");
    });
    let complaint = format!("{}: block 1 of its trail is missing or damaged", of(&cast.long));
    assert_eq!(report.complaints[0].to_string(), complaint);
}

#[test]
fn rows_of_the_index_are_looked_at_both_ways() {
    let stray = keys::dead(job(99).id());
    let cast = Cast::new();
    cast.finds(&["index row".into(), of(&job(99)), "not kept".into()], |trees| {
        trees.index.insert(stray, &b""[..]).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["index row".into(), of(&cast.ended), "has no such row".into()], |trees| {
        trees.index.insert(keys::dead(cast.ended.id()), &b""[..]).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["index row".into(), of(&cast.running), "has no such row".into()], |trees| {
        trees.index.insert(keys::owned("local", cast.running.id()), &b""[..]).expect("works");
    });
    for (row, kind) in [
        (keys::owned("local", job(3).id()).to_vec(), "by owner"),
        (keys::ended(ends::shared(0, &Cast::new().dead.head().job), job(3).id()).to_vec(), "by end"),
        (keys::dead(job(3).id()).to_vec(), "dead letter"),
    ] {
        let cast = Cast::new();
        cast.finds(&[of(&cast.dead), kind.into(), "is missing".into()], |trees| {
            assert!(trees.index.remove(&row).expect("works").is_some());
        });
    }
    let cast = Cast::new();
    cast.finds(&[of(&cast.replayed), "says something else".into()], |trees| {
        let row = commit::owner_row(&cast.dead.head().job);
        trees.index.insert(keys::owned("local", cast.replayed.id()), row).expect("works");
    });
}

#[test]
fn rows_of_keys_are_looked_at_both_ways() {
    let row = keys::key("local", "echo", "k");
    let cast = Cast::new();
    cast.finds(&[of(&cast.keyed), "its key row".into(), "is missing".into()], |trees| {
        assert!(trees.keys.remove(row).expect("works").is_some());
    });
    let cast = Cast::new();
    cast.finds(&[of(&cast.keyed), "its key row".into(), format!("names {}", of(&cast.ended))], |trees| {
        trees.keys.insert(row, codec::encode(Kind::Key, &cast.ended.id())).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["key row".into(), of(&cast.ended), "has not this key".into()], |trees| {
        let row = keys::key("local", "echo", "other");
        trees.keys.insert(row, codec::encode(Kind::Key, &cast.ended.id())).expect("works");
    });
}

#[test]
fn bodies_are_looked_at_both_ways() {
    let partial = BodyRef::of(Part::Partial, 1 << 32 | 1, &[2; 6_000]);
    let cast = Cast::new();
    cast.finds(&["Partial".into(), of(&cast.running), "piece 1 is missing".into()], |trees| {
        assert!(trees.bodies.remove(keys::piece(cast.running.id(), partial, 1)).expect("works").is_some());
    });
    let cast = Cast::new();
    cast.finds(&["Partial".into(), of(&cast.running), "checksum".into()], |trees| {
        trees.bodies.insert(keys::piece(cast.running.id(), partial, 1), vec![3; 6_000 - 4_096]).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["Payload".into(), of(&cast.dead), "bytes instead of".into()], |trees| {
        trees.bodies.insert(keys::piece(cast.dead.id(), cast.dead.spec.payload, 0), &b"{}"[..]).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["piece 0".into(), of(&cast.running), "does not name it".into()], |trees| {
        let old = BodyRef { seq: 1 << 32, ..partial };
        trees.bodies.insert(keys::piece(cast.running.id(), old, 0), &b"old"[..]).expect("works");
    });
    let cast = Cast::new();
    cast.finds(&["piece 0".into(), of(&job(99)), "not kept".into()], |trees| {
        trees.bodies.insert(keys::piece(job(99).id(), partial, 0), &b"old"[..]).expect("works");
    });
}

#[test]
fn files_are_looked_at_and_leftovers_are_no_fault() {
    let cast = Cast::new();
    let (file, stray) =
        (file_name(cast.large.id(), cast.large.spec.payload), file_name(job(99).id(), job(8).spec.payload));
    let path = cast.dir().join(FOLDER).join(&file);
    fs::write(cast.dir().join(FOLDER).join(stray), b"brought, and then killed").expect("written");
    let report = verify(&cast.dir()).expect("works");
    assert!(report.is_whole(), "{:#?}", report.complaints);
    assert_eq!(report.leftovers, 1);
    let bytes = fs::read(&path).expect("there");
    fs::write(&path, &bytes[1..]).expect("cut");
    named(&verify(&cast.dir()).expect("works"), &[of(&cast.large), "bytes instead of".into()]);
    fs::write(&path, vec![b'y'; bytes.len()]).expect("changed");
    named(&verify(&cast.dir()).expect("works"), &[of(&cast.large), "checksum".into()]);
    fs::remove_file(&path).expect("removed");
    named(&verify(&cast.dir()).expect("works"), &[of(&cast.large), file, "is missing".into()]);
}

#[test]
fn the_stores_own_cells_say_what_is_there() {
    let cast = Cast::new();
    let own = |row: &TypeRow| codec::encode(Kind::Own, row);
    let echo = [keys::TYPE, b"echo"].concat();
    let other_count = |trees: &Trees| {
        let bytes = trees.cells.get(&echo).expect("works").expect("it is there");
        let mut row: TypeRow = codec::decode(Kind::Own, &bytes).expect("a row");
        row.kept.dead_letters += 7;
        trees.cells.insert(&echo, own(&row)).expect("works");
    };
    cast.finds(&words(["type/echo", "it says", "and there are"]), other_count);
    let cast = Cast::new();
    cast.finds(&words(["type/echo", "it is missing"]), |trees| {
        assert!(trees.cells.remove(&echo).expect("works").is_some());
    });
    let cast = Cast::new();
    cast.finds(&words(["type/other", "is that of another type"]), |trees| {
        trees.cells.insert([keys::TYPE, b"other"].concat(), own(&TypeRow::default())).expect("works");
    });
}

#[test]
fn a_floor_that_promises_too_much_is_noticed() {
    let cast = Cast::new();
    let Some(floor) = (open(&cast.place).bounds().floor.0).checked_sub(3) else { panic!("nothing was forgotten") };
    let store = open(&cast.place);
    let last = store.bounds().last.0;
    drop(store);
    cast.finds(&[format!("though the floor is {floor}")], |trees| {
        trees.cells.insert(keys::STANDING, codec::encode(Kind::Own, &(floor, last))).expect("works");
    });
}

#[test]
fn complaints_are_counted_beyond_those_that_are_kept() {
    let mut report = Report::default();
    (0..2_000).for_each(|n| report.complain(n.to_string(), "odd"));
    assert_eq!((report.complaints.len(), report.wrong), (super::super::super::verify::COMPLAINTS_MAX, 2_000));
}

#[test]
fn a_conflict_leaves_nothing_behind() {
    let cast = Cast::new();
    let store = open(&cast.place);
    let mut again = job_with(7, |spec| spec.key = key("k"));
    let created = again.step(vec![again.created()], vec![body(Part::Payload, 0, &again.payload)]);
    assert_eq!(commit_one(&store, created, |_, _| ()), None);
    store.close().expect("closes");
    assert!(verify(&cast.dir()).expect("works").is_whole());
}
