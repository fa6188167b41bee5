//! Rows of ends: shared by those who ended together, and left one by one.

use super::*;
use crate::job::{Completion, Millis, Timestamp};
use crate::store::sled::{ends, keys};

/// The change in which a job begins and ends, with all the others of its group at the same time.
fn life(number: u64) -> (JobId, Change) {
    let mut story = job_with(number, |spec| spec.created_at = Timestamp(1_000));
    let (created, max_attempts) = (story.created(), story.spec.max_attempts);
    let started = Entry::Started { claim: crate::job::ClaimNo(1), attempt: 1, max_attempts, worker: "w1".into() };
    let completion = Completion { summary: "".into(), result: None, content: None, is_error: false, lossy: false };
    let ended = Entry::Completed {
        claim: crate::job::ClaimNo(1),
        completion: Arc::new(completion),
        attempts: 1,
        duration: Millis(1),
        inline: None,
        log: None,
    };
    let payload = body(Part::Payload, 0, &story.payload);
    (story.id(), change(&mut story, vec![created, started, ended], vec![payload]))
}

/// The jobs of each row of ends.
fn rows(store: &Sled) -> Vec<Vec<JobId>> {
    let rows = store.with_trees(|trees| {
        let rows = trees.index.scan_prefix([keys::BY_END]).map(|row| row.expect("readable"));
        Ok(rows.map(|(key, others)| ends::jobs(&key, &others).expect("a row")).collect())
    });
    rows.expect("works")
}

fn listed(store: &Sled, limit: usize) -> Vec<JobId> {
    let ends = store.ends("echo", false, Timestamp(i64::MAX), limit).expect("works");
    assert!(ends.iter().all(|(at, _)| *at == Timestamp(1_000)));
    ends.into_iter().map(|(_, id)| id).collect()
}

#[test]
fn jobs_that_end_in_one_commit_share_a_row_and_leave_it_one_by_one() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    // Backwards, so that the row has to order them.
    let (mut ids, group): (Vec<JobId>, Vec<Change>) = (1..=5).rev().map(life).unzip();
    assert!(store.commit(&group).expect("works").iter().all(Result::is_ok));
    ids.reverse();
    assert_eq!(rows(&store), [ids.clone()]);
    assert_eq!((listed(&store, 9), listed(&store, 2)), (ids.clone(), ids[..2].to_vec()));
    // The one that names the row, one within, and the last.
    for gone in [0, 2, 4] {
        store.forget(&[ids[gone]]).expect("works");
    }
    assert_eq!(rows(&store), [[ids[1], ids[3]]]);
    assert_eq!(listed(&store, 9), [ids[1], ids[3]]);
    // Another group that ended at the same time has a row of its own.
    let (next, later) = life(6);
    assert!(store.commit(&[later]).expect("works").iter().all(Result::is_ok));
    assert_eq!(rows(&store), [vec![ids[1], ids[3]], vec![next]]);
    store.close().expect("closes");
    assert_eq!(crate::store::verify::verify(&place.options().dir).expect("readable").complaints, []);
    let store = place.open();
    store.forget(&[ids[1], ids[3], next]).expect("works");
    assert_eq!(rows(&store), Vec::<Vec<JobId>>::new());
}

#[test]
fn a_group_of_many_ends_has_as_many_rows_as_it_needs() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    let (ids, group): (Vec<JobId>, Vec<Change>) = (1..=300).map(life).unzip();
    assert!(store.commit(&group).expect("works").iter().all(Result::is_ok));
    assert_eq!(rows(&store).iter().map(Vec::len).collect::<Vec<_>>(), [128, 128, 44]);
    assert_eq!(listed(&store, 150), ids[..150]);
    store.forget(&ids[..200]).expect("works");
    assert_eq!(listed(&store, 300), ids[200..]);
}

#[test]
fn the_rows_of_format_1_are_read_and_left_like_those_of_this_one() {
    let place = Place::new();
    let store = place.open();
    store.live().expect("works");
    let (ids, group): (Vec<JobId>, Vec<Change>) = (1..=3).map(life).unzip();
    assert!(store.commit(&group).expect("works").iter().all(Result::is_ok));
    let shared = keys::end(0, false, Timestamp(1_000));
    let alone = |trees: &crate::store::sled::Trees| {
        ids.iter().for_each(|id| drop(trees.index.insert(keys::ended(shared, *id), b"").expect("works")));
        Ok(())
    };
    store.with_trees(alone).expect("works");
    assert_eq!(rows(&store), [[ids[0]], [ids[1]], [ids[2]]]);
    store.forget(&ids[..1]).expect("works");
    assert_eq!(listed(&store, 9), ids[1..]);
    store.close().expect("closes");
    assert_eq!(crate::store::verify::verify(&place.options().dir).expect("readable").complaints, []);
}
