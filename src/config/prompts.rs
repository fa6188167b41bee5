//! `[prompts.NAME]`: what MCP clients offer their users to say.
//!
//! In: the file's tables, and the files that they name. Out: prompts that can be filled in as they are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::complaint::Complaints;
use super::doubt;
use super::form::choice;
use super::raw::Section;
use super::resources::{only_one, read_file};
use super::setting::{
    self as key, ARGUMENT, ARGUMENT_TABLES, EMBEDDED, MEDIA, MESSAGE, MESSAGE_TABLES, PROMPT, PROMPT_TABLES, Row,
};
use super::tools::{NAME_MAX, is_name, read_object};
use crate::mcp::Fillable;
use crate::mcp::prompts::{Argument, Ask, Block, Message, Prompt, Role};

choice!(Role, "\"user\" or \"assistant\"", "user" => Self::User, "assistant" => Self::Assistant);

/// What has the places of a message.
const WHOSE: &str = "`arguments` have";

/// All of them, in the order of the file.
pub(super) fn read(top: &Section<'_>, complaints: &mut Complaints) -> Vec<Prompt> {
    let mut prompts = Vec::new();
    let Some(section) = top.inner("prompts", complaints) else { return prompts };
    for (name, value) in section.table {
        let name = name.get_ref().as_ref();
        let Some(own) = section.item(name, value, complaints) else { continue };
        own.check_keys(&[PROMPT], &keys(PROMPT_TABLES), complaints);
        if !is_name(name) {
            let message = format!("expected a name of 1 to {NAME_MAX} of A-Z a-z 0-9 _ . -");
            complaints.add(&own.path, &own.place, message);
        }
        prompts.extend(read_prompt(&own, name, complaints));
    }
    prompts
}

fn keys(rows: &[Row]) -> Vec<&'static str> {
    rows.iter().map(|row| row.key).collect()
}

fn read_prompt(own: &Section<'_>, name: &str, complaints: &mut Complaints) -> Option<Prompt> {
    let mut arguments: Vec<Argument> = Vec::new();
    for item in items(own, "arguments", complaints) {
        let Some(argument) = read_argument(&item, complaints) else { continue };
        if arguments.iter().any(|other| other.name == argument.name) {
            item.refuse("name", complaints, format!("{:?} is there twice", argument.name));
        }
        arguments.push(argument);
    }
    let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
    if own.find("messages").is_none() {
        complaints.add(own.full("messages"), &own.place, "is missing: expected [{ role = \"user\", text = \"..\" }]");
    }
    let messages = items(own, "messages", complaints);
    let messages = messages.iter().filter_map(|item| read_message(item, &names, complaints)).collect();
    let title = own.take(&key::PROMPT_TITLE, complaints);
    let description = own.need(&key::PROMPT_DESCRIPTION, complaints)?;
    Some(Prompt { name: name.to_owned(), title, description, arguments, messages })
}

/// The tables of a list; none if it is not written.
fn items<'a>(own: &Section<'a>, key: &str, complaints: &mut Complaints) -> Vec<Section<'a>> {
    let Some(list) = own.find(key) else { return Vec::new() };
    let Some(list) = list.get_ref().as_array() else {
        own.refuse(key, complaints, "expected a list of tables");
        return Vec::new();
    };
    list.iter().filter_map(|item| own.item(key, item, complaints)).collect()
}

fn read_argument(own: &Section<'_>, complaints: &mut Complaints) -> Option<Argument> {
    own.check_keys(&[ARGUMENT], &keys(ARGUMENT_TABLES), complaints);
    let name = own.need(&key::ARGUMENT_NAME, complaints);
    if name.as_deref().is_some_and(|name| !is_name(name)) {
        own.refuse("name", complaints, format!("expected 1 to {NAME_MAX} of A-Z a-z 0-9 _ . -"));
    }
    let schema = read_object(own, "schema", complaints);
    let message = own.take(&key::ARGUMENT_ASK, complaints);
    if schema.is_some() && message.is_none() {
        own.refuse("schema", complaints, "is of no use without `ask`");
    }
    let ask = message.and_then(|message| {
        let ask = Ask::new(message, schema);
        ask.map_err(|why| own.refuse("schema", complaints, why)).ok()
    });
    let values = own.take(&key::ARGUMENT_VALUES, complaints).unwrap_or_default();
    Some(Argument {
        name: name?,
        title: own.take(&key::ARGUMENT_TITLE, complaints),
        description: own.take(&key::ARGUMENT_DESCRIPTION, complaints),
        required: own.take(&key::ARGUMENT_REQUIRED, complaints)?,
        values: values.into_iter().map(|value| value.0).collect(),
        ask,
    })
}

