//! `submit`: makes a job, and on demand follows it and prints its result.
//!
//! In: a type and a payload as text, file or stdin. Out: the id, or the result; progress goes to stderr.

use std::io::Read;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::output::{Output, Stream};
use super::watch;
use crate::config;

/// Largest payload that is read from a file or stdin; what the server takes is `server.max_body`.
pub const PAYLOAD_MAX: u64 = 1 << 30;
/// Most of a result that is printed, in bytes: more than any server keeps by default.
pub const RESULT_MAX: u64 = 1 << 30;

/// What to submit.
#[derive(Debug, clap::Args)]
pub struct Wish {
    /// The job's type
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// The arguments as JSON, as @FILE, or - for stdin
    #[arg(value_name = "JSON | @FILE | -", default_value = "{}")]
    payload: String,
    /// Follow the job and print its result
    #[arg(long)]
    wait: bool,
    /// Idempotency key: the same key and payload name the same job
    #[arg(long)]
    key: Option<String>,
    /// Not before so long from now, such as 10s
    #[arg(long, value_name = "DURATION", conflicts_with = "run_at")]
    delay: Option<String>,
    /// Not before this time, such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    run_at: Option<String>,
    /// From -100 to 100: of those that are ready the highest runs first [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Canceled if it has not ended so long from now, such as 1h [default: the tool's expires_in]
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
    /// A word to find it by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

/// What the server is sent. The payload goes as it was written: no number loses its digits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(rename = "type")]
    job_type: &'a str,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
}

/// Submits, and follows if it is asked to.
///
/// # Errors
/// `Usage` if the payload is no JSON; what the server refuses.
pub fn submit(client: &Client, output: &Output, wish: &Wish) -> Result<Ending, Failure> {
    let body = Body {
        job_type: &wish.job_type,
        payload: &payload(&wish.payload)?,
        idempotency_key: wish.key.as_deref(),
        delay_ms: length("--delay", wish.delay.as_deref())?,
        run_at: wish.run_at.as_deref(),
        priority: wish.priority,
        expires_in_ms: length("--expires", wish.expires.as_deref())?,
        tags: &wish.tags,
    };
    let job = client.post("/api/jobs", &body)?.json()?;
    let no_id = || Failure::Refused("the answer names no job: is this a longhaul server?".to_owned());
    let id = job["id"].as_str().ok_or_else(no_id)?.to_owned();
    if !wish.wait {
        if output.json {
            output.value(&job)?
        } else {
            output.line(&id)?
        }
        return Ok(Ending::Done);
    }
    output.note(&id);
    let ending = watch::job(client, output, &id, Stream::Err)?;
    if output.json {
        output.value(&client.get(&format!("/api/jobs/{id}"), &[])?.json()?)?;
    } else if ending == Ending::Done {
        print_result(client, output, &id)?;
    }
    Ok(ending)
}

/// The result as JSON; a text as itself, however long.
fn print_result(client: &Client, output: &Output, id: &str) -> Result<(), Failure> {
    let job = client.get(&format!("/api/jobs/{id}"), &[])?.json()?;
    match job.get("result") {
        Some(Value::String(text)) => output.line(text),
        Some(result) => output.value(result),
        None if job.get("resultUrl").is_some() => {
            let mut result = String::new();
            let body = client.body(&format!("/api/jobs/{id}/result"))?.into_reader();
            body.take(RESULT_MAX).read_to_string(&mut result).map_err(|why| Failure::Refused(why.to_string()))?;
            match serde_json::from_str::<String>(&result) {
                Ok(text) => output.line(&text),
                Err(_) => output.line(&result),
            }
        }
        None => output.line("null"),
    }
}

/// The milliseconds of a flag.
fn length(flag: &str, written: Option<&str>) -> Result<Option<u64>, Failure> {
    let Some(written) = written else { return Ok(None) };
    let no_length =
        || Failure::Usage(format!("{flag} {written}: expected a duration such as 250ms, 10s, 5m, 1h or 7d"));
    config::read_length(written).map(|length| Some(length.0)).ok_or_else(no_length)
}

/// A JSON value as it was written: here, in a file, or on stdin.
///
/// # Errors
/// `Usage` if it is none.
pub fn payload(written: &str) -> Result<Box<RawValue>, Failure> {
    let (text, from) = match written.strip_prefix('@') {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|why| Failure::Usage(format!("{path}: {why}")))?;
            (read(file, path)?, path)
        }
        None if written == "-" => (read(std::io::stdin().lock(), "stdin")?, "stdin"),
        None => (written.to_owned(), "what was given"),
    };
    serde_json::from_str(&text).map_err(|why| Failure::Usage(format!("{from} is no JSON: {why}{}", hint(written))))
}

/// How to send what is no JSON.
fn hint(written: &str) -> String {
    let file = match written.strip_prefix('@') {
        Some(path) => path,
        None if written == "-" => "FILE",
        None => return String::new(),
    };
    format!(
        "\nA text goes as a field, such as `text`, of a JSON object: jq -Rs '{{text: .}}' {file}, piped to the same command with - instead"
    )
}

fn read(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = source.take(PAYLOAD_MAX + 1).read_to_string(&mut text);
    read.map_err(|why| Failure::Usage(format!("{name}: {why}")))?;
    if text.len() as u64 > PAYLOAD_MAX {
        return Err(Failure::Usage(format!("{name} is larger than {}", config::show_size(config::Size(PAYLOAD_MAX)))));
    }
    Ok(text)
}
