//! The store on disk must show what the reference store shows, through every method of the port.
//!
//! In: both. Out: a panic that names what differs.

use std::sync::Arc;

use bytes::Bytes;
use longhaul::job::{BodyRef, Head, JobId, Position, Status, machine};
use longhaul::store::memory::Memory;
use longhaul::store::{Query, Store};

use super::decide::LATER;
use super::making::{OWNERS, TYPES};
use super::world::{key_names, positions};

/// Bounds and totals: after every commit.
pub fn standing(disk: &dyn Store, model: &Memory) {
    let (found, expected) = (disk.bounds(), model.bounds());
    assert_eq!((found.floor, found.last), (expected.floor, expected.last), "the bounds");
    assert_eq!(disk.totals(), model.totals(), "the totals");
}

/// Unfinished jobs: after every start.
pub fn live(disk: &dyn Store, model: &Memory) {
    let sorted = |store: &dyn Store| {
        let mut heads = store.live().expect("the store works");
        heads.sort_by_key(|head| head.job.id());
        heads
    };
    assert_eq!(sorted(disk), sorted(model), "what lives");
}

/// Everything else.
pub fn everything(disk: &dyn Store, model: &Memory, jobs: &[JobId], gone: &[(JobId, BodyRef)]) {
    standing(disk, model);
    log(disk, model);
    jobs.iter().for_each(|id| job(disk, model, *id));
    lists(disk, model);
    for (owner, job_type, key) in key_names() {
        let [found, expected] = [disk, model as &dyn Store].map(|s| s.keyed(owner, job_type, &key).expect("works"));
        assert_eq!(found, expected, "the key {key:?} of {owner} and {job_type}");
    }
    for prefix in ["", "session/", "other/5"] {
        assert_eq!(disk.cells(prefix).expect("works"), model.cells(prefix).expect("works"), "cells of {prefix:?}");
    }
    let types = model.totals();
    for (job_type, failed) in types.types.keys().flat_map(|job_type| [(job_type, false), (job_type, true)]) {
        let stores = [disk, model as &dyn Store];
        let [found, expected] = stores.map(|s| {
            let mut ends = s.ends(job_type, failed, LATER, 100).expect("works");
            assert!(ends.is_sorted_by_key(|(at, _)| *at));
            // Those of one time come in any order.
            ends.sort_unstable();
            ends
        });
        assert_eq!(found, expected, "ends of {job_type}, failed: {failed}");
    }
    for (id, name) in gone {
        // The name may have been given again.
        if model.body(*id, *name, 0, 1).expect("works").is_none() {
            assert_eq!(disk.body(*id, *name, 0, 1).expect("works"), None, "{name:?} of {id} is gone");
        }
    }
}

/// The log, in pages of some size that is not a round one.
fn log(disk: &dyn Store, model: &Memory) {
    let expected = model.events(Position::ZERO, usize::MAX).expect("works");
    let (mut found, mut after) = (Vec::new(), Position::ZERO);
    loop {
        let page = disk.events(after, 7).expect("the store works");
        let Some(last) = page.last() else { break };
        after = last.position;
        found.extend(page);
    }
    assert_eq!(found, expected, "the log");
}

/// One job: its record, its entries, its bodies.
fn job(disk: &dyn Store, model: &Memory, id: JobId) {
    let (found, expected) = (disk.job(id).expect("works"), model.job(id).expect("works"));
    assert_eq!(found, expected, "the record of {id}");
    let Some(head) = found else { return };
    let trail = positions(disk, &head);
    assert_eq!(trail, positions(model, &head), "the trail of {id}");
    let entries = disk.entries(&trail).expect("works");
    assert_eq!(entries, model.entries(&trail).expect("works"), "the entries of {id}");
    let fold = machine::fold(entries.iter().map(|logged| (logged.at, &logged.entry)));
    assert_eq!(fold.as_ref(), Ok(&Some(head.job.clone())), "the record of {id} is the fold of its entries");
    for name in head.job.bodies() {
        body(disk, model, &head, name);
    }
}

fn body(disk: &dyn Store, model: &Memory, head: &Head, name: BodyRef) {
    let len = usize::try_from(name.len).expect("a small length");
    for (from, limit) in [(0, len), (len / 3, 4_500), (len, 1)] {
        let read = |store: &dyn Store| -> Option<Bytes> {
            store.body(head.job.id(), name, from as u64, limit).expect("the store works")
        };
        let (found, expected) = (read(disk), read(model));
        assert!(found == expected, "{name:?} of {}, {limit} from {from}", head.job.id());
        assert!(found.is_some(), "{name:?} of {} is there", head.job.id());
    }
}

/// Lists by every filter, in pages of three.
fn lists(disk: &dyn Store, model: &Memory) {
    let owner = Some(Arc::from(OWNERS[1]));
    let job_type = Some(Arc::from(TYPES[1]));
    let mut queries = vec![
        Query::default(),
        Query { owner: owner.clone(), ..Query::default() },
        Query { job_type: job_type.clone(), ..Query::default() },
        Query { owner: owner.clone(), job_type, dead_lettered: Some(false), ..Query::default() },
        Query { dead_lettered: Some(true), ..Query::default() },
        Query { dead_lettered: Some(true), owner, ..Query::default() },
        Query { tag: Some("1tt".into()), ..Query::default() },
        Query { created_after: Some(super::decide::BIRTH.plus(longhaul::job::Millis(1))), ..Query::default() },
    ];
    queries.extend(Status::ALL.map(|status| Query { status: Some(status), ..Query::default() }));
    for query in queries {
        assert_eq!(listed(disk, query.clone()), listed(model, query.clone()), "the list of {query:?}");
    }
}

fn listed(store: &dyn Store, mut query: Query) -> Vec<Arc<Head>> {
    query.limit = 3;
    let mut jobs = Vec::new();
    loop {
        let page = store.jobs(&query).expect("the store works");
        jobs.extend(page.jobs);
        if page.next.is_none() {
            return jobs;
        }
        query.before = page.next;
    }
}