fn read_message(own: &Section<'_>, names: &[&str], complaints: &mut Complaints) -> Option<Message> {
    own.check_keys(&[MESSAGE], &keys(MESSAGE_TABLES), complaints);
    let role = own.take(&key::MESSAGE_ROLE, complaints)?;
    let block = match only_one(own, &["text", "resource", "image", "audio"], complaints)? {
        "text" => {
            let text = own.take(&key::MESSAGE_TEXT, complaints)?.0;
            doubt::places(own, "text", &text, names, WHOSE, complaints);
            Block::Text(Fillable::new(&text, names))
        }
        "resource" => read_embedded(&own.inner("resource", complaints)?, names, complaints)?,
        kind => {
            let inner = own.inner(kind, complaints)?;
            let (base64, mime_type) = read_media(&inner, complaints)?;
            if kind == "image" { Block::Image { base64, mime_type } } else { Block::Audio { base64, mime_type } }
        }
    };
    Some(Message { role, block })
}

fn read_embedded(own: &Section<'_>, names: &[&str], complaints: &mut Complaints) -> Option<Block> {
    own.check_keys(&[EMBEDDED], &[], complaints);
    let (uri, text) = (own.need(&key::EMBEDDED_URI, complaints), own.need(&key::EMBEDDED_TEXT, complaints));
    let (uri, text) = (uri?, text?.0);
    for (key, text) in [("uri", &uri), ("text", &text)] {
        doubt::places(own, key, text, names, WHOSE, complaints);
    }
    Some(Block::Resource {
        uri: Fillable::new(&uri, names),
        mime_type: own.take(&key::EMBEDDED_TYPE, complaints)?.0,
        text: Fillable::new(&text, names),
    })
}

/// Base64 and the type of what it is.
fn read_media(own: &Section<'_>, complaints: &mut Complaints) -> Option<(String, String)> {
    own.check_keys(&[MEDIA], &[], complaints);
    let mime_type = own.need(&key::MEDIA_TYPE, complaints);
    let base64 = match only_one(own, &["base64", "file"], complaints)? {
        "base64" => own.take(&key::MEDIA_BASE64, complaints)?.0,
        _ => STANDARD.encode(read_file(own, &key::MEDIA_FILE, complaints)?),
    };
    Some((base64, mime_type?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::config::tests::{complaints, written};

    #[test]
    fn a_prompt_is_read_as_it_is_written() {
        let text = "[prompts.p]\ndescription = 'd'\narguments = [{ name = 'a', required = true, values = ['x'], ask = 'A?' }]\n\
                    messages = [{ text = '{a}' }, { role = 'assistant', image = { mime_type = 'image/png', base64 = 'AA==' } },\n\
                    { resource = { uri = 'x:{a}', text = '' } }]\n";
        let prompts = read(&written(text)).expect("complete").prompts;
        let [Prompt { name, arguments, messages, .. }] = prompts.as_slice() else { panic!("one") };
        assert_eq!((name.as_str(), arguments[0].required, arguments[0].ask.is_some()), ("p", true, true));
        let [text, image, resource] = messages.as_slice() else { panic!("three") };
        assert!(matches!((&text.block, text.role), (Block::Text(_), Role::User)));
        assert!(matches!((&image.block, image.role), (Block::Image { .. }, Role::Assistant)));
        assert!(matches!(&resource.block, Block::Resource { mime_type, .. } if mime_type == "text/plain"));
    }

    #[test]
    fn every_mistake_in_a_prompt_is_told_with_its_place() {
        for (rest, complaint) in [
            ("", "prompts.p.messages (line 1 of longhaul.toml): is missing"),
            ("messages = 1", "expected a list of tables"),
            ("messages = [1]", "prompts.p.messages (line 3 of longhaul.toml): expected a table"),
            ("messages = [{}]", "expected exactly one of `text`, `resource`, `image`, `audio`"),
            ("messages = [{ text = '', role = 'system' }]", "expected \"user\" or \"assistant\""),
            ("messages = [{ text = '', rol = 'user' }]", "did you mean `prompts.p.messages.role`?"),
            ("messages = [{ image = { base64 = 'AA==' } }]", "mime_type (line 3 of longhaul.toml): is missing"),
            ("messages = [{ resource = { text = '' } }]", "uri (line 3 of longhaul.toml): is missing"),
            ("messages = []\narguments = [{}]", "name (line 4 of longhaul.toml): is missing"),
            ("messages = []\narguments = [{ name = 'a' }, { name = 'a' }]", "\"a\" is there twice"),
            ("messages = []\narguments = [{ name = 'a b' }]", "expected 1 to 64 of"),
            ("messages = []\narguments = [{ name = 'a', schema = {} }]", "is of no use without `ask`"),
            ("messages = []\narguments = [{ name = 'a', ask = 'A?', schema = {} }]", "forms have no others"),
            ("messages = []\ntile = 't'", "did you mean `prompts.p.title`?"),
        ] {
            let text = format!("[prompts.p]\ndescription = 'd'\n{rest}");
            let told = complaints(&text);
            assert!(told.contains(complaint), "{text}\n{told}");
        }
        assert!(complaints("[prompts.'a b']\ndescription = 'd'\nmessages = []").contains("expected a name of"));
        assert!(
            complaints("[prompts.p]\nmessages = []")
                .contains("prompts.p.description (line 1 of longhaul.toml): is missing")
        );
    }
}
