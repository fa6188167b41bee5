//! Commits: whole or not at all, conflicts, bodies, cells, totals, and that a reopened store has kept all of it.

use bytes::Bytes;

use super::super::{CellChange, Change, Conflict, Kept, Store};
use super::story::{Story, body, commit_one, found, job, job_with, key};
use super::{Promise, Subject};
use crate::job::{BODY_SMALL_MAX, BodyRef, Carried, Entry, Part, Position, Status};

pub(super) const PROMISES: &[(&str, Promise)] = &[
    ("a life is kept as its fold", a_life_is_kept_as_its_fold),
    ("a change from an old head is refused", a_change_from_an_old_head_is_refused),
    ("a job is created once", a_job_is_created_once),
    ("a key names one job", a_key_names_one_job),
    ("changes of one commit see each other", changes_of_one_commit_see_each_other),
    ("a change is whole or not at all", a_change_is_whole_or_not_at_all),
    ("cells change as expected or not at all", cells_change_as_expected_or_not_at_all),
    ("bodies come back in any range", bodies_come_back_in_any_range),
    (
        "a payload that its record carries is read like any other",
        a_payload_that_its_record_carries_is_read_like_any_other,
    ),
    ("a dropped body is gone", a_dropped_body_is_gone),
    ("totals count what is ended and kept", totals_count_what_is_ended_and_kept),
    ("a reopened store has kept everything", a_reopened_store_has_kept_everything),
];

/// A change of one job, not committed yet.
fn whole(jobs: Vec<super::super::JobChange>) -> Change {
    Change { jobs, cells: Vec::new() }
}

fn cell(name: &str, expect: Option<Option<&'static str>>, value: Option<&'static str>) -> CellChange {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    CellChange { name: name.into(), expect: expect.map(|wanted| wanted.map(bytes)), value: value.map(bytes) }
}

/// Commits cells alone.
fn put_cells(store: &dyn Store, cells: Vec<CellChange>) -> Result<Position, Conflict> {
    store.commit(&[Change { jobs: Vec::new(), cells }]).expect("the store works")[0]
}

fn read(store: &dyn Store, story: &Story, name: BodyRef) -> Option<Bytes> {
    let limit = usize::try_from(name.len).expect("a test's length");
    store.body(story.id(), name, 0, limit).expect("the store works")
}

fn a_life_is_kept_as_its_fold(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    assert_eq!(story.create(store), Position(1));
    assert_eq!(store.job(story.id()).expect("works"), Some(story.head()));
    assert_eq!(story.start(store), Position(2));
    story.progress(store, 1);
    assert_eq!(store.live().expect("works"), [(*story.head()).clone()]);
    story.complete(store, &Bytes::from_static(b"{}"));
    assert_eq!(store.job(story.id()).expect("works"), Some(story.head()));
    assert_eq!(store.live().expect("works"), []);
    assert_eq!(store.bounds().last, Position(4));
}

fn a_change_from_an_old_head_is_refused(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    story.create(store);
    let mut late = story.clone();
    story.start(store);
    let stale = late.step(
        vec![Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts: 5, worker: "w2".into() }],
        Vec::new(),
    );
    assert_eq!(commit_one(store, stale, |_, _| ()), None, "the job has moved on");
    story.fail(store);
    let mut twice = story.clone();
    story.put(store, vec![Entry::Replayed { as_job: job(2).id() }], Vec::new());
    let again = twice.step(vec![Entry::Replayed { as_job: job(3).id() }], Vec::new());
    assert_eq!(commit_one(store, again, |_, _| ()), None, "ended jobs move on too");
    assert_eq!(store.job(story.id()).expect("works"), Some(story.head()));
}

fn a_job_is_created_once(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let (mut waiting, ended) = (job(2), job(1).live(store));
    waiting.create(store);
    for mut again in [job(1), job(2)] {
        let change = again.step(vec![again.created()], Vec::new());
        assert_eq!(commit_one(store, change, |_, _| ()), None, "the id is taken");
    }
    assert_eq!(found(store, ended.id()).map(|job| job.status()), Some(Status::Completed));
}

fn a_key_names_one_job(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let keyed = |number, owner: &'static str, job_type: &'static str| {
        job_with(number, move |spec| (spec.key, spec.owner, spec.job_type) = (key("k"), owner.into(), job_type.into()))
    };
    let first = keyed(1, "a", "echo").live(store);
    let mut second = keyed(2, "a", "echo");
    let change = second.step(vec![second.created()], Vec::new());
    assert_eq!(commit_one(store, change, |_, _| ()), None, "the key is taken, though its job has ended");
    assert_eq!(store.keyed("a", "echo", "k").expect("works"), Some(first.id()));
    for mut other in [keyed(3, "b", "echo"), keyed(4, "a", "other")] {
        other.create(store);
        let spec = &other.spec;
        assert_eq!(store.keyed(&spec.owner, &spec.job_type, "k").expect("works"), Some(other.id()));
    }
    assert_eq!(store.keyed("a", "echo", "K").expect("works"), None);
    let (mut fifth, mut sixth) = (keyed(5, "c", "echo"), keyed(6, "c", "echo"));
    let both = [&mut fifth, &mut sixth].map(|story| whole(vec![story.step(vec![story.created()], Vec::new())]));
    let done = store.commit(&both).expect("works");
    assert!(done[0].is_ok() && done[1].is_err(), "two in one commit");
}

