//! After a start: attempts that the last process held have ended with it.
//!
//! In: the store. Out: the heads of unfinished jobs, none of them held. Runs before the port is bound; takes as long as
//! there is unfinished work, however long the history is.

use std::collections::HashMap;
use std::sync::Arc;

use super::group::{GROUP_MAX, Group, Live, Table};
use super::thread::Fatal;
use crate::clock::Clock;
use crate::fault::{self, Point};
use crate::job::machine::{self, Moment};
use crate::job::{Command, Head, JobId, Rules, State, Throttle, retry};
use crate::store::Store;

/// Loads unfinished jobs and ends the attempts of the process that died. Blocks on the disk.
///
/// # Errors
/// `Fatal::Store` if the store fails; `Fatal::Bug` if its records do not fit the machine.
pub fn recover(
    store: &dyn Store,
    clock: &dyn Clock,
    rules: &HashMap<Arc<str>, Rules>,
) -> Result<Vec<Arc<Head>>, Fatal> {
    let mut table = Table::default();
    for head in store.live().map_err(Fatal::Store)? {
        table.live.insert(head.job.id(), Live { head: Arc::new(head), held: None });
    }
    fault::point(Point::Recovering);
    let is_held = |live: &&Live| matches!(live.head.job.state, State::InProgress { .. });
    let mut held: Vec<(JobId, u32)> =
        table.live.values().filter(is_held).map(|live| (live.head.job.id(), live.head.job.interruptions)).collect();
    // Oldest first: one order for one store.
    held.sort_unstable();
    let charges = retry::charges(&held);
    for some in charges.chunks(GROUP_MAX) {
        interrupt(store, clock, rules, &mut table, some)?;
    }
    if !charges.is_empty() {
        tracing::warn!(jobs = charges.len(), "attempts were interrupted by the end of the last process");
    }
    fault::point(Point::Recovered);
    Ok(table.live.into_values().map(|live| live.head).collect())
}

fn interrupt(
    store: &dyn Store,
    clock: &dyn Clock,
    rules: &HashMap<Arc<str>, Rules>,
    table: &mut Table,
    charges: &[(JobId, bool)],
) -> Result<(), Fatal> {
    let mut group = Group::new(clock.now());
    let default_rules = Rules::default();
    for (id, charged) in charges {
        let Some(job) = table.live.get(id).map(|live| &live.head.job) else { continue };
        let rules = rules.get(&job.spec.job_type).unwrap_or(&default_rules);
        let moment = Moment { now: group.now, rules, throttle: &Throttle::default(), spread: clock.chance() };
        let command = Command::Interrupt { charged: *charged };
        let entries = machine::decide(job, &mut None, &command, &moment)
            .map_err(|refusal| Fatal::Bug(format!("{id} cannot be interrupted: {refusal:?}")))?;
        group.step(table, *id, entries, Vec::new()).map_err(super::decide::bug)?;
    }
    let results = store.commit(&group.changes).map_err(Fatal::Store)?;
    for (change, result) in group.changes.iter().zip(results) {
        let position = result.map_err(|_| Fatal::Bug("a job changed during recovery".into()))?;
        for part in &change.jobs {
            let (head, _) = part.landed(position);
            match head.job.status().is_terminal() {
                true => table.live.remove(&head.job.id()),
                false => table.live.insert(head.job.id(), Live { head, held: None }),
            };
        }
    }
    Ok(())
}
