//! One child process and the process group that it leads.
//!
//! In: a command line. Out: its pipes, a descriptor that says when it has exited, its status. Never leaves a zombie or a member of
//! the group behind, whatever way the attempt ends; a process that has left the group on purpose is out of reach.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::Settings;
use crate::job::{Class, Outcome};
use crate::work::Claim;

/// Variables with this beginning are the server's own (its token among them), and no child inherits them.
const OWN_VARIABLES: &str = "LONGHAUL_";

/// Stack of the thread that waits for a child where no descriptor can, in bytes.
const WATCH_STACK_BYTES: usize = 64 * 1024;

/// A running child. Dropping it ends its whole group.
pub struct Child {
    process: Option<std::process::Child>,
    pid: Pid,
    watch: Option<OwnedFd>,
}

impl Child {
    /// Starts a program in a process group of its own, with three pipes.
    ///
    /// # Errors
    /// Transient when the machine has no room for it right now, permanent when the arguments are too long, else fatal:
    /// the configuration is wrong.
    pub fn spawn(settings: &Settings, command: &[String], claim: &Claim) -> Result<Self, Outcome> {
        let (program, arguments) = command.split_first().ok_or_else(|| refused("no program", Class::Fatal))?;
        let mut prepared = Command::new(program);
        prepared.args(arguments).process_group(0);
        prepared.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
            prepared.env_remove(name);
        }
        prepared.env("LONGHAUL_JOB_ID", claim.job.to_string()).env("LONGHAUL_ATTEMPT", claim.attempt.to_string());
        if let Some(trace) = &claim.traceparent {
            prepared.env("TRACEPARENT", &**trace);
        }
        prepared.envs(settings.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &settings.cwd {
            prepared.current_dir(directory);
        }
        let process = prepared.spawn().map_err(|why| not_started(program, settings, &why))?;
        let pid = Pid::from_child(&process);
        let mut child = Self { process: Some(process), pid, watch: None };
        let watch = watch(pid).map_err(|why| not_started(program, settings, &why))?;
        child.watch = Some(watch);
        Ok(child)
    }

    /// The three pipes, once.
    pub fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        match &mut self.process {
            Some(process) => (process.stdin.take(), process.stdout.take(), process.stderr.take()),
            None => (None, None, None),
        }
    }

    /// Readable once the child has exited.
    pub fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Sends a signal to every member of the group.
    pub fn signal(&self, signal: Signal) {
        if self.process.is_some() {
            // Whoever is gone needs no signal; until it is reaped the child keeps its number from being given to others.
            let _ = rustix::process::kill_process_group(self.pid, signal);
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Ends what is left of the group, then the child, and says how the child exited. Blocks until it has.
    ///
    /// # Errors
    /// The operating system's, or that it was reaped before.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let mut process = self.process.take().ok_or_else(|| io::Error::other("reaped before"))?;
        process.wait()
    }

    /// Leaves a child that cannot be killed to a thread that reaps it when it ends. Does not block.
    pub fn abandon(&mut self) {
        if let Some(mut process) = self.process.take() {
            tracing::error!(pid = process.id(), "a program cannot be killed");
            let wait = move || process.wait();
            // Without a thread it stays a zombie until the server ends.
            let _ = std::thread::Builder::new().name("child".into()).stack_size(WATCH_STACK_BYTES).spawn(wait);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nobody is there to hear the status; if it was reaped before, nothing happens.
        let _ = self.reap();
    }
}

fn is_own(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with(OWN_VARIABLES)
}

#[cfg(target_os = "linux")]
fn watch(pid: Pid) -> io::Result<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).or_else(|_| watch_by_thread(pid))
}

#[cfg(not(target_os = "linux"))]
fn watch(pid: Pid) -> io::Result<OwnedFd> {
    watch_by_thread(pid)
}

/// A pipe that ends when the child has exited: a thread waits for that and leaves the zombie to be reaped.
fn watch_by_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(rustix::process::waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        drop(writer);
    };
    std::thread::Builder::new().name("child".into()).stack_size(WATCH_STACK_BYTES).spawn(wait)?;
    Ok(reader.into())
}

fn not_started(program: &str, settings: &Settings, why: &io::Error) -> Outcome {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(why);
    let directory = settings.cwd.as_deref().filter(|directory| !directory.is_dir());
    match errno {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::TXTBSY) => {
            refused(&format!("{program} could not be started now: {why}"), Class::Transient)
        }
        Some(Errno::TOOBIG) => {
            refused("the arguments are too long for the operating system: use stdin for long texts", Class::Permanent)
        }
        _ if directory.is_some() => refused("the program's working directory does not exist", Class::Fatal),
        Some(Errno::NOENT) => refused(&format!("there is no program {program}"), Class::Fatal),
        _ => refused(&format!("{program} could not be started: {why}"), Class::Fatal),
    }
}

fn refused(message: &str, class: Class) -> Outcome {
    Outcome::failed(class, None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_watches_where_no_descriptor_can() {
        let mut process = Command::new("/bin/sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("sh");
        let pid = Pid::from_child(&process);
        let mut watch = io::PipeReader::from(watch_by_thread(pid).expect("a thread"));
        drop(process.stdin.take());
        let mut nothing = Vec::new();
        io::Read::read_to_end(&mut watch, &mut nothing).expect("the pipe ends");
        assert!(process.try_wait().expect("still there to be reaped").is_some());
    }
}
