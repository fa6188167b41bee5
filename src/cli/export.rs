//! `export`: jobs with their payloads, results and events, for people and their tools.
//!
//! In: filters. Out: a line of JSON or a row of CSV for each job, newest first, as each is when it is read: a backup is
//! something else. Asks for one job at a time.

use std::io::Write;

use serde_json::{Value, json};

use super::backup::unwritten;
use super::client::Client;
use super::failure::{Ending, Failure};
use super::jobs::{Filters, each};
use super::output::Output;

/// What `export` is told.
#[derive(Debug, clap::Args)]
pub struct Wish {
    #[command(flatten)]
    filters: Filters,
    /// A row for each job instead of a line of JSON; without events
    #[arg(long, conflicts_with = "events")]
    csv: bool,
    /// With the events of each job
    #[arg(long)]
    events: bool,
    /// Where to; without it to stdout
    #[arg(long, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
}

/// The columns of CSV. Times as in RFC 3339; payload and result as JSON.
const COLUMNS: &[&str] = &[
    "id",
    "type",
    "status",
    "owner",
    "priority",
    "attempts",
    "createdAt",
    "startedAt",
    "finishedAt",
    "tags",
    "idempotencyKey",
    "errorClass",
    "errorCode",
    "errorMessage",
    "resultSummary",
    "payload",
    "result",
];

/// Exports jobs, all that the filters admit unless there is a limit.
///
/// # Errors
/// What the server refuses; `Usage` if the file cannot be written; `DiskFull`.
pub fn export(client: &Client, output: &Output, wish: &Wish) -> Result<Ending, Failure> {
    let mut sink = Sink::open(output, wish)?;
    if wish.csv {
        sink.row(COLUMNS.iter().copied())?;
    }
    each(client, &wish.filters, |line| {
        let Some(id) = line["id"].as_str() else { return Ok(()) };
        let Some(mut job) = whole(client, id)? else { return Ok(()) };
        if wish.csv {
            return sink.row(COLUMNS.iter().map(|column| cell(&job, column)));
        }
        if wish.events {
            let Some(events) = events(client, id)? else { return Ok(()) };
            job["events"] = events;
        }
        sink.line(&job)
    })?;
    sink.finish()?;
    Ok(Ending::Done)
}

/// The job with its payload and result; `None` if it was forgotten meanwhile.
fn whole(client: &Client, id: &str) -> Result<Option<Value>, Failure> {
    let answer = client.find(&format!("/api/jobs/{id}"), &[("inline", "true".to_owned())])?;
    answer.map(|answer| answer.json()).transpose()
}

/// All events of a job, page by page.
fn events(client: &Client, id: &str) -> Result<Option<Value>, Failure> {
    let (mut events, mut query) = (Vec::new(), Vec::new());
    loop {
        let Some(answer) = client.find(&format!("/api/jobs/{id}/events"), &query)? else { return Ok(None) };
        let mut page = answer.json()?;
        if let Value::Array(more) = page["events"].take() {
            events.extend(more);
        }
        match page["cursor"].as_str().filter(|_| page["hasMore"] == json!(true)) {
            Some(cursor) => query = vec![("last_event_id", cursor.to_owned())],
            None => return Ok(Some(Value::Array(events))),
        }
    }
}

fn cell(job: &Value, column: &str) -> String {
    let value = match column {
        "errorClass" => &job["error"]["class"],
        "errorCode" => &job["error"]["code"],
        "errorMessage" => &job["error"]["message"],
        // A column that a job has not is null.
        column => &job[column],
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) if column == "result" => Value::String(text.clone()).to_string(),
        Value::String(text) => harmless(text),
        Value::Array(tags) if column == "tags" => {
            harmless(&tags.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// A spreadsheet takes a text that begins so for a formula and runs it.
fn harmless(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{text}") } else { text.to_owned() }
}

/// Where lines go.
enum Sink<'a> {
    Stdout(&'a Output),
    File(std::io::BufWriter<std::fs::File>, std::path::PathBuf),
}

impl<'a> Sink<'a> {
    fn open(output: &'a Output, wish: &Wish) -> Result<Self, Failure> {
        let Some(path) = &wish.out else { return Ok(Self::Stdout(output)) };
        // Never over something that is there.
        let file = std::fs::File::create_new(path).map_err(|why| unwritten(path, &why))?;
        Ok(Self::File(std::io::BufWriter::new(file), path.clone()))
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout(output) => output.bytes(bytes),
            Self::File(file, path) => file.write_all(bytes).map_err(|why| unwritten(path, &why)),
        }
    }

    fn line(&mut self, value: &Value) -> Result<(), Failure> {
        self.bytes(format!("{value}\n").as_bytes())
    }

    fn row(&mut self, cells: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<(), Failure> {
        let mut row = csv::WriterBuilder::new().from_writer(Vec::new());
        let written = row.write_record(cells).map_err(|why| why.to_string());
        let bytes = written.and_then(|()| row.into_inner().map_err(|why| why.to_string()));
        self.bytes(&bytes.map_err(Failure::Usage)?)
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(file, path) => {
                let file = file.into_inner().map_err(|why| unwritten(&path, why.error()))?;
                file.sync_all().map_err(|why| unwritten(&path, &why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text_that_no_spreadsheet_runs() {
        let job = json!({
            "id": "x", "type": "=1+1", "tags": ["a", "b"], "attempts": 2, "payload": {"a": 1}, "result": "-x",
            "error": {"message": "@no", "class": "fatal"},
        });
        let row: Vec<String> = COLUMNS.iter().map(|column| cell(&job, column)).collect();
        let at = |column: &str| row[COLUMNS.iter().position(|name| *name == column).unwrap()].as_str();
        assert_eq!((at("id"), at("type"), at("tags"), at("attempts")), ("x", "'=1+1", "a b", "2"));
        assert_eq!((at("payload"), at("result"), at("finishedAt")), ("{\"a\":1}", "\"-x\"", ""));
        assert_eq!((at("errorMessage"), at("errorClass"), at("errorCode")), ("'@no", "fatal", ""));
    }
}
