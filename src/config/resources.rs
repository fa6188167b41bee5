//! `[resources."URI"]`: what MCP clients can read besides jobs.
//!
//! In: the file's tables, and the files that they name. Out: resources and templates that can be served as they are.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::complaint::{Complaints, nearest};
use super::doubt;
use super::form::{Argument, Form};
use super::raw::Section;
use super::setting::{self as key, RESOURCE, RESOURCE_TABLES, Setting};
use crate::mcp::Fillable;
use crate::mcp::resources::{Content, Label, Pattern, Resource, Stock, Template, is_free};

/// Largest file that a resource or a message names, in bytes; a larger one is a complaint.
pub const CONTENT_MAX: u64 = 8 << 20;

/// All of them, in the order of the file.
pub(super) fn read(top: &Section<'_>, complaints: &mut Complaints) -> Stock {
    let mut stock = Stock::default();
    let Some(section) = top.inner("resources", complaints) else { return stock };
    for (uri, value) in section.table {
        let uri = uri.get_ref().as_ref();
        let Some(own) = section.item(&format!("{uri:?}"), value, complaints) else { continue };
        let tables: Vec<&str> = RESOURCE_TABLES.iter().map(|row| row.key).collect();
        own.check_keys(&[RESOURCE], &tables, complaints);
        if !is_free(uri) {
            let message = "expected a URI such as app://guide, of visible ASCII; job: and ui: are longhaul's own";
            complaints.add(&own.path, &own.place, message);
        }
        let label = read_label(&own, uri, complaints);
        if uri.contains(['{', '}']) {
            stock.templates.extend(read_template(&own, uri, label, complaints));
        } else {
            if own.find("complete").is_some() {
                own.refuse("complete", complaints, "is for templates: this URI has no `{variable}`");
            }
            let content = read_content(&own, &label.mime_type, complaints);
            stock.resources.extend(content.map(|content| Resource { uri: uri.to_owned(), label, content }));
        }
    }
    stock
}

fn read_label(own: &Section<'_>, uri: &str, complaints: &mut Complaints) -> Label {
    Label {
        name: own.take(&key::RESOURCE_NAME, complaints).unwrap_or_else(|| uri.to_owned()),
        title: own.take(&key::RESOURCE_TITLE, complaints),
        description: own.take(&key::RESOURCE_DESCRIPTION, complaints),
        mime_type: own.take(&key::RESOURCE_TYPE, complaints).map(|kind| kind.0).unwrap_or_default(),
    }
}

fn read_content(own: &Section<'_>, mime_type: &str, complaints: &mut Complaints) -> Option<Content> {
    let needs_type = |complaints: &mut Complaints| {
        if !own.is_written("mime_type") {
            complaints.add(own.full("mime_type"), &own.place, "is missing: it is only known of `text`");
        }
    };
    match only_one(own, &["text", "base64", "file"], complaints)? {
        "text" => own.take(&key::RESOURCE_TEXT, complaints).map(|text| Content::Text(text.0)),
        "base64" => {
            needs_type(complaints);
            own.take(&key::RESOURCE_BASE64, complaints).map(|base64| Content::Blob(base64.0))
        }
        _ => {
            needs_type(complaints);
            let bytes = read_file(own, &key::RESOURCE_FILE, complaints)?;
            if !is_textual(mime_type) {
                return Some(Content::Blob(STANDARD.encode(bytes)));
            }
            let text = String::from_utf8(bytes).map(Content::Text);
            text.map_err(|_| own.refuse("file", complaints, format!("is no UTF-8, but {mime_type} is a text"))).ok()
        }
    }
}

fn read_template(own: &Section<'_>, uri: &str, label: Label, complaints: &mut Complaints) -> Option<Template> {
    let pattern = Pattern::new(uri).map_err(|why| complaints.add(&own.path, &own.place, why)).ok()?;
    let names: Vec<&str> = pattern.names().collect();
    for key in ["base64", "file"] {
        if own.find(key).is_some() {
            own.refuse(key, complaints, "a template has a `text`, which its variables are filled in");
        }
    }
    let suggestions = read_suggestions(own, &names, complaints);
    let text = own.need(&key::RESOURCE_TEXT, complaints)?.0;
    doubt::places(own, "text", &text, &names, "the URI has", complaints);
    let text = Fillable::new(&text, &names);
    Some(Template { uri: uri.to_owned(), label, text, suggestions, pattern })
}

fn read_suggestions(own: &Section<'_>, names: &[&str], complaints: &mut Complaints) -> HashMap<String, Vec<String>> {
    let mut suggestions = HashMap::new();
    let Some(section) = own.inner("complete", complaints) else { return suggestions };
    for (name, values) in section.table {
        let (name, place) = (name.get_ref().as_ref(), own.file.place(&name.span()));
        if !names.contains(&name) {
            let meant = nearest(name, names.iter().copied()).map(|meant| format!("; did you mean `{meant}`?"));
            let message = format!("the URI has no such variable{}", meant.unwrap_or_default());
            complaints.add(section.full(name), &place, message);
        }
        match Vec::<Argument>::from_toml(values.get_ref()) {
            Some(values) => {
                suggestions.insert(name.to_owned(), values.into_iter().map(|value| value.0).collect());
            }
            None => complaints.add(section.full(name), &place, "expected a list of texts such as [\"a\", \"b\"]"),
        }
    }
    suggestions
}

