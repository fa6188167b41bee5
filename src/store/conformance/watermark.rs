//! The watermark: while a commit is not synced, everything is as it was before (design 5.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::super::{Bounds, CellChange, Change, JobChange, Query, Store, Totals};
use super::story::{Story, body, job, job_with, key};
use super::{Promise, Subject};
use crate::job::{
    BodyRef, ClaimNo, Completion, Entry, Head, JobId, Logged, Millis, Part, Position, Progress, Timestamp,
};

pub(super) const PROMISES: &[(&str, Promise)] = &[
    ("nothing newer than the watermark is visible", nothing_newer_than_the_watermark_is_visible),
    ("a replay is invisible until it is synced", a_replay_is_invisible_until_it_is_synced),
    ("what is forgotten is gone or whole", what_is_forgotten_is_gone_or_whole),
];

/// Everything that can be asked about some jobs.
#[derive(PartialEq, Debug)]
struct View {
    bounds: Bounds,
    totals: Arc<Totals>,
    log: Vec<Logged>,
    entries: Vec<Logged>,
    heads: Vec<Option<Arc<Head>>>,
    lists: Vec<Vec<Arc<Head>>>,
    keyed: Vec<Option<JobId>>,
    bodies: Vec<Option<Bytes>>,
    blocks: Vec<Vec<Position>>,
    cells: Vec<(String, Bytes)>,
    ends: Vec<Vec<(Timestamp, JobId)>>,
}

/// Whose view: jobs by id, and bodies by job and name.
#[derive(Clone)]
struct Eye {
    jobs: Vec<JobId>,
    bodies: Vec<(JobId, BodyRef)>,
}

impl Eye {
    fn look(&self, store: &dyn Store) -> View {
        let everything = Query { limit: 100, ..Query::default() };
        let queries = [
            everything.clone(),
            Query { owner: Some("local".into()), ..everything.clone() },
            Query { dead_lettered: Some(true), ..everything.clone() },
            Query { dead_lettered: Some(false), owner: Some("local".into()), ..everything },
        ];
        let positions: Vec<Position> = (1..400).map(Position).collect();
        View {
            bounds: store.bounds(),
            totals: store.totals(),
            log: store.events(Position::ZERO, 1_000).expect("works"),
            entries: store.entries(&positions).expect("works"),
            heads: self.jobs.iter().map(|id| store.job(*id).expect("works")).collect(),
            lists: queries.iter().map(|query| store.jobs(query).expect("works").jobs).collect(),
            keyed: ["k1", "k2"].map(|key| store.keyed("local", "echo", key).expect("works")).into(),
            bodies: self.bodies.iter().map(|(id, name)| store.body(*id, *name, 0, 70_000).expect("works")).collect(),
            blocks: self.jobs.iter().map(|id| store.trail(*id, 0).expect("works")).collect(),
            cells: store.cells("").expect("works"),
            ends: [true, false].map(|f| store.ends("echo", f, Timestamp(i64::MAX), 100).expect("works")).into(),
        }
    }

    /// Commits while holding the sync back: what is seen then must be what was seen before, and not what is seen after.
    fn commits_unseen(&self, subject: &Subject<'_>, changes: &[Change]) {
        let before = self.look(&*subject.store);
        let (eye, store, looked) = (self.clone(), Arc::clone(&subject.store), Arc::new(AtomicBool::new(false)));
        let seen = Arc::new(std::sync::Mutex::new(None));
        subject.held.at_next({
            let (seen, looked) = (Arc::clone(&seen), Arc::clone(&looked));
            move || {
                *seen.lock().expect("no panic while held") = Some(eye.look(&*store));
                looked.store(true, Ordering::Release);
            }
        });
        let done = subject.store.commit(changes).expect("works");
        assert!(done.iter().all(Result::is_ok));
        assert!(looked.load(Ordering::Acquire), "the store calls its hook before it syncs");
        let during = seen.lock().expect("no panic while held").take();
        assert_eq!(during.as_ref(), Some(&before), "left: during the commit, right: before it");
        assert_ne!(self.look(&*subject.store), before, "the commit does something");
    }
}

fn alone(change: JobChange) -> Change {
    Change { jobs: vec![change], cells: Vec::new() }
}

fn completed(story: &Story, result: &Bytes) -> Entry {
    let result = Some(BodyRef::of(Part::Result, 1, result));
    let completion = Completion { summary: "done".into(), result, content: None, is_error: false, lossy: false };
    let (claim, completion, attempts) = (ClaimNo(1), Arc::new(completion), story.head().job.attempts);
    Entry::Completed { claim, completion, attempts, duration: Millis(1), inline: None, log: None }
}

