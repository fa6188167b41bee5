//! Runs a program for each job: a child process in its own process group.
//!
//! In: a claim and its payload, on stdin and in `{payload.field}` arguments. Out: what the program wrote and how it exited, as
//! contract 4 reads it. No shell, no outliving of the attempt by the group, no waiting for a grandchild that holds a pipe.

mod arguments;
mod ask;
mod child;
mod collected;
mod exit;
#[cfg(any(debug_assertions, feature = "trial"))]
mod heard;
mod json;
mod lines;
mod program;
mod protocol;
mod pump;
mod said;
pub mod strays;
mod text;

#[cfg(test)]
mod tests;

#[cfg(any(debug_assertions, feature = "trial"))]
pub use self::heard::Piece;
pub use self::program::missing;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use self::child::Child;
use self::collected::Collected;
use self::protocol::Story;
use self::pump::{Ended, Input, Sink, Why};
use super::{Handler, RunContext};
use crate::job::{Class, Millis, Outcome, Output};
use crate::work::Claim;

/// How the program's stdout is read (contract 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The result is the output as text.
    #[default]
    Text,
    /// The output is one JSON value.
    Json,
    /// Each line is a JSON object: progress, partials, log lines, the result.
    Events,
}

/// A program as it is configured: `run = { kind = "command", … }` and what else of its tool concerns it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// How stdout is read.
    pub output: Form,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Where it runs; the server's own directory if absent.
    pub cwd: Option<PathBuf>,
    /// Exits that are tried again, besides 75.
    pub transient_exit_codes: Vec<i32>,
    /// Exits that mean bad input, besides 64, 65, 66, 77, 78.
    pub permanent_exit_codes: Vec<i32>,
    /// From SIGTERM to SIGKILL.
    pub cancel_grace: Millis,
    /// How long the program is kept after its last question while any is open.
    pub ask_hold: Millis,
    /// Most bytes of a result in `text` and `json`; beyond, the job fails as `output_too_large`.
    pub max_result: u64,
}

/// Says what is wrong with a result; nothing if it fits the tool's `output_schema`.
pub type Check = Arc<dyn Fn(&Value) -> Vec<String> + Send + Sync>;

/// Does the work of one job type by running a program.
pub struct Program {
    settings: Settings,
    arguments: arguments::Template,
    check: Option<Check>,
}

impl Program {
    /// A handler for a tool; `check` if it has an output schema.
    ///
    /// # Errors
    /// What is wrong with `settings.command`, for whoever wrote it.
    pub fn new(settings: Settings, check: Option<Check>) -> Result<Self, String> {
        let arguments = arguments::Template::parse(&settings.command)?;
        Ok(Self { settings, arguments, check })
    }

    /// The fields of the payload that its arguments name, each with the number of its argument; the program is number 0.
    pub fn fields(&self) -> impl Iterator<Item = (usize, &str)> {
        self.arguments.fields()
    }

    /// `Err` is an outcome as well: the one of an attempt that ended early.
    fn attempt(&self, claim: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Result<Outcome, Outcome> {
        let payload = json::compact(&String::from_utf8_lossy(payload))
            .ok_or_else(|| Outcome::failed(Class::Permanent, None, "the payload is nested too deeply"))?;
        let command = self.arguments.fill(&payload)?;
        let mut child = Child::spawn(&self.settings, &command, claim)?;
        match self.settings.output {
            Form::Text | Form::Json => {
                let mut sink = self.collected();
                let ended = self.pump(&mut child, Input::whole(payload), &mut sink, context)?;
                self.collected_outcome(sink, ended)
            }
            Form::Events => {
                let mut sink = Story::new(context);
                let job = protocol::job_line(claim, &payload, &context.answers()?);
                let ended = self.pump(&mut child, Input::open(job), &mut sink, context)?;
                self.story_outcome(sink.into_end()?, ended)
            }
        }
    }

    fn pump(
        &self,
        child: &mut Child,
        input: Input,
        sink: &mut dyn Sink,
        context: &RunContext<'_>,
    ) -> Result<Ended, Outcome> {
        pump::run(child, input, sink, context, &self.settings).map_err(|why| {
            context.log(&format!("longhaul: {why}"));
            Outcome::failed(Class::Transient, None, "the program could not be followed")
        })
    }

    /// Whether stdout counts: only if the program ended by itself, and well.
    fn judge(&self, ended: Ended) -> Result<(), Outcome> {
        match ended.why {
            None => exit::judge(ended.status, ended.said.as_deref(), &self.settings),
            Some(why) => Err(why.into_outcome()),
        }
    }

    /// Takes the whole output of a program.
    fn collected(&self) -> Collected {
        let max = self.settings.max_result;
        match self.settings.output {
            Form::Json => Collected::json(max),
            Form::Text | Form::Events => Collected::text(max),
        }
    }

    /// What the whole output of a program means.
    fn collected_outcome(&self, output: Collected, ended: Ended) -> Result<Outcome, Outcome> {
        self.judge(ended)?;
        self.checked(output.into_output()?)
    }

    /// What an `events` program's end means. A result that was reported and confirmed by exit 0 counts even if the program
    /// was told to stop in between; an `error` line decides over the exit code. One that asked, and ended well without
    /// either, comes back once all is answered.
    fn story_outcome(&self, end: protocol::End, ended: Ended) -> Result<Outcome, Outcome> {
        let (well, said) = (ended.status.success(), ended.said.as_deref());
        match (end, ended.why) {
            (_, Some(Why::Violation(outcome))) => Err(*outcome),
            (protocol::End::Result(output), None | Some(Why::Stopped(_) | Why::Late | Why::Asked)) if well => {
                self.checked(output)
            }
            (_, Some(why)) => Err(why.into_outcome()),
            (protocol::End::Error(failing), None) => Err(Outcome::Failed(failing)),
            (protocol::End::Result(_), None) => Err(exit::after_result(ended.status, said)),
            (protocol::End::Asked, None) => {
                exit::judge(ended.status, said, &self.settings)?;
                Ok(Outcome::Asked)
            }
            (protocol::End::Silent, None) => {
                exit::judge(ended.status, said, &self.settings)?;
                self.checked(Output::default())
            }
        }
    }

    fn checked(&self, output: Output) -> Result<Outcome, Outcome> {
        let Some(check) = self.check.as_ref().filter(|_| !output.is_error) else { return Ok(Outcome::Done(output)) };
        let data = output.data.as_deref().unwrap_or(b"null");
        let violations = match serde_json::from_slice(data) {
            Ok(value) => check(&value),
            Err(why) => vec![why.to_string()],
        };
        if violations.is_empty() {
            return Ok(Outcome::Done(output));
        }
        let message = format!("the result does not fit the tool's output schema: {}", violations.join("; "));
        Err(Outcome::failed(Class::Fatal, Some("output_schema"), &message))
    }
}

impl Handler for Program {
    fn run(&self, claim: &Claim, payload: &Bytes, context: &RunContext<'_>) -> Outcome {
        match self.attempt(claim, payload, context) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }
}
