//! A disk that fills, step by step, and is freed again: what is refused, what waits, what goes on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;

use super::rig::{Rig, TYPE, block_on, creation, options};
use crate::clock::{Clock, Manual};
use crate::core::{ActRefusal, CellsRefusal, LocalWork, Parts, ROOM_WAIT_MAX, SubmitRefusal};
use crate::events::Published;
use crate::job::{Asking, Json, Millis, Outcome, Output, Progress, Rules, State, Status, Timestamp};
use crate::metrics::Metrics;
use crate::store::memory::Memory;
use crate::store::sled::{COMMIT_MAX, Options, Sled};
use crate::store::{CellChange, Durability, Health, Store};
use crate::work::{Claim, Leave, Report, Stop, WorkSource};

const RESERVE: u64 = 1_000_000;

fn rig() -> Rig {
    let clock = Manual::at_time(Timestamp(1_700_000_000_000));
    let options = crate::core::Options { disk_reserve: Some(RESERVE), ..options() };
    let rig = Rig::on(Arc::new(Memory::new()), clock, options, Rules::default());
    free(&rig, RESERVE);
    rig
}

/// So many bytes are free from now on, and that has been noticed.
fn free(rig: &Rig, disk_free: u64) {
    rig.store.set_disk(Health { store_bytes: 0, disk_free, disk_size: 100 * RESERVE }, disk_free > 0);
    rig.advance(Millis::seconds(1));
}

fn cell(value: Option<&'static str>) -> Vec<CellChange> {
    vec![CellChange { name: "session/a".into(), expect: None, value: value.map(Bytes::from) }]
}

/// An end whose result needs a file of its own, handed over by a thread of its own; heard of once it is durable.
fn finish_large(rig: &Rig, claim: &Claim) -> mpsc::Receiver<()> {
    let (freed, is_free) = mpsc::channel();
    let (work, claim) = (rig.work.clone(), claim.clone());
    let data = Some(Bytes::from(format!("\"{}\"", "x".repeat(100_000))));
    let content = Some(Bytes::from(format!("[\"{}\"]", "y".repeat(200_000))));
    std::thread::spawn(move || {
        let leave = Leave::Over(Outcome::Done(Output { data, content, ..Output::default() }));
        work.finish(&claim, leave, Bytes::new(), Box::new(move || freed.send(()).expect("awaited")));
    });
    is_free
}

/// Waits until the thread with the large result waits for the clock: it alone has a timer then, besides the core's.
fn wait_for_waiter(rig: &Rig, timers: usize) {
    while rig.clock.timers() < timers {
        std::thread::yield_now();
    }
}

#[test]
fn below_the_reserve_new_jobs_and_records_are_refused_and_all_else_goes_on() {
    let rig = rig();
    let known = rig.keyed("k", b"{}");
    let id = rig.try_submit(known).expect("accepted").0.job.id();
    let pending = rig.submit();
    let running = rig.claim();
    block_on(rig.core.cells(cell(Some("1")))).expect("answered").expect("room");
    free(&rig, RESERVE - 1);
    assert_eq!(rig.try_submit(rig.creation()).expect_err("refused"), SubmitRefusal::DiskFull);
    assert_eq!(rig.try_submit(rig.keyed("k", b"{}")).expect("known").0.job.id(), id);
    assert_eq!(block_on(rig.core.cells(cell(Some("2")))).expect("answered"), Err(CellsRefusal::DiskFull));
    block_on(rig.core.cells(cell(None))).expect("answered").expect("what is removed needs no room");
    rig.done(&running);
    assert_eq!(rig.job(running.job).job.status(), Status::Completed);
    let next = rig.claim();
    assert_eq!((next.job, rig.cancel(pending).is_ok()), (pending, true));
    free(&rig, RESERVE);
    rig.submit();
}

#[test]
fn jobs_that_came_faster_than_the_disk_was_looked_at_do_not_eat_the_reserve() {
    let rig = rig();
    rig.submit();
    rig.store.set_disk(Health { store_bytes: 0, disk_free: 0, disk_size: 100 * RESERVE }, true);
    let refused = (0..100).position(|_| rig.try_submit(rig.creation()).is_err());
    assert!(refused.is_some_and(|after| after > 10), "a part of the reserve later, at the same time: {refused:?}");
}

