//! `log`: what a job's program has said of itself, until now or until the job ends.
//!
//! In: a job. Out: lines, each once. What an attempt logs can be read once the attempt has ended, so that is when `--follow` tells more.

use std::ops::ControlFlow;

use serde_json::Value;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::follow::{Event, Told, follow};
use super::jobs::check_id;
use super::output::Output;
use crate::job::JobId;

/// Whose log.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// The job
    id: String,
    /// Go on until the job has ended: an attempt's lines come once it has ended
    #[arg(long, short)]
    follow: bool,
}

/// Shows a job's log.
///
/// # Errors
/// What the server refuses; `Unreachable`, with `--follow` if it does not come back.
pub fn log(client: &Client, output: &Output, wish: &Wish) -> Result<Ending, Failure> {
    let id = check_id(&wish.id)?;
    let mut reader = Reader { client, output, id, cursor: None };
    reader.read_on()?;
    if wish.follow && !has_ended(client, id)? {
        reader.follow()?;
        reader.read_on()?;
    }
    Ok(Ending::Done)
}

fn has_ended(client: &Client, id: JobId) -> Result<bool, Failure> {
    let job = client.get(&format!("/api/jobs/{id}"), &[])?.json()?;
    Ok(job["status"].as_str().and_then(Ending::of_status).is_some())
}

/// Reads each line once.
struct Reader<'a> {
    client: &'a Client,
    output: &'a Output,
    id: JobId,
    cursor: Option<String>,
}

impl Reader<'_> {
    /// Tells what is there by now.
    fn read_on(&mut self) -> Result<(), Failure> {
        loop {
            let query: Vec<_> = self.cursor.clone().map(|cursor| ("cursor", cursor)).into_iter().collect();
            let page = self.client.get(&format!("/api/jobs/{}/log", self.id), &query)?.json()?;
            for line in page["lines"].as_array().into_iter().flatten() {
                self.tell(line)?;
            }
            self.cursor = page["cursor"].as_str().map(str::to_owned).or(self.cursor.take());
            if page["hasMore"] != true {
                return Ok(());
            }
        }
    }

    fn tell(&self, line: &Value) -> Result<(), Failure> {
        if self.output.json {
            return self.output.value(line);
        }
        let message = line["message"].as_str().unwrap_or_default();
        match line["level"].as_str() {
            None | Some("info") => self.output.line(message),
            Some(level) => self.output.line(&format!("{level}: {message}")),
        }
    }

    /// Tells more whenever an attempt has ended, until the job has.
    fn follow(&mut self) -> Result<(), Failure> {
        let path = format!("/api/jobs/{}/events", self.id);
        let mut trouble = None;
        follow(self.client, &path, None, &mut |told| {
            let read = match &told {
                Told::Event(event) if leaves_attempt(event) => self.read_on(),
                Told::Event(_) | Told::Reset(_) | Told::Back => Ok(()),
                Told::Away => {
                    self.output.note("the server is away; reconnecting");
                    Ok(())
                }
            };
            match (read, told) {
                // It has ended, and its log was read.
                (Ok(()), Told::Event(event)) if event.ending().is_some() => ControlFlow::Break(()),
                // The stream breaks off as well, and what was missed is read when the job goes on, or at the end.
                (Ok(()) | Err(Failure::Unreachable { .. } | Failure::BrokeOff { .. }), _) => ControlFlow::Continue(()),
                (Err(failure), _) => {
                    trouble = Some(failure);
                    ControlFlow::Break(())
                }
            }
        })?;
        trouble.map_or(Ok(()), Err)
    }
}

/// Whether there may be more of the log now.
fn leaves_attempt(event: &Event) -> bool {
    let is_retry = event.event_type == "job.progress" && event.payload.get("retry").is_some();
    is_retry || event.ending().is_some() || ["job.started", "job.input_required"].contains(&event.event_type.as_str())
}
