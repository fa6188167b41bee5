//! A job's own stream: from its beginning to its end, and then no more.

use super::fixture::{NOTHING, World};
use crate::events::{Error, Filter, Sizes, Start};
use crate::job::{Command, JobId, Position, TRAIL_RECENT_MAX};

const BOTH: [Sizes; 2] = [NOTHING, Sizes { ring_bytes: 1 << 20, ring_entries: 10_000, ended: 8, preload: 0 }];

#[test]
fn a_stream_tells_the_whole_story_and_ends_with_it() {
    for sizes in BOTH {
        let mut world = World::new(sizes);
        let job = world.create("t", "o", &[]);
        let mut early = world.stream(job, Start::Earliest);
        assert_eq!(early.until(1).types(), ["job.created"]);
        world.start(job);
        world.release(job); // quiet
        world.start(job);
        world.progress(job);
        assert_eq!(early.until(4).events.len(), 4);
        world.complete(job);
        assert!(early.finish().has_ended);
        let story = ["job.created", "job.started", "job.started", "job.progress", "job.completed"];
        assert_eq!(early.types(), story);
        let late = world.stream(job, Start::Earliest).finish().events.clone();
        assert_eq!(late, early.events);
        assert_eq!(world.job_pages(job, Start::Earliest, 2), (early.data(), None));
    }
}

#[test]
fn a_cursor_at_or_after_the_end_says_that_nothing_will_come() {
    for sizes in BOTH {
        let mut world = World::new(sizes);
        let job = world.create("t", "o", &[]);
        world.start(job);
        let before_end = world.last();
        assert!(!world.stream(job, world.after(before_end)).tail.is_over());
        world.fail(job);
        let end = world.last();
        assert!(!world.stream(job, world.after(before_end)).tail.is_over());
        assert!(world.stream(job, world.after(end)).tail.is_over());
        assert!(world.stream(job, Start::Now).tail.is_over());
        assert!(!world.stream(job, world.after(end.next())).tail.is_over(), "ahead of the log: a reset is due");
        // A dead letter that is replayed gets a quiet entry after its end: no more follows than before.
        assert!(world.tell(job, &Command::Replay { as_job: JobId::from_u128(7) }));
        assert!(world.stream(job, world.after(end)).tail.is_over());
        assert!(world.stream(job, world.after(world.last())).tail.is_over());
        let mut rest = world.stream(job, world.after(before_end));
        assert!(!rest.tail.is_over());
        assert_eq!(rest.finish().types(), ["job.failed"]);
    }
}

#[test]
fn every_cursor_into_a_long_trail_gets_exactly_what_follows() {
    for sizes in BOTH {
        let mut world = World::new(sizes);
        let other = world.create("other", "o", &[]);
        world.start(other);
        let job = world.create("t", "o", &[]);
        world.start(job);
        for _ in 0..2 * TRAIL_RECENT_MAX + 10 {
            world.progress(job);
            world.progress(other);
        }
        world.complete(job);
        let all = world.stream(job, Start::Earliest).finish().events.clone();
        assert_eq!(all.len(), 2 * TRAIL_RECENT_MAX + 13);
        // Positions of the job's own entries, and those of the other's between them.
        for at in 0..=world.last().0 {
            let start = world.after(Position(at));
            let follows: Vec<_> = all.iter().filter(|event| after(event.id.as_deref(), at)).cloned().collect();
            let mut stream = world.stream(job, start);
            assert_eq!(stream.tail.is_over(), follows.is_empty());
            assert_eq!(stream.finish().events, follows);
            if at % 16 == 0 {
                assert_eq!(world.job_pages(job, start, 50), (stream.data(), None));
            }
        }
    }
}

fn after(id: Option<&str>, at: u64) -> bool {
    let position = id.and_then(|id| id.split_once('-')).map(|(_, position)| position.parse::<u64>().unwrap());
    position.unwrap() > at
}

#[test]
fn a_reader_on_the_spot_needs_no_store() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    let mut stream = world.stream(job, Start::Earliest);
    let mut feed = world.feed(Filter::default(), Start::Earliest);
    world.start(job);
    world.reads();
    for n in 0..3 * TRAIL_RECENT_MAX {
        world.progress(job);
        world.published.announce();
        assert_eq!(stream.run().events.len(), 3 + n);
        assert_eq!(feed.run().events.len(), 3 + n);
    }
    assert_eq!(world.reads(), 0);
}

#[test]
fn the_stream_of_a_forgotten_job_fails() {
    let mut world = World::new(BOTH[1]);
    let job = world.create("t", "o", &[]);
    world.start(job);
    let mut stream = world.stream(job, Start::Earliest);
    stream.until(2);
    world.complete(job);
    world.forget(&[job]);
    assert!(matches!(stream.finish().error, Some(Error::Forgotten)));
}

#[test]
fn a_head_that_is_ahead_of_the_ring_costs_nothing_and_loses_nothing() {
    // Heads are published a moment before the frames.
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    let mut stream = world.stream(job, Start::Earliest);
    stream.until(1);
    let started =
        crate::job::Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts: 5, worker: "w".into() };
    let last = world.commit_only(job, vec![started], Vec::new());
    world.published.heads.set(world.head(job));
    assert!(!stream.poll_once());
    assert_eq!(stream.events.len(), 1);
    world.publish_after(job, last);
    assert_eq!(stream.run().events.len(), 2);
}

/// A job was listed as completed, and the page of the log that was asked for next did not hold its end.
#[test]
fn a_page_holds_what_is_synced_and_its_cursor_is_good_before_that_is_published() {
    let mut world = World::new(Sizes::default());
    let job = world.create("t", "o", &[]);
    let started =
        crate::job::Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts: 5, worker: "w".into() };
    let last = world.commit_only(job, vec![started], Vec::new());
    let all = world.feed_pages(&Filter::default(), Start::Earliest, 500).0;
    assert_eq!((all.len(), &all), (2, &world.job_pages(job, Start::Earliest, 500).0));
    let cursor = world.after(last.next());
    let nothing = (Vec::new(), None);
    assert_eq!(world.feed_pages(&Filter::default(), cursor, 500), nothing);
    assert_eq!(world.job_pages(job, cursor, 500), nothing);
    let mut readers = [world.feed(Filter::default(), cursor), world.stream(job, cursor)];
    readers.iter_mut().for_each(|reader| assert_eq!(reader.run().events, []));
    world.publish_after(job, last);
    world.published.announce();
    readers.iter_mut().for_each(|reader| assert_eq!(reader.run().events, []));
    world.complete(job);
    world.published.announce();
    readers.iter_mut().for_each(|reader| assert_eq!(reader.until(1).events.len(), 1));
    // What nobody was given is ahead of the log still.
    let ahead = world.feed(Filter::default(), world.after(world.last().next())).until(1).resets();
    assert_eq!(ahead.len(), 1);
}
