//! The command line: one file per command, all printing in `output`, all endings in `failure`.
//!
//! In: arguments, environment. Out: an exit code of contract 9. Commands but `serve` and `verify` only talk HTTP.

mod client;
mod exit;
mod failure;
mod follow;
mod jobs;
mod logging;
mod output;
mod parts;
pub mod serve;
mod settings;
mod sse;
mod submit;
mod token;
mod verify;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use client::Client;
use failure::{Ending, Failure};
use output::Output;
use settings::Settings;

/// Jobs that outlive the conversation: durable, resumable tool calls for MCP clients.
#[derive(Parser)]
#[command(name = "longhaul", version, propagate_version = true)]
struct Arguments {
    /// The server that client commands ask
    #[arg(long, global = true, env = "LONGHAUL_SERVER", default_value = client::SERVER, value_name = "URL")]
    server: String,
    /// One JSON value per line instead of text for people
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server until it is told to stop
    Serve(Settings),
    /// Makes a job and prints its id; with --wait follows it and prints its result
    Submit(submit::Submit),
    /// Shows a job
    Get {
        /// The job
        id: String,
    },
    /// Lists jobs, newest first
    List(jobs::Filters),
    /// Follows jobs to their ends, or everything that happens; survives restarts of the server
    Watch {
        /// The jobs; none: everything
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
    /// Cancels a job
    Cancel {
        /// The job
        id: String,
        /// Why, for whoever looks at it later
        #[arg(long)]
        reason: Option<String>,
    },
    /// Makes a new job from a failed one and prints its id
    Retry {
        /// The failed job
        id: String,
    },
    /// Proves that a store holds together, or names each thing that does not
    Verify {
        /// The data directory; without it that of the configuration
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Looks at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Makes credentials
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Tells everything that is wrong with the configuration, or that it is ok
    Check(Settings),
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Prints a new token once, and the lines of longhaul.toml that let it in
    New(token::New),
}

/// Runs the command of this process's arguments. Blocks until it is over.
pub fn main() -> ExitCode {
    // clap exits by itself: 0 after help, 2 for what it does not understand.
    let Arguments { server, json, command } = Arguments::parse();
    let output = Output::new(json);
    let result = match command {
        Command::Serve(settings) => match logging::start().and_then(|()| settings.read()) {
            Ok(config) => return serve::run(config),
            Err(failure) => Err(failure),
        },
        command => run(&server, &output, command),
    };
    match &result {
        Ok(_) | Err(Failure::Closed) => {}
        Err(failure) => output.note(&failure.to_string()),
    }
    failure::exit_code(&result)
}

fn run(server: &str, output: &Output, command: Command) -> Result<Ending, Failure> {
    let token = std::env::var("LONGHAUL_TOKEN").ok().filter(|token| !token.is_empty());
    let client = || Client::new(server, token.clone());
    match command {
        Command::Serve(settings) | Command::Config(ConfigCommand::Check(settings)) => {
            let config = settings.read()?;
            output.line(&format!("ok: {} tools, {} tokens", config.tools.len(), config.tokens.len()))?;
            Ok(Ending::Done)
        }
        Command::Submit(wish) => submit::submit(&client()?, output, &wish),
        Command::Get { id } => jobs::get(&client()?, output, &id),
        Command::List(filters) => jobs::list(&client()?, output, &filters),
        Command::Watch { ids } => watch::watch(&client()?, output, &ids),
        Command::Cancel { id, reason } => jobs::cancel(&client()?, output, &id, reason.as_deref()),
        Command::Retry { id } => jobs::retry(&client()?, output, &id),
        Command::Verify { data_dir } => {
            let dir = data_dir.map_or_else(|| Settings::default().read().map(|config| config.data_dir), Ok)?;
            verify::verify(output, &dir)
        }
        Command::Token(TokenCommand::New(wish)) => token::new(output, &wish),
    }
}
