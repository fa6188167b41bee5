//! The types of events that there are to subscribe to, and what a subscription to one lets through.
//!
//! In: a name and arguments. Out: a filter on the log. A subscription has one name, so that following all of a job takes the
//! catch-all. A job that does not exist, or is another principal's, is accepted and stays quiet: the two look the same.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::rpc::{self, Error, INVALID_PARAMS, present};
use super::dialect::{Dialect, Fault};
use crate::events::{Filter, Label};
use crate::job::json::wrong;
use crate::job::{EVENT_TYPES, JobId};

/// The catch-all: every type.
pub(super) const ANY: &str = "job.event";
/// Longest `jobId` of a subscription, in bytes; no job has a longer one.
pub const JOB_ID_MAX: usize = 128;

/// What a subscription is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The type that was subscribed to.
    pub name: &'static str,
    /// Only this type; `None`: all.
    pub event_type: Option<&'static str>,
    /// Only this job's, as it was written.
    pub job: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    #[serde(borrow, default, rename = "jobId", deserialize_with = "present")]
    job: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type", deserialize_with = "present")]
    event_type: Option<&'a RawValue>,
}

impl Wanted {
    /// A subscription to this type with these arguments.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, -32602 if the arguments do not fit its schema.
    pub(super) fn of(dialect: &Dialect, name: &str, arguments: Option<&RawValue>) -> Result<Self, Error> {
        let known = names().find(|known| *known == name);
        let name = known.ok_or_else(|| dialect.error(Fault::NoEvent(name)))?;
        let own = (name != ANY).then_some(name);
        let Some(arguments) = arguments else { return Ok(Self { name, event_type: own, job: None }) };
        let refuse = |why: String| Error::answered(INVALID_PARAMS, format!("params.arguments: {why}"));
        if !rpc::is_object(arguments) {
            return Err(refuse("must be an object".into()));
        }
        let Arguments { job, event_type } = serde_json::from_str(arguments.get())
            .map_err(|why| Error::answered(INVALID_PARAMS, wrong("params.arguments", arguments.get(), &why)))?;
        let job = text(job, "jobId").map_err(refuse)?;
        if job.as_ref().is_some_and(|job| job.len() > JOB_ID_MAX) {
            return Err(refuse(format!("jobId is longer than {JOB_ID_MAX} bytes")));
        }
        let event_type = match text(event_type, "type").map_err(refuse)? {
            None => own,
            Some(asked) => {
                let fits = |known: &&&'static str| **known == &*asked && own.is_none_or(|own| own == **known);
                let known = EVENT_TYPES.iter().find(fits);
                Some(*known.ok_or_else(|| refuse(format!("type is none that {name} has")))?)
            }
        };
        Ok(Self { name, event_type, job: job.map(|job| job.as_ref().into()) })
    }

    /// What passes on the log. A job's type may have the name of an event's, so that `admits` has the last word.
    pub(super) fn filter(&self) -> Filter {
        // No job has the id 0: what is no id at all stays as quiet as one that nobody has.
        let job = |text: &str| text.parse().unwrap_or(JobId::from_u128(0));
        Filter {
            types: self.event_type.map(Into::into).into_iter().collect(),
            jobs: self.job.as_deref().map(job).into_iter().collect(),
            ..Filter::default()
        }
    }

    /// Whether an event of this type passes.
    pub(super) fn admits(&self, label: &Label<'_>) -> bool {
        self.event_type.is_none_or(|wanted| wanted == label.event_type)
    }
}

fn text<'a>(raw: Option<&'a RawValue>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    raw.map(|raw| rpc::text(raw).ok_or_else(|| format!("{name} must be a string"))).transpose()
}

fn names() -> impl Iterator<Item = &'static str> {
    EVENT_TYPES.into_iter().chain([ANY])
}

