//! No hole at the seam: whatever is committed while a reader reads, live, from the ring or from the store, it gets each
//! entry that follows its cursor once, in order, and the same as the JSON pages have it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::fixture::{Reader, World};
use crate::events::{Filter, Sizes, Start};
use crate::job::{JobId, Position, Status};

#[derive(Debug, Clone)]
enum Act {
    Create { job_type: u8, owner: u8 },
    Live { job: Index, choice: u8 },
    Announce,
    Read { reader: Index },
    Heartbeat { reader: Index },
    Join { scope: Index, start: Index },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (0..2u8, 0..2u8).prop_map(|(job_type, owner)| Act::Create { job_type, owner }),
        8 => (any::<Index>(), any::<u8>()).prop_map(|(job, choice)| Act::Live { job, choice }),
        3 => Just(Act::Announce),
        4 => any::<Index>().prop_map(|reader| Act::Read { reader }),
        1 => any::<Index>().prop_map(|reader| Act::Heartbeat { reader }),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(scope, start)| Act::Join { scope, start }),
    ]
}

/// What a reader follows, and from where it was to start.
enum Followed {
    Feed(Filter, Start),
    Job(JobId, Start),
}

fn filters(jobs: &[JobId]) -> Vec<Filter> {
    let all = Filter::default();
    let mut filters = vec![
        all.clone(),
        Filter { owner: Some("owner 1".into()), ..all.clone() },
        Filter { types: vec!["type 0".into(), "job.started".into()], ..all.clone() },
    ];
    filters.extend(jobs.iter().map(|job| Filter { jobs: vec![*job], ..all.clone() }));
    filters
}

fn live_on(world: &mut World, job: JobId, choice: u8) {
    match (world.head(job).job.status(), choice % 16) {
        (Status::Pending, _) => world.start(job),
        (Status::InProgress, 0) => world.complete(job),
        (Status::InProgress, 1) => world.fail(job),
        (Status::InProgress, 2..=4) => world.release(job),
        (Status::InProgress, 5) => world.progress_in_bulk(job, 70),
        (Status::InProgress, _) => world.progress(job),
        (Status::InputRequired, _) => unreachable!("nobody asks"),
        (Status::Completed | Status::Failed | Status::Canceled, _) => {}
    }
}

fn join(world: &World, jobs: &[JobId], scope: Index, start: Index) -> (Reader, Followed) {
    let last = world.last();
    // From anywhere, the beginning, or where only what comes counts.
    let start = match start.index(usize::try_from(last.0).unwrap() + 3) {
        0 => Start::Earliest,
        1 => world.after(last),
        at => world.after(Position(at as u64 - 2)),
    };
    let filters = filters(jobs);
    match scope.index(filters.len() + jobs.len()) {
        at if at < filters.len() => {
            (world.feed(filters[at].clone(), start), Followed::Feed(filters[at].clone(), start))
        }
        at => {
            let job = jobs[at - filters.len()];
            (world.stream(job, start), Followed::Job(job, start))
        }
    }
}

fn run(world: &mut World, acts: Vec<Act>) -> Vec<(Reader, Followed)> {
    let mut jobs = vec![world.create("type 0", "owner 0", &[])];
    let mut readers: Vec<(Reader, Followed)> = Vec::new();
    for act in acts {
        match act {
            Act::Create { job_type, owner } => {
                jobs.push(world.create(&format!("type {job_type}"), &format!("owner {owner}"), &[]));
            }
            Act::Live { job, choice } => live_on(world, *job.get(&jobs), choice),
            Act::Announce => {
                world.published.announce();
            }
            Act::Read { reader } if !readers.is_empty() => {
                let at = reader.index(readers.len());
                readers[at].0.run();
            }
            Act::Heartbeat { reader } if !readers.is_empty() => {
                let at = reader.index(readers.len());
                readers[at].0.poll_once();
            }
            Act::Read { .. } | Act::Heartbeat { .. } => {}
            Act::Join { scope, start } => readers.push(join(world, &jobs, scope, start)),
        }
    }
    world.published.announce();
    readers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn readers_get_what_the_pages_have(
        acts in vec(act(), 1..120),
        ring_entries in prop_oneof![Just(0usize), 1..12usize, Just(1_000)],
        ring_bytes in prop_oneof![Just(1_000usize), Just(40_000), Just(1_000_000)],
        ended in 0..3usize,
        limit in 1..40usize,
    ) {
        let sizes = Sizes { ring_bytes, ring_entries, ended, preload: 0 };
        let mut world = World::new(sizes);
        let readers = run(&mut world, acts);
        for (mut reader, followed) in readers {
            let wanted = match &followed {
                Followed::Feed(filter, start) => world.feed_pages(filter, *start, limit),
                Followed::Job(job, start) => world.job_pages(*job, *start, limit),
            };
            reader.until(wanted.0.len());
            // Nothing comes twice, and the cursor is worth what is said.
            reader.poll_once();
            prop_assert_eq!(reader.data(), wanted.0);
            prop_assert!(wanted.1.is_none() && reader.resets().is_empty());
            let ids: Vec<_> = reader.events.iter().map(|event| event.id.clone()).collect();
            prop_assert_eq!(ids.last().cloned().flatten(), reader.last_id);
        }
        let streams = world.published.counters.streams.load(std::sync::atomic::Ordering::Relaxed);
        prop_assert_eq!(streams, 0, "all readers have gone");
    }
}

#[test]
fn readers_on_other_threads_get_each_event_once_while_commits_go_on() {
    const EVENTS: usize = 3_000;
    // A ring so short that readers fall behind it all the time.
    let mut world = World::new(Sizes { ring_entries: 40, ended: 4, ..Sizes::default() });
    let jobs = [world.create("t", "a", &[]), world.create("t", "b", &[])];
    jobs.iter().for_each(|job| world.start(*job));
    let only_a = Filter { owner: Some("a".into()), ..Filter::default() };
    let mut readers = vec![
        (world.feed(Filter::default(), Start::Now), 2 * EVENTS),
        (world.feed(only_a.clone(), Start::Now), EVENTS),
        (world.stream(jobs[0], Start::Now), EVENTS),
    ];
    let start = world.after(world.last());
    std::thread::scope(|scope| {
        for (reader, count) in &mut readers {
            scope.spawn(|| reader.until(*count).events.len());
        }
        for _ in 0..EVENTS {
            jobs.iter().for_each(|job| world.progress(*job));
            world.published.announce();
        }
    });
    let all = world.feed_pages(&Filter::default(), start, 500).0;
    assert_eq!(readers[0].0.data(), all);
    let of_a = world.feed_pages(&only_a, start, 500).0;
    assert_eq!(readers[1].0.data(), of_a);
    assert_eq!(readers[2].0.data(), of_a);
}
