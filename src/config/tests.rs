//! The promises of the configuration, as tables of what is written and what becomes of it.

use std::path::PathBuf;

use super::*;
use crate::handler::command::{Form, Settings};
use crate::http::auth::Scope;
use crate::job::Rules;

pub(super) fn written(text: &str) -> Written {
    let file = File { name: "longhaul.toml".to_owned(), text: text.to_owned() };
    Written { file: Some(file), ..Written::default() }
}

/// The complaints about a file, a line each.
pub(super) fn complaints(text: &str) -> String {
    match read(&written(text)) {
        Ok(_) => String::new(),
        Err(list) => list.iter().map(|complaint| format!("{complaint}\n")).collect(),
    }
}

const COMMAND_TOOL: &str = "[tools.t]\ndescription = 'd'\nrun = { kind = 'command', command = ['true'] }\n";

#[test]
fn every_default_is_the_one_of_the_contract() {
    let config = read(&Written::default()).expect("nothing written is no mistake");
    let Config {
        listen,
        data_dir,
        public_url,
        allowed_hosts,
        allowed_origins,
        max_body,
        max_connections,
        max_streams,
        header_timeout,
        stream_heartbeat,
        stream_write_timeout,
        shutdown_grace,
        workers,
        max_pending,
        max_pending_bytes,
        durability,
        disk_reserve,
        cache,
        retention,
        throttle,
        session_ttl,
        events,
        helpers,
        retry,
        tokens,
        tools,
        has_tools,
        resources,
        prompts,
        doubts,
    } = config;
    assert_eq!((listen.to_string().as_str(), data_dir, public_url), ("127.0.0.1:7450", PathBuf::from("data"), None));
    assert!(allowed_hosts.is_empty() && allowed_origins.is_empty() && tokens.is_empty());
    assert_eq!((max_body, max_connections, max_streams), (Size::mib(1), 20_000, 1_000));
    assert_eq!((header_timeout, stream_heartbeat), (Millis::seconds(10), Millis::seconds(15)));
    assert_eq!((stream_write_timeout, shutdown_grace), (Millis::seconds(30), Millis::seconds(10)));
    assert_eq!((workers, max_pending, max_pending_bytes), (64, 1_000_000, Size(4 << 30)));
    assert_eq!((durability, disk_reserve, cache), (Durability::Disk, None, Size::mib(64)));
    let day = 24 * 3_600;
    assert_eq!((retention, session_ttl), (Retention::default(), Millis::seconds(7 * day)));
    assert_eq!((throttle, retry, helpers), (Throttle::default(), RetryPolicy::default(), true));
    assert_eq!(events, crate::mcp::occurrences::Options::default());
    assert!(tools.len() == 1 && !has_tools && doubts.is_empty(), "the demo");
    assert!(resources == crate::mcp::resources::Stock::default() && prompts.is_empty());
}

#[test]
fn without_tools_the_demo_is_served() {
    for text in ["", "[server]\nmax_body = '2MiB'\n", "[tools]\n"] {
        let config = read(&written(text)).expect(text);
        let [ToolConfig { tool, run }] = config.tools.as_slice() else { panic!("{text}: one tool") };
        assert_eq!((&*tool.name, &*tool.job_type), ("start_deep_analysis", "deep_gift_analysis"));
        assert!(matches!(run, Run::Demo { pace } if *pace == Millis::seconds(1)));
        assert_eq!(tool.input_schema, crate::handler::demo::input_schema());
    }
}

#[test]
fn a_tool_has_the_defaults_of_the_contract() {
    let config = read(&written(COMMAND_TOOL)).expect("complete");
    let ToolConfig { tool, run } = &config.tools[0];
    assert_eq!((&*tool.name, &*tool.job_type, &tool.title), ("t", "t", &None));
    assert_eq!(tool.input_schema, serde_json::json!({"type": "object"}));
    assert_eq!((&tool.output_schema, &tool.annotations, tool.expires_in), (&None, &None, None));
    assert_eq!((tool.inline_wait, tool.task_support), (Millis(0), TaskSupport::Auto));
    assert_eq!((tool.cancel_grace, tool.max_result), (Millis::seconds(5), 64 << 20));
    assert_eq!(tool.rules, Rules::default());
    let Run::Command(Settings {
        command,
        output,
        env,
        cwd,
        transient_exit_codes,
        permanent_exit_codes,
        ask_hold,
        cancel_grace,
        max_result,
    }) = run
    else {
        panic!("a command")
    };
    assert_eq!((command.as_slice(), *output), (["true".to_owned()].as_slice(), Form::Text));
    assert_eq!((env.len(), cwd, transient_exit_codes.len(), permanent_exit_codes.len()), (0, &None, 0, 0));
    assert_eq!(*ask_hold, Millis::seconds(30));
    assert_eq!((*cancel_grace, *max_result), (tool.cancel_grace, tool.max_result));
}

