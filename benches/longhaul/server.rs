//! A server as a child process: the real binary on a real directory, or one of the bare ones.
//!
//! In: what to serve. Out: its address once it serves. It ends with the value that names it, by its own process id.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{BARE, Result};

/// The name of the one tool, and of its jobs' type.
pub const TOOL: &str = "work";

/// The tool runs a program that does nothing; a call waits for it when it is asked to. Nothing is refused for number.
const CONFIG: &str = r#"
[queue]
max_pending = 100000000

[tools.work]
description = "does nothing, durably"
run = { kind = "command", command = ["true"] }
"#;

/// A running server. Killed when dropped.
pub struct Server {
    child: Child,
    /// Where it serves.
    pub address: SocketAddr,
}

/// A directory that is gone when dropped: in `TMPDIR` if that is set, else among the build's files and so on a real disk.
pub fn directory() -> Result<TempDir> {
    let root = std::env::var_os("TMPDIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    Ok(tempfile::tempdir_in(root)?)
}

/// Where a server with this directory keeps its store.
pub fn store_of(directory: &Path) -> PathBuf {
    directory.join("data/store")
}

impl Server {
    /// The real binary, with so many workers. `inline_wait`: how long a call waits for its result.
    pub fn real(directory: &Path, workers: usize, inline_wait: &str) -> Result<Self> {
        let config = directory.join("longhaul.toml");
        std::fs::write(&config, format!("{CONFIG}inline_wait = \"{inline_wait}\"\n"))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("serve").arg("--config").arg(config);
        command.arg("--data-dir").arg(directory.join("data"));
        command.args(["--listen", "127.0.0.1:0", "--workers", &workers.to_string()]);
        Self::spawn(&mut command)
    }

    /// A bare server: this program with a hidden argument.
    pub fn bare(role: &[&str]) -> Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).arg(BARE).args(role))
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().ok_or("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next().transpose()? {
            if let Some((_, rest)) = line.split_once("http://") {
                let address = rest.split_whitespace().next().unwrap_or_default().parse()?;
                std::thread::spawn(move || lines.count());
                return Ok(Self { child, address });
            }
        }
        let status = child.wait()?;
        Err(format!("{command:?} did not serve: {status}").into())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
