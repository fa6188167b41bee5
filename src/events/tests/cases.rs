//! Faults that readers of other event streams met (the case list, group A).

use super::fixture::{NOTHING, World};
use crate::events::{Filter, Sizes};
use crate::job::{Epoch, EventId, Position};

/// The last id was searched from the oldest event, so on a long log recent ids were never found, and nothing was
/// replayed.
#[test]
fn case_01_five_before_the_end_of_a_long_log_costs_as_much_as_of_a_short_one() {
    let mut world = World::new(NOTHING);
    let job = world.create("t", "o", &[]);
    world.start(job);
    let mut costs = Vec::new();
    for length in [10_001, 200_000] {
        while world.last().0 < length {
            world.progress_in_bulk(job, 1_024); // ends in the same place of a block of the trail
        }
        let from = world.after(Position(world.last().0 - 5));
        world.reads();
        let mut feed = world.feed(Filter::default(), from);
        assert_eq!(feed.until(5).events.len(), 5);
        let ids: Vec<_> = feed.events.iter().map(|event| event.id.clone().unwrap()).collect();
        let wanted: Vec<_> =
            (world.last().0 - 4..=world.last().0).map(|at| world.id(Position(at)).to_string()).collect();
        assert_eq!(ids, wanted);
        assert!(feed.resets().is_empty());
        let on_feed = world.reads();
        let mut stream = world.stream(job, from);
        assert_eq!(stream.until(5).data(), feed.data());
        costs.push((on_feed, world.reads()));
    }
    assert_eq!(costs[0], costs[1], "seeks do not grow with the log");
    assert!(costs[1].0 <= 2 && costs[1].1 <= 6, "{costs:?}");
}

/// With an unknown id the hub replayed nothing and reported the newest id: the client believed it was up to date.
#[test]
fn case_02_an_unknown_id_is_answered_by_a_reset_that_names_what_follows() {
    for sizes in [Sizes::default(), NOTHING] {
        let mut world = World::new(sizes);
        let job = world.create("t", "o", &[]);
        world.start(job);
        let here = world.id(Position(1));
        let ahead = EventId { position: Position(3), ..here };
        let far_ahead = EventId { position: Position(u64::MAX), ..here };
        let elsewhere = EventId { epoch: Epoch(here.epoch.0 ^ 1), position: Position(1) };
        for (id, reason) in [(ahead, "ahead"), (far_ahead, "ahead"), (elsewhere, "other_log")] {
            let start = crate::events::Start::After(id);
            let reset = format!("{{\"reason\":\"{reason}\",\"firstEventId\":\"{here}\"}}");
            let mut feed = world.feed(Filter::default(), start);
            assert_eq!(feed.until(3).types(), ["stream.reset", "job.created", "job.started"]);
            assert_eq!(feed.events[0].id, None);
            assert_eq!(feed.resets(), std::slice::from_ref(&reset));
            let mut stream = world.stream(job, start);
            assert_eq!(stream.until(3).events, feed.events);
            assert_eq!(world.feed_pages(&Filter::default(), start, 1), (feed.data(), Some(reset.clone())));
            assert_eq!(world.job_pages(job, start, 1), (feed.data(), Some(reset)));
        }
    }
}

/// When nothing follows yet, the reset comes at once all the same, and with a cursor that is good from then on.
#[test]
fn case_02_a_reset_does_not_wait_for_what_follows_it() {
    let mut world = World::new(Sizes::default());
    let ahead = world.after(Position(9));
    let mut feed = world.feed(Filter::default(), ahead);
    let first = world.id(Position(1));
    assert_eq!(feed.until(1).resets(), [format!("{{\"reason\":\"ahead\",\"firstEventId\":\"{first}\"}}")]);
    assert_eq!(feed.last_id, Some(world.id(Position(0)).to_string()));
    world.create("t", "o", &[]);
    world.published.announce();
    assert_eq!(feed.until(2).types(), ["stream.reset", "job.created"]);
}

