//! The binary under test as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;

/// One tool of the test-only kind, retried quickly.
pub const TRIAL: &str = r#"
[tools.trial]
description = "does what its payload says"
run = { kind = "trial" }
retry = { base_delay = "50ms", max_delay = "200ms" }
cancel_grace = "2s"
"#;

/// A running server, its directory and its port. Killed when dropped.
pub struct Server {
    process: Option<Process>,
    dir: tempfile::TempDir,
    config: PathBuf,
    address: String,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    log: Arc<Mutex<String>>,
}

/// A moment in a start, whatever the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So many calls to read and write were made.
    Calls(u64),
    /// A snapshot is being written.
    Snapshot,
}

/// One run of the binary.
struct Process {
    child: Child,
    /// Its first lines, until it says where it serves.
    stdout: Option<BufReader<ChildStdout>>,
    /// Reads its log to the end.
    reader: Option<JoinHandle<()>>,
    /// How long the log was before it.
    log_began: usize,
}

impl Server {
    /// Starts a server with this configuration on a free port, and waits until it serves.
    pub fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// The same with further flags.
    pub fn start_with(config: &str, flags: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), config, flags)
    }

    /// The same with its directory in this folder.
    pub fn start_in(folder: &Path, config: &str, flags: &[&str]) -> Self {
        let mut server = Self::prepare_in(folder, config, flags);
        server.start_again();
        server
    }

    /// A server that is not started yet: `launch` or `start_again` does that.
    pub fn prepare(config: &str) -> Self {
        Self::prepare_in(&std::env::temp_dir(), config, &[])
    }

    fn prepare_in(folder: &Path, config: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir_in(folder).expect("a temporary directory");
        let file = dir.path().join("longhaul.toml");
        std::fs::write(&file, config).expect("the configuration is written");
        Self {
            process: None,
            dir,
            config: file,
            address: "127.0.0.1:0".to_owned(),
            flags: flags.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            log: Arc::default(),
        }
    }

    /// Puts a variable into the environment of the next starts, or takes it out.
    pub fn set_variable(&mut self, name: &str, value: Option<&str>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it was started")
    }

    fn child(&mut self) -> &mut Child {
        &mut self.process.as_mut().expect("it was started").child
    }

    /// A client of this server; it outlives restarts.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address))
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.config.clone()
    }

    /// Where the server keeps its data.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The process, for signals.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process().child)
    }

    /// Whether the process stands still (`SIGSTOP`).
    pub fn is_stopped(&self) -> bool {
        self.of_process("stat").rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    /// Resident memory of the process, in bytes.
    pub fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// The most resident memory that the process has had since `forget_peak`, in bytes.
    pub fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// From now on `peak` counts anew.
    pub fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process().child.id()), "5").expect("the kernel takes it");
    }

    fn memory(&self, name: &str) -> usize {
        let status = self.of_process("status");
        let line = status.lines().find(|line| line.starts_with(name)).expect("resident memory");
        let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        kib * 1024
    }

    /// Open descriptors of the process.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process().child.id())).expect("descriptors").count()
    }

    fn of_process(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.process().child.id())).expect("the process is there")
    }

    /// Calls to read and write that the process has made: how far it has come, whatever the time. `None` once it has ended.
    pub fn calls(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.process().child.id())).ok()?;
        let counts = text.lines().filter(|line| line.starts_with("sysc")).filter_map(|line| line.split_once(": "));
        Some(counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
    }

    /// What the server has written to its log so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log's lock").clone()
    }

    /// `kill -9`, and the end of the process.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child().kill();
        self.child().wait().expect("the child is reaped");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server is there");
    }

    /// Waits for the process to end by itself.
    pub fn wait_exit(&mut self) -> ExitStatus {
        self.child().wait().expect("the child is reaped")
    }

    /// All that the ended process has written to its log.
    pub fn last_words(&mut self) -> String {
        let process = self.process.as_mut().expect("it was started");
        if let Some(reader) = process.reader.take() {
            reader.join().expect("the log is read");
        }
        let began = process.log_began;
        self.log().split_off(began)
    }

    /// Whether the process has ended by itself.
    pub fn has_exited(&mut self) -> bool {
        self.child().try_wait().expect("the child can be asked").is_some()
    }

    /// Starts it again on the same directory and port. It must have ended.
    pub fn start_again(&mut self) {
        self.try_start_again().unwrap_or_else(|why| panic!("the server does not start again: {why}"));
    }

    /// The same, or how the server ended and what it had said when it did not start.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        self.launch();
        self.wait_serving()
    }

    /// Starts it on the same directory and port, and waits for nothing.
    pub fn launch(&mut self) {
        let mut child = Command::new(binary())
            .arg("serve")
            .arg("--config")
            .arg(&self.config)
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(["--listen", &self.address])
            .args(&self.flags)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().map(BufReader::new);
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (into, log_began) = (self.log.clone(), self.log().len());
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut piece) {
                into.lock().expect("the log's lock").push_str(&String::from_utf8_lossy(&piece[..n]));
            }
        });
        self.process = Some(Process { child, stdout, reader: Some(reader), log_began });
    }

    /// Waits until the launched process serves, or returns how it ended without and what it had said.
    pub fn wait_serving(&mut self) -> Result<(), String> {
        let process = self.process.as_mut().expect("it was started");
        let mut lines = process.stdout.take().expect("it was not waited for yet");
        let mut line = String::new();
        // The first line on stdout says where it serves, once it does.
        while lines.read_line(&mut line).map_err(|why| why.to_string())? > 0 {
            if let Some(at) = line.find("http://") {
                line[at + 7..].split_whitespace().next().expect("an address").clone_into(&mut self.address);
                // Whatever else it prints is read, so that it never blocks on us.
                std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return Ok(());
            }
            line.clear();
        }
        let status = self.wait_exit();
        Err(format!("{status}\n{}", self.last_words()))
    }

    /// Replaces the configuration for the next start.
    pub fn reconfigure(&self, config: &str) {
        std::fs::write(&self.config, config).expect("the configuration is written");
    }

    /// `kill -9` and start again.
    pub fn crash(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Starts it and kills it at this moment, or as soon as it serves.
    pub fn kill_in_start(&mut self, moment: Moment) {
        self.launch();
        while !self.has_come(moment) && !self.has_exited() && TcpStream::connect(&self.address).is_err() {
            std::thread::yield_now();
        }
        self.kill();
    }

    fn has_come(&self, moment: Moment) -> bool {
        match moment {
            Moment::Calls(calls) => self.calls().is_none_or(|made| made >= calls),
            Moment::Snapshot => {
                let files = std::fs::read_dir(self.data_dir().join("store")).into_iter().flatten().flatten();
                files.into_iter().any(|file| file.file_name().to_string_lossy().ends_with(".generating"))
            }
        }
    }

    /// Runs `longhaul verify` on the directory of the ended server: whether all holds, and what it said.
    pub fn verify(&self) -> (bool, String) {
        let output =
            Command::new(binary()).args(["verify", "--data-dir"]).arg(self.data_dir()).output().expect("verify runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

/// The binary under test, or the one that `LONGHAUL_BINARY` names (an absolute path): a long run outlives a build.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let built = || env!("CARGO_BIN_EXE_longhaul").into();
    BINARY.get_or_init(|| std::env::var_os("LONGHAUL_BINARY").map_or_else(built, PathBuf::from))
}
