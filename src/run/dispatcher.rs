//! Turns free slots into claims: one thread, which sleeps in the source until there is work.
//!
//! In: slots that have become free. Out: claims to the pool. Never holds more claims than there are slots, and a slot is free
//! again only when its attempt's end is durable.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::work::{Claim, Closed, WorkSource};

/// The right to hold one claim. Dropping it, by whatever way, gives the slot back.
pub struct Slot {
    freed: Sender<()>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // There is room for every slot at once; and once the dispatcher has ended nobody counts them any more.
        let _ = self.freed.try_send(());
    }
}

/// A claim and the slot that it fills.
pub struct Assignment {
    /// What to run.
    pub claim: Claim,
    /// Goes along with the attempt's end.
    pub slot: Slot,
}

/// Starts the thread; it ends, and lets the pool end, when the source is closed.
///
/// # Errors
/// The operating system gives no thread.
pub fn start(source: Arc<dyn WorkSource>, pool: Sender<Assignment>, slots: usize) -> io::Result<JoinHandle<()>> {
    let work = move || {
        // Closing is the only way out, and nothing is left to do then.
        let _: Result<(), Closed> = dispatch(&*source, &pool, slots);
    };
    std::thread::Builder::new().name("dispatcher".into()).spawn(work)
}

fn dispatch(source: &dyn WorkSource, pool: &Sender<Assignment>, slots: usize) -> Result<(), Closed> {
    let mut slots = Slots::new(slots);
    loop {
        let want = slots.wait()?;
        for claim in source.claim(want)? {
            pool.send(slots.fill(claim)).map_err(|_| Closed)?;
        }
    }
}

/// The slots that are free.
pub struct Slots {
    freed: Sender<()>,
    free: Receiver<()>,
    count: usize,
}

impl Slots {
    /// So many, all free.
    pub fn new(count: usize) -> Self {
        let (freed, free) = bounded(count);
        Self { freed, free, count }
    }

    /// How many are free right now.
    pub fn free(&mut self) -> usize {
        self.count += self.free.try_iter().count();
        self.count
    }

    /// The same; waits for one if there is none.
    fn wait(&mut self) -> Result<usize, Closed> {
        if self.free() == 0 {
            self.free.recv().map_err(|_| Closed)?;
            self.count += 1;
        }
        Ok(self.free())
    }

    /// Fills one.
    pub fn fill(&mut self, claim: Claim) -> Assignment {
        self.count = self.count.saturating_sub(1);
        Assignment { claim, slot: Slot { freed: self.freed.clone() } }
    }
}
