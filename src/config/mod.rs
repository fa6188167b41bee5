//! Settings, read once and in two steps: what was written, with where, becomes what is true, or every complaint at once.
//!
//! In: a file's text, environment, flags. Out: a `Config` of plain values. Reads nothing but the files that the text names; starts nothing.

mod complaint;
mod doubt;
mod form;
mod occurrences;
mod prompts;
mod raw;
mod resources;
mod setting;
mod tokens;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use complaint::{COMPLAINTS_MAX, Complaint, Severity, nearest};
pub use form::{Size, read_length, show_length, show_size};
pub use raw::File;
pub use resources::CONTENT_MAX;
pub use setting::{
    ARGUMENT, ARGUMENT_TABLES, COMMAND, DEMO, EMBEDDED, MEDIA, MESSAGE, MESSAGE_TABLES, PROMPT, PROMPT_TABLES,
    RESOURCE, RESOURCE_TABLES, RETRY, Row, SERVER, TOKEN, TOOL, TOOL_RETENTION, TOOL_TABLES, reference,
};
pub use tools::{HELPER_TOOLS, NAME_MAX, Run};

use crate::core::{Bound, Keep, Retention};
use crate::http::auth::Token;
use crate::job::{Millis, OnInterrupt, RetryPolicy, Throttle};
use crate::mcp;
use crate::service::{TaskSupport, Tool};
use crate::store::Durability;
use complaint::Complaints;
use form::choice;
use raw::{Override, Section};
use setting as key;

choice!(Durability, "\"disk\" or \"process\"", "disk" => Self::Disk, "process" => Self::Process);

choice!(OnInterrupt, "\"retry\" or \"fail\"", "retry" => Self::Retry, "fail" => Self::Fail);
choice!(TaskSupport, "\"auto\", \"never\" or \"required\"", "auto" => Self::Auto, "never" => Self::Never, "required" => Self::Required);

/// One tool and what does its work.
#[derive(Debug, Clone)]
pub struct ToolConfig {
    /// What clients see and decisions depend on.
    pub tool: Tool,
    /// What does the work.
    pub run: Run,
}

/// What is true. Every field has been checked; contract 7 says what each means.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server.listen`; loopback, unless there are tokens.
    pub listen: SocketAddr,
    /// `server.data_dir`; the store is in `store` under it.
    pub data_dir: PathBuf,
    /// `server.public_url`, without a slash at its end.
    pub public_url: Option<String>,
    /// `server.allowed_hosts`, besides the loopback names and the host of `public_url`; each with or without a port.
    pub allowed_hosts: Vec<String>,
    /// `server.allowed_origins`, in lower case.
    pub allowed_origins: Vec<String>,
    /// `server.max_body`.
    pub max_body: Size,
    /// `server.max_connections`.
    pub max_connections: usize,
    /// `server.max_streams` of one principal; `local` has no limit.
    pub max_streams: usize,
    /// `server.header_timeout`.
    pub header_timeout: Millis,
    /// `server.stream_heartbeat`.
    pub stream_heartbeat: Millis,
    /// `server.stream_write_timeout`.
    pub stream_write_timeout: Millis,
    /// `server.shutdown_grace`.
    pub shutdown_grace: Millis,
    /// `queue.workers`.
    pub workers: usize,
    /// `queue.max_pending`.
    pub max_pending: usize,
    /// `queue.max_pending_bytes`.
    pub max_pending_bytes: Size,
    /// `store.durability`.
    pub durability: Durability,
    /// `store.disk_reserve`; `None`: 256 MiB or 5 % of the disk, whichever is less.
    pub disk_reserve: Option<Size>,
    /// `store.cache`.
    pub cache: Size,
    /// `retention.*`, and that of each tool.
    pub retention: Retention,
    /// `progress.*`.
    pub throttle: Throttle,
    /// `mcp.session_ttl`.
    pub session_ttl: Millis,
    /// `mcp.events`.
    pub events: mcp::occurrences::Options,
    /// `helpers`.
    pub helpers: bool,
    /// `retry.*`: what tools inherit.
    pub retry: RetryPolicy,
    /// `[[auth.tokens]]`; none: everybody is `local`.
    pub tokens: Vec<Token>,
    /// `[tools.NAME]` in the order of the file; the demo if there are none.
    pub tools: Vec<ToolConfig>,
    /// Whether the file has any tools: else the demo is served for want of them.
    pub has_tools: bool,
    /// `[resources."URI"]` in the order of the file.
    pub resources: mcp::resources::Stock,
    /// `[prompts.NAME]` in the order of the file.
    pub prompts: Vec<mcp::prompts::Prompt>,
    /// What will not work as it is written, though everything else does; at most `COMPLAINTS_MAX`.
    pub doubts: Vec<Complaint>,
}

/// What was written where. Later ones win: file, environment, flags.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// The file, if there is one.
    pub file: Option<File>,
    /// Environment variables; those that are not ours are passed over.
    pub environment: Vec<(String, String)>,
    /// Flags by their names without hyphens.
    pub flags: Vec<(&'static str, String)>,
    /// `PATH`: where programs are looked for. Without it they are not.
    pub path: Option<OsString>,
}

