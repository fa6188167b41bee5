//! The tools that are offered: what `mcp` lists, what a payload is checked against, what rules its jobs have.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::Violation;
use crate::job::{Millis, Rules};

/// Whether a call becomes an MCP task (contract 6). `required` cannot be configured until tasks are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// A handle, or the result within `inline_wait`.
    #[default]
    Auto,
    /// The same, and never a task.
    Never,
}

/// One configured tool. One tool per type.
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
    /// See `TaskSupport`.
    pub task_support: TaskSupport,
    /// How long a job may take from its creation to its end.
    pub expires_in: Option<Millis>,
    /// What decisions depend on.
    pub rules: Rules,
    input: jsonschema::Validator,
}
