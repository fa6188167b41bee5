//! The feed: filters, and cursors that move on.

use super::fixture::{NOTHING, World};
use crate::events::{Filter, SLICE_MAX, Sizes, Start};
use crate::job::Position;

/// Three jobs of two owners with a life each.
fn lives(world: &mut World) -> Vec<crate::job::JobId> {
    let jobs = vec![
        world.create("mail", "alice", &["red"]),
        world.create("scan", "alice", &["red", "blue"]),
        world.create("mail", "bob", &[]),
    ];
    for job in &jobs {
        world.start(*job);
        world.progress(*job);
        world.release(*job);
    }
    jobs
}

#[test]
fn a_filter_passes_what_matches_all_that_is_set_by_any_of_its_values() {
    for sizes in [Sizes::default(), NOTHING] {
        let mut world = World::new(sizes);
        let jobs = lives(&mut world);
        let arcs = |names: &[&str]| names.iter().map(|name| std::sync::Arc::from(*name)).collect::<Vec<_>>();
        let filter = Filter::default();
        for (filter, count) in [
            (filter.clone(), 9),
            (Filter { owner: Some("alice".into()), ..filter.clone() }, 6),
            (Filter { owner: Some("nobody".into()), ..filter.clone() }, 0),
            (Filter { types: arcs(&["mail"]), ..filter.clone() }, 6),
            (Filter { types: arcs(&["job.started"]), ..filter.clone() }, 3),
            (Filter { types: arcs(&["job.started", "scan"]), ..filter.clone() }, 5),
            (Filter { types: arcs(&["mail"]), owner: Some("bob".into()), ..filter.clone() }, 3),
            (Filter { jobs: vec![jobs[0], jobs[2]], ..filter.clone() }, 6),
            (Filter { jobs: vec![jobs[2]], owner: Some("alice".into()), ..filter.clone() }, 0),
            (Filter { tags: arcs(&["blue"]), ..filter.clone() }, 3),
            (Filter { tags: arcs(&["blue", "red"]), types: arcs(&["job.created"]), ..filter }, 2),
        ] {
            let mut feed = world.feed(filter.clone(), Start::Earliest);
            assert_eq!(feed.until(count).events.len(), count, "{filter:?}");
            assert_eq!(world.feed_pages(&filter, Start::Earliest, 2).0, feed.data());
        }
    }
}

#[test]
fn the_feed_begins_now_unless_it_is_told_where() {
    let mut world = World::new(Sizes::default());
    lives(&mut world);
    let mut now = world.feed(Filter::default(), Start::Now);
    assert_eq!(now.run().events, []);
    assert_eq!(now.tail.cursor(), world.id(world.last()), "a client has a cursor before its first event");
    world.create("t", "o", &[]);
    world.published.announce();
    assert_eq!(now.run().types(), ["job.created"]);
}

#[test]
fn the_cursor_of_a_reader_whom_nothing_concerns_moves_with_the_log() {
    // The ring is too short for what comes between two heartbeats, but not for what comes between two announcements.
    let mut world = World::new(Sizes { ring_entries: 10, ..Sizes::default() });
    let job = world.create("t", "o", &[]);
    world.start(job);
    let mut idle = world.feed(Filter { owner: Some("nobody".into()), ..Filter::default() }, Start::Now);
    idle.run();
    for _ in 0..100 {
        world.progress(job);
        world.published.announce();
    }
    world.reads();
    assert!(!idle.is_woken());
    idle.poll_once(); // its heartbeat
    assert_eq!(idle.tail.cursor(), world.id(world.last()));
    assert_eq!(world.reads(), 0, "without a look at the log");
    // And it misses nothing after that.
    world.create("t", "nobody", &[]);
    world.published.announce();
    assert_eq!(idle.until(1).types(), ["job.created"]);
}

#[test]
fn a_slice_is_whole_frames_of_64_kib_at_most() {
    for sizes in [Sizes::default(), NOTHING] {
        let mut world = World::new(sizes);
        let job = world.create("t", "o", &[]);
        world.start(job);
        world.progress_in_bulk(job, 2_000);
        for filter in [Filter::default(), Filter { types: vec!["t".into()], ..Filter::default() }] {
            let mut tail = crate::events::Tail::feed(&world.published, filter, Start::Earliest);
            let mut slices = Vec::new();
            while tail.cursor().position < world.last() {
                let slice = super::fixture::block_on(std::future::poll_fn(|cx| tail.poll_next(cx)));
                slices.push(slice.unwrap().unwrap());
            }
            assert!(slices.iter().all(|slice| slice.len() <= SLICE_MAX && slice.ends_with(b"\n\n")));
            let frames: usize = slices.iter().map(|slice| slice.windows(2).filter(|w| w == b"\n\n").count()).sum();
            assert_eq!(frames, 2_002);
            assert!(slices.len() < 16, "and as full as they can be: {}", slices.len());
        }
    }
}

#[test]
fn a_restart_serves_the_recent_past_from_memory() {
    let mut world = World::new(Sizes::default());
    lives(&mut world);
    let before = world.feed(Filter::default(), Start::Earliest).run().events.clone();
    world.restart(Sizes::default());
    world.reads();
    let mut after = world.feed(Filter::default(), world.after(Position(0)));
    assert_eq!(after.run().events, before, "the same bytes as live");
    assert_eq!(world.reads(), 0);
}
