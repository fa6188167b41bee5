//! Programs that outlived their server: a `kill -9` of it leaves them running, in whatever group or session they are.
//!
//! In: the mark that every child of this store carries in its environment, and so do its children. Out: none of them is left.
//! To be called while the store is held and before a claim is handed out: then whoever carries the mark is a stray.

/// The environment variable that marks a child; its value names the store.
pub const MARK: &str = "LONGHAUL_CHILD_OF";

/// Ends every process that carries the mark, and waits until it is gone. Returns how many there were. Blocks for at most
/// `GONE_WITHIN` per process; on other systems than Linux nothing is found.
#[cfg(target_os = "linux")]
pub fn end(store: &str) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let own = rustix::process::getpid();
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(rustix::process::Pid::from_raw).filter(|pid| *pid != own);
    pids.filter(|pid| linux::end(*pid, store)).count()
}

/// See above.
#[cfg(not(target_os = "linux"))]
pub fn end(_: &str) -> usize {
    0
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::MARK;

    /// How long the kernel may take to end a killed process.
    const GONE_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

    pub fn end(pid: Pid, store: &str) -> bool {
        if !is_marked(pid, store) {
            return false;
        }
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // Again, now that the number cannot pass to another process behind our back.
        if !is_marked(pid, store) || pidfd_send_signal(&process, Signal::KILL).is_err() {
            return false;
        }
        let mut gone = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        if !matches!(poll(&mut gone, Some(&GONE_WITHIN)), Ok(1)) {
            tracing::error!(pid = pid.as_raw_nonzero().get(), "a program of the last server cannot be killed");
        }
        true
    }

    fn is_marked(pid: Pid, store: &str) -> bool {
        // Another user's process cannot be read, and is none of ours.
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let wanted = format!("{MARK}={store}");
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    }
}