/// Every type as `events/list` tells it, delivered in these ways.
pub(super) fn list(delivery: &[&str]) -> Vec<Value> {
    let kind = |name| {
        json!({
            "name": name,
            "description": description(name),
            "delivery": delivery,
            "inputSchema": input(name),
            "payloadSchema": payload(name),
        })
    };
    names().map(kind).collect()
}

fn description(name: &str) -> String {
    let what = match name {
        "job.created" => "A job was created.",
        "job.started" => "An attempt at a job has started.",
        "job.progress" => "A job says how far it is, or that it will be tried again.",
        "job.partial" => "A job has a new partial result.",
        "job.input_required" => "A job asks and waits for an answer.",
        "job.input_received" => "A job was answered.",
        "job.completed" => "A job has completed; small results are in the payload, others are linked.",
        "job.failed" => "A job has failed for good.",
        "job.canceled" => "A job was canceled.",
        ANY => "Anything that happened to a job; data.type says what.",
        _ => "Something happened to a job; data.type says what.",
    };
    format!("{what} Without jobId: of every job that you may see.")
}

fn input(name: &str) -> Value {
    let event_type = if name == ANY { json!({ "enum": EVENT_TYPES }) } else { json!({ "const": name }) };
    json!({
        "type": "object",
        "properties": { "jobId": { "type": "string", "maxLength": JOB_ID_MAX }, "type": event_type },
        "additionalProperties": false,
    })
}

fn payload(name: &str) -> Value {
    let event_type = if name == ANY { json!({ "enum": EVENT_TYPES }) } else { json!({ "const": name }) };
    json!({
        "type": "object",
        "required": ["event_id", "type", "job_id", "timestamp", "payload"],
        "properties": {
            "event_id": { "type": "string" },
            "type": event_type,
            "job_id": { "type": "string" },
            "timestamp": { "type": "string", "format": "date-time" },
            "payload": { "type": "object" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, arguments: &str) -> Result<Wanted, i64> {
        let arguments = serde_json::from_str(arguments).expect("is JSON");
        Wanted::of(&Dialect::default(), name, Some(arguments)).map_err(|error| error.code)
    }

    #[test]
    fn arguments_fit_the_schema_that_is_told_or_are_refused() {
        let job = "0190b5a0-0000-7000-8000-000000000000";
        let good = wanted("job.failed", &format!(r#"{{"jobId":"{job}","type":"job.failed"}}"#)).expect("fits");
        assert_eq!(good.filter().jobs, [job.parse::<JobId>().expect("is one")]);
        assert_eq!(wanted(ANY, r#"{"type":"job.failed"}"#).expect("fits").event_type, Some("job.failed"));
        assert_eq!(wanted(ANY, "{}").expect("fits").event_type, None);
        let schemas: Vec<_> = list(&["poll"]);
        for (name, arguments, code) in [
            ("job.nothing", "{}", -32023),
            (ANY, "[]", -32602),
            (ANY, "null", -32602),
            (ANY, r#"{"jobId":3}"#, -32602),
            (ANY, r#"{"jobId":null}"#, -32602),
            (ANY, r#"{"type":"job.event"}"#, -32602),
            ("job.failed", r#"{"type":"job.created"}"#, -32602),
            ("job.failed", r#"{"job":"x"}"#, -32602),
            ("job.failed", r#"{"jobId":"a","jobId":"b"}"#, -32602),
        ] {
            assert_eq!(wanted(name, arguments), Err(code), "{name} {arguments}");
            let Some(kind) = schemas.iter().find(|kind| kind["name"] == name) else { continue };
            if !arguments.contains(r#""a","jobId""#) {
                let value: Value = serde_json::from_str(arguments).expect("is JSON");
                assert!(!jsonschema::is_valid(&kind["inputSchema"], &value), "{name} {arguments}");
            }
        }
    }

    #[test]
    fn what_is_no_id_is_as_quiet_as_an_unknown_one() {
        let filter = wanted(ANY, r#"{"jobId":"nonsense"}"#).expect("is accepted").filter();
        assert_eq!(filter.jobs, [JobId::from_u128(0)]);
    }
}
