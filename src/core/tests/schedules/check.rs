//! What holds at every moment, and what holds in the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use super::life::SLOTS;
use super::world::{World, rules};
use crate::job::{Head, Job, JobId, Logged, Position, Rules, Standing, State, machine, retry};
use crate::store::Store;

/// No limit is exceeded: slots, concurrency per type, suspects one at a time, attempts, interruptions.
pub fn limits(store: &dyn Store) {
    static RULES: LazyLock<HashMap<Arc<str>, Rules>> = LazyLock::new(rules);
    let rules = &*RULES;
    let heads = store.live().expect("readable");
    let runs = |head: &&Head| matches!(head.job.state, State::InProgress { .. });
    let running: Vec<&Head> = heads.iter().filter(runs).collect();
    assert!(running.len() <= SLOTS, "{} attempts in {SLOTS} slots", running.len());
    let mut by_type: HashMap<&str, u32> = HashMap::new();
    for head in &running {
        let count = by_type.entry(&head.job.spec.job_type).or_default();
        *count += 1;
        let limit = rules[&head.job.spec.job_type].concurrency;
        assert!(limit.is_none_or(|limit| *count <= limit), "{count} of {}", head.job.spec.job_type);
    }
    let suspects = running.iter().filter(|head| retry::is_suspect(head.job.interruptions)).count();
    assert!(suspects <= 1, "{suspects} suspects at once");
    for Head { job, .. } in &heads {
        assert!(job.attempts <= job.spec.max_attempts, "{}: attempt {}", job.id(), job.attempts);
        assert!(job.interruptions < rules[&job.spec.job_type].retry.max_interruptions, "{}", job.id());
    }
}

/// Every job has ended once, its record is the fold of its entries, and what was acknowledged is there.
pub fn end(world: &World) {
    let log = world.store.events(Position::ZERO, usize::MAX).expect("readable");
    for (n, logged) in log.iter().enumerate() {
        assert_eq!(logged.position.0, n as u64 + 1, "the log has no hole");
    }
    let mut by_job: BTreeMap<JobId, Vec<&Logged>> = BTreeMap::new();
    for logged in &log {
        by_job.entry(logged.job).or_default().push(logged);
    }
    for (id, entries) in &by_job {
        let head = world.store.job(*id).expect("readable").expect("kept");
        one_end(*id, entries);
        let mut job: Option<Job> = None;
        for logged in entries {
            job = Some(machine::apply(job, logged.at, &logged.entry).expect("it fits"));
        }
        assert_eq!(job.expect("entries"), head.job, "the record is the fold of its entries");
        assert!(head.job.attempts <= head.job.spec.max_attempts);
    }
    for (id, key) in &world.answered {
        let head = world.store.job(*id).expect("readable").expect("kept");
        let standing = head.job.questions.keyed(key).map(|question| question.standing);
        assert!(matches!(standing, Some(Standing::Answered { .. })), "the answer to {key} of {id} is lost");
    }
    for id in &world.acknowledged {
        assert!(by_job.contains_key(id), "{id} was acknowledged and is not there");
    }
}

/// Exactly one terminal entry; nothing that is served follows it.
fn one_end(id: JobId, entries: &[&Logged]) {
    let ends: Vec<usize> =
        entries.iter().enumerate().filter(|(_, logged)| logged.entry.is_terminal()).map(|(n, _)| n).collect();
    assert_eq!(ends.len(), 1, "{id} has ended {} times", ends.len());
    let after = entries[ends[0] + 1..].iter().filter_map(|logged| logged.entry.event_type()).next();
    assert_eq!(after, None, "{id} goes on after its end");
}