fn nothing_newer_than_the_watermark_is_visible(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    job(1).live(store);
    let (mut running, mut long) = (job_with(2, |spec| spec.key = key("k1")), job(3));
    for story in [&mut running, &mut long] {
        story.create(store);
        story.start(store);
    }
    let values: [Bytes; 2] = [vec![1; 9_000].into(), vec![2; 9_000].into()];
    running.partial(store, 0, &values[0]);
    long.put(store, vec![Entry::Progress(Progress::default()); 60], Vec::new());
    let cells = vec![CellChange { name: "c".into(), expect: None, value: Some("old".into()) }];
    store.commit(&[Change { jobs: Vec::new(), cells }]).expect("works")[0].expect("no conflict");

    let mut new = job_with(4, |spec| spec.key = key("k2"));
    let names = |story: &Story| {
        let partials = [0, 1].map(|n| BodyRef::of(Part::Partial, 1 << 32 | n, &values[n as usize]));
        let result = BodyRef::of(Part::Result, 1, &values[1]);
        [partials[0], partials[1], result, story.spec.payload].map(|name| (story.id(), name)).to_vec()
    };
    let eye = Eye {
        jobs: vec![job(1).id(), running.id(), long.id(), new.id()],
        bodies: [names(&running), names(&new)].concat(),
    };
    let created = new.step(vec![new.created()], vec![body(Part::Payload, 0, &new.payload)]);
    let name = BodyRef::of(Part::Partial, 1 << 32 | 1, &values[1]);
    let partial = running
        .step(vec![Entry::Partial { body: name, inline: None }], vec![body(Part::Partial, 1 << 32 | 1, &values[1])]);
    running.landed(&partial, Position(100));
    let ended = running.step(vec![completed(&running, &values[1])], vec![body(Part::Result, 1, &values[1])]);
    let grown = long.step(vec![Entry::Progress(Progress::default()); 10], Vec::new());
    let mut changes = vec![alone(created), alone(partial), alone(ended), alone(grown)];
    changes[0].cells =
        ["new", "newer"].map(|value| CellChange { name: "c".into(), expect: None, value: Some(value.into()) }).to_vec();
    changes[1].cells = vec![CellChange { name: "d".into(), expect: None, value: Some("d".into()) }];
    eye.commits_unseen(subject, &changes);
    let cells = vec![CellChange { name: "c".into(), expect: Some(Some("newer".into())), value: None }];
    eye.commits_unseen(subject, &[Change { jobs: Vec::new(), cells }]);
}

fn a_replay_is_invisible_until_it_is_synced(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut dead: Vec<Story> = (1..4).map(|n| job(n).die(store)).collect();
    let mut copy = job_with(5, |spec| spec.replay_of = Some(dead[1].id()));
    let eye = Eye { jobs: vec![dead[1].id(), copy.id()], bodies: vec![(copy.id(), copy.spec.payload)] };
    let replayed = dead[1].step(vec![Entry::Replayed { as_job: copy.id() }], Vec::new());
    let created = copy.step(vec![copy.created()], vec![body(Part::Payload, 0, &copy.payload)]);
    eye.commits_unseen(subject, &[Change { jobs: vec![replayed, created], cells: Vec::new() }]);
}

/// Before it is durable that jobs are forgotten, readers see them whole or not at all.
fn what_is_forgotten_is_gone_or_whole(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let gone = job_with(1, |spec| spec.key = key("k1")).live(store);
    let kept = job(2).die(store);
    let eye = Eye { jobs: vec![gone.id(), kept.id()], bodies: vec![(gone.id(), gone.spec.payload)] };
    let before = eye.look(store);
    let seen = Arc::new(std::sync::Mutex::new(None));
    subject.held.at_next({
        let (seen, store) = (Arc::clone(&seen), Arc::clone(&subject.store));
        move || *seen.lock().expect("no panic while held") = Some(eye.look(&*store))
    });
    store.forget(&[gone.id()]).expect("works");
    let during = seen.lock().expect("no panic while held").take().expect("the hook was called");
    let eye = Eye { jobs: vec![gone.id(), kept.id()], bodies: vec![(gone.id(), gone.spec.payload)] };
    let after = eye.look(store);
    assert_ne!(before, after);
    assert!(during == before || during == after, "{during:#?} is neither {before:#?} nor {after:#?}");
}
