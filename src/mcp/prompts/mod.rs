//! `prompts/*`: configured prompts, filled in with arguments.
//!
//! In: what the configuration says, checked there; then calls. Out: the list, written once at start, and messages. An argument that is
//! missing may be asked for, where the client can ask its user.

use serde_json::{Map, Value, json};

use super::Endpoint;
use super::fill::Fillable;
use super::reply::Members;
use super::resources::Page;
use super::rpc::Error;
use super::tools::Call;

mod ask;
mod get;

pub use ask::Ask;
pub use get::ARGUMENT_MAX;
pub(super) use get::get;

/// One prompt.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Its name: 1-64 of `A-Za-z0-9_.-`.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: String,
    /// In the order in which texts count them.
    pub arguments: Vec<Argument>,
    /// What it says.
    pub messages: Vec<Message>,
}

/// What a prompt is filled in with.
#[derive(Debug, Clone)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it means.
    pub description: Option<String>,
    /// Whether there is no prompt without it.
    pub required: bool,
    /// Values that are suggested; others are taken as well.
    pub values: Vec<String>,
    /// How to ask for it when it is missing.
    pub ask: Option<Ask>,
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What.
    pub block: Block,
}

/// What a message consists of. Places in texts are the prompt's arguments.
#[derive(Debug, Clone)]
pub enum Block {
    /// A text.
    Text(Fillable),
    /// A resource with its text.
    Resource {
        /// Its URI.
        uri: Fillable,
        /// What its text is.
        mime_type: String,
        /// Its text.
        text: Fillable,
    },
    /// An image, in Base64.
    Image {
        /// The image.
        base64: String,
        /// What kind.
        mime_type: String,
    },
    /// A sound, in Base64.
    Audio {
        /// The sound.
        base64: String,
        /// What kind.
        mime_type: String,
    },
}

/// `prompts/list`.
///
/// # Errors
/// -32602 for a cursor that is not one of this list's.
pub(super) fn list(endpoint: &Endpoint, call: &Call<'_>) -> Result<Members, Error> {
    let page = Page::read(call, endpoint.shown().prompts.len())?;
    let entries: Vec<Value> = page.of(&endpoint.shown().prompts).map(entry).collect();
    Ok(page.members(call.revision, "prompts", &entries, super::modern::LIST_TTL_MS))
}

fn entry(prompt: &Prompt) -> Value {
    let mut entry = labeled(&prompt.name, prompt.title.as_deref(), Some(&prompt.description));
    let argument = |argument: &Argument| {
        let mut entry = labeled(&argument.name, argument.title.as_deref(), argument.description.as_deref());
        entry.insert("required".into(), argument.required.into());
        Value::Object(entry)
    };
    if !prompt.arguments.is_empty() {
        entry.insert("arguments".into(), prompt.arguments.iter().map(argument).collect());
    }
    Value::Object(entry)
}

fn labeled(name: &str, title: Option<&str>, description: Option<&str>) -> Map<String, Value> {
    let labels = [("name", Some(name)), ("title", title), ("description", description)];
    labels.into_iter().filter_map(|(key, label)| Some((key.to_owned(), json!(label?)))).collect()
}
