//! What the system says about a process: memory and processor time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Result;

/// Ticks of processor time in a second: so on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Lets this process and its children have as many files open as the system allows: each stream is one.
pub fn raise_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// How many files this process may have open.
pub fn open_files_max() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// How many threads there are.
pub fn threads(pid: u32) -> Result<f64> {
    status_field(pid, "Threads:")
}

/// Resident memory, in KiB.
pub fn resident_kib(pid: u32) -> Result<f64> {
    status_field(pid, "VmRSS:")
}

/// The most that was ever resident, in KiB.
pub fn peak_kib(pid: u32) -> Result<f64> {
    status_field(pid, "VmHWM:")
}

fn status_field(pid: u32, name: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in its status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Processor time so far, in seconds, of all its threads.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold spaces; what follows it begins with field 3.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| -> Result<f64> { Ok(fields.get(field - 3).ok_or("a short stat")?.parse()?) };
    Ok((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}
