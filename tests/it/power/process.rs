//! The real binary on a directory of choice, with an environment of choice.
//!
//! In: a configuration and a directory. Out: a process that serves, or what it said when it did not. Ended when dropped, by
//! its own id.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::server::binary;

/// What to start.
pub struct Start<'a> {
    /// The configuration file.
    pub config: &'a Path,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Added to the environment.
    pub environment: Vec<(&'static str, String)>,
}

/// A process that serves.
pub struct Process {
    child: Child,
    /// `host:port`.
    pub address: String,
    said: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// Its exit and what it said, if it ended instead.
    pub fn start(start: &Start<'_>) -> Result<Self, String> {
        let mut child = Command::new(binary())
            .arg("serve")
            .arg("--config")
            .arg(start.config)
            .arg("--data-dir")
            .arg(&start.data_dir)
            .args(["--listen", "127.0.0.1:0"])
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let said = listen(child.stderr.take().expect("stderr is piped"));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        if lines.read_line(&mut line).expect("stdout is readable") > 0
            && let Some((_, address)) = line.split_once("http://")
        {
            return Ok(Self { child, address: address.trim().to_owned(), said: Some(said) });
        }
        let status = child.wait().expect("the child is reaped");
        Err(format!("{status}: {}", said.join().expect("its words")))
    }

    /// `kill -9`, and what it said.
    pub fn kill(mut self) -> String {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().expect("the child is reaped");
        self.words()
    }

    /// Tells it to end; how it did, and what it said.
    pub fn stop(mut self) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the server is there");
        let status = self.child.wait().expect("the child is reaped");
        (status, self.words())
    }

    fn words(&mut self) -> String {
        self.said.take().map(|said| said.join().expect("its words")).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects what a process says.
fn listen(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // Whatever came until it broke off is what it said.
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// Runs `verify` on a data directory: nothing, or what it complains about.
pub fn verify(data_dir: &Path) -> Result<(), String> {
    let run = Command::new(binary()).args(["verify", "--data-dir"]).arg(data_dir).output().expect("verify runs");
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    if run.status.success() { Ok(()) } else { Err(format!("verify: {}: {said}", run.status)) }
}
