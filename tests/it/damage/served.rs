//! The real binary on a data directory that may be anything.
//!
//! In: a directory. Out: a server, or what it said instead and its exit code. A server that says nothing is a failure, not a
//! wait for ever.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Client;
use crate::support::server::binary;

/// Longest that a start may take before it counts as a loop: a bound, not a measure.
const START_MAX: Duration = Duration::from_secs(120);

/// How a start went.
pub enum Start {
    /// It serves.
    Serves(Served),
    /// It said this, and ended.
    Ended(End),
}

/// How a process ended.
#[derive(Debug)]
pub struct End {
    /// Its exit code; `None` for a signal.
    pub code: Option<i32>,
    /// All it wrote to stderr.
    pub said: String,
}

impl End {
    /// No panic reached the outside.
    pub fn is_decent(&self) -> bool {
        self.code.is_some_and(|code| code != 101)
            && !self.said.contains("' panicked at")
            && !self.said.contains("RUST_BACKTRACE")
    }
}

/// A running server.
pub struct Served {
    child: Child,
    /// A client of it.
    pub client: Client,
    log: mpsc::Receiver<String>,
}

/// Starts the server on `place`, which holds `longhaul.toml` and `data`.
pub fn start(place: &Path) -> Start {
    let mut command = Command::new(binary());
    command.args(["serve", "--config"]).arg(place.join("longhaul.toml")).args(["--listen", "127.0.0.1:0"]);
    start_by(command, place)
}

/// The same by a command of one's own, which gets the data directory.
pub fn start_by(mut command: Command, place: &Path) -> Start {
    command.arg("--data-dir").arg(place.join("data")).current_dir(place);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let (told, log) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is told all the same.
        let _ = stderr.read_to_end(&mut bytes);
        told.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    let stdout = child.stdout.take().expect("stdout is piped");
    let (told, first) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        let _ = told.send(lines.next().and_then(Result::ok));
        lines.for_each(drop);
    });
    let Ok(first) = first.recv_timeout(START_MAX) else {
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        panic!("neither served nor ended: {}", log.recv().unwrap_or_default());
    };
    match first.as_deref().and_then(|line| line.split("http://").nth(1)) {
        Some(address) => {
            Start::Serves(Served { child, client: Client::new(&format!("http://{}", address.trim())), log })
        }
        None => Start::Ended(end_of(&mut child, &log)),
    }
}

fn end_of(child: &mut Child, log: &mpsc::Receiver<String>) -> End {
    let code = child.wait().expect("it ends").code();
    End { code, said: log.recv().unwrap_or_default() }
}

impl Served {
    /// The process, for signals.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Asks it to end, if it has not, and waits for that.
    pub fn end(mut self) -> End {
        if self.child.try_wait().expect("it can be asked").is_none() {
            kill_process(self.pid(), Signal::TERM).expect("it is there");
        }
        end_of(&mut self.child, &self.log)
    }

    /// Waits for its end, which must come by itself.
    pub fn wait(mut self) -> End {
        end_of(&mut self.child, &self.log)
    }

    /// `kill -9`; does not wait.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is there");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `longhaul verify` on `place`.
pub fn verify(place: &Path) -> End {
    let output = Command::new(binary()).args(["verify", "--data-dir"]).arg(place.join("data")).output();
    let output = output.expect("verify runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    End { code: output.status.code(), said }
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let into = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &into);
        } else {
            fs::copy(entry.path(), into).expect("copied");
        }
    }
}
