//! The house rules, enforced: who may import whom, which outside crates live where, how long things may be, how files
//! open, which words are never there.
//!
//! In: the sources as they stand. Out: nothing, or every breach at once. Each rule is tried on a breach of its own below.

#[path = "tidy/code.rs"]
mod code;

use std::collections::HashSet;
use std::path::Path;

/// Longest file, in lines.
const FILE_LINES_MAX: usize = 500;
/// Longest function, in lines.
const FUNCTION_LINES_MAX: usize = 60;

/// Each module, and what it may import; the map in `src/README.md` says why.
const IMPORTS: &[(&str, &[&str])] = &[
    ("job", &[]),
    ("fault", &[]),
    ("clock", &["job"]),
    ("net", &["job"]),
    ("shutdown", &["job"]),
    ("metrics", &["job"]),
    ("work", &["job"]),
    ("store", &["fault", "job", "clock"]),
    ("events", &["job", "store"]),
    ("core", &["fault", "job", "clock", "work", "store", "events", "metrics"]),
    ("service", &["fault", "job", "clock", "store", "events", "core", "metrics"]),
    ("handler", &["job", "clock", "work", "net"]),
    ("run", &["fault", "job", "clock", "work", "handler", "shutdown", "metrics"]),
    ("remote", &["job", "clock", "work", "net"]),
    ("mcp", &["job", "clock", "net", "service", "events"]),
    ("http", &["fault", "job", "clock", "work", "service", "events", "mcp", "shutdown", "metrics"]),
];

/// A word, and the places in `src/` that may say it.
const FENCES: &[(&str, &[&str])] = &[
    ("sled::", &["store/sled"]),
    ("hyper::", &["http/", "net/"]),
    ("hyper_util::", &["http/", "net/"]),
    ("SystemTime", &["clock.rs"]),
    ("std::process::Command", &["handler/"]),
    ("std::process::Child", &["handler/"]),
    ("process::{Child", &["handler/"]),
    ("process::{Command", &["handler/"]),
    ("Command::new(", &["handler/", "cli/settings.rs"]),
];

/// Marks of what is not finished, in code or comment.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
/// The same as macros.
const UNFINISHED_MACROS: &[&str] = &[concat!("to", "do!("), concat!("unimple", "mented!(")];

/// Places of the machine it was written on: they mean nothing to anybody else.
const WORKPLACE: &[&str] = &[
    concat!("/wo", "rk/w/"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/target"),
    concat!("/wo", "rk/shared"),
    concat!("../sha", "red/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// A file by its path from the root of the package.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The module under `src/` that it belongs to; `None` for the crate's root and for what is not in `src/`.
    fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "lib" | "main")).then_some(name)
    }
}

fn check_imports(source: &Source, code: &str, breaches: &mut Vec<String>) {
    let Some(module) = source.module().filter(|module| !matches!(*module, "config" | "cli")) else { return };
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == module) else {
        breaches.push(format!("{}: the module `{module}` has no line in the table of imports", source.path));
        return;
    };
    for (name, line) in code::crate_paths(code) {
        let is_module = IMPORTS.iter().any(|(known, _)| *known == name) || matches!(&*name, "config" | "cli");
        if is_module && name != module && !allowed.contains(&&*name) {
            breaches.push(format!("{}:{line}: `{module}` may not import `{name}`", source.path));
        }
    }
}

fn check_fences(source: &Source, code: &str, breaches: &mut Vec<String>) {
    let Some(inside) = source.path.strip_prefix("src/") else { return };
    let tokio = code.lines().any(|line| line.contains("use tokio::time::") && line.contains("Instant"));
    for (line, text) in code.lines().enumerate() {
        for (word, places) in FENCES {
            if has_word(text, word) && !places.iter().any(|place| inside.starts_with(place)) {
                breaches.push(format!("{}:{}: `{word}` belongs to {}", source.path, line + 1, places.join(", ")));
            }
        }
        let asks = text.contains("Instant::now") && !text.contains("tokio::time::Instant");
        if asks && !tokio && inside != "clock.rs" {
            breaches.push(format!("{}:{}: only clock.rs asks what time it is", source.path, line + 1));
        }
    }
}

/// Whether the word is there and does not only end a longer one, or a path.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
    })
}

fn check_lengths(source: &Source, code: &str, breaches: &mut Vec<String>) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        breaches.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", source.path));
    }
    for (name, line, lines) in code::functions(code) {
        if lines > FUNCTION_LINES_MAX {
            breaches.push(format!("{}:{line}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}", source.path));
        }
    }
}

fn check_opening(source: &Source, breaches: &mut Vec<String>) {
    let opens = |line: &str| line.starts_with("//!") || line.starts_with("#![doc = include_str!(");
    if !source.text.lines().next().is_some_and(opens) {
        breaches.push(format!("{}: does not open with its story (`//!`)", source.path));
    }
}

fn check_words(source: &Source, breaches: &mut Vec<String>) {
    for (line, text) in source.text.lines().enumerate() {
        let unfinished = UNFINISHED.iter().find(|word| has_word(text, word));
        let unfinished = unfinished.or_else(|| UNFINISHED_MACROS.iter().find(|word| has_word(text, word)));
        let workplace = WORKPLACE.iter().find(|word| text.contains(**word));
        for word in unfinished.into_iter().chain(workplace) {
            breaches.push(format!("{}:{}: says `{word}`", source.path, line + 1));
        }
    }
}

