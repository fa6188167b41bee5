//! The command line: one file per command, all printing in `output`, all endings in `failure`.
//!
//! In: arguments, environment. Out: an exit code of contract 9. Commands but `serve` and `verify` only talk HTTP.

mod answer;
mod backup;
mod client;
mod compact;
mod exit;
mod export;
mod failure;
mod follow;
mod jobs;
mod log;
mod logging;
mod output;
mod parts;
mod reload;
mod remote;
pub mod serve;
mod settings;
mod sse;
mod stdio;
mod submit;
mod token;
mod verify;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::json;

use failure::{Ending, Failure};
use output::Output;
use remote::Remote;
use settings::Settings;

use crate::config::{self, Complaint};

/// What scripts depend on (contract 9).
const CODES: &str = "Exit codes: 0 done, 1 the job failed, 2 usage, 3 canceled, 4 server not reachable, 5 refused, 6 store damaged, \
7 store locked, 8 the disk is full or fails";

/// Jobs that outlive the conversation: durable, resumable tool calls for MCP clients.
#[derive(Parser)]
#[command(name = "longhaul", version, propagate_version = true, after_help = CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server until it is told to stop; what has no flag is set in the configuration or by LONGHAUL_ variables
    Serve(Settings),
    #[command(flatten)]
    Client(ClientCommand),
    /// Proves that a store holds together, or names each thing that does not
    Verify {
        /// The data directory; without it that of the configuration
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// One JSON value instead of text for people
        #[arg(long)]
        json: bool,
    },
    /// Makes a store from a backup, where there is none
    Restore(backup::Source),
    /// Rewrites a store into less space; its server must not run
    Compact(compact::Wish),
    /// Speaks MCP on stdin and stdout, for clients that start their servers
    Mcp(stdio::Wish),
    /// Looks at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Makes credentials
    #[command(subcommand)]
    Token(TokenCommand),
}