#[test]
fn below_half_the_reserve_nothing_starts_until_the_disk_is_freed() {
    let rig = rig();
    let id = rig.submit();
    free(&rig, RESERVE / 2 - 1);
    let (work, (told, claims)) = (rig.work.clone(), mpsc::channel());
    std::thread::spawn(move || told.send(work.claim(1)).expect("awaited"));
    // The core waits for the disk now.
    wait_for_waiter(&rig, 1);
    rig.settle();
    assert!(claims.try_recv().is_err());
    assert_eq!(rig.job(id).job.status(), Status::Pending);
    free(&rig, RESERVE / 2);
    assert_eq!(claims.recv().expect("sent").expect("open")[0].job, id);
}

#[test]
fn a_question_waits_for_room_and_is_not_lost() {
    let rig = rig();
    let id = rig.submit();
    let claim = rig.claim();
    free(&rig, 0);
    let asking = Asking { key: "size".into(), message: "Which?".into(), schema: Json("{}".into()) };
    rig.work.report(&claim, Report::Ask { asking: Arc::new(asking), count: 1 });
    let canceled = rig.cancel(id);
    assert_eq!(canceled, Err(ActRefusal::DiskFull), "nothing is written, and the question was heard before");
    assert_eq!(rig.job(id).job.status(), Status::InProgress);
    free(&rig, RESERVE);
    rig.settle();
    rig.settle();
    assert_eq!(rig.job(id).job.status(), Status::InputRequired);
}

#[test]
fn a_large_result_waits_for_room_and_costs_no_attempt() {
    let rig = rig();
    let id = rig.submit();
    let claim = rig.claim();
    free(&rig, RESERVE / 2 + 150_000);
    let is_free = finish_large(&rig, &claim);
    wait_for_waiter(&rig, 1);
    assert_eq!(rig.job(id).job.status(), Status::InProgress);
    free(&rig, RESERVE / 2 + 200_100);
    is_free.recv().expect("stored");
    let job = &rig.job(id).job;
    assert_eq!((job.status(), job.attempts), (Status::Completed, 1));
    assert_eq!(job.bodies().filter(|name| name.len > 100_000).count(), 2);
}

#[test]
fn a_large_result_that_never_has_room_fails_its_attempt_in_the_end() {
    let rig = rig();
    let id = rig.submit();
    let claim = rig.claim();
    free(&rig, RESERVE / 2);
    let is_free = finish_large(&rig, &claim);
    wait_for_waiter(&rig, 1);
    rig.advance(ROOM_WAIT_MAX);
    is_free.recv().expect("given up");
    let job = &rig.job(id).job;
    assert_eq!((job.status(), job.attempts), (Status::Pending, 1), "it is tried again");
    let failure = job.error.as_ref().expect("a failure");
    assert_eq!(failure.failure.code.as_deref(), Some("disk_full"));
}

#[test]
fn a_large_result_that_waits_at_shutdown_is_given_back() {
    let rig = rig();
    let id = rig.submit();
    let claim = rig.claim();
    free(&rig, RESERVE / 2);
    let is_free = finish_large(&rig, &claim);
    wait_for_waiter(&rig, 1);
    claim.stop.set(Stop::Shutdown);
    is_free.recv().expect("released");
    let job = &rig.job(id).job;
    assert_eq!((job.status(), job.attempts), (Status::Pending, 0));
}

#[test]
fn without_room_for_the_log_nothing_is_stored_and_nobody_waits_who_can_come_back() {
    let rig = rig();
    let known = rig.try_submit(rig.keyed("k", b"{}")).expect("accepted").0.job.id();
    let claim = rig.claim();
    let pending = rig.submit();
    let before = rig.log().len();
    free(&rig, 0);
    assert_eq!(rig.try_submit(rig.creation()).expect_err("refused"), SubmitRefusal::DiskFull);
    assert_eq!(rig.try_submit(rig.keyed("k", b"{}")).expect("known").0.job.id(), known);
    assert_eq!(rig.cancel(pending).expect_err("refused"), ActRefusal::DiskFull);
    assert_eq!(block_on(rig.core.cells(cell(None))).expect("answered"), Err(CellsRefusal::DiskFull));
    rig.work.report(&claim, Report::Progress(Progress { step: Some(1), ..Progress::default() }));
    let (freed, is_free) = mpsc::channel();
    let done = Leave::Over(Outcome::Done(Output::default()));
    rig.work.finish(&claim, done, Bytes::new(), Box::new(move || freed.send(()).expect("awaited")));
    assert_eq!(rig.try_submit(rig.creation()).expect_err("refused"), SubmitRefusal::DiskFull);
    assert!(is_free.try_recv().is_err() && rig.log().len() == before, "nothing was stored");
    free(&rig, RESERVE);
    is_free.recv().expect("the end that waited is durable");
    assert!(matches!(rig.job(claim.job).job.state, State::Completed(_)));
    assert_eq!(rig.claim().job, pending);
    assert_eq!(rig.store.bounds().last.0, rig.log().len() as u64);
}

