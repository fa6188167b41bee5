//! Lists: ended jobs newest first, by every filter, in pages; and by the time of their end.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{Query, Store};
use super::story::{Story, job, job_with};
use super::{Promise, Subject};
use crate::job::{Entry, JobId, Status, Timestamp};

pub(super) const PROMISES: &[(&str, Promise)] = &[
    ("ended jobs are listed newest first", ended_jobs_are_listed_newest_first),
    ("each filter admits what it says", each_filter_admits_what_it_says),
    ("pages tell each job once", pages_tell_each_job_once),
    ("a replayed dead letter is none any more", a_replayed_dead_letter_is_none_any_more),
    ("ends come longest ago first", ends_come_longest_ago_first),
];

fn list(store: &dyn Store, query: &Query) -> Vec<u64> {
    let listing = store.jobs(query).expect("works");
    assert_eq!(listing.next, None, "everything fits");
    listing.jobs.iter().map(|head| number(head.job.id())).collect()
}

/// The number a story was made with.
fn number(id: JobId) -> u64 {
    (id.as_u128() >> 80) as u64
}

fn everything() -> Query {
    Query { limit: 1_000, ..Query::default() }
}

/// Jobs 1 to 30 ended, all kinds mixed; 31 waits. Ended in an order that is not that of their ids.
fn mixed(store: &dyn Store) -> Vec<Story> {
    let made = |n: u64| {
        let story = job_with(n, |spec| {
            spec.owner = if n.is_multiple_of(2) { "ann".into() } else { "bob".into() };
            spec.job_type = if n.is_multiple_of(3) { "sum".into() } else { "echo".into() };
            spec.tags = if n.is_multiple_of(5) { Arc::new(["odd".into(), "five".into()]) } else { Arc::new([]) };
        });
        if n.is_multiple_of(4) { story.die(store) } else { story.live(store) }
    };
    let order = (1..=30).rev().step_by(2).chain((1..=30).step_by(2));
    let stories = order.map(made).collect();
    job(31).create(store);
    stories
}

fn ended_jobs_are_listed_newest_first(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    assert_eq!(list(store, &everything()), Vec::<u64>::new());
    let stories = mixed(store);
    assert_eq!(list(store, &everything()), (1..=30).rev().collect::<Vec<_>>());
    let listing = store.jobs(&everything()).expect("works");
    for story in stories {
        assert!(listing.jobs.contains(&story.head()), "whole heads are listed");
    }
}

fn each_filter_admits_what_it_says(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    mixed(store);
    let check = |query: Query, admits: &dyn Fn(u64) -> bool| {
        let expected: Vec<u64> = (1..=30).rev().filter(|n| admits(*n)).collect();
        assert_eq!(list(store, &query), expected, "{query:?}");
    };
    let at = |n: u64| job(n).spec.created_at;
    check(Query { owner: Some("ann".into()), ..everything() }, &|n| n % 2 == 0);
    check(Query { owner: Some("eve".into()), ..everything() }, &|_| false);
    check(Query { job_type: Some("sum".into()), ..everything() }, &|n| n % 3 == 0);
    check(Query { status: Some(Status::Failed), ..everything() }, &|n| n % 4 == 0);
    check(Query { status: Some(Status::Pending), ..everything() }, &|_| false);
    check(Query { ready_before: Some(Timestamp(i64::MAX)), ..everything() }, &|_| false);
    check(Query { tag: Some("five".into()), ..everything() }, &|n| n % 5 == 0);
    check(Query { dead_lettered: Some(true), ..everything() }, &|n| n % 4 == 0);
    check(Query { dead_lettered: Some(false), ..everything() }, &|n| n % 4 != 0);
    check(Query { created_after: Some(at(7)), ..everything() }, &|n| n >= 7);
    check(Query { created_before: Some(at(7)), ..everything() }, &|n| n < 7);
    check(Query { before: Some(job(9).id()), ..everything() }, &|n| n < 9);
    let several = Query {
        owner: Some("ann".into()),
        job_type: Some("echo".into()),
        status: Some(Status::Failed),
        dead_lettered: Some(true),
        ..everything()
    };
    check(several.clone(), &|n| n % 4 == 0 && n % 3 != 0);
    check(Query { dead_lettered: None, ..several }, &|n| n % 4 == 0 && n % 3 != 0);
}

fn pages_tell_each_job_once(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    mixed(store);
    for owner in [None, Some("bob".into())] {
        for limit in [1, 4, 15, 30] {
            let mut query = Query { owner: owner.clone(), limit, ..Query::default() };
            let mut told = Vec::new();
            loop {
                let page = store.jobs(&query).expect("works");
                assert!(page.jobs.len() <= limit);
                told.extend(page.jobs.iter().map(|head| number(head.job.id())));
                query.before = page.next;
                if page.next.is_none() {
                    break;
                }
            }
            let expected: Vec<u64> = (1..=30).rev().filter(|n| owner.is_none() || n % 2 == 1).collect();
            assert_eq!(told, expected, "{limit} at a time");
        }
    }
}

fn a_replayed_dead_letter_is_none_any_more(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let mut dead = job(1).die(store);
    job(2).die(store);
    dead.put(store, vec![Entry::Replayed { as_job: job(3).id() }], Vec::new());
    assert_eq!(list(store, &Query { dead_lettered: Some(true), ..everything() }), [2]);
    let owned = Query { owner: Some("local".into()), dead_lettered: Some(false), ..everything() };
    assert_eq!(list(store, &owned), [1]);
    assert_eq!(list(store, &Query { status: Some(Status::Failed), ..everything() }), [2, 1]);
    let kept = store.totals().types["echo"];
    assert_eq!((kept.jobs, kept.dead_letters), (2, 1));
    assert_eq!(store.ends("echo", true, Timestamp(i64::MAX), 10).expect("works").len(), 2);
}

fn ends_come_longest_ago_first(subject: &mut Subject<'_>) {
    let store = &*subject.store;
    let stories = mixed(store);
    let types: BTreeSet<Arc<str>> = stories.iter().map(|story| story.spec.job_type.clone()).collect();
    assert_eq!(store.ends("nobody's", false, Timestamp(i64::MAX), 10).expect("works"), []);
    for (job_type, failed) in types.iter().flat_map(|job_type| [(job_type, false), (job_type, true)]) {
        let ends_before = |before, limit| store.ends(job_type, failed, before, limit).expect("works");
        let of_kind = stories.iter().filter(|story| {
            story.spec.job_type == *job_type && (story.head().job.status() == Status::Failed) == failed
        });
        let mut ends: Vec<(Timestamp, JobId)> =
            of_kind.map(|story| (story.head().job.finished_at.expect("it ended"), story.id())).collect();
        ends.sort_unstable();
        assert_eq!(ends_before(Timestamp(i64::MAX), 100), ends);
        assert_eq!(ends_before(Timestamp(i64::MAX), 2), ends[..ends.len().min(2)]);
        let Some((middle, _)) = ends.get(ends.len() / 2).copied() else { continue };
        ends.retain(|(at, _)| *at < middle);
        assert_eq!(ends_before(middle, 100), ends, "not those at that time");
    }
}