fn changes_of_one_commit_see_each_other(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    let mut changes = Vec::new();
    let started = Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts: 5, worker: "w1".into() };
    for entries in [vec![story.created()], vec![started], vec![Entry::Progress(crate::job::Progress::default())]] {
        let change = story.step(entries, Vec::new());
        // What a core knows of a head that is not committed: the record, not yet where its entries stand.
        story.landed(&change, Position::ZERO);
        changes.push(whole(vec![change]));
    }
    let done = store.commit(&changes).expect("works");
    assert_eq!(done, [Ok(Position(1)), Ok(Position(2)), Ok(Position(3))]);
    let head = store.job(story.id()).expect("works").expect("it was created");
    assert_eq!(head.job, story.head().job);
    assert_eq!(head.trail.recent, [Position(1), Position(2), Position(3)]);
}

fn a_change_is_whole_or_not_at_all(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut dead = job(1).die(store);
    let mut copy = job_with(2, |spec| spec.replay_of = Some(dead.id()));
    let replayed = dead.step(vec![Entry::Replayed { as_job: copy.id() }], Vec::new());
    let created = copy.step(vec![copy.created()], vec![body(Part::Payload, 0, &copy.payload)]);
    let mut change = whole(vec![replayed, created]);
    change.cells.push(cell("replays", Some(Some("other")), Some("1")));
    let done = store.commit(std::slice::from_ref(&change)).expect("works");
    assert_eq!(done, [Err(Conflict)], "the cell holds nothing");
    assert_eq!(store.job(dead.id()).expect("works"), Some(dead.head()));
    assert_eq!(found(store, copy.id()), None);
    change.cells[0].expect = Some(None);
    let done = store.commit(&[change]).expect("works");
    assert_eq!(done, [Ok(Position(4))]);
    assert!(found(store, dead.id()).is_some_and(|job| !job.is_dead_letter()));
    assert_eq!(store.job(copy.id()).expect("works").map(|head| head.trail.last()), Some(Position(5)));
    assert_eq!(store.totals().all().dead_letters, 0);
}

fn cells_change_as_expected_or_not_at_all(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    assert_eq!(put_cells(store, vec![cell("s/1", None, Some("a")), cell("s/2", None, Some("b"))]), Ok(Position::ZERO));
    assert_eq!(put_cells(store, vec![cell("s/1", Some(Some("b")), Some("c"))]), Err(Conflict));
    assert!(put_cells(store, vec![cell("s/1", Some(Some("a")), Some("c")), cell("t", None, Some("t"))]).is_ok());
    assert_eq!(put_cells(store, vec![cell("s/2", None, None), cell("s/1", Some(None), None)]), Err(Conflict));
    assert!(put_cells(store, vec![cell("s/2", None, None)]).is_ok());
    let found = store.cells("s/").expect("works");
    assert_eq!(found, [("s/1".to_owned(), Bytes::from_static(b"c"))]);
    assert_eq!(store.cells("").expect("works").len(), 2, "the store's own cells are not among them");
    let two = [cell("n", Some(None), Some("1")), cell("n", Some(Some("1")), Some("2"))];
    let changes = two.map(|cell| Change { jobs: Vec::new(), cells: vec![cell] });
    assert!(store.commit(&changes).expect("works").iter().all(Result::is_ok), "the second sees the first");
    assert_eq!(store.cells("n").expect("works")[0].1, "2");
}

fn bodies_come_back_in_any_range(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    for (n, len) in
        [0, 1, 4_095, 4_096, 4_097, 8_192, BODY_SMALL_MAX, BODY_SMALL_MAX + 1, 300_000].into_iter().enumerate()
    {
        let bytes: Bytes = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut story = job(n as u64 + 1);
        story.payload = bytes.clone();
        let name = BodyRef::of(Part::Payload, 0, &bytes);
        story.spec = std::sync::Arc::new(crate::job::Spec { payload: name, ..(*story.spec).clone() });
        let large = len > BODY_SMALL_MAX;
        if large {
            store.bring(story.id(), name, &bytes).expect("works");
        }
        let payload = crate::job::Body { name, bytes: (!large).then(|| bytes.clone()) };
        story.put(store, vec![story.created()], vec![payload]);
        for (offset, limit) in [(0, len), (0, len + 10), (1, 100), (4_090, 10), (4_096, 4_096), (len, 5), (len + 9, 9)]
        {
            let found = store.body(story.id(), name, offset as u64, limit).expect("works").expect("it is there");
            let from = offset.min(len);
            assert_eq!(found, bytes[from..len.min(from + limit)], "{len} bytes from {offset}");
        }
        let other = BodyRef { seq: 1, ..name };
        assert_eq!(store.body(story.id(), other, 0, 10).expect("works"), None);
    }
}