/// The buffer was too short for the rate: the server knew, the subscriber was told nothing.
#[test]
fn case_03_what_was_trimmed_is_said_then_the_kept_events_follow_in_order() {
    for sizes in [Sizes::default(), NOTHING] {
        let mut world = World::new(sizes);
        let seen = world.create("t", "o", &[]);
        world.start(seen);
        world.complete(seen);
        let cursor = world.after(world.last());
        let jobs: Vec<_> = (0..250)
            .map(|_| {
                let job = world.create("t", "o", &[]);
                world.start(job);
                world.progress(job);
                world.complete(job);
                job
            })
            .collect();
        world.forget(&jobs[..225]);
        let floor = world.published.bounds().floor;
        assert_eq!(floor, Position(904));
        let reset = format!("{{\"reason\":\"trimmed\",\"firstEventId\":\"{}\"}}", world.id(floor));
        let mut feed = world.feed(Filter::default(), cursor);
        feed.until(101);
        assert_eq!(feed.resets(), std::slice::from_ref(&reset));
        assert_eq!(feed.events[0].event.as_deref(), Some("stream.reset"));
        assert_eq!(feed.events[1].id, Some(world.id(floor).to_string()));
        assert_eq!(world.feed_pages(&Filter::default(), cursor, 7), (feed.data(), Some(reset)));
        assert_eq!(feed.data().len(), 100);
        // The last id that was trimmed connects: everything after it is there.
        let mut whole = world.feed(Filter::default(), world.after(Position(floor.0 - 1)));
        assert_eq!(whole.until(100).events, feed.events[1..]);
        // A job that is kept is kept whole, also below the floor.
        assert_eq!(world.stream(seen, cursor).finish().events, []);
        assert_eq!(world.stream(seen, world.after(Position(1))).finish().types(), ["job.started", "job.completed"]);
    }
}

/// A reader that lies so far behind that it is trimmed away under its feet is told so, in the middle of its stream.
#[test]
fn case_03_trimming_under_a_reader_is_said_in_its_stream() {
    let mut world = World::new(NOTHING);
    let jobs: Vec<_> = (0..3)
        .map(|_| {
            let job = world.create("t", "o", &[]);
            world.start(job);
            world.complete(job);
            job
        })
        .collect();
    let mut feed = world.feed(Filter::default(), world.after(Position(1)));
    world.forget(&jobs[..2]);
    let reset = format!("{{\"reason\":\"trimmed\",\"firstEventId\":\"{}\"}}", world.id(Position(7)));
    assert_eq!(feed.until(4).resets(), [reset]);
    assert_eq!(feed.data(), world.feed_pages(&Filter::default(), crate::events::Start::Earliest, 500).0);
}

/// If the newest log file was empty at start, the sequence restarted from 0.
#[test]
fn case_07_ids_go_on_rising_when_nothing_is_kept() {
    let mut world = World::new(Sizes::default());
    let mut given = Vec::new();
    for _ in 0..3 {
        let job = world.create("t", "o", &[]);
        world.start(job);
        world.complete(job);
        given.push(world.last());
        world.forget(&[job]);
        for _ in 0..2 {
            world.restart(Sizes::default());
            assert_eq!(world.published.bounds().last, *given.last().unwrap());
        }
        // The client that saw all is up to date; one that did not is told.
        let mut current = world.feed(Filter::default(), world.after(world.last()));
        assert_eq!(current.run().events, []);
        let mut behind = world.feed(Filter::default(), world.after(Position(world.last().0 - 1)));
        let next = world.id(world.last().next());
        let reset = format!("{{\"reason\":\"trimmed\",\"firstEventId\":\"{next}\"}}");
        assert_eq!(behind.until(1).resets(), [reset]);
        world.create("t", "o", &[]);
        world.published.announce();
        assert_eq!(behind.until(2).events[1].id, Some(next.to_string()));
        assert_eq!(current.until(1).events[0].id, Some(next.to_string()));
    }
    assert!(given.is_sorted() && given.windows(2).all(|pair| pair[0] < pair[1]));
}