#[test]
fn a_server_that_ends_without_room_leaves_what_ran_to_the_next_start() {
    let rig = rig();
    let id = rig.submit();
    let claim = rig.claim();
    free(&rig, 0);
    let leave = Leave::Over(Outcome::Done(Output::default()));
    rig.work.finish(&claim, leave, Bytes::new(), Box::new(|| ()));
    rig.core.close();
    assert!(matches!(rig.ended(), crate::core::Fatal::Closed));
    let (store, clock) = (rig.store.clone(), rig.clock.clone());
    store.set_disk(Health { store_bytes: 0, disk_free: u64::MAX, disk_size: u64::MAX }, true);
    let rig = Rig::on(store, clock, options(), Rules::default());
    let again = rig.claim();
    assert_eq!((again.job, again.number.0, rig.clock.now() > Timestamp(0)), (id, 2, true));
    rig.done(&again);
    assert_eq!(rig.story(id).last(), Some(&"job.completed"));
}

/// A core on a store on disk, whose data file is measured at each commit; ends with the test.
fn on_disk(lengths: &Arc<Mutex<Vec<u64>>>, dir: &std::path::Path) -> (crate::core::Handle, LocalWork, Manual) {
    let (file, seen) = (dir.join("store/db"), lengths.clone());
    let note = move || {
        let length = std::fs::metadata(&file).expect("the data file").len();
        seen.lock().expect("no panics while held").push(length);
    };
    let options = Options { dir: dir.join("store"), cache_bytes: 1 << 24, durability: Durability::Process };
    let store: Arc<dyn Store> = Arc::new(Sled::open_with(&options, Box::new(note)).expect("a store"));
    let clock = Manual::at_time(Timestamp(1_700_000_000_000));
    let rules = HashMap::from([(Arc::from(TYPE), Rules::default())]);
    let heads = crate::core::recover(&*store, &clock, &rules).expect("recovery");
    let published = Published::new(&store, heads.clone(), "").expect("published");
    let metrics = Arc::new(Metrics::new([Arc::from(TYPE)], 4));
    let parts = Parts { store: store.clone(), clock: Arc::new(clock.clone()), published, rules, metrics };
    let core = crate::core::start(parts, super::rig::options(), &heads, |_| ()).expect("a thread");
    let work = LocalWork::new(&core, store);
    (core, work, clock)
}

#[test]
fn no_commit_makes_the_data_file_grow_by_more_than_the_room_kept_ahead() {
    let dir = tempfile::tempdir().expect("a directory");
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let (core, work, clock) = on_disk(&lengths, dir.path());
    for (jobs, bytes) in [(200, 60_000), (1_000, 9_000), (2_000, 100), (200, 60_000)] {
        let creations: Vec<_> = (0..jobs)
            .map(|_| {
                let text: &'static [u8] =
                    Box::leak(format!("\"{}\"", "x".repeat(bytes)).into_bytes().into_boxed_slice());
                creation(&clock, text)
            })
            .collect();
        block_on(async {
            let mut submits = tokio::task::JoinSet::new();
            for creation in creations {
                let core = core.clone();
                submits.spawn(async move { core.submit(creation).await.expect("answered").expect("accepted") });
            }
            submits.join_all().await
        });
    }
    let result = Bytes::from(format!("\"{}\"", "r".repeat(60_000)));
    let (freed, is_free) = mpsc::channel();
    for _ in 0..10 {
        let claims = work.claim(64).expect("open");
        for claim in &claims {
            let leave = Leave::Over(Outcome::Done(Output { data: Some(result.clone()), ..Output::default() }));
            let freed = freed.clone();
            work.finish(claim, leave, Bytes::new(), Box::new(move || freed.send(()).expect("awaited")));
        }
        claims.iter().for_each(|_| is_free.recv().expect("freed"));
    }
    let lengths = lengths.lock().expect("no panics while held");
    let most = lengths.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().expect("commits");
    assert!(most <= COMMIT_MAX, "{most} bytes in one of {} commits", lengths.len());
}