#[test]
fn a_tool_inherits_the_retry_settings_that_it_does_not_say() {
    let text = "[retry]\nmax_attempts = 7\nbase_delay = '2s'\n[tools.t]\ndescription = 'd'\n\
                run = { kind = 'command', command = ['true'] }\nretry = { base_delay = '9s', jitter = 0 }\n";
    let config = read(&written(text)).expect("complete");
    let expected =
        RetryPolicy { max_attempts: 7, base_delay: Millis::seconds(9), jitter: 0.0, ..RetryPolicy::default() };
    assert_eq!(config.tools[0].tool.rules.retry, expected);
    assert_eq!(config.retry, RetryPolicy { base_delay: Millis::seconds(2), jitter: 0.2, ..expected });
}

/// The text of a file, and all that is said about it.
const COMPLAINTS: &[(&str, &str)] = &[
    (
        "[queue]\nworkers = 'many'",
        "queue.workers = 'many' (line 2 of longhaul.toml): expected a whole number from 0 to 1024\n",
    ),
    (
        "queue.workers = 2000",
        "queue.workers = 2000 (line 1 of longhaul.toml): expected a whole number from 0 to 1024\n",
    ),
    ("queue.workers = -1", "queue.workers = -1 (line 1 of longhaul.toml): expected a whole number from 0 to 1024\n"),
    ("[queue]\nworker = 3", "queue.worker (line 2 of longhaul.toml): no such setting; did you mean `queue.workers`?\n"),
    ("[quue]\nworkers = 3", "quue (line 1 of longhaul.toml): no such setting; did you mean `queue`?\n"),
    (
        "[server]\nworkers = 3",
        "server.workers (line 2 of longhaul.toml): no such setting; did you mean `queue.workers`?\n",
    ),
    ("zzzzzz = 3", "zzzzzz (line 1 of longhaul.toml): no such setting\n"),
    ("queue = 3", "queue (line 1 of longhaul.toml): expected a table `[queue]`\n"),
    ("mcp.digest_over = 3", "mcp.digest_over (line 1 of longhaul.toml): no such setting\n"),
    (
        "server.max_body = '1MB'",
        "server.max_body = '1MB' (line 1 of longhaul.toml): expected a size such as 512KiB, 64MiB, 1GiB or a number of bytes from 1KiB to 1GiB\n",
    ),
    (
        "server.header_timeout = 10",
        "server.header_timeout = 10 (line 1 of longhaul.toml): expected a duration such as 250ms, 10s, 5m, 1h or 7d from 100ms to 10m\n",
    ),
    (
        "server.listen = 'localhost:1'",
        "server.listen = 'localhost:1' (line 1 of longhaul.toml): expected an IP address and a port, such as 127.0.0.1:7450\n",
    ),
    (
        "store.durability = 'none'",
        "store.durability = 'none' (line 1 of longhaul.toml): expected \"disk\" or \"process\"\n",
    ),
    ("retry.jitter = 1.5", "retry.jitter = 1.5 (line 1 of longhaul.toml): expected a number from 0 to 1\n"),
    ("retry.jitter = nan", "retry.jitter = nan (line 1 of longhaul.toml): expected a number from 0 to 1\n"),
    ("helpers = 'no'", "helpers = 'no' (line 1 of longhaul.toml): expected true or false\n"),
    (
        "[server]\nlisten = '0.0.0.0:80'",
        "server.listen (line 2 of longhaul.toml): 0.0.0.0 can be reached from outside: add a token (`longhaul token new`), or listen on 127.0.0.1 or [::1]\n",
    ),
    (
        "server.allowed_origins = ['*']",
        "server.allowed_origins = ['*'] (line 1 of longhaul.toml): expected a list of origins such as [\"https://app.example.org\"], without paths\n",
    ),
    ("tools = 1", "tools (line 1 of longhaul.toml): expected a table\n"),
    ("tools.t = 1", "tools.t (line 1 of longhaul.toml): expected a table\n"),
];

