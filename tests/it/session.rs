//! The README's session, executed: each command as it is printed, and below it what it is said to print.
//!
//! In: the `console` block of `README.md`, and the binary under test or the one that `LONGHAUL_BINARY` names (an absolute
//! path). Out: nothing, or the line that did not come. Digits are not compared, and `…` stands for anything. Waits for
//! lines, never for time; only a session that hangs runs into the limit.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for one line: a session that hangs ends.
const LINE_WAIT: Duration = Duration::from_secs(90);

/// Commands with the lines that are shown below them.
fn steps(readme: &str) -> Vec<(String, Vec<String>)> {
    let (_, rest) = readme.split_once("```console\n").expect("a session");
    let (block, _) = rest.split_once("```").expect("its end");
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command.to_owned(), Vec::new())),
            None => steps.last_mut().expect("a command first").1.push(line.to_owned()),
        }
    }
    steps
}

/// Whether a line is the one that is shown: digits aside, and `…` for anything.
fn is_shown(shown: &str, line: &str) -> bool {
    let plain = |text: &str| {
        let mut plain = String::new();
        for c in text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }) {
            if !(c == '0' && plain.ends_with('0')) {
                plain.push(c);
            }
        }
        plain
    };
    let (shown, line) = (plain(shown), plain(line));
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = true;
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open &= part.is_empty();
    }
    rest.is_empty() || is_open
}

/// A shell whose processes end with the test.
struct Shell {
    child: Child,
    lines: Receiver<String>,
}

impl Shell {
    fn start(dir: &std::path::Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
        let mut child = Command::new("bash")
            .current_dir(dir)
            .env("LONGHAUL_SERVER_LISTEN", format!("127.0.0.1:{port}"))
            .env("LONGHAUL_SERVER", format!("http://127.0.0.1:{port}"))
            .env("BIN", std::env::var_os("LONGHAUL_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_longhaul").into()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn say(&mut self, command: &str) {
        let command =
            command.replace("cargo run --release --", "\"$BIN\"").replace("target/release/longhaul", "\"$BIN\"");
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{command}").expect("the shell listens");
    }

    fn expect(&self, command: &str, shown: &str) {
        let mut passed = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LINE_WAIT) {
            if is_shown(shown, &line) {
                return;
            }
            passed.push(line);
        }
        panic!("after `{command}` the README shows\n  {shown}\nbut these lines came:\n  {}", passed.join("\n  "));
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell ends what it started, by its own list of jobs, and then itself.
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = writeln!(stdin, "kill -9 $(jobs -p); exit");
        }
        let _ = self.child.wait();
    }
}

#[test]
fn the_session_in_the_readme_runs_as_it_is_printed() {
    let readme = include_str!("../../README.md");
    let steps = steps(readme);
    assert!(steps.iter().any(|(command, _)| command.starts_with("kill -9")), "it pulls the plug");
    let dir = tempfile::tempdir().expect("a directory");
    let mut shell = Shell::start(dir.path());
    shell.say("exec 2>&1");
    for (command, shown) in &steps {
        shell.say(command);
        shown.iter().filter(|shown| *shown != "…").for_each(|shown| shell.expect(command, shown));
    }
}

#[test]
fn a_line_is_compared_without_its_digits() {
    assert!(is_shown("14:03:07 … job.progress 2/4 50% …", "09:59:01 01a2-b3 job.progress 2/4 50% 13 segments"));
    assert!(is_shown("serves on http://127.0.0.1:7450", "serves on http://127.0.0.1:34567"));
    assert!(!is_shown("serves", "serves on") && !is_shown("… done", "is not done yet") && !is_shown("a … b", "a c"));
}
