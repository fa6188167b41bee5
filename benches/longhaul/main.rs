//! The benchmark: what the server reaches, each figure beside the bare loop of the same run that does only the unavoidable.
//!
//! In: the names of parts (none: all of them) and perhaps `--short`. Out: one table per part on stdout. It asserts nothing
//! about speed: machines are noisy, so the ratios are for people to read. See benches/README.md.

mod bare;
mod bare_sled;
mod calls;
mod deliveries;
mod engine;
mod idle;
mod lifecycles;
mod load;
mod million;
mod plateau;
mod process;
mod report;
mod scale;
mod server;
mod starts;
mod stats;
mod streams;
mod submits;
mod tasks;
mod waiting;

use std::process::ExitCode;

use scale::Scale;

/// As in the server's own program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever goes wrong ends the part.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A part: what it is called, and what it does.
type Part = (&'static str, fn(&Scale) -> Result<()>);

const PARTS: [Part; 10] = [
    ("calls", calls::run),
    ("submits", submits::run),
    ("tasks", tasks::run),
    ("lifecycles", lifecycles::run),
    ("starts", starts::run),
    ("deliveries", deliveries::run),
    ("plateau", plateau::run),
    ("million", million::run),
    ("idle", idle::run),
    ("waiting", waiting::run),
];

/// The hidden argument that makes this program one of the bare servers.
const BARE: &str = "--bare";

fn main() -> ExitCode {
    // cargo says --bench.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let done = match arguments.split_first() {
        Some((first, role)) if first == BARE => bare::serve(role),
        _ => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            report::failure(&why.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|a| a.starts_with("--"));
    let unknown = flags.iter().find(|flag| **flag != "--short");
    let unknown = unknown.or_else(|| names.iter().find(|name| !PARTS.iter().any(|(known, _)| known == *name)));
    if let Some(unknown) = unknown {
        let known = PARTS.map(|(name, _)| name).join(", ");
        return Err(format!("{unknown} is nothing here: name parts ({known}), or say --short").into());
    }
    let scale = if flags.is_empty() { Scale::FULL } else { Scale::SHORT };
    process::raise_open_files()?;
    report::machine();
    for (name, part) in PARTS {
        if names.is_empty() || names.iter().any(|wanted| *wanted == name) {
            part(&scale)?;
        }
    }
    Ok(())
}