/// The lines after `COMMAND_TOOL`, which stand in the tool's table, and all that is said about them.
const TOOL_COMPLAINTS: &[(&str, &str)] = &[
    (
        "task_support = 'maybe'",
        "tools.t.task_support = 'maybe' (line 4 of longhaul.toml): expected \"auto\", \"never\" or \"required\"\n",
    ),
    ("ask_hold = '3s'", "tools.t.ask_hold (line 4 of longhaul.toml): no such setting\n"),
    (
        "retry = { max_attemps = 3 }",
        "tools.t.retry.max_attemps (line 4 of longhaul.toml): no such setting; did you mean `tools.t.retry.max_attempts`?\n",
    ),
    ("timout = '3s'", "tools.t.timout (line 4 of longhaul.toml): no such setting; did you mean `tools.t.timeout`?\n"),
    ("type = 'a b'", "tools.t.type (line 4 of longhaul.toml): expected 1 to 64 of A-Z a-z 0-9 _ . -\n"),
    (
        "input_schema = { type = 'array' }",
        "tools.t.input_schema (line 4 of longhaul.toml): expected `type = \"object\"`: arguments are an object\n",
    ),
    (
        "input_schema = '{'",
        "tools.t.input_schema (line 4 of longhaul.toml): is no JSON: EOF while parsing an object at line 1 column 1\n",
    ),
    (
        "input_schema = '[]'",
        "tools.t.input_schema (line 4 of longhaul.toml): expected a table, or the text of a JSON object\n",
    ),
    (
        "input_schema = { type = 'object', d = 2026-11-30 }",
        "tools.t.input_schema (line 4 of longhaul.toml): holds a date or a number that JSON has not\n",
    ),
    ("concurrency = 0", "tools.t.concurrency = 0 (line 4 of longhaul.toml): expected a whole number from 1 to 1024\n"),
];

/// Whole `run` tables, and all that is said about them.
const RUN_COMPLAINTS: &[(&str, &str)] = &[
    ("{}", "tools.t.run.kind (line 3 of longhaul.toml): is missing: `command`.\n"),
    ("{ kind = 'http' }", "tools.t.run.kind (line 3 of longhaul.toml): \"http\": expected one of "),
    ("{ kind = 'comand' }", "; did you mean \"command\"?\n"),
    ("{ kind = 'command' }", "tools.t.run.command (line 3 of longhaul.toml): is missing: Program and arguments; "),
    ("{ kind = 'command', command = [] }", "expected a program and its arguments\n"),
    ("{ kind = 'command', command = ['{payload.p}'] }", "the program itself must not come from the payload\n"),
    (
        "{ kind = 'command', command = 'ls' }",
        "tools.t.run.command = 'ls' (line 3 of longhaul.toml): expected a list of texts such as [\"sh\", \"-c\", \"date\"]\n",
    ),
    (
        "{ kind = 'command', command = ['ls'], persistent = true }",
        "tools.t.run.persistent (line 3 of longhaul.toml): no such setting\n",
    ),
    (
        "{ kind = 'command', command = ['ls'], ask_hold = '2d' }",
        "tools.t.run.ask_hold = '2d' (line 3 of longhaul.toml): expected a duration such as 250ms, 10s, 5m, 1h or 7d from 0s to 1d\n",
    ),
    ("{ kind = 'command', command = ['ls'], env = { A = 1 } }", "expected a table of texts such as { LANG = \"C\" }\n"),
    (
        "{ kind = 'command', command = ['ls'], transient_exit_codes = [0] }",
        "expected a list of exit codes from 1 to 255\n",
    ),
    (
        "{ kind = 'command', command = ['ls'], transient_exit_codes = [3], permanent_exit_codes = [3] }",
        "3 is also among transient_exit_codes\n",
    ),
    ("{ kind = 'demo', command = ['ls'] }", "tools.t.run.command (line 3 of longhaul.toml): no such setting\n"),
];

