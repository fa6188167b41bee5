//! `[tools.NAME]`: what a tool says of itself, and what does its work.
//!
//! In: the file's tables. Out: tools that the catalogue will take, each with a `Run`. Runs nothing.

use std::ffi::OsStr;

use serde_json::{Value, json};
use toml::de::DeValue;

use super::complaint::{Complaints, nearest};
use super::form::choice;
use super::raw::{Section, to_json};
use super::setting::{self as key, COMMAND, DEMO, RETRY, Row, TOOL, TOOL_RETENTION, TOOL_TABLES};
use super::{ToolConfig, doubt, read_retry};
use crate::core::{Bound, Keep, Retention};
use crate::handler::{command, demo};
use crate::job::{Millis, RetryPolicy, Rules};
use crate::service::Tool;

/// The helper tools of MCP: no configured tool may take their names.
pub const HELPER_TOOLS: [&str; 8] =
    ["get_job", "wait_for_jobs", "cancel_job", "list_jobs", "answer_job", "view_job", "answer_question", "retry_job"];

/// Longest name of a tool or type (contract 7).
pub const NAME_MAX: usize = 64;

choice!(command::Form, "\"text\", \"json\" or \"events\"",
    "text" => Self::Text, "json" => Self::Json, "events" => Self::Events);

/// What does the work of a tool.
#[derive(Debug, Clone)]
pub enum Run {
    /// A child process.
    Command(command::Settings),
    /// The gift analysis that comes with the binary.
    Demo {
        /// How long each stage takes at least.
        pace: Millis,
    },
    /// The test-only kind.
    #[cfg(any(debug_assertions, feature = "trial"))]
    Trial,
}

#[cfg(not(any(debug_assertions, feature = "trial")))]
const KINDS: &[&str] = &["command", "demo"];
#[cfg(any(debug_assertions, feature = "trial"))]
const KINDS: &[&str] = &["command", "demo", "trial"];

/// All tools of the file, in its order. Their programs are looked for in `path`.
pub(super) fn read(
    top: &Section<'_>,
    retry: &RetryPolicy,
    path: Option<&OsStr>,
    retention: &mut Retention,
    complaints: &mut Complaints,
) -> Vec<ToolConfig> {
    let Some(section) = top.inner("tools", complaints) else { return Vec::new() };
    let mut tools: Vec<ToolConfig> = Vec::new();
    for (name, value) in section.table {
        let name = name.get_ref().as_ref();
        let Some(own) = section.item(name, value, complaints) else { continue };
        check_name(&own, name, complaints);
        let Some(tool) = read_tool(&own, name, retry, complaints) else { continue };
        if let Some(other) = tools.iter().find(|other| other.tool.job_type == tool.tool.job_type) {
            let message = format!("type {:?} has a tool already: {}", tool.tool.job_type, other.tool.name);
            own.refuse("type", complaints, message);
        }
        doubt::tool(&own, &tool, path, complaints);
        let keep = read_keep(&own, &retention.plain, complaints);
        retention.types.insert(tool.tool.job_type.clone(), keep);
        tools.push(tool);
    }
    tools
}

fn read_keep(own: &Section<'_>, plain: &Keep, complaints: &mut Complaints) -> Keep {
    Keep {
        keep: own.take(&key::TOOL_KEEP, complaints).unwrap_or(plain.keep),
        keep_failed: own.take(&key::TOOL_KEEP_FAILED, complaints).unwrap_or(plain.keep_failed),
        bound: Bound {
            max_jobs: own.take(&key::TOOL_MAX_JOBS, complaints),
            max_bytes: own.take(&key::TOOL_MAX_BYTES, complaints).map(|size| size.0),
        },
    }
}

/// What is served when nothing is configured.
pub(super) fn demo(retry: &RetryPolicy) -> ToolConfig {
    let mut tool = plain_tool(demo::NAME, demo::JOB_TYPE);
    tool.rules.retry = retry.clone();
    dress_as_demo(&mut tool);
    ToolConfig { tool, run: Run::Demo { pace: demo::DEFAULT_PACE } }
}

