//! Calls of a session that became tasks: their progress tokens, which stay good until the task has ended, and whose status its standing stream tells.
//!
//! In: a task and the token of its call. Out: the token, the tasks. In memory only, of the newest tasks of a session; an open stream carries its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::job::JobId;

/// Tasks of a session that are remembered, the newest. Of older ones no status is told, and no progress unless `tasks/result` brings a token.
pub const STARTED_MAX: usize = 64;

/// See the head of this file.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Started {
    tasks: Mutex<VecDeque<(JobId, Option<Box<str>>)>>,
    changed: Notify,
}

impl Started {
    /// Remembers a task, and its call's token as written.
    pub(super) fn keep(&self, task: JobId, token: Option<&str>) {
        {
            let mut tasks = self.tasks();
            if tasks.iter().any(|(known, _)| *known == task) {
                return;
            }
            if tasks.len() == STARTED_MAX {
                tasks.pop_front();
            }
            tasks.push_back((task, token.map(Into::into)));
        }
        self.changed.notify_waiters();
    }

    /// The token of the call that made this task.
    pub(super) fn token_of(&self, task: JobId) -> Option<Box<str>> {
        self.tasks().iter().find(|(of, _)| *of == task).and_then(|(_, token)| token.clone())
    }

    /// Every one.
    pub(in crate::mcp) fn all(&self) -> Vec<JobId> {
        self.tasks().iter().map(|(task, _)| *task).collect()
    }

    /// Whether this is one.
    pub(in crate::mcp) fn has(&self, task: JobId) -> bool {
        self.tasks().iter().any(|(known, _)| *known == task)
    }

    /// Returns when there are others since this was called.
    pub(in crate::mcp) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    fn tasks(&self) -> MutexGuard<'_, VecDeque<(JobId, Option<Box<str>>)>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_tasks_are_remembered_with_their_tokens() {
        let started = Started::default();
        for n in 0..=STARTED_MAX as u128 {
            started.keep(JobId::from_u128(n), Some(&n.to_string()));
        }
        // A call that is made again with its key finds its task, which has its token.
        started.keep(JobId::from_u128(STARTED_MAX as u128), Some("another"));
        assert_eq!((started.token_of(JobId::from_u128(0)), started.has(JobId::from_u128(0))), (None, false));
        assert_eq!(started.token_of(JobId::from_u128(STARTED_MAX as u128)).as_deref(), Some("64"));
        assert_eq!(started.all().len(), STARTED_MAX);
    }
}
