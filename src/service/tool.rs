//! The tools that are offered: what `mcp` lists, what a payload is checked against, what rules its jobs have.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Violation;
use crate::job::{Millis, Rules};

/// Whether a call becomes an MCP task (contract 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// A task for clients that know tasks; for others the result within `inline_wait`, else a handle.
    #[default]
    Auto,
    /// Never a task.
    Never,
    /// Always a task: clients that know none cannot call it.
    Required,
}

/// One configured tool. One tool per type.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// MCP name: 1-64 of `A-Za-z0-9_.-`.
    pub name: Arc<str>,
    /// Type of its jobs.
    pub job_type: Arc<str>,
    /// For people.
    pub title: Option<String>,
    /// For the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments, keywords kept as written.
    pub input_schema: Value,
    /// JSON Schema of the result.
    pub output_schema: Option<Value>,
    /// MCP annotations.
    pub annotations: Option<Value>,
    /// How long a call waits for the result before it answers the handle.
    pub inline_wait: Millis,
    /// A call without an idempotency key gets one that its arguments make: the same call finds the same job.
    pub derive_key: bool,
    /// See `TaskSupport`.
    pub task_support: TaskSupport,
    /// How long a job may take from its creation to its end.
    pub expires_in: Option<Millis>,
    /// How long a cancelled attempt has before it is killed.
    pub cancel_grace: Millis,
    /// Largest result, in bytes.
    pub max_result: u64,
    /// What decisions depend on.
    pub rules: Rules,
}

/// Every tool, ready to be looked up and checked against.
pub struct Catalogue {
    tools: Vec<Checked>,
    by_name: HashMap<Arc<str>, usize>,
    by_type: HashMap<Arc<str>, usize>,
}

struct Checked {
    tool: Tool,
    input: jsonschema::Validator,
    output: Option<jsonschema::Validator>,
}

/// Violations that one answer names at most.
pub const VIOLATIONS_MAX: usize = 20;

impl Catalogue {
    /// Compiles the schemas.
    ///
    /// # Errors
    /// What is wrong with which tool: a schema that is none, a name or type used twice.
    pub fn new(tools: Vec<Tool>) -> Result<Self, String> {
        let mut catalogue = Self { tools: Vec::new(), by_name: HashMap::new(), by_type: HashMap::new() };
        for tool in tools {
            let schema = |what: &str, schema: &Value| {
                jsonschema::validator_for(schema).map_err(|why| format!("tool {}: {what}: {why}", tool.name))
            };
            let input = schema("input_schema", &tool.input_schema)?;
            let output = tool.output_schema.as_ref().map(|s| schema("output_schema", s)).transpose()?;
            let at = catalogue.tools.len();
            if catalogue.by_name.insert(tool.name.clone(), at).is_some() {
                return Err(format!("tool {} is configured twice", tool.name));
            }
            if catalogue.by_type.insert(tool.job_type.clone(), at).is_some() {
                return Err(format!("type {} has more than one tool", tool.job_type));
            }
            catalogue.tools.push(Checked { tool, input, output });
        }
        Ok(catalogue)
    }

    /// Every tool, in the order of the configuration.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|checked| &checked.tool)
    }

    /// The tool with this MCP name.
    pub fn named(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|at| &self.tools[*at].tool)
    }

    /// The tool that makes jobs of this type.
    pub fn of_type(&self, job_type: &str) -> Option<&Tool> {
        self.by_type.get(job_type).map(|at| &self.tools[*at].tool)
    }

    /// The rules for a type; the defaults if it is no longer configured.
    pub fn rules(&self, job_type: &str) -> Rules {
        self.of_type(job_type).map(|tool| tool.rules.clone()).unwrap_or_default()
    }

    /// What is wrong with these arguments, at most `VIOLATIONS_MAX`; empty if they fit, or if the type is unknown.
    pub fn check_input(&self, job_type: &str, payload: &Value) -> Vec<Violation> {
        let checked = self.by_type.get(job_type).map(|at| &self.tools[*at]);
        checked.map(|c| violations(&c.input, payload)).unwrap_or_default()
    }

    /// What is wrong with this result, likewise; empty if the tool has no output schema.
    pub fn check_output(&self, job_type: &str, result: &Value) -> Vec<Violation> {
        let checked = self.by_type.get(job_type).map(|at| &self.tools[*at]);
        checked.and_then(|c| c.output.as_ref()).map(|v| violations(v, result)).unwrap_or_default()
    }
}

/// Longest string that a violation repeats, in bytes. Longer ones, lists and objects are called a value: they may be as large as a result.
const REPEATED_MAX: usize = 200;

fn is_short(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.len() <= REPEATED_MAX,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// What is wrong with the value, at most `VIOLATIONS_MAX`.
pub(super) fn violations(validator: &jsonschema::Validator, value: &Value) -> Vec<Violation> {
    if validator.is_valid(value) {
        return Vec::new();
    }
    let name = |error: jsonschema::ValidationError<'_>| Violation {
        pointer: error.instance_path().to_string(),
        message: if is_short(error.instance()) { error.to_string() } else { error.masked().to_string() },
    };
    validator.iter_errors(value).take(VIOLATIONS_MAX).map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A result of 60 MB that did not fit its schema was repeated in what was said of it.
    #[test]
    fn a_violation_repeats_what_is_short_and_nothing_else() {
        let validator = jsonschema::validator_for(&json!({"type": "number"})).expect("a schema");
        let told = |value: &Value| violations(&validator, value)[0].message.clone();
        assert_eq!(told(&json!("many")), "\"many\" is not of type \"number\"");
        for value in [json!("x".repeat(REPEATED_MAX + 1)), json!([1, 2]), json!({"a": "x".repeat(10_000)})] {
            assert_eq!(told(&value), "value is not of type \"number\"");
        }
    }
}
