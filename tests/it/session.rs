//! The README's one-minute session, as printed: whoever copies its lines sees what it says.
//!
//! In: the lines that begin with `$ ` in its first console block. They run in one shell, in which `cargo run … --` is the
//! binary under test (`LONGHAUL_BINARY` names another), on a port and in a directory of their own.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::support::server::binary;

/// What the shell knows before the first line. A server is waited for instead of being read about; nothing else differs
/// from a person's shell, but that only the session's own server can be found and killed.
const PREAMBLE: &str = r#"
set -eu
serving() { for _ in $(seq 1200); do "$LONGHAUL_BINARY" list >/dev/null 2>&1 && return; sleep 0.05; done; return 1; }
longhaul() {
  if [ "${1-}" != serve ]; then "$LONGHAUL_BINARY" "$@"; return; fi
  "$LONGHAUL_BINARY" "$@" >>"$SERVER_LOG" 2>&1 & server=$!
  serving
}
cargo() { while [ "$1" != -- ]; do shift; done; shift; longhaul "$@"; }
pgrep() { echo "$server"; }
pkill() { kill -9 "$server"; wait "$server" || true; }
killall() { pkill; }
"#;

/// The commands of the first console block: a line each, or more if they end in a backslash.
fn commands(readme: &str) -> Vec<String> {
    let block = readme.split("```console").nth(1).expect("a console block").split("```").next().expect("its end");
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        let command = line.strip_prefix("$ ");
        match (command, commands.last_mut()) {
            (None, Some(last)) if goes_on => *last = format!("{last}\n{line}"),
            (Some(command), _) => commands.push(command.to_owned()),
            (None, _) => continue,
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Runs the commands in one shell, and ends all that they started.
fn run(commands: &[String], dir: &std::path::Path, address: &str) -> Output {
    // Its server is in the background already; a job's number means nothing in another shell.
    let line = |command: &String| command.trim_end().trim_end_matches('&').replace("kill -9 %1", "pkill");
    let script = commands.iter().map(line).collect::<Vec<_>>().join("\n");
    let binary = std::env::var_os("LONGHAUL_BINARY").map_or_else(|| binary().to_owned(), PathBuf::from);
    let child = Command::new("bash")
        .args(["-c", &format!("{PREAMBLE}\n{script}\n")])
        .current_dir(dir)
        .env("LONGHAUL_BINARY", binary.canonicalize().expect("the binary is there"))
        .env("LONGHAUL_SERVER_LISTEN", address)
        .env("LONGHAUL_SERVER_DATA_DIR", dir.join("data"))
        .env("LONGHAUL_SERVER", format!("http://{address}"))
        .env("SERVER_LOG", dir.join("server.log"))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let group = Pid::from_child(&child);
    let output = child.wait_with_output().expect("the shell ends");
    // The last server it left behind; there may be none.
    let _ = kill_process_group(group, Signal::KILL);
    output
}

#[test]
fn the_session_in_the_readme_ends_in_a_completed_job_after_a_kill() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("the README");
    let commands = commands(&readme);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its number");
    let mut all = commands.clone();
    all.push("longhaul list --json".to_owned());
    let output = run(&all, dir.path(), &port.to_string());
    let said = format!(
        "{}\n--- stderr ---\n{}\n--- server ---\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        std::fs::read_to_string(dir.path().join("server.log")).unwrap_or_default()
    );
    assert!(output.status.success(), "a command failed: {commands:#?}\n{said}");
    assert!(commands.iter().any(|command| command.contains("kill")), "the server is killed on the way");
    assert!(commands.iter().filter(|command| command.contains("serve")).count() >= 2, "and started again");
    let last = String::from_utf8_lossy(&output.stdout);
    let jobs: Vec<Value> = last.lines().rev().map_while(|line| serde_json::from_str(line).ok()).collect();
    assert!(!jobs.is_empty(), "there is a job\n{said}");
    assert!(jobs.iter().all(|job| job["status"] == "completed"), "the job completed\n{said}");
}
