//! What will not work as it is written, although a server can be started with it: other tools must not wait for its mending.
//!
//! In: what was read. Out: doubts, with their places. `config check` tells them as it tells mistakes; a server logs them.

use std::ffi::OsStr;

use serde_json::Value;

use super::complaint::{Complaints, nearest};
use super::raw::Section;
use super::{Run, ToolConfig};
use crate::handler::command::{Program, missing};
use crate::mcp::Fillable;

/// Keywords beside which `properties` does not say all of what an object may have.
const OPENING: [&str; 12] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "not",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
];

/// Whether the tool's program is there, and gets from its arguments what it is told to get.
pub(super) fn tool(own: &Section<'_>, tool: &ToolConfig, path: Option<&OsStr>, complaints: &mut Complaints) {
    let settings = match &tool.run {
        Run::Command(settings) => settings,
        Run::Demo { .. } => return,
        #[cfg(any(debug_assertions, feature = "trial"))]
        Run::Trial => return,
    };
    let place = |at: usize| {
        let command = own.find("run.command");
        let item = command.and_then(|command| command.get_ref().as_array()?.get(at));
        item.map_or_else(|| own.place.clone(), |item| own.file.place(&item.span()))
    };
    let key = own.full("run.command");
    if let Some(why) = missing(settings, path) {
        complaints.doubt(&key, &place(0), why);
    }
    // What cannot be filled in is a complaint already.
    let Ok(program) = Program::new(settings.clone(), None) else { return };
    for (at, field) in program.fields() {
        if let Some(message) = lack(&tool.tool.input_schema, field) {
            complaints.doubt(&key, &place(at), message);
        }
    }
}

/// What to say of a field that callers are not told of; nothing if the schema may have it.
fn lack(schema: &Value, field: &str) -> Option<String> {
    let (mut schema, mut is_top) = (schema, true);
    for name in field.split('.') {
        let object = schema.as_object()?;
        let properties = object.get("properties").and_then(Value::as_object);
        let is_open = OPENING.iter().any(|keyword| object.contains_key(*keyword))
            || object.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
        match properties.and_then(|properties| properties.get(name)) {
            Some(inner) => schema = inner,
            None if is_open || (properties.is_none() && !is_top) => return None,
            None => {
                let known = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
                let meant = nearest(name, known).map(|meant| format!("; did you mean {meant:?}?"));
                return Some(format!(
                    "{{payload.{field}}}: input_schema has no property {name:?}{} Name it there, or say additionalProperties = true",
                    meant.unwrap_or_else(|| ".".to_owned())
                ));
            }
        }
        is_top = false;
    }
    None
}