/// What the demo says of itself, where the file does not. It keeps to its own schemas only.
fn dress_as_demo(tool: &mut Tool) {
    tool.title.get_or_insert_with(|| demo::TITLE.to_owned());
    tool.description.get_or_insert_with(|| demo::DESCRIPTION.to_owned());
    tool.input_schema = demo::input_schema();
    tool.output_schema = Some(demo::output_schema());
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(fits)
}

fn check_name(own: &Section<'_>, name: &str, complaints: &mut Complaints) {
    if !is_name(name) {
        let message = format!("expected a name of 1 to {NAME_MAX} of A-Z a-z 0-9 _ . -");
        complaints.add(&own.path, &own.place, message);
    }
    if HELPER_TOOLS.contains(&name) {
        complaints.add(&own.path, &own.place, "is the name of a helper tool: choose another");
    }
}

/// A tool of which nothing has been said.
fn plain_tool(name: &str, job_type: &str) -> Tool {
    Tool {
        name: name.into(),
        job_type: job_type.into(),
        title: None,
        description: None,
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        inline_wait: Millis::default(),
        derive_key: false,
        task_support: crate::service::TaskSupport::Auto,
        expires_in: None,
        cancel_grace: Millis::seconds(5),
        max_result: 64 << 20,
        rules: Rules::default(),
    }
}

fn read_tool(own: &Section<'_>, name: &str, retry: &RetryPolicy, complaints: &mut Complaints) -> Option<ToolConfig> {
    let tables: Vec<&str> = TOOL_TABLES.iter().map(|row| row.key).collect();
    own.check_keys(&[TOOL, RETRY, TOOL_RETENTION], &tables, complaints);
    let mut run = read_run(own, complaints);
    let is_demo = matches!(run, Some(Run::Demo { .. }));
    let job_type = own.take(&key::TYPE, complaints);
    if job_type.as_ref().is_some_and(|job_type| !is_name(job_type)) {
        own.refuse("type", complaints, format!("expected 1 to {NAME_MAX} of A-Z a-z 0-9 _ . -"));
    }
    let description = match is_demo {
        true => own.take(&key::DESCRIPTION, complaints),
        false => own.need(&key::DESCRIPTION, complaints),
    };
    let plain = plain_tool(name, job_type.as_deref().unwrap_or(name));
    let mut tool = Tool {
        title: own.take(&key::TITLE, complaints),
        description,
        output_schema: read_schema(own, "output_schema", complaints),
        annotations: read_object(own, "annotations", complaints),
        inline_wait: own.take(&key::INLINE_WAIT, complaints)?,
        derive_key: own.take(&key::DERIVE_KEY, complaints)?,
        task_support: own.take(&key::TASK_SUPPORT, complaints)?,
        expires_in: own.take(&key::EXPIRES_IN, complaints),
        cancel_grace: own.take(&key::CANCEL_GRACE, complaints)?,
        max_result: own.take(&key::MAX_RESULT, complaints)?.0,
        rules: Rules {
            retry: read_retry(own, retry, complaints)?,
            on_interrupt: own.take(&key::ON_INTERRUPT, complaints)?,
            timeout: own.take(&key::TIMEOUT, complaints)?,
            concurrency: own.take(&key::CONCURRENCY, complaints),
        },
        ..plain
    };
    match read_schema(own, "input_schema", complaints) {
        Some(schema) if schema.get("type") == Some(&json!("object")) => tool.input_schema = schema,
        Some(_) => own.refuse("input_schema", complaints, "expected `type = \"object\"`: arguments are an object"),
        None => {}
    }
    match &mut run {
        Some(Run::Demo { .. }) => dress_as_demo(&mut tool),
        Some(Run::Command(settings)) => {
            settings.cancel_grace = tool.cancel_grace;
            settings.max_result = tool.max_result;
        }
        #[cfg(any(debug_assertions, feature = "trial"))]
        Some(Run::Trial) => {}
        None => {}
    }
    Some(ToolConfig { tool, run: run? })
}

