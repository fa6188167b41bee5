//! What it means how a program ended (contract 4): the table of exit codes and signals.
//!
//! In: an exit status, and what the program wrote last to stderr. Out: nothing, or why it failed.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

use super::Settings;
use crate::job::{Class, ENDED_BY, EXITED, EXITED_AFTER_RESULT, Outcome, quoting};

/// Try again later (`EX_TEMPFAIL`).
const TRANSIENT: i32 = 75;

/// Usage, data, input, permission, configuration: the input is at fault.
const PERMANENT: [i32; 5] = [64, 65, 66, 77, 78];

/// Nothing for exit 0.
///
/// # Errors
/// The failure that any other end is. Where both of the tool's lists name a code, it is transient.
pub fn judge(status: ExitStatus, said: Option<&str>, settings: &Settings) -> Result<(), Outcome> {
    let Some(code) = status.code() else { return Err(by_signal(status, said)) };
    let class = match code {
        _ if settings.transient_exit_codes.contains(&code) => Class::Transient,
        _ if settings.permanent_exit_codes.contains(&code) => Class::Permanent,
        0 => return Ok(()),
        TRANSIENT => Class::Transient,
        _ if PERMANENT.contains(&code) => Class::Permanent,
        _ => Class::Fatal,
    };
    Err(Outcome::failed(class, Some(&format!("exit_{code}")), &quoting(&format!("{EXITED}{code}"), said)))
}

/// The failure of a program that reported a result and then did not exit well.
pub fn after_result(status: ExitStatus, said: Option<&str>) -> Outcome {
    let Some(code) = status.code() else { return by_signal(status, said) };
    let message = quoting(&format!("{EXITED_AFTER_RESULT}{code}"), said);
    Outcome::failed(Class::Fatal, Some(&format!("exit_{code}")), &message)
}

/// Killed from outside, out of memory, or crashed: it may go better next time.
fn by_signal(status: ExitStatus, said: Option<&str>) -> Outcome {
    let number = status.signal().unwrap_or_default();
    let name = name(number);
    let message = quoting(&format!("{ENDED_BY}{name}"), said);
    Outcome::failed(Class::Transient, Some(&format!("signal_SIG{name}")), &message)
}

/// What follows `SIG`.
fn name(number: i32) -> String {
    let known = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::ILL, "ILL"),
        (Signal::TRAP, "TRAP"),
        (Signal::ABORT, "ABRT"),
        (Signal::BUS, "BUS"),
        (Signal::FPE, "FPE"),
        (Signal::KILL, "KILL"),
        (Signal::USR1, "USR1"),
        (Signal::SEGV, "SEGV"),
        (Signal::USR2, "USR2"),
        (Signal::PIPE, "PIPE"),
        (Signal::ALARM, "ALRM"),
        (Signal::TERM, "TERM"),
        (Signal::XCPU, "XCPU"),
        (Signal::XFSZ, "XFSZ"),
        (Signal::SYS, "SYS"),
    ];
    let found = known.iter().find(|(signal, _)| signal.as_raw() == number);
    found.map_or_else(|| number.to_string(), |(_, name)| (*name).into())
}
