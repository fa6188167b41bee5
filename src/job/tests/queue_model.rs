//! The queue against a list that is searched from end to end.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::job::queue::Queue;

const TYPES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Happening {
    New {
        job_type: usize,
        priority: i8,
        delay: i64,
        expires: Option<i64>,
        interruptions: u32,
    },
    Take,
    End(Index),
    /// The attempt failed or was cut short: pending again.
    Again {
        which: Index,
        delay: i64,
        interrupted: bool,
    },
    Limit {
        job_type: usize,
        at_once: Option<u32>,
    },
    Expired {
        at_most: usize,
    },
    Due,
    Jump(i64),
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let new = (0..3_usize, -1..=1_i8, -50..50_i64, proptest::option::of(-50..200_i64), 0..4_u32);
    prop_oneof![
        8 => new.prop_map(|(job_type, priority, delay, expires, interruptions)| {
            Happening::New { job_type, priority, delay, expires, interruptions }
        }),
        10 => Just(Happening::Take),
        4 => any::<Index>().prop_map(Happening::End),
        4 => (any::<Index>(), -50..50_i64, any::<bool>()).prop_map(|(which, delay, interrupted)| {
            Happening::Again { which, delay, interrupted }
        }),
        1 => (0..3_usize, proptest::option::of(0..4_u32)).prop_map(|(job_type, at_once)| {
            Happening::Limit { job_type, at_once }
        }),
        1 => (0..4_usize).prop_map(|at_most| Happening::Expired { at_most }),
        1 => Just(Happening::Due),
        3 => (-60..100_i64).prop_map(Happening::Jump),
        1 => Just(Happening::Restart),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Waiting,
    Ready,
    Running,
}

struct Known {
    job: Job,
    phase: Phase,
    expiry_told: bool,
}

/// Jobs of one type, priority and kind.
type Peers = (Arc<str>, bool);

/// The queue, and what it should hold.
struct Pair {
    queue: Queue,
    list: Vec<Known>,
    limits: [Option<u32>; 3],
    /// How often peers that could have started were passed over by their equals.
    passed: std::collections::HashMap<Peers, usize>,
    now: Timestamp,
    born: u128,
}

impl Pair {
    fn new() -> Self {
        let passed = std::collections::HashMap::new();
        Self { queue: Queue::new(), list: Vec::new(), limits: [None; 3], passed, now: BIRTH, born: 0 }
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::New { job_type, priority, delay, expires, interruptions } => {
                self.born += 1;
                let expires_at = expires.map(|length| Timestamp(self.now.0 + length));
                let (job_type, created_at) = (TYPES[*job_type].into(), self.now);
                let made = job(Spec { job_type, priority: *priority, expires_at, created_at, ..spec(self.born) });
                let run_at = Timestamp(self.now.0 + delay);
                self.pending(Job { run_at, interruptions: *interruptions, ..made });
            }
            Happening::Take => self.take(),
            Happening::End(which) => {
                if !self.list.is_empty() {
                    let known = self.list.swap_remove(which.index(self.list.len()));
                    self.queue.remove(known.job.id());
                }
            }
            Happening::Again { which, delay, interrupted } => {
                let running: Vec<usize> =
                    (0..self.list.len()).filter(|at| self.list[*at].phase == Phase::Running).collect();
                if !running.is_empty() {
                    let mut job = self.list.swap_remove(running[which.index(running.len())]).job;
                    job.run_at = Timestamp(self.now.0 + delay);
                    job.interruptions += u32::from(*interrupted);
                    self.pending(job);
                }
            }
            Happening::Limit { job_type, at_once } => {
                self.limits[*job_type] = *at_once;
                self.queue.set_limit(&TYPES[*job_type].into(), *at_once);
            }
            Happening::Expired { at_most } => self.expired(*at_most),
            Happening::Due => {
                self.queue.due(self.now);
                self.due();
            }
            Happening::Jump(length) => self.now = Timestamp(self.now.0 + length),
            Happening::Restart => self.restart(),
        }
        self.check();
    }

    fn pending(&mut self, job: Job) {
        let due = job.run_at <= self.now;
        self.queue.pending(&job, self.now);
        self.list.push(Known { job, phase: Phase::Waiting, expiry_told: false });
        if due {
            self.due();
        }
    }

    fn due(&mut self) {
        for known in self.list.iter_mut().filter(|known| known.phase == Phase::Waiting && known.job.run_at <= self.now)
        {
            known.phase = Phase::Ready;
        }
    }

    fn running(&self, of: impl Fn(&Known) -> bool) -> usize {
        self.list.iter().filter(|known| known.phase == Phase::Running && of(known)).count()
    }

    fn may_start(&self, known: &Known) -> bool {
        let job_type = &known.job.spec.job_type;
        let at = TYPES.iter().position(|name| **name == **job_type).expect("one of ours");
        let runs = self.running(|other| other.job.spec.job_type == *job_type);
        let room = self.limits[at].is_none_or(|limit| runs < limit as usize);
        known.phase == Phase::Ready && room && !(suspect(known) && self.running(suspect) > 0)
    }

    fn take(&mut self) {
        self.due();
        let candidates: Vec<&Known> = self.list.iter().filter(|known| self.may_start(known)).collect();
        let best = candidates.iter().map(|known| known.job.spec.priority).max();
        let best: Vec<&&Known> = candidates.iter().filter(|known| Some(known.job.spec.priority) == best).collect();
        let Some(id) = self.queue.take(self.now) else {
            assert!(candidates.is_empty(), "a ready job is left though there is room for it");
            return;
        };
        let taken = best.iter().find(|known| known.job.id() == id).expect("none of the best was taken");
        let chosen = peers(taken);
        let oldest = best.iter().filter(|known| peers(known) == chosen).map(|known| known.job.id()).min();
        assert_eq!(Some(id), oldest, "the oldest of its peers");
        let others: std::collections::HashSet<Peers> = best.iter().map(|known| peers(known)).collect();
        for other in others.into_iter().filter(|other| *other != chosen) {
            let times = self.passed.entry(other).or_default();
            *times += 1;
            assert!(*times < 2 * TYPES.len(), "its turn does not come");
        }
        self.passed.insert(chosen, 0);
        let taken = self.list.iter_mut().find(|known| known.job.id() == id).expect("it is known");
        taken.phase = Phase::Running;
    }

    fn expired(&mut self, at_most: usize) {
        let now = self.now;
        let mut due: Vec<_> = self.list.iter().filter(|known| !known.expiry_told).filter_map(expiry).collect();
        due.sort_unstable();
        due.retain(|(expires_at, _)| *expires_at <= now);
        due.truncate(at_most);
        let named: Vec<JobId> = due.into_iter().map(|(_, id)| id).collect();
        assert_eq!(self.queue.expired(now, at_most), named);
        for known in self.list.iter_mut().filter(|known| named.contains(&known.job.id())) {
            known.expiry_told = true;
        }
    }

    /// Built anew from the jobs alone: running ones are pending again.
    fn restart(&mut self) {
        self.queue = Queue::new();
        self.passed.clear();
        for (name, limit) in TYPES.iter().zip(self.limits) {
            self.queue.set_limit(&(*name).into(), limit);
        }
        for known in std::mem::take(&mut self.list).into_iter().rev() {
            let job = if known.phase == Phase::Running { Job { run_at: self.now, ..known.job } } else { known.job };
            self.pending(job);
        }
    }

    fn check(&self) {
        let count = |phase| self.list.iter().filter(|known| known.phase == phase).count();
        assert_eq!(self.queue.ready_len(), count(Phase::Ready));
        assert_eq!(self.queue.waiting_len(), count(Phase::Waiting));
        assert_eq!(self.queue.running_len(), count(Phase::Running));
        for name in TYPES {
            assert_eq!(self.queue.running_of(name), self.running(|known| &*known.job.spec.job_type == name));
        }
        let waits = self.list.iter().filter(|known| known.phase == Phase::Waiting).map(|known| known.job.run_at);
        let expires = self.list.iter().filter(|known| !known.expiry_told).filter_map(|known| known.job.spec.expires_at);
        assert_eq!(self.queue.next_due(), waits.chain(expires).min());
        let ready = self.list.iter().filter(|known| known.phase == Phase::Ready);
        let old = ready.filter(|known| known.job.run_at.0.div_euclid(1_000) <= self.now.0.div_euclid(1_000)).count();
        assert_eq!(self.queue.overdue(Millis(0), self.now), old);
        assert!(self.running(suspect) <= 1, "suspects run one at a time");
    }
}

