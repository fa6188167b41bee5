//! Follows one child from its start to its end: one thread, one loop, five descriptors.
//!
//! In: what goes to stdin. Out: stdout to a sink, stderr to the log, and how it ended. Sleeps until a pipe, the child, the stop
//! flag or a time asks for it: nothing is looked at in intervals, and no pipe waits for another.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::child::Child;
use super::lines::{Lines, Long, TooLong};
use super::said::Said;
use super::{Settings, protocol};
use crate::handler::RunContext;
use crate::job::{Millis, Outcome, Timestamp};
use crate::work::Stop;

/// How long output is still read after the child has exited: a grandchild may hold the pipe for ever.
pub const OUTPUT_GRACE: Millis = Millis(500);

/// Most bytes taken from a pipe before the loop looks at everything else again.
const READ_BYTES: usize = 64 * 1024;

/// Longest line of stderr; a longer one is kept in pieces.
pub const STDERR_LINE_MAX: usize = 8 * 1024;

/// A wait for the time of day looks again after this, in case the clock was set.
const LOOK_AGAIN: Millis = Millis::seconds(60);

/// How long a child may take to vanish after SIGKILL. Beyond, it cannot be killed (it runs as another user, or hangs in the
/// kernel): the attempt fails without it, and a thread reaps it whenever it ends.
pub const KILL_WAIT: Millis = Millis::seconds(5);

/// Takes what the child writes to stdout.
pub trait Sink {
    /// Takes some bytes.
    ///
    /// # Errors
    /// The outcome of an attempt that has to be ended because of them.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Outcome>;

    /// Lines that are to be written to stdin now.
    ///
    /// # Errors
    /// The outcome of an attempt that has to be ended because they cannot be had.
    fn replies(&mut self) -> Result<Vec<u8>, Outcome>;
}

/// What goes to stdin.
pub struct Input {
    pending: Vec<u8>,
    /// It stays open behind that: answers come there, and a cancel is told there.
    open: bool,
}

impl Input {
    /// One line, then the end.
    pub fn whole(line: String) -> Self {
        Self { pending: (line + "\n").into_bytes(), open: false }
    }

    /// One line, and more may follow.
    pub fn open(line: String) -> Self {
        Self { pending: (line + "\n").into_bytes(), open: true }
    }
}

/// Why the child was ended before it ended by itself.
pub enum Why {
    /// The attempt was to stop.
    Stopped(Stop),
    /// The deadline passed.
    Late,
    /// It has waited long enough for an answer.
    Asked,
    /// It wrote what it must not.
    Violation(Box<Outcome>),
}

impl Why {
    /// The attempt's outcome, unless there is a better one.
    pub fn into_outcome(self) -> Outcome {
        match self {
            Self::Stopped(_) => crate::handler::stopped(),
            Self::Late => Outcome::timed_out("the program did not end in time"),
            Self::Asked => Outcome::Asked,
            Self::Violation(outcome) => *outcome,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Stopped(Stop::Cancel) => "cancel",
            Self::Stopped(Stop::Shutdown) => "shutdown",
            Self::Stopped(Stop::Stale) => "stale",
            Self::Late => "timeout",
            Self::Asked => "ask_hold",
            Self::Violation(_) => "protocol_error",
        }
    }
}

/// How it ended.
pub struct Ended {
    /// The child's own status.
    pub status: ExitStatus,
    /// Why it was ended, unless it ended by itself.
    pub why: Option<Why>,
    /// What it wrote last to stderr, shortened.
    pub said: Option<String>,
}

/// Follows the child until it has exited and its output is read, or `OUTPUT_GRACE` later; then ends the rest of its group. On a
/// stop, at the deadline or when a question has waited for `ask_hold`: `cancel` line, SIGTERM, `cancel_grace`, SIGKILL.
///
/// # Errors
/// The operating system's; the child has been ended then as well, once `child` is dropped.
pub fn run(
    child: &mut Child,
    input: Input,
    sink: &mut dyn Sink,
    context: &RunContext<'_>,
    settings: &Settings,
) -> io::Result<Ended> {
    let (stdin, stdout, stderr) = child.take_pipes();
    for pipe in [stdin.as_ref().map(AsFd::as_fd), stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)] {
        pipe.map_or(Ok(()), |pipe| rustix::io::ioctl_fionbio(pipe, true))?;
    }
    let wake = waker(context)?;
    let mut pump = Pump {
        child,
        sink,
        context,
        settings,
        input,
        stdin,
        stdout,
        stderr,
        wake,
        log: Lines::new(STDERR_LINE_MAX, Long::Cut),
        said: Said::default(),
        buffer: vec![0; READ_BYTES],
        why: None,
        kill_at: None,
        give_up_at: None,
        read_until: None,
    };
    // What was answered while the child was being started.
    pump.reply();
    while !pump.is_over() {
        pump.wait()?;
        pump.notice_time()?;
    }
    pump.log_rest();
    let (why, said) = (pump.why.take(), std::mem::take(&mut pump.said).into_words());
    Ok(Ended { status: child.reap()?, why, said })
}