/// Every breach of every rule. Files that others declare as tests are spared the rules on imports and fences.
fn breaches(sources: &[Source]) -> Vec<String> {
    let mut breaches = Vec::new();
    let rust: Vec<&Source> = sources.iter().filter(|source| source.path.ends_with(".rs")).collect();
    let blanked: Vec<String> = rust.iter().map(|source| code::blank(&source.text)).collect();
    let mut tests = HashSet::new();
    let mut plain = Vec::new();
    for (source, code) in rust.iter().zip(&blanked) {
        let (rest, files) = code::without_tests(code);
        plain.push(rest);
        tests.extend(files.into_iter().map(|name| beneath(&source.path).join(name)));
    }
    for ((source, code), plain) in rust.iter().zip(&blanked).zip(&plain) {
        let is_test = Path::new(&source.path).with_extension("").ancestors().any(|path| tests.contains(path));
        if !is_test {
            check_imports(source, plain, &mut breaches);
            check_fences(source, plain, &mut breaches);
        }
        check_lengths(source, code, &mut breaches);
        check_opening(source, &mut breaches);
    }
    sources.iter().for_each(|source| check_words(source, &mut breaches));
    breaches
}

/// The folder of the modules that a file declares.
fn beneath(path: &str) -> std::path::PathBuf {
    let path = Path::new(path);
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.parent().unwrap_or(path).to_owned(),
        _ => path.with_extension(""),
    }
}

/// Everything that is written by hand, below a folder: not what the clients' package managers put there.
fn gather(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("a readable folder")) {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && (name == "node_modules" || name.starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            gather(root, &path, sources);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let inside = path.strip_prefix(root).expect("below the root");
            sources.push(Source::new(&inside.to_string_lossy(), &text));
        }
    }
}

#[test]
fn the_sources_keep_the_rules_of_the_house() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "fuzz/src", ".ci", "docs"] {
        gather(root, &root.join(folder), &mut sources);
    }
    for file in ["README.md", "CHANGELOG.md", "Cargo.toml", "fuzz/Cargo.toml"] {
        sources.extend(std::fs::read_to_string(root.join(file)).ok().map(|text| Source::new(file, &text)));
    }
    assert!(sources.len() > 50, "the sources were not found");
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    let breaches = breaches(&sources);
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

/// A file, and a part of the only breach in it; none if the part is empty.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("src/job/x.rs", "//! S.\nuse crate::store::Store;\n", "src/job/x.rs:2: `job` may not import `store`"),
    ("src/run/x.rs", "//! S.\nuse crate::{job, http};\n", "`run` may not import `http`"),
    ("src/run/x.rs", "//! S.\nuse crate::job::Job;\nuse crate::run::y;\n// crate::http\n", ""),
    ("src/run/x.rs", "//! S.\n#[cfg(test)]\nmod tests { use crate::http; }\n", ""),
    ("src/cli/serve.rs", "//! S.\nuse crate::store::sled::Sled;\n", ""),
    ("src/cli/serve.rs", "//! S.\nuse sled::Db;\n", "`sled::` belongs to store/sled"),
    ("src/new/x.rs", "//! S.\n", "has no line in the table"),
    ("src/mcp/x.rs", "//! S.\nuse hyper::Uri;\n", "`hyper::` belongs to http/, net/"),
    ("src/http/x.rs", "//! S.\nuse hyper::Uri;\n", ""),
    ("src/core/x.rs", "//! S.\nfn f() { std::time::Instant::now(); }\n", "only clock.rs asks"),
    ("src/http/x.rs", "//! S.\nuse tokio::time::{sleep, Instant};\nfn f() { Instant::now(); }\n", ""),
    ("src/run/x.rs", "//! S.\nuse std::process::Command;\n", "belongs to handler/"),
    ("src/job/x.rs", "use std::fmt;\n", "does not open with its story"),
    ("src/job/x.rs", concat!("//! S.\n// TO", "DO: more\n"), "says `"),
    ("src/job/x.rs", concat!("//! S.\nfn f() { to", "do!() }\n"), "says `"),
    ("README.md", concat!("see /wo", "rk/shared/x\n"), "README.md:1: says `"),
];

#[test]
fn each_rule_finds_its_breach() {
    for (path, text, expected) in EXAMPLES {
        let found = breaches(&[Source::new(path, text)]);
        match *expected {
            "" => assert!(found.is_empty(), "{path} {text:?}: {found:?}"),
            part => assert!(found.len() == 1 && found[0].contains(part), "{path} {text:?}: {found:?}"),
        }
    }
    let long_file = format!("//! S.\n{}", "\n".repeat(FILE_LINES_MAX));
    let long_function = format!("//! S.\nfn f() {{{}}}\n", "\n".repeat(FUNCTION_LINES_MAX));
    assert!(breaches(&[Source::new("tests/x.rs", &long_file)])[0].contains("501 lines, at most 500"));
    assert!(breaches(&[Source::new("src/job/x.rs", &long_function)])[0].contains("`f` has 61 lines, at most 60"));
}

#[test]
fn a_file_that_is_declared_as_a_test_may_import_what_it_tests_with() {
    let parent = Source::new("src/job/mod.rs", "//! S.\n#[cfg(test)]\nmod trials;\n");
    let child = Source::new("src/job/trials.rs", "//! S.\nuse crate::store::Store;\n");
    let grandchild = Source::new("src/job/trials/more.rs", "//! S.\nuse crate::http::Server;\n");
    assert_eq!(breaches(&[parent, child, grandchild]), Vec::<String>::new());
}
