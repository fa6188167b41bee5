//! One data directory's history: several lives of a server under the recorder, and what its clients learned in them.
//!
//! In: what to do in each life. Out: records, facts with their places among the records, the directory as it is at the end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::process::{Process, Start};
use super::record::{LAST, LAST_SYNC, LOG, ROOT, Record};
use super::wire::{Place, Ports};
use super::workload::{Journal, Known};

/// A disk in memory, where there is one: what a crash leaves is computed here, and no disk is in it.
const MEMORY: &str = "/dev/shm";

/// A new folder for what a test makes.
pub fn folder() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("longhaul-power-");
    let memory = Path::new(MEMORY);
    let made = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// The recorder, built once.
fn recorder() -> &'static Path {
    static RECORDER: OnceLock<PathBuf> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/recorder");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorder");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Not the flags of whoever runs this test: coverage, for one, is not wanted in there.
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--offline", "--locked", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_BUILD_TARGET")
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "the recorder: {}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/liblonghaul_power_recorder.so")
    })
}

/// When a server dies by itself.
#[derive(Debug, Clone, Copy)]
pub enum Death {
    /// Never.
    Never,
    /// After so many records.
    Records(u64),
    /// When so many syncs have been asked for, before the last of them is done.
    Syncs(u64),
}

/// Where a life begins and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// The record with which it begins.
    pub from: usize,
    /// The record with which it serves, or ends.
    pub serves: usize,
    /// Whether old jobs may be removed in it.
    pub trims: bool,
}

/// A history under way.
pub struct Recorder {
    tmp: tempfile::TempDir,
    breach: Option<&'static str>,
    /// Ports of its clients.
    pub ports: Ports,
    /// What its clients have learned.
    pub journal: Journal,
}

impl Recorder {
    /// With an empty directory, and a promise to break if there is one.
    pub fn new(breach: Option<&'static str>) -> Self {
        let tmp = folder();
        fs::create_dir(tmp.path().join("root")).expect("the watched folder");
        Self { tmp, breach, ports: Ports::default(), journal: Journal::default() }
    }

    /// The watched folder.
    pub fn root(&self) -> PathBuf {
        self.tmp.path().join("root").canonicalize().expect("the watched folder")
    }

    fn log(&self) -> PathBuf {
        self.tmp.path().join("log")
    }

    /// Starts a server with this configuration.
    ///
    /// # Errors
    /// Its exit and what it said, if it ended before it served.
    pub fn start(&self, config: &str, death: Death) -> Result<Process, String> {
        let file = self.tmp.path().join("longhaul.toml");
        fs::write(&file, config).expect("the configuration is written");
        let trims = config.contains("max_jobs");
        self.mark(if trims { "start trims" } else { "start" });
        let mut environment = vec![
            ("LD_PRELOAD", recorder().display().to_string()),
            (ROOT, self.root().display().to_string()),
            (LOG, self.log().display().to_string()),
        ];
        match death {
            Death::Never => {}
            Death::Records(last) => environment.push((LAST, last.to_string())),
            Death::Syncs(last) => environment.push((LAST_SYNC, last.to_string())),
        }
        environment.extend(self.breach.map(|breach| ("LONGHAUL_BREACH", breach.to_owned())));
        let started = Process::start(&Start { config: &file, data_dir: self.root().join("data"), environment });
        self.mark("serves");
        started
    }

    /// `kill -9` between two operations; what the server had said.
    pub fn kill(&self, process: Process) -> String {
        let log = File::options().append(true).create(true).open(self.log()).expect("the log");
        log.lock().expect("the log's lock");
        process.kill()
    }

    fn mark(&self, mark: &str) {
        use std::io::Write;
        let mut log = File::options().append(true).create(true).open(self.log()).expect("the log");
        log.lock().expect("the log's lock");
        log.write_all(&Record::Mark(mark.to_owned()).encode()).expect("a mark");
    }

    /// How many records there are. No server may run.
    pub fn count(&self) -> usize {
        Record::decode_all(&fs::read(self.log()).expect("the log")).expect("whole records").len()
    }

    /// The history so far. No server may run.
    pub fn finish(self) -> Recording {
        let bytes = fs::read(self.log()).expect("the log");
        let records = Record::decode_all(&bytes).expect("whole records");
        let root = fs::metadata(self.root()).expect("the watched folder").ino();
        let facts = located(self.journal.take(), &records);
        let lives = lives(&records);
        Recording { root, records, facts, lives, tmp: self.tmp }
    }
}

/// A history that has ended.
pub struct Recording {
    /// The inode of the watched folder.
    pub root: u64,
    /// What happened, in order.
    pub records: Vec<Record>,
    /// What clients learned, each with the number of records after which they may have known it, in that order.
    pub facts: Vec<(usize, Known)>,
    /// The lives of the server.
    pub lives: Vec<Life>,
    tmp: tempfile::TempDir,
}

impl Recording {
    /// The watched folder as it is.
    pub fn folder(&self) -> PathBuf {
        self.tmp.path().join("root")
    }

    /// The inode that was made under this name first.
    pub fn inode_of(&self, name: &str) -> u64 {
        let made = self.records.iter().find_map(|record| match record {
            Record::Created { ino, path, .. } if path.ends_with(name) => Some(*ino),
            _ => None,
        });
        made.expect("a file of this name")
    }
}

fn lives(records: &[Record]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        match record {
            Record::Mark(mark) if mark.starts_with("start") => {
                lives.push(Life { from: at, serves: at, trims: mark.ends_with("trims") });
            }
            Record::Mark(_) => lives.last_mut().expect("a life").serves = at,
            _ => {}
        }
    }
    lives
}

/// Finds, for each fact, the record with which its last byte was given.
fn located(learned: Vec<(Place, Known)>, records: &[Record]) -> Vec<(usize, Known)> {
    let mut given: HashMap<u16, Vec<(u64, usize)>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if let Record::Sent { port, bytes } = record {
            let row = given.entry(*port).or_default();
            let before = row.last().map_or(0, |(bytes, _)| *bytes);
            row.push((before + bytes, at));
        }
    }
    let mut facts: Vec<(usize, Known)> = Vec::new();
    for (place, known) in learned {
        let row = given.get(&place.port).expect("a connection that the recorder saw");
        let index = row.partition_point(|(bytes, _)| *bytes < place.bytes);
        let (_, at) = row.get(index).expect("bytes that the recorder saw");
        facts.push((at + 1, known));
    }
    facts.sort_by_key(|(at, _)| *at);
    facts
}
