//! Progress tokens of calls that became tasks: they stay good until the task has ended, and are told where its result is awaited.
//!
//! In: a task and the token of its call. Out: the token. In memory only, of the newest tasks of a session; an open stream carries its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::job::JobId;

/// Tasks of a session whose tokens are remembered, the newest. Of older ones no progress is told, unless `tasks/result` brings a token.
pub const TOKENS_MAX: usize = 64;

/// See the head of this file.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Tokens(Mutex<VecDeque<(JobId, Box<str>)>>);

impl Tokens {
    /// Remembers the token, as written.
    pub(super) fn keep(&self, task: JobId, token: &str) {
        let mut tokens = self.tokens();
        if tokens.len() == TOKENS_MAX {
            tokens.pop_front();
        }
        tokens.push_back((task, token.into()));
    }

    /// The token of the call that made this task.
    pub(super) fn of(&self, task: JobId) -> Option<Box<str>> {
        self.tokens().iter().find(|(of, _)| *of == task).map(|(_, token)| token.clone())
    }

    fn tokens(&self) -> MutexGuard<'_, VecDeque<(JobId, Box<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_the_newest_tasks_are_remembered() {
        let tokens = Tokens::default();
        for n in 0..=TOKENS_MAX as u128 {
            tokens.keep(JobId::from_u128(n), &n.to_string());
        }
        assert_eq!(tokens.of(JobId::from_u128(0)), None);
        assert_eq!(tokens.of(JobId::from_u128(TOKENS_MAX as u128)).as_deref(), Some("64"));
    }
}
