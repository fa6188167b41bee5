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
    let (freed, free) = bounded(slots);
    let mut count = slots;
    loop {
        count += wait_for_slots(&free, count)?;
        for claim in source.claim(count)? {
            let assignment = Assignment { claim, slot: Slot { freed: freed.clone() } };
            pool.send(assignment).map_err(|_| Closed)?;
            count = count.saturating_sub(1);
        }
    }
}

/// Slots that have become free; waits for one if there is none.
fn wait_for_slots(free: &Receiver<()>, have: usize) -> Result<usize, Closed> {
    let first = if have == 0 {
        free.recv().map_err(|_| Closed)?;
        1
    } else {
        0
    };
    Ok(first + free.try_iter().count())
}
