//! What will not work as it is written, although a server can be started with it: other tools must not wait for its mending.
//!
//! In: what was read. Out: doubts, with their places. `config check` tells them as it tells mistakes; a server logs them.

use std::ffi::OsStr;

use serde_json::Value;

use super::complaint::{Complaints, nearest};
use super::raw::Section;
use super::{Run, ToolConfig};
use crate::handler::command::{Form, Program, missing};
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
    for (at, argument) in settings.command.iter().enumerate().skip(1) {
        if let Some(message) = stray(argument) {
            complaints.doubt(&key, &place(at), message);
        }
    }
    let is_object = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
    if settings.output == Form::Text && tool.tool.output_schema.as_ref().is_some_and(is_object) {
        let message =
            "is of an object, but `output = \"text\"` makes every result a text: say `output = \"json\"` in `run`";
        complaints.doubt(own.full("output_schema"), &place_of(own, "output_schema"), message);
    }
    // What cannot be filled in is a complaint already.
    let Ok(program) = Program::new(settings.clone(), None) else { return };
    for (at, field) in program.fields() {
        if let Some(message) = lack(&tool.tool.input_schema, field) {
            complaints.doubt(&key, &place(at), message);
        }
    }
}

/// What to say of an argument that is in braces as a whole, names no field of the payload, and looks as if it should. Names without a dot are
/// programs of other languages, as of awk and jq, unless one is nearly `payload`.
fn stray(argument: &str) -> Option<String> {
    let inside = argument.strip_prefix('{')?.strip_suffix('}')?;
    let name = inside.trim();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if inside.starts_with("payload.") || !name.split('.').all(is_name) {
        return None;
    }
    let (first, field) = name.split_once('.').map_or((name, None), |(first, field)| (first, Some(field)));
    let meant = match (nearest(&first.to_ascii_lowercase(), ["payload"]), field) {
        (Some(payload), Some(field)) => format!("did you mean {{{payload}.{field}}}?"),
        (Some(_), None) | (None, Some(_)) => "placeholders are written {payload.FIELD}".to_owned(),
        (None, None) => return None,
    };
    Some(format!("{argument} is not filled in, and goes to the program as it stands; {meant}"))
}

fn place_of(own: &Section<'_>, key: &str) -> String {
    own.find(key).map_or_else(|| own.place.clone(), |value| own.file.place(&value.span()))
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
        complaints.doubt(own.full(key), &place_of(own, key), message);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::config::tests::written;
    use crate::config::{Severity, Written, check, read};

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
    fn an_argument_that_is_nearly_a_placeholder_is_told_and_programs_in_braces_are_not() {
        let told = |argument: &str, rest: &str| {
            format!(
                "tools.t.run.command (line 7 of longhaul.toml): {argument} is not filled in, and goes to the program as it stands; {rest}\n"
            )
        };
        let (mend, form) = ("did you mean {payload.a}?", "placeholders are written {payload.FIELD}");
        for (argument, expected) in [
            ("{payloadd.a}", told("{payloadd.a}", mend)),
            ("{ payload.a }", told("{ payload.a }", mend)),
            ("{Payload.a}", told("{Payload.a}", mend)),
            ("{payload}", told("{payload}", form)),
            ("{job.id}", told("{job.id}", form)),
            ("{payload.a}", String::new()),
            ("{print}", String::new()),
            ("{ print $1 }", String::new()),
            ("{}", String::new()),
            ("{\"a.b\":1}", String::new()),
            ("{.}", String::new()),
        ] {
            let schema = "input_schema = { type = 'object', properties = { a = {} } }";
            assert_eq!(doubts(&tool(&format!("['sh',\n'{argument}']"), schema), None), expected, "{argument}");
        }
    }

    #[test]
    fn a_schema_of_an_object_for_a_result_that_is_a_text_is_told() {
        let text = |output: &str| tool("['sh']", "output_schema = { type = 'object' }") + output;
        for written in ["", "output = 'text'"] {
            let told = doubts(&text(written), None);
            assert!(
                told.starts_with("tools.t.output_schema (line 3 of longhaul.toml): is of an object, but"),
                "{told}"
            );
        }
        assert_eq!(doubts(&text("output = 'json'"), None), "");
    }

    /// One missing file kept every doubt untold, so that the next run told them only once that was mended.
    #[test]
    fn a_mistake_keeps_no_doubt_untold_and_all_are_told_in_the_order_of_the_file() {
        let text = "[tools.t]\ndescription = 'd'\n[tools.t.run]\nkind = 'command'\ncommand = [\n'no-such',\n'{payload.x}']\n\
                    [resources.'a:b']\nmime_type = 'a/b'\nfile = 'nowhere'\n\
                    [prompts.p]\ndescription = 'd'\nmessages = [{ text = '{who}' }]\n[queue]\nworkers = 'x'\n";
        let written = Written { path: Some("/no/such".into()), ..written(text) };
        let told: Vec<_> = check(&written).into_iter().map(|told| (told.place, told.severity)).collect();
        let at = |line: u32, severity| (format!("line {line} of longhaul.toml"), severity);
        assert_eq!(
            told,
            [
                at(6, Severity::Warning),
                at(7, Severity::Warning),
                at(10, Severity::Error),
                at(13, Severity::Warning),
                at(15, Severity::Error)
            ]
        );
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
