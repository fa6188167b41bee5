//! The log: positions, pages, trails, and what is left of it when jobs are forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::super::{Bounds, Change, Store};
use super::story::{Story, found, job, job_with, key, positions};
use super::{Promise, Subject};
use crate::job::{BODY_SMALL_MAX, BodyRef, Entry, JobId, Logged, Part, Position, Progress};

pub(super) const PROMISES: &[(&str, Promise)] = &[
    ("entries come back as they were logged", entries_come_back_as_they_were_logged),
    ("pages of any size tell the whole log", pages_of_any_size_tell_the_whole_log),
    ("a long life has its whole trail", a_long_life_has_its_whole_trail),
    ("one change may fill several blocks", one_change_may_fill_several_blocks),
    ("what is forgotten is gone everywhere", what_is_forgotten_is_gone_everywhere),
    ("kept jobs keep their entries below the floor", kept_jobs_keep_their_entries_below_the_floor),
    ("no position is issued twice", case_07_no_position_is_issued_twice),
    ("forgetting passes over what has not ended", forgetting_passes_over_what_has_not_ended),
    ("a reader beside the writer sees no hole", a_reader_beside_the_writer_sees_no_hole),
];

fn all(store: &dyn Store) -> Vec<Logged> {
    store.events(Position::ZERO, usize::MAX).expect("works")
}

fn numbers(entries: &[Logged]) -> Vec<u64> {
    entries.iter().map(|logged| logged.position.0).collect()
}

fn progress(step: u32) -> Entry {
    Entry::Progress(Progress { step: Some(step), message: Some("m".repeat(200).into()), ..Progress::default() })
}

fn entries_come_back_as_they_were_logged(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job_with(1, |spec| {
        (spec.owner, spec.tags) = ("ann".into(), Arc::new(["x".into(), "y".into()]));
    });
    story.create(store);
    story.start(store);
    let change = story.step(vec![progress(1), progress(2)], Vec::new());
    let done = store.commit(&[Change { jobs: vec![change], cells: Vec::new() }]).expect("works");
    assert_eq!(done, [Ok(Position(3))]);
    let log = all(store);
    assert_eq!(numbers(&log), [1, 2, 3, 4]);
    assert_eq!(log[0].entry, story.created());
    assert_eq!(log[3].entry, progress(2));
    for logged in &log {
        assert_eq!((logged.job, &*logged.job_type, &*logged.owner), (story.id(), "echo", "ann"));
        assert_eq!(logged.tags, story.spec.tags);
    }
    assert_eq!((log[0].at, log[2].at, log[3].at), (story.spec.created_at, log[3].at, log[2].at));
}

fn pages_of_any_size_tell_the_whole_log(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut one = job(1);
    one.create(store);
    one.start(store);
    for step in 0..20 {
        one.progress(store, step);
    }
    let many: Vec<Change> = (2..150)
        .map(|n| {
            let mut story = job_with(n, |spec| spec.tags = Arc::new([format!("tag {n}").into()]));
            Change { jobs: vec![story.step(vec![story.created()], Vec::new())], cells: Vec::new() }
        })
        .collect();
    assert!(store.commit(&many).expect("works").iter().all(Result::is_ok));
    let last = store.bounds().last;
    assert_eq!(numbers(&all(store)), (1..=last.0).collect::<Vec<_>>());
    for limit in [1, 2, 7, 30, 1_000] {
        let (mut told, mut after) = (Vec::new(), Position::ZERO);
        loop {
            let page = store.events(after, limit).expect("works");
            let Some(end) = page.last() else { break };
            after = end.position;
            told.extend(numbers(&page));
        }
        assert_eq!(told, (1..=last.0).collect::<Vec<_>>(), "in pages of {limit}");
    }
    for after in 0..=last.0 {
        let page = store.events(Position(after), 1).expect("works");
        assert_eq!(page.first().map(|logged| logged.position.0), (after < last.0).then_some(after + 1));
    }
    assert_eq!(store.events(last.plus(10), 5).expect("works"), []);
}

/// Checks a story's trail and entries.
fn check_trail(store: &dyn Store, story: &Story, expected: usize) {
    let head = store.job(story.id()).expect("works").expect("it is kept");
    assert_eq!(head.trail, story.head().trail);
    let trail = positions(store, story.id(), &head.trail);
    assert_eq!(trail.len(), expected);
    let entries = store.entries(&trail).expect("works");
    assert_eq!(numbers(&entries), trail.iter().map(|position| position.0).collect::<Vec<_>>());
    assert!(entries.iter().all(|logged| logged.job == story.id()));
}

fn a_long_life_has_its_whole_trail(subject: &mut Subject<'_>) {
    let (mut long, mut other) = (job(1), job(2));
    {
        let store = &*subject.store;
        long.create(store);
        other.create(store);
        long.start(store);
        other.start(store);
        // Past the first block, past the next, and past a thousand, with entries of another in between.
        for (upto, steps) in [(66, 1..65), (130, 65..129), (1_100, 129..1_099)] {
            let steps: Vec<u32> = steps.collect();
            for steps in steps.chunks(7) {
                long.put(store, steps.iter().copied().map(progress).collect(), Vec::new());
                other.progress(store, steps[0]);
            }
            check_trail(store, &long, upto);
        }
        assert_eq!(store.trail(long.id(), 1_000).expect("works"), []);
    }
    if subject.reopen() {
        check_trail(&*subject.store, &long, 1_100);
    }
    long.complete(&*subject.store, &Bytes::from_static(b"1"));
    check_trail(&*subject.store, &long, 1_101);
}