/// The one of these keys that is written; complains about none and about several.
pub(super) fn only_one<'k>(own: &Section<'_>, keys: &[&'k str], complaints: &mut Complaints) -> Option<&'k str> {
    let mut written = keys.iter().copied().filter(|key| own.find(key).is_some());
    let (first, second) = (written.next(), written.next());
    if first.is_none() || second.is_some() {
        let message = format!("expected exactly one of `{}`", keys.join("`, `"));
        complaints.add(&own.path, &own.place, message);
    }
    first.filter(|_| second.is_none())
}

/// The bytes of the file that a setting names, beside the configuration file.
pub(super) fn read_file(
    own: &Section<'_>,
    setting: &Setting<std::path::PathBuf>,
    complaints: &mut Complaints,
) -> Option<Vec<u8>> {
    let named = own.take(setting, complaints)?;
    let path = Path::new(&own.file.name).parent().unwrap_or(Path::new("")).join(named);
    let read = || -> std::io::Result<Vec<u8>> {
        // Before it is opened: opening a pipe would wait for somebody to write.
        if !std::fs::metadata(&path)?.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&path)?.take(CONTENT_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > CONTENT_MAX {
            true => Err(std::io::Error::other(format!("it is larger than {CONTENT_MAX} bytes"))),
            false => Ok(bytes),
        }
    };
    let why = |why| own.refuse(setting.row.key, complaints, format!("{} cannot be read: {why}", path.display()));
    read().map_err(why).ok()
}

/// Whether content of this type is told as a text.
fn is_textual(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let sub = essence.split_once('/').map_or("", |(_, sub)| sub);
    essence.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml", "sql"].contains(&sub)
        || sub.ends_with("+json")
        || sub.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{complaints, written};
    use crate::config::{File, Written, read};
    use crate::mcp::resources::Content;

    #[test]
    fn resources_are_read_as_they_are_written() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("a.json"), "{}").expect("written");
        std::fs::write(directory.path().join("a.bin"), [0, 255]).expect("written");
        let text = "[resources.'app://guide']\ntext = ''\n[resources.'app://json']\nmime_type = 'application/json'\n\
                    file = 'a.json'\n[resources.'app://bin']\nname = 'bytes'\nmime_type = 'image/png'\nfile = 'a.bin'\n\
                    [resources.'app://blob']\nmime_type = 'image/png'\nbase64 = 'AA=='\n\
                    [resources.'app://item/{id}']\ntext = '{id}'\ncomplete = { id = ['a', ''] }\n";
        let name = directory.path().join("longhaul.toml").display().to_string();
        let file = Some(File { name, text: text.to_owned() });
        let stock = read(&Written { file, ..Written::default() }).expect("complete").resources;
        let held: Vec<_> =
            stock.resources.iter().map(|resource| (resource.label.name.as_str(), &resource.content)).collect();
        let (text, blob) = (|text: &str| Content::Text(text.into()), |base64: &str| Content::Blob(base64.into()));
        assert_eq!(
            held,
            [
                ("app://guide", &text("")),
                ("app://json", &text("{}")),
                ("bytes", &blob("AP8=")),
                ("app://blob", &blob("AA==")),
            ]
        );
        assert_eq!(stock.templates[0].suggestions["id"], ["a", ""]);
        assert_eq!(stock.resources[0].label.mime_type, "text/plain");
    }

    #[test]
    fn every_mistake_in_a_resource_is_told_with_its_place() {
        for (text, complaint) in [
            ("resources = 1", "resources (line 1 of longhaul.toml): expected a table\n"),
            ("[resources.'job://x']\ntext = ''", "expected a URI such as app://guide"),
            ("[resources.'no uri']\ntext = ''", "expected a URI such as app://guide"),
            (
                "[resources.'a:b']\ntext = ''\nmime = 'a/b'",
                "resources.\"a:b\".mime (line 3 of longhaul.toml): no such setting",
            ),
            ("[resources.'a:b']\ntext = ''\nmime_typ = 'a/b'", "did you mean `resources.\"a:b\".mime_type`?"),
            ("[resources.'a:b']", "expected exactly one of `text`, `base64`, `file`"),
            ("[resources.'a:b']\ntext = ''\nfile = 'x'", "expected exactly one of `text`, `base64`, `file`"),
            ("[resources.'a:b']\nbase64 = 'AA=='", "mime_type (line 1 of longhaul.toml): is missing"),
            (
                "[resources.'a:b']\nbase64 = 'A'\nmime_type = 'a/b'",
                "expected Base64 of the standard alphabet, with padding",
            ),
            ("[resources.'a:b']\nfile = 'nowhere'\nmime_type = 'a/b'", "nowhere cannot be read"),
            ("[resources.'a:b']\nfile = '/dev/null'\nmime_type = 'a/b'", "it is no file"),
            ("[resources.'a:b']\ntext = ''\nmime_type = 'text'", "expected a media type"),
            ("[resources.'a:b']\ntext = ''\ncomplete = { id = [] }", "is for templates"),
            ("[resources.'a:/{b}']\nfile = 'x'", "a template has a `text`"),
            ("[resources.'a:/{b}c']\ntext = ''", "a variable is a whole path segment"),
            (
                "[resources.'a:/{iden}']\ntext = ''\ncomplete = { idem = [] }",
                "the URI has no such variable; did you mean `iden`?",
            ),
            ("[resources.'a:/{id}']\ntext = ''\ncomplete = { id = 'a' }", "expected a list of texts"),
        ] {
            let told = complaints(text);
            assert!(told.contains(complaint), "{text}\n{told}");
            assert!(read(&written(text)).is_err());
        }
    }
}
