//! Which job starts next, one promise each.

use super::*;
use crate::job::queue::Queue;

struct Made(Spec);

impl Made {
    fn job(id: u128) -> Self {
        Self(spec(id))
    }

    fn of_type(mut self, job_type: &str) -> Self {
        self.0.job_type = job_type.into();
        self
    }

    fn priority(mut self, priority: i8) -> Self {
        self.0.priority = priority;
        self
    }

    fn expires_in(mut self, length: u64) -> Self {
        self.0.expires_at = Some(BIRTH.plus(Millis(length)));
        self
    }

    fn suspect(self) -> Job {
        Job { interruptions: 2, ..job(self.0) }
    }

    fn delayed(self, length: u64) -> Job {
        Job { run_at: BIRTH.plus(Millis(length)), ..job(self.0) }
    }

    fn now(self) -> Job {
        job(self.0)
    }
}

fn queue(jobs: impl IntoIterator<Item = Job>) -> Queue {
    let mut queue = Queue::new();
    for job in jobs {
        queue.pending(&job, BIRTH);
    }
    queue
}

/// Takes until nothing may start.
fn take_all(queue: &mut Queue, now: Timestamp) -> Vec<u128> {
    std::iter::from_fn(|| queue.take(now)).map(JobId::as_u128).collect()
}

fn ids(jobs: &[JobId]) -> Vec<u128> {
    jobs.iter().copied().map(JobId::as_u128).collect()
}

#[test]
fn the_highest_priority_starts_first_and_the_oldest_among_equals() {
    let jobs = [Made::job(3), Made::job(1), Made::job(2).priority(-100), Made::job(4).priority(100)];
    assert_eq!(take_all(&mut queue(jobs.map(Made::now)), BIRTH), [4, 1, 3, 2]);
}

#[test]
fn types_of_equal_priority_take_turns() {
    let many = (1..=4).map(|id| Made::job(id).of_type("many").now());
    let few = (5..=6).map(|id| Made::job(id).of_type("few").now());
    assert_eq!(take_all(&mut queue(many.chain(few)), BIRTH), [1, 5, 2, 6, 3, 4]);
}

#[test]
fn a_type_at_its_limit_waits_and_holds_nobody_up() {
    let wide = (1..=3).map(|id| Made::job(id).of_type("narrow").priority(9).now());
    let mut queue = queue(wide.chain([Made::job(4).of_type("wide").now()]));
    queue.set_limit(&"narrow".into(), Some(2));
    assert_eq!(take_all(&mut queue, BIRTH), [1, 2, 4]);
    assert_eq!((queue.running_of("narrow"), queue.running_of("wide"), queue.running_of("none")), (2, 1, 0));
    queue.remove(JobId::from_u128(1));
    assert_eq!(take_all(&mut queue, BIRTH), [3]);
}

#[test]
fn a_limit_may_change_at_any_time() {
    let mut queue = queue((1..=4).map(|id| Made::job(id).now()));
    queue.set_limit(&"echo".into(), Some(1));
    assert_eq!(take_all(&mut queue, BIRTH), [1]);
    queue.set_limit(&"echo".into(), Some(3));
    assert_eq!(take_all(&mut queue, BIRTH), [2, 3]);
    queue.set_limit(&"echo".into(), Some(0));
    queue.remove(JobId::from_u128(1));
    assert_eq!(take_all(&mut queue, BIRTH), []);
    queue.set_limit(&"echo".into(), None);
    assert_eq!(take_all(&mut queue, BIRTH), [4]);
}

#[test]
fn suspects_run_one_at_a_time_beside_the_others() {
    let suspects = [Made::job(1), Made::job(2).of_type("other"), Made::job(3)].map(Made::suspect);
    let mut queue = queue(suspects.into_iter().chain([Made::job(4).now(), Made::job(5).now()]));
    let started = take_all(&mut queue, BIRTH);
    assert_eq!(started.iter().filter(|id| **id <= 3).count(), 1);
    assert_eq!(started.len(), 3);
    for id in started {
        queue.remove(JobId::from_u128(id));
    }
    assert_eq!(take_all(&mut queue, BIRTH).len(), 1);
}

#[test]
fn a_suspect_counts_against_the_limit_of_its_type() {
    let mut queue = queue([Made::job(1).suspect(), Made::job(2).now()]);
    queue.set_limit(&"echo".into(), Some(1));
    assert_eq!(take_all(&mut queue, BIRTH).len(), 1);
}