#[test]
fn each_mistake_is_told_with_its_line_and_what_was_expected() {
    for (text, expected) in COMPLAINTS {
        assert_eq!(complaints(text), *expected, "{text}");
    }
    for (line, expected) in TOOL_COMPLAINTS {
        assert_eq!(complaints(&format!("{COMMAND_TOOL}{line}")), *expected, "{line}");
    }
    for (run, expected) in RUN_COMPLAINTS {
        let said = complaints(&format!("[tools.t]\ndescription = 'd'\nrun = {run}"));
        assert!(said.contains(expected) && said.lines().count() == 1, "{run}: {said}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let said = complaints("[queue]\nworker = 1\nworkers = 'x'\n[tools.get_job]\nrun = { kind = 'demo' }\n[tools.u]\n");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("queue.worker (line 2"), "{said}");
    for part in
        ["tools.get_job (line 4", "tools.u.run (line 6", "tools.u.description (line 6", "queue.workers = 'x' (line 3"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let many: String = (0..300).map(|n| format!("zzz{n} = 1\n")).collect();
    assert_eq!(complaints(&many).lines().count(), COMPLAINTS_MAX);
}

#[test]
fn a_file_that_is_no_toml_is_told_line_by_line() {
    let said = complaints("[queue]\nworkers = \n[tools.t\n");
    assert!(said.contains("line 2 of longhaul.toml: ") && said.contains("line 3 of longhaul.toml: "), "{said}");
}

#[test]
fn names_and_types_of_tools_are_checked() {
    let long = "x".repeat(65);
    for name in ["\"a b\"", "\"a\\nb\"", "\"\"", "\"ü\"", long.as_str()] {
        let said = complaints(&format!("[tools.{name}]\ndescription = 'd'\nrun = {{ kind = 'demo' }}"));
        assert!(said.contains("expected a name of 1 to 64"), "{name}: {said}");
    }
    for name in HELPER_TOOLS {
        let said =
            complaints(&format!("helpers = false\n[tools.{name}]\ndescription = 'd'\nrun = {{ kind = 'demo' }}"));
        assert!(said.contains("is the name of a helper tool"), "{name}: {said}");
    }
    let twice = format!("{COMMAND_TOOL}[tools.u]\ntype = 't'\ndescription = 'd'\nrun = {{ kind = 'demo' }}");
    assert_eq!(complaints(&twice), "tools.u.type (line 5 of longhaul.toml): type \"t\" has a tool already: t\n");
}

#[test]
fn a_token_needs_a_name_a_hash_and_scopes() {
    let hash = format!("sha256:{}", "0f".repeat(32));
    let good = format!(
        "server.listen = '0.0.0.0:80'\n[[auth.tokens]]\nname = 'ci'\nhash = '{hash}'\nscopes = ['submit', 'read']\n"
    );
    let config = read(&written(&good)).expect("complete");
    let [token] = config.tokens.as_slice() else { panic!("one token") };
    assert_eq!((&*token.name, token.hash), ("ci", [0x0f; 32]));
    let has = [Scope::Submit, Scope::Read, Scope::Work, Scope::Admin].map(|scope| token.scopes.has(scope));
    assert_eq!(has, [true, true, false, false]);
    let cases = [
        (good.replace("'ci'", "'local'"), "and not `local`"),
        (good.replace("'ci'", "'a b'"), "visible ASCII"),
        (good.replace("0f", "0g"), "64 hex digits"),
        (good.replace("sha256:", ""), "64 hex digits"),
        (good.replace("'read'", "'root'"), "expected a list of: \"submit\", \"read\", \"work\", \"admin\""),
        (good.replace("scopes", "scope"), "auth.tokens.scope (line 5"),
        (good.replace("[[auth.tokens]]", "[auth.tokens]"), "expected `[[auth.tokens]]`"),
        (format!("{good}{}", &good[good.find("[[").unwrap_or(0)..]), "is used twice"),
    ];
    for (text, expected) in cases {
        let said = complaints(&text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let file =
        File { name: "f".to_owned(), text: "queue.workers = 1\nserver.max_body = '2MiB'\nserver.cache = 1".to_owned() };
    let mut all = Written {
        file: Some(File { text: file.text.replace("\nserver.cache = 1", ""), ..file }),
        environment: vec![("LONGHAUL_QUEUE_WORKERS".to_owned(), "2".to_owned()), ("PATH".to_owned(), "/".to_owned())],
        flags: vec![("workers", "3".to_owned())],
        path: None,
    };
    let config = read(&all).expect("complete");
    assert_eq!((config.workers, config.max_body), (3, Size::mib(2)));
    all.flags.clear();
    assert_eq!(read(&all).expect("complete").workers, 2);
    all.flags.push(("workers", "lots".to_owned()));
    let told = read(&all).expect_err("no number");
    assert_eq!(told[0].to_string(), "queue.workers = \"lots\" (--workers): expected a whole number from 0 to 1024");
}

#[test]
fn a_slip_in_a_variable_is_told_and_foreign_variables_are_not() {
    let variable = |name: &str| Written { environment: vec![(name.to_owned(), "x".to_owned())], ..Written::default() };
    let told = read(&variable("LONGHAUL_QUEUE_WORKER")).expect_err("a slip");
    assert!(told[0].to_string().contains("did you mean `LONGHAUL_QUEUE_WORKERS`?"), "{}", told[0]);
    for name in ["LONGHAUL_PORT", "LONGHAUL_SERVICE_HOST", "LONGHAUL_SERVER", "LONGHAUL_TOKEN", "LONGHAUL_LOG", "HOME"]
    {
        assert!(read(&variable(name)).is_ok(), "{name}");
    }
}

#[test]
fn the_public_url_is_kept_without_its_slash() {
    let config = read(&written("server.public_url = 'https://Jobs.example.org:8443/lh/'")).expect("complete");
    assert_eq!(config.public_url.as_deref(), Some("https://Jobs.example.org:8443/lh"));
}

#[test]
fn a_schema_is_a_table_or_a_text_of_json_and_keeps_its_order() {
    let as_table =
        "input_schema = { type = 'object', required = ['b', 'a'], properties = { b = { type = 'integer' }, a = {} } }";
    let as_text =
        r#"input_schema = '{"type":"object","required":["b","a"],"properties":{"b":{"type":"integer"},"a":{}}}'"#;
    let schema = |line: &str| {
        let config = read(&written(&format!("{COMMAND_TOOL}{line}"))).expect(line);
        config.tools[0].tool.input_schema.to_string()
    };
    assert_eq!(schema(as_table), schema(as_text));
    assert!(schema(as_table).starts_with(r#"{"type":"object","required":["b","a"],"properties":{"b""#));
}

#[test]
fn a_file_that_is_named_must_exist_and_one_that_is_not_need_not() {
    let nowhere = tempfile::tempdir().expect("a directory").path().join("no.toml");
    let told = find(Some(&nowhere)).expect_err("named and missing");
    assert!(told.to_string().contains("no.toml: cannot be opened"), "{told}");
}

#[test]
fn the_sample_that_comes_with_the_demo_is_a_configuration() {
    let sample = include_str!("../../data/demo/longhaul.toml");
    assert_eq!(complaints(sample), "");
    let config = read(&written(sample)).expect("no complaints");
    let names: Vec<_> = config.tools.iter().map(|tool| &*tool.tool.name).collect();
    assert_eq!(names, ["start_deep_analysis", "count_words", "count_to_five"]);
    assert_eq!(config.doubts, []);
}

#[test]
fn the_readme_has_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).expect("the README");
    let (before, rest) = readme.split_once("do not edit -->\n").expect("where the settings begin");
    let (settings, after) = rest.split_once("<!-- end of settings -->").expect("where they end");
    let expected = format!("\n{}\n", reference());
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::write(path, format!("{before}do not edit -->\n{expected}<!-- end of settings -->{after}"))
            .expect("written");
    } else {
        assert_eq!(settings, expected, "run this test with LONGHAUL_BLESS=1");
    }
}

#[test]
fn the_sample_configuration_is_whole() {
    let sample = include_str!("../../data/demo/longhaul.toml");
    assert_eq!(complaints(sample), "");
    let config = read(&written(sample)).expect("whole");
    let names: Vec<&str> = config.tools.iter().map(|tool| &*tool.tool.name).collect();
    assert_eq!(names, ["start_deep_analysis", "count_words", "count_to_five"]);
    assert_eq!(config.doubts, []);
    let unchanged = read(&Written::default()).expect("nothing written");
    let [demo, ..] = config.tools.as_slice() else { panic!("a demo") };
    assert_eq!(demo.tool, unchanged.tools[0].tool, "the demo is the one that is served without a configuration");
}

#[test]
fn every_setting_can_be_written_at_its_default() {
    let mut text = String::new();
    for row in SERVER.iter().chain(RETRY) {
        let Some(default) = row.default else { continue };
        let bare =
            default.parse::<f64>().is_ok() || matches!(default, "true" | "false") || row.form.starts_with("a list");
        let value = match () {
            () if row.form.starts_with("a list") => format!("[{default}]"),
            () if bare => default.to_owned(),
            () => format!("{default:?}"),
        };
        text += &format!("{} = {value}\n", row.key);
    }
    let written_out = read(&written(&text)).unwrap_or_else(|told| panic!("{text}\n{told:?}"));
    assert_eq!(format!("{written_out:?}"), format!("{:?}", read(&Written::default()).expect("nothing written")));
}