/// What asks a server over HTTP.
#[derive(Subcommand)]
enum ClientCommand {
    /// Makes a job and prints its id; with --wait follows it and prints its result
    Submit {
        #[command(flatten)]
        wish: submit::Wish,
        #[command(flatten)]
        remote: Remote,
    },
    /// Shows a job
    Get {
        /// The job
        id: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Lists jobs, newest first
    List {
        #[command(flatten)]
        filters: jobs::Filters,
        #[command(flatten)]
        remote: Remote,
    },
    /// Follows jobs to their ends, or everything that happens; survives restarts of the server
    Watch {
        /// The jobs; none: everything
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Shows what a job's program has logged: stderr, and what it says by `log` lines
    Log {
        #[command(flatten)]
        wish: log::Wish,
        #[command(flatten)]
        remote: Remote,
    },
    /// Writes jobs with their payloads and results, and if wished their events, as lines of JSON or as CSV
    Export {
        #[command(flatten)]
        wish: export::Wish,
        #[command(flatten)]
        remote: Remote,
    },
    /// Writes everything that the server keeps into one compressed file, as of now, while it runs
    Backup {
        #[command(flatten)]
        wish: backup::Wish,
        #[command(flatten)]
        remote: Remote,
    },
    /// Cancels a job
    Cancel {
        /// The job
        id: String,
        /// Why, for whoever looks at it later
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Answers a question of a job
    Answer {
        #[command(flatten)]
        wish: answer::Wish,
        #[command(flatten)]
        remote: Remote,
    },
    /// Makes a new job from a dead letter (a failed job that was not replayed before) and prints its id
    Retry {
        /// The failed job
        id: String,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Tells everything that is wrong with the configuration or will not work, or that it is ok
    Check {
        #[command(flatten)]
        settings: Settings,
        /// One JSON value instead of text for people
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Prints a new token once, and the lines of longhaul.toml that let it in
    New(token::New),
}

/// Runs the command of this process's arguments. Blocks until it is over.
pub fn main() -> ExitCode {
    #[cfg(any(debug_assertions, feature = "trial"))]
    if let Err(why) = arm_faults() {
        output::complain(&why);
        return failure::exit_code(&Err(Failure::Usage(why)));
    }
    // clap exits by itself: 0 after help, 2 for what it does not understand.
    let result = match Arguments::parse().command {
        Command::Serve(settings) => match logging::start().and_then(|()| serve::run(&settings)) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Mcp(wish) => match logging::start().and_then(|()| stdio::run(&wish)) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Config(ConfigCommand::Check { settings, json }) => check(&Output::new(json), &settings),
        Command::Verify { data_dir, json } => {
            settings::data_dir(data_dir).and_then(|dir| verify::verify(&Output::new(json), &dir))
        }
        Command::Restore(source) => backup::restore(&source),
        Command::Compact(wish) => compact::compact(&wish),
        Command::Token(TokenCommand::New(wish)) => token::new(&Output::new(wish.json), &wish),
        Command::Client(command) => ask(command),
    };
    match &result {
        Ok(_) | Err(Failure::Closed) => {}
        Err(failure) => output::complain(&failure.to_string()),
    }
    failure::exit_code(&result)
}

/// Arms the faults that a test asks for.
#[cfg(any(debug_assertions, feature = "trial"))]
fn arm_faults() -> Result<(), String> {
    let wish = |name: &str| std::env::var(name).ok();
    crate::fault::arm(wish("LONGHAUL_CRASH").as_deref(), wish("LONGHAUL_BREACH").as_deref())
}

/// Runs a command that asks a server.
fn ask(command: ClientCommand) -> Result<Ending, Failure> {
    match command {
        ClientCommand::Submit { wish, remote } => {
            let (client, output) = remote.connect()?;
            submit::submit(&client, &output, &wish)
        }
        ClientCommand::Get { id, remote } => {
            let (client, output) = remote.connect()?;
            jobs::get(&client, &output, &id)
        }
        ClientCommand::List { filters, remote } => {
            let (client, output) = remote.connect()?;
            jobs::list(&client, &output, &filters)
        }
        ClientCommand::Watch { ids, remote } => {
            let (client, output) = remote.connect()?;
            watch::watch(&client, &output, &ids)
        }
        ClientCommand::Log { wish, remote } => {
            let (client, output) = remote.connect()?;
            log::log(&client, &output, &wish)
        }
        ClientCommand::Export { wish, remote } => {
            let (client, output) = remote.connect()?;
            export::export(&client, &output, &wish)
        }
        ClientCommand::Backup { wish, remote } => {
            let (client, output) = remote.connect()?;
            backup::backup(&client, &output, &wish)
        }
        ClientCommand::Cancel { id, reason, remote } => {
            let (client, output) = remote.connect()?;
            jobs::cancel(&client, &output, &id, reason.as_deref())
        }
        ClientCommand::Answer { wish, remote } => {
            let (client, output) = remote.connect()?;
            answer::answer(&client, &output, &wish)
        }
        ClientCommand::Retry { id, remote } => {
            let (client, output) = remote.connect()?;
            jobs::retry(&client, &output, &id)
        }
    }
}

/// Whether the configuration is fit to be served with, all of it.
fn check(output: &Output, settings: &Settings) -> Result<Ending, Failure> {
    let complaints = settings.written().map_or_else(|complaint| vec![complaint], |written| config::check(&written));
    let tools: Vec<String> = match settings.read() {
        Ok(config) => config.tools.iter().map(|tool| tool.tool.name.to_string()).collect(),
        Err(_) => Vec::new(),
    };
    let is_ok = complaints.is_empty();
    if output.json {
        let told = complaints.iter().map(|Complaint { subject, place, message, severity }| {
            json!({ "key": subject, "place": place, "message": message, "severity": severity.name() })
        });
        output.value(&json!({ "ok": is_ok, "tools": tools, "complaints": told.collect::<Vec<_>>() }))?;
    }
    match (is_ok, output.json) {
        (false, _) => return Err(settings::unfit(&complaints)),
        (true, false) => output.line(&format!("ok; tools: {}", tools.join(", ")))?,
        (true, true) => {}
    }
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn serve_takes_every_flag_of_the_table() {
        let line = ["longhaul", "serve", "--config", "c", "--data-dir", "d", "--listen", "l", "--workers", "3"];
        let arguments = Arguments::try_parse_from(line).expect("all of contract 9");
        assert!(matches!(arguments.command, Command::Serve(_)));
    }
}