/// The file that is read when none is named.
pub const FILE: &str = "longhaul.toml";

/// Largest configuration file; a larger one is refused.
pub const FILE_MAX: u64 = 16 << 20;

/// Reads the named file, or `FILE` of the working directory if it exists.
///
/// # Errors
/// A complaint that names the file: it cannot be read, is too large, or is no text.
pub fn find(named: Option<&Path>) -> Result<Option<File>, Complaint> {
    let path = named.unwrap_or(Path::new(FILE));
    if named.is_none() && !path.exists() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let refuse =
        |message: String| Complaint { subject: String::new(), place: name.clone(), message, severity: Severity::Error };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|why| refuse(format!("cannot be opened: {why}")))?;
    let read = file.take(FILE_MAX + 1).read_to_string(&mut text);
    read.map_err(|why| refuse(format!("cannot be read: {why}")))?;
    if text.len() as u64 > FILE_MAX {
        return Err(refuse(format!("is larger than {}", show_size(Size(FILE_MAX)))));
    }
    Ok(Some(File { name, text }))
}

/// Makes what was written true.
///
/// # Errors
/// Everything that is wrong, at most `COMPLAINTS_MAX`, in the order of the file.
pub fn read(written: &Written) -> Result<Config, Vec<Complaint>> {
    let (config, wrong, doubts) = judge(written)?;
    config.filter(|_| wrong.is_empty()).map(|config| Config { doubts, ..config }).ok_or(wrong)
}

/// Everything that is to be said of what was written, wrong or doubted, in the order of the file.
pub fn check(written: &Written) -> Vec<Complaint> {
    let (_, mut complaints, doubts) = judge(written).unwrap_or_else(|wrong| (None, wrong, Vec::new()));
    complaints.extend(doubts);
    complaint::sort(&mut complaints);
    complaints
}

/// What was made of it, what is wrong, and what is doubted.
type Judged = (Option<Config>, Vec<Complaint>, Vec<Complaint>);

fn judge(written: &Written) -> Result<Judged, Vec<Complaint>> {
    let (config, complaints) = look(written, |top, complaints| read_top(top, written.path.as_deref(), complaints))?;
    let (wrong, doubts) = complaints.into_lists();
    Ok((config, wrong, doubts))
}

/// Where the server of this configuration keeps its data and listens, for who looks for it: whatever else is wrong with it is no matter.
///
/// # Errors
/// The file is no TOML.
pub fn whereabouts(written: &Written) -> Result<(PathBuf, SocketAddr), Vec<Complaint>> {
    let place = |top: &Section<'_>, complaints: &mut Complaints| {
        top.take(&key::DATA_DIR, complaints).zip(top.take(&key::LISTEN, complaints))
    };
    let (place, complaints) = look(written, place)?;
    place.ok_or_else(|| complaints.into_lists().0)
}

