//! A job that kills the server ends, and its neighbours complete (contract 3).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::job::Status;
use crate::job::queue::Queue;
use crate::job::retry::{charges, is_suspect};

/// A server that is started again whenever it dies.
struct Server {
    lives: BTreeMap<JobId, Life>,
    slots: usize,
    crashes: u32,
}

impl Server {
    fn new(jobs: u32, slots: usize) -> Self {
        let lives = (0..jobs).map(|n| (JobId::from_u128(u128::from(n)), Life::of(spec(u128::from(n))))).collect();
        Self { lives, slots, crashes: 0 }
    }

    /// Runs until nothing is left to do. `killer` kills the server at some time after it started; `luck` says whether a
    /// running neighbour ends before that.
    fn run(&mut self, killer: JobId, mut luck: impl FnMut() -> bool) {
        while self.lives.values().any(|life| !life.job.status().is_terminal()) {
            let mut queue = Queue::new();
            for life in self.lives.values().filter(|life| !life.job.status().is_terminal()) {
                queue.pending(&life.job, BIRTH);
            }
            while !self.serve(&mut queue, killer, &mut luck) {}
        }
    }

    /// One round of claims and ends; true once the server is to be started again, or has nothing to do.
    fn serve(&mut self, queue: &mut Queue, killer: JobId, luck: &mut impl FnMut() -> bool) -> bool {
        while queue.running_len() < self.slots
            && let Some(id) = queue.take(BIRTH)
        {
            self.life(id).start();
        }
        let running: Vec<_> =
            self.lives.values().filter(|life| life.job.claim().is_some()).map(|l| l.job.id()).collect();
        let dies = running.contains(&killer);
        for id in running.iter().filter(|id| **id != killer) {
            if !dies || luck() {
                self.life(*id).complete();
                queue.remove(*id);
            }
        }
        if dies {
            self.crash(luck);
        }
        dies || running.is_empty()
    }

    /// The next start commits what the crash made of each job, and may itself be killed after any of them.
    fn crash(&mut self, luck: &mut impl FnMut() -> bool) {
        self.crashes += 1;
        let before = self.running();
        let suspect = before.iter().find(|(_, interruptions)| is_suspect(*interruptions)).map(|(id, _)| *id);
        while !self.running().is_empty() {
            for (id, charged) in charges(&self.running()) {
                self.life(id).send(&Command::Interrupt { charged }).expect("it ran");
                if luck() {
                    break;
                }
            }
        }
        for (id, interruptions) in before {
            let charged = suspect.is_none_or(|suspect| suspect == id);
            assert_eq!(
                self.life(id).job.interruptions,
                interruptions + u32::from(charged),
                "charged to {suspect:?} alone"
            );
        }
    }

    /// Who runs, and how often each was interrupted.
    fn running(&self) -> Vec<(JobId, u32)> {
        let running = self.lives.values().filter(|life| life.job.claim().is_some());
        running.map(|life| (life.job.id(), life.job.interruptions)).collect()
    }

    fn life(&mut self, id: JobId) -> &mut Life {
        self.lives.get_mut(&id).expect("one of ours")
    }

    fn check(&self, killer: JobId) {
        assert_eq!(self.crashes, 3, "it ends after its interruptions, not later");
        for life in self.lives.values() {
            let code = life.job.error.as_ref().and_then(|error| error.failure.code.as_deref());
            let died = life.job.id() == killer;
            let ends = if died { (Status::Failed, Some("worker_died")) } else { (Status::Completed, None) };
            assert_eq!((life.job.status(), code), ends, "{}", life.job.id());
        }
    }
}

/// A job that killed its worker was put back without counting; it crashed the fleet again and again.
#[test]
fn case_39_a_job_that_kills_the_server_fails_and_its_twenty_neighbours_complete() {
    for killer in 0..21 {
        let killer = JobId::from_u128(killer);
        let mut server = Server::new(21, 64);
        server.run(killer, || false);
        server.check(killer);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whoever_runs_beside_a_killer_completes(
        jobs in 1..40_u32,
        killer in any::<prop::sample::Index>(),
        slots in 1..20_usize,
        luck in prop::collection::vec(any::<bool>(), 1..50),
    ) {
        let killer = JobId::from_u128(killer.index(jobs as usize) as u128);
        let mut server = Server::new(jobs, slots);
        let mut luck = luck.into_iter().cycle();
        server.run(killer, || luck.next().unwrap_or(false));
        server.check(killer);
    }
}
