//! A fixed pool of threads, and the flags of what they run.
//!
//! In: assignments. Out: nothing; each worker hands its attempt's end to the source. No thread is ever added or replaced:
//! a worker survives whatever its handler does.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use super::dispatcher::Assignment;
use super::worker::Worker;
use crate::clock::Clock;
use crate::handler::Roster;
use crate::work::{Stop, StopFlag, WorkSource};

/// Stack of a worker thread, in bytes. Handlers keep their data on the heap; only touched pages take memory.
pub const STACK_BYTES: usize = 1024 * 1024;

/// Starts `workers` threads. They end when the sender is dropped and what was sent is done.
///
/// # Errors
/// The operating system gives no thread.
pub fn start(
    source: &Arc<dyn WorkSource>,
    handlers: &Arc<Roster>,
    clock: &Arc<dyn Clock>,
    workers: usize,
    running: &Arc<Running>,
) -> io::Result<(Sender<Assignment>, Vec<JoinHandle<()>>)> {
    let (sender, assignments) = bounded::<Assignment>(workers);
    let mut threads = Vec::with_capacity(workers + 1);
    for number in 0..workers {
        let worker = Worker { source: source.clone(), handlers: handlers.clone(), clock: clock.clone() };
        let (assignments, running) = (assignments.clone(), running.clone());
        let work = move || {
            for assignment in assignments {
                running.enter(number, &assignment.claim.stop);
                worker.attempt(assignment, || running.leave(number));
            }
        };
        threads.push(std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES).spawn(work)?);
    }
    Ok((sender, threads))
}

/// The stop flags of the running attempts, by worker.
pub struct Running {
    state: Mutex<State>,
}

struct State {
    flags: Vec<Option<Arc<StopFlag>>>,
    /// Why everything that comes is to stop, once it is.
    stopped: Option<Stop>,
}

impl Running {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self { state: Mutex::new(State { flags: vec![None; workers], stopped: None }) }
    }

    /// Worker `number` runs an attempt with this flag.
    fn enter(&self, number: usize, flag: &Arc<StopFlag>) {
        let stopped = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.flags[number] = Some(flag.clone());
            state.stopped
        };
        if let Some(reason) = stopped {
            flag.set(reason);
        }
    }

    /// It runs nothing any more.
    fn leave(&self, number: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).flags[number] = None;
    }

    /// Tells every running attempt, and each that is still to come, to stop. Does not wait for them.
    pub fn stop_all(&self, reason: Stop) {
        let flags: Vec<_> = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.stopped.get_or_insert(reason);
            state.flags.iter().flatten().cloned().collect()
        };
        for flag in flags {
            flag.set(reason);
        }
    }
}