/// Hands the file as a whole to `with`.
///
/// # Errors
/// It is no TOML: what stands behind a broken line cannot be judged.
fn look<T>(
    written: &Written,
    with: impl FnOnce(&Section<'_>, &mut Complaints) -> T,
) -> Result<(T, Complaints), Vec<Complaint>> {
    let mut complaints = Complaints::default();
    let overrides = overrides(written, &mut complaints);
    let nothing = File::default();
    let file = written.file.as_ref().unwrap_or(&nothing);
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    for error in &errors {
        let place = error.span().map_or_else(|| file.name.clone(), |span| file.place(&span));
        complaints.add("", &place, error.message().trim());
    }
    if !errors.is_empty() {
        return Err(complaints.into_lists().0);
    }
    let top =
        Section { file, path: String::new(), place: file.name.clone(), table: table.get_ref(), overrides: &overrides };
    let found = with(&top, &mut complaints);
    Ok((found, complaints))
}

/// `None` only beside a complaint, or if a setting without which there is no server had no default.
fn read_top(top: &Section<'_>, path: Option<&OsStr>, complaints: &mut Complaints) -> Option<Config> {
    top.check_keys(&[SERVER, RETRY], &["auth", "tools", "resources", "prompts"], complaints);
    let tokens = tokens::read(top, complaints);
    let retry = read_retry(top, &RetryPolicy::default(), complaints)?;
    let mut retention = read_retention(top, complaints)?;
    let tools = tools::read(top, &retry, path, &mut retention, complaints);
    let public_url = top.take(&key::PUBLIC_URL, complaints);
    Some(Config {
        listen: read_listen(top, &tokens, complaints)?,
        data_dir: top.take(&key::DATA_DIR, complaints)?,
        public_url: public_url.map(|url| url.0),
        allowed_hosts: top.take(&key::ALLOWED_HOSTS, complaints)?.into_iter().map(|host| host.0).collect(),
        allowed_origins: top.take(&key::ALLOWED_ORIGINS, complaints)?.into_iter().map(|origin| origin.0).collect(),
        max_body: top.take(&key::MAX_BODY, complaints)?,
        max_connections: top.take(&key::MAX_CONNECTIONS, complaints)?,
        max_streams: top.take(&key::MAX_STREAMS, complaints)?,
        header_timeout: top.take(&key::HEADER_TIMEOUT, complaints)?,
        stream_heartbeat: top.take(&key::STREAM_HEARTBEAT, complaints)?,
        stream_write_timeout: top.take(&key::STREAM_WRITE_TIMEOUT, complaints)?,
        shutdown_grace: top.take(&key::SHUTDOWN_GRACE, complaints)?,
        workers: top.take(&key::WORKERS, complaints)?,
        max_pending: top.take(&key::MAX_PENDING, complaints)?,
        max_pending_bytes: top.take(&key::MAX_PENDING_BYTES, complaints)?,
        durability: top.take(&key::DURABILITY, complaints)?,
        disk_reserve: top.take(&key::DISK_RESERVE, complaints),
        cache: top.take(&key::CACHE, complaints)?,
        retention,
        throttle: Throttle {
            min_interval: top.take(&key::MIN_INTERVAL, complaints)?,
            min_delta: top.take(&key::MIN_DELTA, complaints)?,
        },
        session_ttl: top.take(&key::SESSION_TTL, complaints)?,
        events: occurrences::read(top, &tokens, complaints)?,
        helpers: top.take(&key::HELPERS, complaints)?,
        tokens,
        has_tools: !tools.is_empty(),
        tools: if tools.is_empty() { vec![tools::demo(&retry)] } else { tools },
        retry,
        resources: resources::read(top, complaints),
        prompts: prompts::read(top, complaints),
        doubts: Vec::new(),
    })
}

fn read_retention(top: &Section<'_>, complaints: &mut Complaints) -> Option<Retention> {
    let plain = Keep {
        keep: top.take(&key::KEEP, complaints)?,
        keep_failed: top.take(&key::KEEP_FAILED, complaints)?,
        bound: Bound::default(),
    };
    let all = Bound {
        max_jobs: Some(top.take(&key::MAX_JOBS, complaints)?),
        max_bytes: top.take(&key::MAX_BYTES, complaints).map(|size| size.0),
    };
    Some(Retention { plain, types: HashMap::new(), all })
}

/// Everybody who reaches the port may use it, unless there are tokens.
fn read_listen(top: &Section<'_>, tokens: &[Token], complaints: &mut Complaints) -> Option<SocketAddr> {
    let listen = top.take(&key::LISTEN, complaints)?;
    if !listen.ip().is_loopback() && tokens.is_empty() {
        let message = format!(
            "{} can be reached from outside: add a token (`longhaul token new`), or listen on 127.0.0.1 or [::1]",
            listen.ip()
        );
        top.refuse(key::LISTEN.row.key, complaints, message);
    }
    Some(listen)
}

/// The section's own retry settings over what it inherits.
fn read_retry(section: &Section<'_>, inherited: &RetryPolicy, complaints: &mut Complaints) -> Option<RetryPolicy> {
    fn own<T: form::Form>(
        section: &Section<'_>,
        setting: &setting::Setting<T>,
        inherited: T,
        complaints: &mut Complaints,
    ) -> Option<T> {
        if section.is_written(setting.row.key) { section.take(setting, complaints) } else { Some(inherited) }
    }
    Some(RetryPolicy {
        max_attempts: own(section, &key::MAX_ATTEMPTS, inherited.max_attempts, complaints)?,
        base_delay: own(section, &key::BASE_DELAY, inherited.base_delay, complaints)?,
        max_delay: own(section, &key::MAX_DELAY, inherited.max_delay, complaints)?,
        jitter: own(section, &key::JITTER, inherited.jitter, complaints)?,
        max_interruptions: own(section, &key::MAX_INTERRUPTIONS, inherited.max_interruptions, complaints)?,
    })
}

/// What the environment and the flags say, in the order in which they win.
fn overrides(written: &Written, complaints: &mut Complaints) -> Vec<Override> {
    let rows = || SERVER.iter().chain(RETRY);
    let mut overrides = Vec::new();
    for (name, text) in &written.environment {
        if let Some(row) = rows().find(|row| row.variable() == *name) {
            overrides.push(Override { key: row.key, text: text.clone(), place: name.clone() });
            continue;
        }
        // Others put variables of their own beside ours (orchestrators name ports and hosts after a service), so only
        // what looks like a slip of the pen is one.
        const SLIP: usize = 2;
        let slip = rows().map(Row::variable).find(|known| strsim::levenshtein(known, name) <= SLIP);
        if let Some(known) = slip {
            complaints.add(name, "environment", format!("no such setting; did you mean `{known}`?"));
        }
    }
    for (flag, text) in &written.flags {
        let row = rows().find(|row| row.flag == Some(flag));
        overrides.extend(row.map(|row| Override { key: row.key, text: text.clone(), place: format!("--{flag}") }));
    }
    overrides
}