/// A JSON Schema that compiles.
fn read_schema(own: &Section<'_>, name: &str, complaints: &mut Complaints) -> Option<Value> {
    let schema = read_object(own, name, complaints)?;
    match jsonschema::validator_for(&schema) {
        Ok(_) => Some(schema),
        Err(why) => {
            own.refuse(name, complaints, format!("is no JSON Schema that can be used: {why}"));
            None
        }
    }
}

/// A JSON object, written as a table or as a text of JSON.
pub(super) fn read_object(own: &Section<'_>, name: &str, complaints: &mut Complaints) -> Option<Value> {
    let value = own.find(name)?;
    let read = match value.get_ref() {
        DeValue::String(text) => serde_json::from_str(text).map_err(|why| format!("is no JSON: {why}")),
        table => to_json(table).ok_or_else(|| "holds a date or a number that JSON has not".to_owned()),
    };
    match read {
        Ok(object @ Value::Object(_)) => Some(object),
        Ok(_) => {
            own.refuse(name, complaints, "expected a table, or the text of a JSON object");
            None
        }
        Err(message) => {
            own.refuse(name, complaints, message);
            None
        }
    }
}

fn read_run(own: &Section<'_>, complaints: &mut Complaints) -> Option<Run> {
    if own.find("run").is_none() {
        complaints.add(own.full("run"), &own.place, "is missing: expected { kind = \"command\", command = [..] }");
        return None;
    }
    let run = own.inner("run", complaints)?;
    let kind = run.need(&key::COMMAND_KIND, complaints)?;
    let check = |rows: &[Row], complaints: &mut Complaints| run.check_keys(&[rows], &[], complaints);
    match kind.as_str() {
        "command" => {
            check(COMMAND, complaints);
            read_command(&run, complaints).map(Run::Command)
        }
        "demo" => {
            check(DEMO, complaints);
            run.take(&key::PACE, complaints).map(|pace| Run::Demo { pace })
        }
        #[cfg(any(debug_assertions, feature = "trial"))]
        "trial" => {
            run.check_keys(&[], &["kind"], complaints);
            Some(Run::Trial)
        }
        other => {
            let meant = nearest(other, KINDS.iter().copied()).map(|kind| format!("; did you mean {kind:?}?"));
            let message = format!("{other:?}: expected one of {}{}", KINDS.join(", "), meant.unwrap_or_default());
            run.refuse("kind", complaints, message);
            None
        }
    }
}

fn read_command(run: &Section<'_>, complaints: &mut Complaints) -> Option<command::Settings> {
    let arguments = run.need(&key::ARGUMENTS, complaints)?;
    let codes = |codes: Vec<super::form::ExitCode>| codes.into_iter().map(|code| i32::from(code.0)).collect::<Vec<_>>();
    let settings = command::Settings {
        command: arguments.into_iter().map(|argument| argument.0).collect(),
        output: run.take(&key::OUTPUT, complaints)?,
        env: run.take(&key::ENV, complaints).unwrap_or_default().0,
        cwd: run.take(&key::CWD, complaints),
        transient_exit_codes: codes(run.take(&key::TRANSIENT, complaints)?),
        permanent_exit_codes: codes(run.take(&key::PERMANENT, complaints)?),
        ask_hold: run.take(&key::ASK_HOLD, complaints)?,
        // The tool's own, as soon as they are read.
        cancel_grace: Millis::default(),
        max_result: 0,
    };
    if let Err(why) = command::Program::new(settings.clone(), None) {
        run.refuse("command", complaints, why);
    }
    let mut transient = settings.transient_exit_codes.iter();
    if let Some(both) = transient.find(|code| settings.permanent_exit_codes.contains(code)) {
        run.refuse("permanent_exit_codes", complaints, format!("{both} is also among transient_exit_codes"));
    }
    Some(settings)
}
