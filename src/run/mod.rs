//! Runs attempts: one thread turns free slots into claims, a fixed pool of threads runs them.
//!
//! In: a `WorkSource` and the handlers. Out: one `finish` for each claim, whatever the handler does. Knows neither jobs'
//! states nor the store, and holds no thread once it has been joined.

mod dispatcher;
mod pool;
mod worker;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub use {
    dispatcher::{Assignment, Slots},
    pool::{Running, start as start_pool},
};

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::clock::Clock;
use crate::handler::Roster;
use crate::shutdown::{Phase, Shutdown};
use crate::work::{Stop, WorkSource};

/// Most attempts that one process runs at once; configuration refuses more (contract 7).
pub const WORKERS_MAX: usize = 1024;

/// The running of attempts. Ends when its source is closed.
pub struct Runner {
    threads: Vec<JoinHandle<()>>,
}

impl Runner {
    /// Starts `workers` threads and the one that feeds them; none at all for 0. From `Phase::Releasing` on, running
    /// attempts are told `Stop::Shutdown` and new claims are given back at once.
    ///
    /// # Errors
    /// The operating system gives no thread. Those started end when the source is closed.
    pub fn start(
        source: Arc<dyn WorkSource>,
        handlers: Arc<Roster>,
        clock: Arc<dyn Clock>,
        workers: usize,
        shutdown: &Shutdown,
    ) -> io::Result<Self> {
        if workers == 0 {
            return Ok(Self { threads: Vec::new() });
        }
        let running = Arc::new(pool::Running::new(workers));
        let releasing = running.clone();
        shutdown.on(Phase::Releasing, move || releasing.stop_all(Stop::Shutdown));
        let (pool, mut threads) = pool::start(&source, &handlers, &clock, workers, &running)?;
        threads.push(dispatcher::start(source, pool, workers)?);
        Ok(Self { threads })
    }

    /// Waits until the source is closed, every attempt is over and every thread has ended. Blocks.
    pub fn join(self) {
        for thread in self.threads {
            // A thread that panicked has said so; the others are still waited for.
            let _ = thread.join();
        }
    }
}