/// Whether every `{name}` of a text is filled in. What else stands in braces may be meant as it is.
pub(super) fn places(
    own: &Section<'_>,
    key: &str,
    text: &str,
    names: &[&str],
    whose: &str,
    complaints: &mut Complaints,
) {
    for name in Fillable::strays(text, names) {
        let meant = nearest(name, names.iter().copied()).map(|meant| format!("; did you mean {{{meant}}}?"));
        let message = format!(
            "{{{name}}} is not filled in: {whose} no {name:?}{} Mend the name, or write {{ {name} }} if it is meant as it stands",
            meant.unwrap_or_else(|| ".".to_owned())
        );
        let place = own.find(key).map_or_else(|| own.place.clone(), |value| own.file.place(&value.span()));
        complaints.doubt(own.full(key), &place, message);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::config::tests::written;
    use crate::config::{Written, read};

    /// The doubts about a file, a line each; programs are looked for in this folder.
    fn doubts(text: &str, folder: Option<&std::path::Path>) -> String {
        let written = Written { path: folder.map(Into::into), ..written(text) };
        let config = read(&written).expect("nothing that keeps a server from being started");
        config.doubts.iter().map(|doubt| format!("{doubt}\n")).collect()
    }

    fn tool(command: &str, rest: &str) -> String {
        format!("[tools.t]\ndescription = 'd'\n{rest}\n[tools.t.run]\nkind = 'command'\ncommand = {command}\n")
    }

    #[test]
    fn a_program_that_cannot_be_started_is_told_with_its_line_and_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for (name, mode) in [("good", 0o755), ("plain", 0o644)] {
            std::fs::write(folder.join(name), "").expect("written");
            std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(mode)).expect("set");
        }
        let here = folder.display().to_string();
        let at = |line: u32| format!("tools.t.run.command (line {line} of longhaul.toml): ");
        for (command, more, expected) in [
            ("['good']".to_owned(), String::new(), String::new()),
            (format!("['{here}/good']"), String::new(), String::new()),
            (
                "[\n'bad']".to_owned(),
                String::new(),
                at(7) + "there is no program bad in PATH: install it, or write where it is\n",
            ),
            ("['plain']".to_owned(), String::new(), at(6) + &format!("{here}/plain is not executable: chmod +x it\n")),
            (
                format!("['{here}/plain']"),
                String::new(),
                at(6) + &format!("{here}/plain is not executable: chmod +x it\n"),
            ),
            (
                format!("['{here}/bad']"),
                String::new(),
                at(6) + &format!("{here}/bad is not there: install it, or write where it is\n"),
            ),
            (format!("['{here}']"), String::new(), at(6) + &format!("{here} is no file: write where the program is\n")),
            ("['./good']".to_owned(), format!("cwd = '{here}'"), String::new()),
            (
                "['./good']".to_owned(),
                "cwd = '/'".to_owned(),
                at(6) + "/./good is not there: install it, or write where it is\n",
            ),
            (
                "['good']".to_owned(),
                "cwd = '/no/such'".to_owned(),
                at(6) + "there is no directory /no/such, in which it is to run: make it, or mend cwd\n",
            ),
            (
                "['good']".to_owned(),
                "env = { PATH = '/no/such' }".to_owned(),
                at(6) + "there is no program good in PATH: install it, or write where it is\n",
            ),
        ] {
            let text = tool(&command, "") + &more;
            assert_eq!(doubts(&text, Some(folder)), expected, "{text}");
        }
        assert_eq!(doubts(&tool("['bad']", ""), None), "", "nobody says where to look");
    }

    #[test]
    fn a_placeholder_that_the_schema_does_not_have_is_told_with_its_line_unless_the_schema_is_open() {
        let at = |field: &str, name: &str, rest: &str| {
            format!(
                "tools.t.run.command (line 7 of longhaul.toml): {{payload.{field}}}: input_schema has no property \"{name}\"{rest} \
                 Name it there, or say additionalProperties = true\n"
            )
        };
        for (schema, field, expected) in [
            ("{ type = 'object', properties = { text = {} } }", "text", String::new()),
            ("{ type = 'object', properties = { text = {} } }", "txt", at("txt", "txt", "; did you mean \"text\"?")),
            ("{ type = 'object' }", "text", at("text", "text", ".")),
            ("{ type = 'object', additionalProperties = false }", "text", at("text", "text", ".")),
            ("{ type = 'object', additionalProperties = true }", "text", String::new()),
            (
                "{ type = 'object', properties = { a = {} }, additionalProperties = { type = 'string' } }",
                "b",
                String::new(),
            ),
            ("{ type = 'object', properties = { a = {} }, allOf = [{ properties = { b = {} } }] }", "b", String::new()),
            ("{ type = 'object', properties = { a = { properties = { b = {} } } } }", "a.b", String::new()),
            ("{ type = 'object', properties = { a = { properties = { b = {} } } } }", "a.c", at("a.c", "c", ".")),
            ("{ type = 'object', properties = { a = { type = 'object' } } }", "a.c", String::new()),
            ("{ type = 'object', properties = { a = true } }", "a.c", String::new()),
        ] {
            let text = tool(&format!("['sh',\n'{{payload.{field}}}']"), &format!("input_schema = {schema}"));
            assert_eq!(doubts(&text, None), expected, "{text}");
        }
        assert!(doubts(&tool("['sh', 'x={payload.a}{payload.b}']", ""), None).lines().count() == 2);
    }

    #[test]
    fn a_place_that_nothing_fills_is_told_with_its_line() {
        let prompt = |messages: &str| {
            format!(
                "[prompts.p]\ndescription = 'd'\narguments = [{{ name = 'recipient' }}]\nmessages = [\n{messages}\n]\n"
            )
        };
        let told = |key: &str, name: &str, whose: &str, rest: &str| {
            format!(
                "{key}: {{{name}}} is not filled in: {whose} no \"{name}\"{rest} Mend the name, or write {{ {name} }} if it is meant as it stands\n"
            )
        };
        let arguments = "`arguments` have";
        for (text, expected) in [
            (prompt("{ text = '{recipient} { x } {\"a\":1}' }"), String::new()),
            (
                prompt("{ text = 'For {recipent}' }"),
                told(
                    "prompts.p.messages.text (line 5 of longhaul.toml)",
                    "recipent",
                    arguments,
                    "; did you mean {recipient}?",
                ),
            ),
            (
                prompt("{ resource = { uri = 'a:{x}', text = '' } }"),
                told("prompts.p.messages.resource.uri (line 5 of longhaul.toml)", "x", arguments, "."),
            ),
            (
                "[resources.'a:/{id}']\ntext = '{id} {nr}'\n".to_owned(),
                told("resources.\"a:/{id}\".text (line 2 of longhaul.toml)", "nr", "the URI has", "."),
            ),
            ("[resources.'a:b']\ntext = '{nr}'\n".to_owned(), String::new()),
        ] {
            assert_eq!(doubts(&text, None), expected, "{text}");
        }
    }
}