#[test]
fn a_delayed_job_starts_at_its_time_and_never_before() {
    let mut queue = queue([Made::job(1).delayed(100)]);
    assert_eq!((queue.next_due(), queue.waiting_len()), (Some(BIRTH.plus(Millis(100))), 1));
    assert_eq!(queue.take(BIRTH.plus(Millis(99))), None);
    assert_eq!(queue.take(BIRTH.plus(Millis(100))), Some(JobId::from_u128(1)));
    assert_eq!((queue.next_due(), queue.waiting_len(), queue.running_len()), (None, 0, 1));
}

#[test]
fn what_was_ready_stays_ready_when_the_clock_is_set_back() {
    let mut queue = queue([Made::job(1).delayed(100)]);
    queue.due(BIRTH.plus(Millis(100)));
    assert_eq!(queue.ready_len(), 1);
    assert_eq!(queue.take(Timestamp(0)), Some(JobId::from_u128(1)));
}

#[test]
fn an_expired_job_is_named_once_also_while_it_runs() {
    let jobs = [Made::job(1).expires_in(30), Made::job(2).expires_in(10), Made::job(3).expires_in(20), Made::job(4)];
    let mut queue = queue(jobs.map(Made::now));
    assert_eq!(queue.take(BIRTH), Some(JobId::from_u128(1)));
    assert_eq!(queue.next_due(), Some(BIRTH.plus(Millis(10))));
    assert_eq!(queue.expired(BIRTH.plus(Millis(9)), 9), []);
    let later = BIRTH.plus(Millis(30));
    assert_eq!(ids(&queue.expired(later, 2)), [2, 3]);
    assert_eq!(ids(&queue.expired(later, 2)), [1]);
    assert_eq!((queue.expired(later, 2), queue.next_due()), (Vec::new(), None));
}

#[test]
fn a_job_that_has_ended_is_nowhere_any_more() {
    let jobs = [Made::job(1).now(), Made::job(2).delayed(5), Made::job(3).expires_in(5).now()];
    let mut queue = queue(jobs);
    assert_eq!(queue.take(BIRTH), Some(JobId::from_u128(1)));
    for id in [1, 2, 3, 3, 99] {
        queue.remove(JobId::from_u128(id));
    }
    assert_eq!((queue.ready_len(), queue.waiting_len(), queue.running_len()), (0, 0, 0));
    assert_eq!((queue.next_due(), queue.take(BIRTH.plus(Millis(9)))), (None, None));
    assert_eq!((queue.overdue(Millis(0), BIRTH), queue.oldest_ready(BIRTH)), (0, None));
}

#[test]
fn overdue_jobs_are_counted_from_when_they_could_have_run() {
    let jobs = [Made::job(1).now(), Made::job(2).delayed(60_000), Made::job(3).delayed(600_000)];
    let mut queue = queue(jobs);
    let now = BIRTH.plus(Millis(120_000));
    queue.due(now);
    let minutes = |minutes: u64| Millis::seconds(60 * minutes);
    assert_eq!([0, 1, 2, 3].map(|age| queue.overdue(minutes(age), now)), [2, 2, 1, 0]);
    assert_eq!(queue.oldest_ready(now), Some(minutes(2)));
    assert_eq!(queue.overdue(Millis(u64::MAX), now), 0);
}

/// Claim time grew with the backlog: 200,000 delayed, 500,000 and 860,000 queued jobs.
#[test]
fn case_45_a_claim_looks_at_no_more_under_any_backlog() {
    let mut costs = Vec::new();
    for backlog in [10, 1_000, 100_000] {
        let mut queue = Queue::new();
        queue.set_limit(&"blocked".into(), Some(1));
        for n in 0..backlog {
            queue.pending(&Made::job(n).of_type("blocked").priority(9).now(), BIRTH);
            queue.pending(&Made::job(backlog + n).of_type("free").now(), BIRTH);
            queue.pending(&Made::job(2 * backlog + n).delayed(1_000), BIRTH);
        }
        let mut looks = Vec::new();
        for _ in 0..10 {
            assert!(queue.take(BIRTH).is_some());
            looks.push(queue.looks());
        }
        costs.push(looks);
    }
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[1], costs[2]);
    assert!(costs[0].iter().all(|looks| *looks <= 2));
}