fn a_payload_that_its_record_carries_is_read_like_any_other(subject: &mut Subject<'_>) {
    let carrying = |number| {
        let mut story = job(number);
        std::sync::Arc::make_mut(&mut story.spec).carried = Carried::of(&story.payload);
        story
    };
    let (mut running, mut ended) = (carrying(1), carrying(2).live(&*subject.store));
    running.create(&*subject.store);
    running.start(&*subject.store);
    for _ in 0..2 {
        let store = &*subject.store;
        for story in [&running, &ended] {
            let (name, payload) = (story.spec.payload, &story.payload);
            for (offset, limit) in [(0, payload.len()), (0, 99), (1, 3), (payload.len(), 5), (99, 9)] {
                let found = store.body(story.id(), name, offset as u64, limit).expect("works").expect("it is there");
                let from = offset.min(payload.len());
                assert_eq!(found, payload[from..payload.len().min(from + limit)], "from {offset}");
            }
            assert_eq!(store.body(story.id(), BodyRef { seq: 1, ..name }, 0, 9).expect("works"), None);
        }
        if !subject.reopen() {
            break;
        }
    }
    subject.store.forget(&[ended.id()]).expect("works");
    ended.head = None;
    assert_eq!(read(&*subject.store, &ended, ended.spec.payload), None);
}

fn a_dropped_body_is_gone(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut story = job(1);
    story.create(store);
    story.start(store);
    let values: Vec<Bytes> = (0..3_u8).map(|n| vec![n; 5_000].into()).collect();
    for (n, bytes) in values.iter().enumerate() {
        story.partial(store, n as u64, bytes);
    }
    let name = |n: usize| BodyRef::of(Part::Partial, 1 << 32 | n as u64, &values[n]);
    assert_eq!(read(store, &story, name(0)), None);
    assert_eq!(read(store, &story, name(1)), None);
    assert_eq!(read(store, &story, name(2)), Some(values[2].clone()));
}

fn totals_count_what_is_ended_and_kept(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let live = job(1).live(store);
    let dead = [2, 3].map(|n| job_with(n, |spec| spec.job_type = "other".into()).die(store));
    job(4).create(store);
    let totals = store.totals();
    let bytes = |stories: &[Story]| stories.iter().map(|story| story.head().job.kept_bytes()).sum();
    let kept = Kept { jobs: 2, bytes: bytes(&dead), dead_letters: 2 };
    assert_eq!(totals.types[&*dead[0].spec.job_type], kept);
    assert_eq!(totals.types["echo"], Kept { jobs: 1, bytes: bytes(&[live]), dead_letters: 0 });
    assert_eq!(totals.all().jobs, 3);
    store.forget(&[dead[0].id()]).expect("works");
    let kept = Kept { jobs: 1, bytes: bytes(&dead[1..]), dead_letters: 1 };
    assert_eq!(store.totals().types["other"], kept);
    store.forget(&[dead[1].id()]).expect("works");
    assert_eq!(store.totals().types.get("other"), None);
}

fn a_reopened_store_has_kept_everything(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let (ended, dead) = (job_with(1, |spec| spec.key = key("k")).live(store), job(2).die(store));
    let mut running = job(3);
    running.create(store);
    running.start(store);
    put_cells(store, vec![cell("c", None, Some("v"))]).expect("no conflict");
    let (bounds, totals, log) = (store.bounds(), store.totals(), store.events(Position::ZERO, 100).expect("works"));
    if !subject.reopen() {
        return;
    }
    let store = &*subject.store;
    assert_eq!((store.bounds(), store.totals()), (bounds, totals));
    assert_eq!(store.events(Position::ZERO, 100).expect("works"), log);
    assert_eq!(store.live().expect("works"), [(*running.head()).clone()]);
    for story in [&ended, &dead, &running] {
        assert_eq!(store.job(story.id()).expect("works"), Some(story.head()));
        assert_eq!(read(store, story, story.spec.payload), Some(story.payload.clone()));
    }
    assert_eq!(store.keyed("local", "echo", "k").expect("works"), Some(ended.id()));
    assert_eq!(store.cells("").expect("works").len(), 1);
    assert_eq!(running.progress(store, 1), bounds.last.next(), "positions go on");
}
