//! `config`: any text is a configuration, or each complaint about it names a line that the text has.

use longhaul::config::{self, COMPLAINTS_MAX, Complaint, Config, File, Run, Written};
use longhaul::service::{Catalogue, Tool};

/// Longest complaint, in bytes: a message for a screen, whatever was written.
const COMPLAINT_MAX: usize = 4 * 1024;

/// Reads the bytes as a file, and as variables and flags where a line begins with `$` or `--`.
///
/// # Panics
/// When there is neither a configuration that can be served nor a complaint that can be found in the text.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut written = Written::default();
    let mut file = String::new();
    for line in text.split_inclusive('\n') {
        let setting = line.trim_end_matches('\n').split_once('=');
        match (line.strip_prefix('$'), line.strip_prefix("--"), setting) {
            (Some(_), _, Some((name, value))) => written.environment.push((name[1..].to_owned(), value.to_owned())),
            (_, Some(_), Some((name, value))) => {
                written.flags.extend(flag(&name[2..]).map(|flag| (flag, value.to_owned())))
            }
            _ => file.push_str(line),
        }
    }
    written.file = Some(File { name: "longhaul.toml".to_owned(), text: file });
    judge(&written);
}

fn flag(name: &str) -> Option<&'static str> {
    ["listen", "data-dir", "workers"].into_iter().find(|flag| *flag == name)
}

fn judge(written: &Written) {
    match config::read(written) {
        Ok(config) => it_can_be_served(&config),
        Err(complaints) => {
            assert!(!complaints.is_empty(), "refused without a reason");
            assert!(complaints.len() <= COMPLAINTS_MAX);
            complaints.iter().for_each(|complaint| it_can_be_found(complaint, written));
        }
    }
}

/// What the rest of the server takes for granted.
fn it_can_be_served(config: &Config) {
    assert!(config.listen.ip().is_loopback() || !config.tokens.is_empty(), "{}", config.listen);
    assert!(config.workers <= 1024 && config.max_body.0 >= 1024 && config.max_connections > 0);
    assert!((0.0..=1.0).contains(&config.retry.jitter) && config.retry.max_attempts > 0);
    assert!((0.0..=100.0).contains(&config.throttle.min_delta));
    assert!(!config.tools.is_empty(), "a server without tools");
    let tools: Vec<Tool> = config.tools.iter().map(|tool| tool.tool.clone()).collect();
    for tool in &config.tools {
        assert!(tool.tool.description.is_some() && tool.tool.input_schema["type"] == "object", "{}", tool.tool.name);
        match &tool.run {
            Run::Command(settings) => {
                assert!(!settings.command.is_empty());
                assert_eq!(
                    (settings.cancel_grace, settings.max_result),
                    (tool.tool.cancel_grace, tool.tool.max_result)
                );
            }
            Run::Demo { .. } | Run::Trial => {}
        }
    }
    if let Err(why) = Catalogue::new(tools) {
        panic!("a configuration without complaints cannot be served: {why}");
    }
}

/// Whoever reads the complaint finds the place.
fn it_can_be_found(complaint: &Complaint, written: &Written) {
    let text = complaint.to_string();
    assert!(!complaint.message.is_empty() && text.len() <= COMPLAINT_MAX, "{} bytes: {text}", text.len());
    let place = complaint.place.as_str();
    if place == "environment" || place.starts_with("--") || written.environment.iter().any(|(name, _)| name == place) {
        return;
    }
    // The parser gives up on tables that are too deep without saying where.
    if place == "longhaul.toml" && complaint.message == "recursion limit" {
        return;
    }
    let file = written.file.as_ref().map_or("", |file| file.text.as_str());
    let line = place.strip_prefix("line ").and_then(|rest| rest.split_once(" of longhaul.toml"));
    let line = line.and_then(|(number, _)| number.parse::<usize>().ok());
    let lines = file.bytes().filter(|byte| *byte == b'\n').count() + 1;
    assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{place} of {lines} lines: {text}");
}
