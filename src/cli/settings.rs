//! The flags of `serve` and the environment, as the one table of settings has them.
//!
//! In: the command line, the environment. Out: what was written, for `config` to judge.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};

use super::failure::Failure;
use crate::config::{self, Complaint, Config, Row, SERVER, Severity, Written};

/// Where settings come from.
#[derive(Debug, Default, clap::Args)]
pub struct Settings {
    /// The configuration; without it ./longhaul.toml, if there is one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

impl Settings {
    /// Reads and judges all of them.
    ///
    /// # Errors
    /// `Usage` with every complaint.
    pub fn read(&self) -> Result<Config, Failure> {
        let written = self.written().map_err(|complaint| unfit(&[complaint]))?;
        config::read(&written).map_err(|complaints| unfit(&complaints))
    }

    /// All that was written.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn written(&self) -> Result<Written, Complaint> {
        let file = config::find(self.config.as_deref())?;
        let ours = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            let name = name.into_string().ok().filter(|name| name.starts_with("LONGHAUL_"))?;
            Some((name, value.to_string_lossy().into_owned()))
        };
        let environment = std::env::vars_os().filter_map(ours).collect();
        Ok(Written { file, environment, flags: self.flags.0.clone(), path: std::env::var_os("PATH") })
    }
}

/// The data directory that was named, else that of the configuration.
///
/// # Errors
/// `Usage` with every complaint about the configuration, if that is asked.
pub fn data_dir(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    named.map_or_else(|| Settings::default().read().map(|config| config.data_dir), Ok)
}

/// A line for each complaint, which says so if a server would start all the same.
pub fn unfit(complaints: &[Complaint]) -> Failure {
    let line = |complaint: &Complaint| match complaint.severity {
        Severity::Error => complaint.to_string(),
        Severity::Warning => format!("warning: {complaint}"),
    };
    let lines: Vec<String> = complaints.iter().map(line).collect();
    Failure::Usage(lines.join("\n"))
}

/// A flag for each row of the table that has one.
#[derive(Debug, Default)]
struct Flags(Vec<(&'static str, String)>);

fn rows() -> impl Iterator<Item = (&'static Row, &'static str)> {
    SERVER.iter().filter_map(|row| row.flag.map(|flag| (row, flag)))
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        rows().fold(command, |command, (row, flag)| {
            let default = row.default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
            let help = format!("{}{default} [env: {}]", row.help, row.variable());
            command.arg(Arg::new(flag).long(flag).value_name("VALUE").help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let written = |(_, flag): (_, &'static str)| Some((flag, matches.get_one::<String>(flag)?.clone()));
        Ok(Self(rows().filter_map(written).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