struct Pump<'a, 'c> {
    child: &'a mut Child,
    sink: &'a mut dyn Sink,
    context: &'a RunContext<'c>,
    settings: &'a Settings,
    input: Input,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Readable when the attempt is to stop, or something was answered.
    wake: PipeReader,
    log: Lines,
    said: Said,
    buffer: Vec<u8>,
    why: Option<Why>,
    kill_at: Option<Timestamp>,
    give_up_at: Option<Timestamp>,
    /// Set once the child has exited.
    read_until: Option<Timestamp>,
}

/// What one turn of the loop found ready.
#[derive(Default)]
struct Ready {
    exited: bool,
    wake: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Pump<'_, '_> {
    fn is_over(&self) -> bool {
        self.read_until.is_some() && self.stdout.is_none() && self.stderr.is_none()
    }

    /// Sleeps until something is ready, and deals with it.
    fn wait(&mut self) -> io::Result<()> {
        let ready = self.ready()?;
        if ready.wake {
            // What it says is only that it is time to look.
            let _ = self.wake.read(&mut [0; 64]);
            self.notice_stop();
            self.reply();
        }
        if ready.stdin {
            self.write();
        }
        if ready.stdout {
            self.read_stdout();
        }
        if ready.stderr {
            self.read_stderr();
        }
        if ready.exited {
            self.stdin = None;
            self.kill_at = None;
            self.give_up_at = None;
            self.read_until = Some(self.context.clock.now().plus(OUTPUT_GRACE));
        }
        Ok(())
    }

    fn ready(&self) -> io::Result<Ready> {
        let mut names: Vec<fn(&mut Ready)> = Vec::with_capacity(5);
        let mut fds = Vec::with_capacity(5);
        if let Some(watch) = self.child.watch().filter(|_| self.read_until.is_none()) {
            fds.push(PollFd::from_borrowed_fd(watch, PollFlags::IN));
            names.push(|ready| ready.exited = true);
        }
        fds.push(PollFd::new(&self.wake, PollFlags::IN));
        names.push(|ready| ready.wake = true);
        if let Some(stdin) = &self.stdin {
            // Asked for nothing, it still says when the child has closed its end.
            let room = if self.input.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(stdin, room));
            names.push(|ready| ready.stdin = true);
        }
        if let Some(stdout) = &self.stdout {
            fds.push(PollFd::new(stdout, PollFlags::IN));
            names.push(|ready| ready.stdout = true);
        }
        if let Some(stderr) = &self.stderr {
            fds.push(PollFd::new(stderr, PollFlags::IN));
            names.push(|ready| ready.stderr = true);
        }
        match poll(&mut fds, self.timeout().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let mut ready = Ready::default();
        for (fd, name) in fds.iter().zip(names) {
            if !fd.revents().is_empty() {
                name(&mut ready);
            }
        }
        Ok(ready)
    }

    /// Until the next time at which something is due; `None` if nothing is.
    fn timeout(&self) -> Option<Timespec> {
        let next = [self.stop_at().map(|(at, _)| at), self.kill_at, self.give_up_at, self.read_until]
            .into_iter()
            .flatten()
            .min()?;
        let wait = self.context.clock.until(next).min(LOOK_AGAIN);
        Timespec::try_from(wait.duration()).ok()
    }

    /// When the child is to be ended, and why, unless it ends before. While it asks, its deadline stands still.
    fn stop_at(&self) -> Option<(Timestamp, Why)> {
        if self.why.is_some() || self.read_until.is_some() {
            return None;
        }
        Some(match self.context.asks_since() {
            Some(asked_at) => (asked_at.plus(self.settings.ask_hold), Why::Asked),
            None => (self.context.deadline(), Why::Late),
        })
    }

    fn notice_time(&mut self) -> io::Result<()> {
        let now = self.context.clock.now();
        if let Some((_, why)) = self.stop_at().filter(|(at, _)| now >= *at) {
            self.stop(why);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.give_up_at = Some(now.plus(KILL_WAIT));
            self.child.signal(Signal::KILL);
        }
        if self.give_up_at.is_some_and(|at| now >= at) {
            self.child.abandon();
            return Err(io::Error::other("the program cannot be killed"));
        }
        if self.read_until.is_some_and(|until| now >= until) {
            self.stdout = None;
            self.stderr = None;
        }
        Ok(())
    }

    fn notice_stop(&mut self) {
        if self.why.is_none()
            && self.read_until.is_none()
            && let Some(reason) = self.context.claim().stop.get()
        {
            self.stop(Why::Stopped(reason));
        }
    }

    fn stop(&mut self, why: Why) {
        if self.input.open {
            self.input.pending.extend_from_slice(&protocol::cancel_line(self.settings.cancel_grace, why.word()));
            self.write();
        }
        // Reports the delivery, if it was a cancel.
        self.context.stop();
        self.child.signal(Signal::TERM);
        self.kill_at = Some(self.context.clock.now().plus(self.settings.cancel_grace));
        self.why = Some(why);
    }

    /// Hands on what was answered, as long as the child is to go on.
    fn reply(&mut self) {
        if self.why.is_some() {
            return;
        }
        match self.sink.replies() {
            Ok(lines) if lines.is_empty() => {}
            Ok(lines) => {
                self.input.pending.extend_from_slice(&lines);
                self.write();
            }
            Err(outcome) if self.read_until.is_some() => self.why = Some(Why::Violation(Box::new(outcome))),
            Err(outcome) => self.stop(Why::Violation(Box::new(outcome))),
        }
    }

    /// Writes what there is room for. A child that does not want it does not have to take it.
    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.input.pending) {
            Ok(0) if self.input.pending.is_empty() => self.stdin = None,
            Ok(written) => {
                self.input.pending.drain(..written);
                if self.input.pending.is_empty() && !self.input.open {
                    self.stdin = None;
                }
            }
            Err(why) if is_passing(&why) => {}
            Err(_) => self.stdin = None,
        }
    }

    fn read_stdout(&mut self) {
        let Some(stdout) = &mut self.stdout else { return };
        match stdout.read(&mut self.buffer) {
            Ok(0) => self.stdout = None,
            Ok(read) => {
                self.take(read);
                self.reply();
            }
            Err(why) if is_passing(&why) => {}
            Err(_) => self.stdout = None,
        }
    }

    fn take(&mut self, read: usize) {
        // Once it was told to stop for what it wrote, the rest is only kept from blocking it.
        if matches!(self.why, Some(Why::Violation(_))) {
            return;
        }
        if let Err(outcome) = self.sink.take(&self.buffer[..read]) {
            let why = Why::Violation(Box::new(outcome));
            if self.read_until.is_some() || self.why.is_some() {
                self.why = Some(why);
            } else {
                self.stop(why);
            }
        }
    }

    fn read_stderr(&mut self) {
        let Some(stderr) = &mut self.stderr else { return };
        let read = match stderr.read(&mut self.buffer) {
            Ok(0) => {
                self.stderr = None;
                return;
            }
            Ok(read) => read,
            Err(why) if is_passing(&why) => return,
            Err(_) => {
                self.stderr = None;
                return;
            }
        };
        let (context, said) = (self.context, &mut self.said);
        // Long lines are cut here, so none is too long.
        let _: Result<(), TooLong> = self.log.push(&self.buffer[..read], |line| {
            let line = String::from_utf8_lossy(line);
            context.log(&line);
            said.hear(&line);
            Ok(())
        });
    }

    fn log_rest(&mut self) {
        if let Some(line) = self.log.finish() {
            let line = String::from_utf8_lossy(&line);
            self.context.log(&line);
            self.said.hear(&line);
        }
    }
}

/// A pipe that becomes readable when the attempt is to stop, or something was answered.
fn waker(context: &RunContext<'_>) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    let writer = std::sync::Arc::new(writer);
    // A pipe that is full wakes as well.
    let wake = move || drop((&*writer).write(&[1]));
    context.claim().answers.on_new(wake.clone());
    context.claim().stop.on_stop(move |_| wake());
    Ok(reader)
}

fn is_passing(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
