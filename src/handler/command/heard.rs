//! What becomes of an attempt whose program wrote this and ended so: the reading half of a program, without a child.
//!
//! In: pieces of output and an exit status. Out: the outcome. For the fuzz target; not part of a release build.

use std::process::ExitStatus;

use super::lines::{Lines, Long, TooLong};
use super::protocol::Story;
use super::pump::{Ended, STDERR_LINE_MAX, Sink, Why};
use super::{Form, Program};
use crate::handler::RunContext;
use crate::job::Outcome;

/// One read from a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Of stdout.
    Stdout(&'a [u8]),
    /// Of stderr.
    Stderr(&'a [u8]),
}

impl Program {
    /// The outcome of an attempt in which these pieces are read, in order, before the program exits with `status`.
    /// As with a child, what comes on stdout behind a violation is passed over.
    pub fn hear(&self, pieces: &[Piece<'_>], status: ExitStatus, context: &RunContext<'_>) -> Outcome {
        let heard = match self.settings.output {
            Form::Text | Form::Json => {
                let mut sink = self.collected();
                let ended = Ended { status, why: follow(pieces, &mut sink, context), said: None };
                self.collected_outcome(sink, ended)
            }
            Form::Events => {
                let mut sink = Story::new(context);
                let ended = Ended { status, why: follow(pieces, &mut sink, context), said: None };
                sink.into_end().and_then(|end| self.story_outcome(end, ended))
            }
        };
        heard.unwrap_or_else(|outcome| outcome)
    }
}

fn follow(pieces: &[Piece<'_>], sink: &mut dyn Sink, context: &RunContext<'_>) -> Option<Why> {
    let mut log = Lines::new(STDERR_LINE_MAX, Long::Cut);
    let mut why = None;
    for piece in pieces {
        match piece {
            Piece::Stdout(bytes) if why.is_none() => {
                why = sink
                    .take(bytes)
                    .and_then(|()| sink.replies().map(drop))
                    .err()
                    .map(|outcome| Why::Violation(Box::new(outcome)));
            }
            Piece::Stdout(_) => {}
            Piece::Stderr(bytes) => {
                // Long lines are cut here, so none is too long.
                let _: Result<(), TooLong> = log.push(bytes, |line| {
                    context.log(&String::from_utf8_lossy(line));
                    Ok(())
                });
            }
        }
    }
    if let Some(line) = log.finish() {
        context.log(&String::from_utf8_lossy(&line));
    }
    why
}
