//! What it means how a program ended (contract 4): the table of exit codes and signals.
//!
//! In: an exit status. Out: nothing, or why it failed. Never quotes what the program wrote.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

use super::Settings;
use crate::job::{Class, Outcome};

/// Try again later (`EX_TEMPFAIL`).
const TRANSIENT: i32 = 75;

/// Usage, data, input, permission, configuration: the input is at fault.
const PERMANENT: [i32; 5] = [64, 65, 66, 77, 78];

/// Nothing for exit 0.
///
/// # Errors
/// The failure that any other end is. Where both of the tool's lists name a code, it is transient.
pub fn judge(status: ExitStatus, settings: &Settings) -> Result<(), Outcome> {
    let Some(code) = status.code() else { return Err(by_signal(status)) };
    let class = match code {
        _ if settings.transient_exit_codes.contains(&code) => Class::Transient,
        _ if settings.permanent_exit_codes.contains(&code) => Class::Permanent,
        0 => return Ok(()),
        TRANSIENT => Class::Transient,
        _ if PERMANENT.contains(&code) => Class::Permanent,
        _ => Class::Fatal,
    };
    Err(Outcome::failed(class, Some(&format!("exit_{code}")), &format!("the program exited with status {code}")))
}

/// The failure of a program that reported a result and then did not exit well.
pub fn after_result(status: ExitStatus) -> Outcome {
    let Some(code) = status.code() else { return by_signal(status) };
    let message = format!("the program reported a result and then exited with status {code}");
    Outcome::failed(Class::Fatal, Some(&format!("exit_{code}")), &message)
}

/// Killed from outside, out of memory, or crashed: it may go better next time.
fn by_signal(status: ExitStatus) -> Outcome {
    let number = status.signal().unwrap_or_default();
    let name = name(number);
    let message = format!("the program was ended by {name}");
    Outcome::failed(Class::Transient, Some(&format!("signal_{name}")), &message)
}

fn name(number: i32) -> String {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let found = known.iter().find(|(signal, _)| signal.as_raw() == number);
    found.map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).into())
}