fn suspect(known: &Known) -> bool {
    known.job.interruptions >= 2
}

fn peers(known: &Known) -> Peers {
    (known.job.spec.job_type.clone(), suspect(known))
}

fn expiry(known: &Known) -> Option<(Timestamp, JobId)> {
    known.job.spec.expires_at.map(|expires_at| (expires_at, known.job.id()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_hands_out_what_a_search_of_the_whole_list_allows(happenings in prop::collection::vec(happening(), 0..120)) {
        let mut pair = Pair::new();
        for happening in &happenings {
            pair.happen(happening);
        }
    }

    #[test]
    fn everything_is_handed_out_once_there_is_room(happenings in prop::collection::vec(happening(), 0..80)) {
        let mut pair = Pair::new();
        for happening in &happenings {
            pair.happen(happening);
        }
        for job_type in 0..TYPES.len() {
            pair.happen(&Happening::Limit { job_type, at_once: Some(1) });
        }
        pair.now = pair.now.plus(Millis(1_000));
        while !pair.list.is_empty() {
            let before = pair.list.len();
            for _ in 0..=TYPES.len() {
                pair.happen(&Happening::Take);
            }
            for at in (0..pair.list.len()).rev().filter(|at| pair.list[*at].phase == Phase::Running).collect::<Vec<_>>() {
                pair.queue.remove(pair.list.swap_remove(at).job.id());
            }
            prop_assert!(pair.list.len() < before, "a ready job is never reached");
        }
    }
}
