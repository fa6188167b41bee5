//! A commit wakes those whom it concerns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fixture::World;
use crate::events::{Filter, Sizes, Start};

const IDLE: usize = 5_000;

#[test]
fn nobody_is_told_of_entries_that_a_reader_cannot_be_given_yet() {
    let mut world = World::new(Sizes::default());
    let (published, is_over) = (world.published.clone(), Arc::new(AtomicBool::new(false)));
    let told_to_stop = is_over.clone();
    // What the announcer does at any moment, and then a reader that it woke.
    let looker = std::thread::spawn(move || {
        while !told_to_stop.load(Ordering::SeqCst) {
            let (_, told) = published.ring.since(published.ring.last());
            assert!(published.ring.last() >= told, "the reader would find nothing, and be passed over");
        }
    });
    for _ in 0..20_000 {
        world.create("t", "o", &[]);
        if looker.is_finished() {
            break;
        }
    }
    is_over.store(true, Ordering::SeqCst);
    looker.join().expect("every reader is given what was announced");
}

#[test]
fn five_thousand_readers_whom_nothing_concerns_are_not_woken() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "alice", &[]);
    let other = world.create("t", "alice", &[]);
    world.published.announce();
    let mut idle: Vec<_> = (0..IDLE)
        .map(|n| match n % 4 {
            0 => world.stream(other, Start::Now),
            1 => world.feed(Filter { owner: Some(format!("tenant {n}").into()), ..Filter::default() }, Start::Now),
            2 => world.feed(Filter { jobs: vec![other], ..Filter::default() }, Start::Now),
            _ => world.feed(Filter { types: vec!["job.failed".into()], ..Filter::default() }, Start::Now),
        })
        .collect();
    let mut concerned = [
        world.stream(job, Start::Now),
        world.feed(Filter::default(), Start::Now),
        world.feed(Filter { owner: Some("alice".into()), ..Filter::default() }, Start::Now),
        world.feed(Filter { jobs: vec![other, job], ..Filter::default() }, Start::Now),
        world.feed(Filter { types: vec!["job.started".into()], ..Filter::default() }, Start::Now),
    ];
    idle.iter_mut().chain(&mut concerned).for_each(|reader| {
        reader.run();
    });
    let before = world.published.registry.wakes();
    world.start(job);
    world.published.announce();
    assert_eq!(world.published.registry.wakes() - before, concerned.len() as u64);
    for reader in &mut concerned {
        assert!(reader.is_woken());
        assert_eq!(reader.run().types(), ["job.started"]);
    }
    assert!(idle.iter().all(|reader| !reader.is_woken()));
    // Nor is anybody after the last reader has gone.
    drop((idle, concerned));
    world.progress(job);
    world.published.announce();
    assert_eq!(world.published.registry.wakes() - before, 5);
    assert!(!world.published.registry.feed_waits());
}

#[test]
fn quiet_entries_wake_nobody_on_the_feed() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    world.start(job);
    let mut feed = world.feed(Filter::default(), Start::Now);
    feed.run();
    world.published.announce();
    feed.run();
    let before = world.published.registry.wakes();
    world.release(job);
    world.published.announce();
    assert_eq!(world.published.registry.wakes(), before);
}

#[test]
fn readers_are_woken_once_however_much_was_published() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    world.start(job);
    let mut feed = world.feed(Filter::default(), Start::Now);
    feed.run();
    let before = world.published.registry.wakes();
    for _ in 0..10 {
        world.progress(job);
        world.published.announce();
    }
    assert_eq!(world.published.registry.wakes() - before, 1, "it has not read since");
    assert_eq!(feed.run().events.len(), 10);
}

#[test]
fn the_announcer_wakes_the_feed_without_being_asked() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(Sizes::default());
        let announcer = tokio::spawn(world.published.announcer());
        let mut tail = crate::events::Tail::feed(&world.published, Filter::default(), Start::Now);
        for _ in 0..3 {
            let reading = std::future::poll_fn(|cx| tail.poll_next(cx));
            let job = async { world.create("t", "o", &[]) };
            let (frame, job) = tokio::join!(reading, job);
            let frame = String::from_utf8(frame.unwrap().unwrap().to_vec()).unwrap();
            assert!(frame.contains(&job.to_string()));
        }
        announcer.abort();
    });
}

#[test]
fn a_waiter_that_registered_before_it_read_misses_nothing() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    let wait = world.published.registry.job(job);
    let before = world.published.heads.get(job).unwrap();
    world.start(job); // between the read and the wait
    super::fixture::block_on(wait.woken());
    assert_ne!(world.published.heads.get(job).unwrap(), before);
    assert!(!wait.is_woken(), "once");
}