fn one_change_may_fill_several_blocks(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    story.create(store);
    story.start(store);
    story.put(store, (1..=300).map(progress).collect(), Vec::new());
    check_trail(store, &story, 302);
}

fn what_is_forgotten_is_gone_everywhere(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let large: Bytes = vec![b'x'; BODY_SMALL_MAX * 2].into();
    let mut gone = job_with(1, |spec| spec.key = key("k"));
    gone.create(store);
    gone.start(store);
    let name = BodyRef::of(Part::Partial, 1 << 32, &large);
    store.bring(gone.id(), name, &large).expect("works");
    let partial = crate::job::Body { name, bytes: None };
    gone.put(store, vec![Entry::Partial { body: name, inline: None }], vec![partial]);
    gone.put(store, (0..100).map(progress).collect(), Vec::new());
    gone.fail(store);
    let kept = job(2).live(store);
    let small = gone.spec.payload;
    store.forget(&[gone.id()]).expect("works");
    assert_eq!(found(store, gone.id()), None);
    assert_eq!(store.keyed("local", "echo", "k").expect("works"), None);
    for name in [small, name] {
        assert_eq!(store.body(gone.id(), name, 0, 10).expect("works"), None);
    }
    assert_eq!(store.trail(gone.id(), 0).expect("works"), []);
    let floor = gone.head().trail.last().next();
    assert_eq!(store.bounds().floor, floor);
    assert_eq!(all(store).first().map(|logged| logged.position), Some(floor));
    assert!(store.entries(&[Position(1), Position(2)]).expect("works").is_empty());
    let query = super::super::Query { limit: 10, ..Default::default() };
    let listed = store.jobs(&query).expect("works").jobs;
    assert_eq!(listed.iter().map(|head| head.job.id()).collect::<Vec<JobId>>(), [kept.id()]);
    let later = crate::job::Timestamp(i64::MAX);
    assert_eq!(store.ends("echo", true, later, 10).expect("works"), []);
    job_with(3, |spec| spec.key = key("k")).create(store);
    if subject.reopen() {
        assert_eq!(subject.store.bounds().floor, floor);
        assert_eq!(found(&*subject.store, gone.id()), None);
        assert_eq!(subject.store.totals().all().jobs, 1);
    }
}

fn kept_jobs_keep_their_entries_below_the_floor(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let (mut kept, mut gone) = (job(1), job(2));
    kept.create(store);
    gone.create(store);
    kept.start(store);
    gone.start(store);
    kept.progress(store, 1);
    gone.fail(store);
    kept.progress(store, 2);
    store.forget(&[gone.id()]).expect("works");
    let Bounds { floor, last, .. } = store.bounds();
    assert_eq!((floor, last), (Position(7), Position(7)));
    assert_eq!(numbers(&all(store)), [7]);
    check_trail(store, &kept, 4);
    let everything: Vec<Position> = (0..10).map(Position).collect();
    assert_eq!(numbers(&store.entries(&everything).expect("works")), [1, 3, 5, 7]);
    assert_eq!(store.events(Position(6), 10).expect("works").len(), 1);
}

fn case_07_no_position_is_issued_twice(subject: &mut Subject<'_>) {
    let gone: Vec<Story> = (1..20).map(|n| job(n).live(&*subject.store)).collect();
    let ids: Vec<JobId> = gone.iter().map(Story::id).collect();
    subject.store.forget(&ids).expect("works");
    let bounds = subject.store.bounds();
    assert_eq!((bounds.floor, bounds.last), (Position(58), Position(57)));
    assert_eq!(all(&*subject.store), []);
    subject.reopen();
    assert_eq!(subject.store.bounds(), bounds, "though every entry was trimmed");
    assert_eq!(job(30).create(&*subject.store), Position(58));
    subject.reopen();
    assert_eq!(subject.store.bounds().last, Position(58));
    assert_eq!(subject.store.totals().all().jobs, 0);
}

fn forgetting_passes_over_what_has_not_ended(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut waiting = job(1);
    waiting.create(store);
    let ended = job(2).live(store);
    store.forget(&[waiting.id(), job(3).id(), ended.id(), ended.id()]).expect("works");
    assert_eq!(store.job(waiting.id()).expect("works"), Some(waiting.head()));
    assert_eq!(found(store, ended.id()), None);
    assert_eq!(store.totals().all().jobs, 0);
}

/// Follows the log beside a writer that commits and forgets: everything once and in order, unless the floor passed.
fn a_reader_beside_the_writer_sees_no_hole(subject: &mut Subject<'_>) {
    let (store, done) = (Arc::clone(&subject.store), Arc::new(AtomicBool::new(false)));
    let reader = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut after = Position::ZERO;
            loop {
                let ending = done.load(Ordering::Acquire);
                let page = store.events(after, 10).expect("works");
                let Bounds { floor, last, .. } = store.bounds();
                if page.is_empty() && ending {
                    assert_eq!(after.max(Position(floor.0 - 1)), last, "nothing is left out at the end");
                    return;
                }
                for logged in page {
                    assert!(logged.position == after.next() || after.next() < floor, "a hole after {after:?}");
                    assert!(logged.position > after && logged.position <= last);
                    after = logged.position;
                }
            }
        }
    });
    for round in 0..20 {
        let ids: Vec<JobId> = (0..5).map(|n| job(round * 5 + n + 1).live(&*subject.store).id()).collect();
        if round % 3 == 0 {
            subject.store.forget(&ids[..3]).expect("works");
        }
    }
    done.store(true, Ordering::Release);
    reader.join().expect("the reader found no hole");
}
