//! `prompts/get`: a prompt's messages, with its places filled in.
//!
//! In: a name and arguments as written. Out: messages; or, in the revision that has them, questions for arguments that are missing.

use serde_json::{Map, Value, json};

use super::ask::{Said, responses};
use super::{Argument, Block, Prompt};
use crate::job::json::wrong;
use crate::mcp::Endpoint;
use crate::mcp::fill::{Escape, FILLED_MAX, Fillable};
use crate::mcp::reply::Members;
use crate::mcp::resources::is_uri;
use crate::mcp::rpc::{self, Error, INVALID_PARAMS};
use crate::mcp::session::Abilities;
use crate::mcp::tools::{Call, nearest};

/// Longest value of an argument, in bytes.
pub const ARGUMENT_MAX: usize = 64 * 1024;

/// The prompt's messages, or questions.
///
/// # Errors
/// -32602: no such prompt, or arguments that are missing, unknown, too long, no texts, or make no URI; or the user declined to give one.
pub(in crate::mcp) fn get(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let Some(name) = call.params.name.and_then(rpc::text) else {
        return Err(invalid("params.name must be a string: the name of a prompt"));
    };
    let all = endpoint.shown();
    let Some(prompt) = all.prompts.iter().find(|prompt| prompt.name == *name) else {
        return Err(unknown(endpoint, &name));
    };
    let given = given(prompt, call.arguments()?)?;
    let (values, questions) = gather(prompt, call, &given)?;
    if !questions.is_empty() {
        let mut json = b"\"resultType\":\"input_required\",\"inputRequests\":".to_vec();
        rpc::push_value(&mut json, &questions);
        return Ok(Members { json, ..Members::default() });
    }
    let messages = messages(prompt, &values)?;
    let mut json = b"\"description\":".to_vec();
    rpc::push_string(&mut json, &prompt.description);
    json.extend_from_slice(b",\"messages\":");
    rpc::push_value(&mut json, &messages);
    Ok(Members { json, ..Members::default() })
}

fn invalid(text: impl Into<String>) -> Error {
    Error::answered(INVALID_PARAMS, text)
}

fn unknown(endpoint: &Endpoint, name: &str) -> Error {
    let shown = crate::job::cut(name, 64);
    let all = endpoint.shown();
    let near = nearest(shown, all.prompts.iter().map(|prompt| prompt.name.as_str()));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    invalid(format!("there is no prompt {shown}{near}"))
}

/// The arguments that were sent.
fn given(prompt: &Prompt, arguments: &str) -> Result<Map<String, Value>, Error> {
    let given: Map<String, Value> =
        serde_json::from_str(arguments).map_err(|why| invalid(wrong("params.arguments", arguments, &why)))?;
    for (name, value) in &given {
        let names = || prompt.arguments.iter().map(|argument| argument.name.as_str());
        if !names().any(|known| known == name) {
            let shown = crate::job::cut(name, 64);
            let near = nearest(shown, names()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(invalid(format!("params.arguments: the prompt has no argument {shown}{near}")));
        }
        match value.as_str().map(str::len) {
            Some(length) if length <= ARGUMENT_MAX => {}
            Some(_) => return Err(invalid(format!("params.arguments.{name} is longer than {ARGUMENT_MAX} bytes"))),
            None => return Err(invalid(format!("params.arguments.{name} must be a string"))),
        }
    }
    Ok(given)
}

/// A value for each argument, empty for one that nobody gave; or what to ask first.
fn gather(
    prompt: &Prompt,
    call: &Call<'_>,
    given: &Map<String, Value>,
) -> Result<(Vec<String>, Map<String, Value>), Error> {
    let can_ask = call.revision.is_modern() && Abilities::declared(call.meta.capabilities).elicitation;
    let responses = if can_ask { responses(call.params.input_responses) } else { Map::new() };
    let (mut values, mut questions, mut missing) = (Vec::new(), Map::new(), Vec::new());
    let mut is_open = false;
    for argument in &prompt.arguments {
        let Argument { name, required, ask, .. } = argument;
        let value = match (given.get(name), ask.as_ref().filter(|_| can_ask)) {
            (Some(value), _) => value.as_str().map(str::to_owned),
            (None, None) => None,
            (None, Some(ask)) => {
                // Nothing is kept between rounds: while one answer is open, all of them are asked for.
                questions.insert(name.clone(), ask.request(argument));
                match ask.said(name, &responses) {
                    Said::Value(text) => Some(text),
                    Said::Declined => None,
                    Said::Nothing => {
                        is_open = true;
                        Some(String::new())
                    }
                }
            }
        };
        if *required && value.is_none() {
            missing.push(name.as_str());
        }
        values.push(value.unwrap_or_default());
    }
    if missing.is_empty() {
        return Ok((values, if is_open { questions } else { Map::new() }));
    }
    Err(invalid(format!("params.arguments: missing, and there is no prompt without: {}", missing.join(", "))))
}

/// The messages.
///
/// # Errors
/// -32602: they are too large, or an argument has no place in a URI.
fn messages(prompt: &Prompt, values: &[String]) -> Result<Vec<Value>, Error> {
    let mut room = FILLED_MAX;
    let message = |message: &super::Message| {
        let content = content(&message.block, values, &mut room)?;
        Ok(json!({ "role": message.role.name(), "content": content }))
    };
    prompt.messages.iter().map(message).collect()
}

fn content(block: &Block, values: &[String], room: &mut usize) -> Result<Value, Error> {
    let mut filled = |text: &Fillable, escape| {
        let filled = text.fill(values, escape, room);
        filled.ok_or_else(|| invalid(format!("the filled in prompt would be larger than {FILLED_MAX} bytes")))
    };
    Ok(match block {
        Block::Text(text) => json!({ "type": "text", "text": filled(text, Escape::Nothing)? }),
        Block::Resource { uri, mime_type, text } => {
            let uri = filled(uri, Escape::Nothing)?;
            if !is_uri(&uri) {
                let shown = crate::job::cut(&uri, 64);
                return Err(invalid(format!("params.arguments: the prompt makes a URI of them, and {shown} is none")));
            }
            let text = filled(text, Escape::of(mime_type))?;
            json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
        }
        Block::Image { base64, mime_type } => json!({ "type": "image", "data": base64, "mimeType": mime_type }),
        Block::Audio { base64, mime_type } => json!({ "type": "audio", "data": base64, "mimeType": mime_type }),
    })
}
