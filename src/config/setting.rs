//! The one table behind file keys, flags, environment, help and docs.
//!
//! Each setting is said once: its key, its form, its default, its bounds, what it does. Nobody else knows a key by name.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::form::{Argument, Encoded, ExitCode, Form, HostName, MimeType, Origin, Pairs, PublicUrl, Size};
use crate::handler::command::Form as Output;
use crate::http::auth::Scope;
use crate::job::{Millis, OnInterrupt};
use crate::mcp::occurrences::{Codes, WebhookId};
use crate::mcp::prompts::Role;
use crate::service::TaskSupport;
use crate::store::Durability;

/// What everybody may know about a setting.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Dotted, as in the file; within a tool, relative to the tool.
    pub key: &'static str,
    /// As it would be written; `None`: there is none.
    pub default: Option<&'static str>,
    /// Least and greatest value.
    pub bounds: Option<(&'static str, &'static str)>,
    /// What it does, and what happens at the limit.
    pub help: &'static str,
    /// The flag of `serve` that sets it, without its hyphens.
    pub flag: Option<&'static str>,
    /// The form of its value.
    pub form: &'static str,
}

impl Row {
    /// The environment variable that sets it: `LONGHAUL_QUEUE_WORKERS` for `queue.workers`.
    pub fn variable(&self) -> String {
        format!("LONGHAUL_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }

    /// The right form with its bounds, for a complaint.
    pub fn expected(&self) -> String {
        match self.bounds {
            Some((least, most)) => format!("expected {} from {least} to {most}", self.form),
            None => format!("expected {}", self.form),
        }
    }
}

/// A setting whose value is a `T`.
pub(super) struct Setting<T> {
    pub(super) row: Row,
    form: PhantomData<T>,
}

const fn setting<T: Form>(key: &'static str, help: &'static str) -> Setting<T> {
    let row = Row { key, default: None, bounds: None, help, flag: None, form: T::EXPECTED };
    Setting { row, form: PhantomData }
}

impl<T: Form> Setting<T> {
    const fn or(mut self, default: &'static str) -> Self {
        self.row.default = Some(default);
        self
    }

    const fn within(mut self, least: &'static str, most: &'static str) -> Self {
        self.row.bounds = Some((least, most));
        self
    }

    const fn flag(mut self, name: &'static str) -> Self {
        self.row.flag = Some(name);
        self
    }

    /// The default; `None` if there is none.
    pub(super) fn default(&self) -> Option<T> {
        self.row.default.and_then(T::from_text)
    }

    /// Whether a value that has the right form is also within the bounds.
    pub(super) fn admits(&self, value: &T) -> bool {
        let bounds = self.row.bounds.and_then(|(least, most)| T::from_text(least).zip(T::from_text(most)));
        bounds.is_none_or(|(least, most)| value.is_between(&least, &most))
    }
}

/// Says each setting once: as a constant of its type, and as a row of the table.
macro_rules! settings {
    ($(#[$doc:meta])* $table:ident: $($name:ident: $form:ty = $setting:expr;)*) => {
        $(pub(super) const $name: Setting<$form> = $setting;)*
        $(#[$doc])*
        pub const $table: &[Row] = &[$($name.row),*];
    };
}

settings! {
    /// What concerns the whole server; each also as `LONGHAUL_…` in the environment.
    SERVER:
    LISTEN: SocketAddr = setting("server.listen", "Where to listen. Anything but loopback needs tokens.")
        .or("127.0.0.1:7450").flag("listen");
    DATA_DIR: PathBuf = setting("server.data_dir", "Where the store is kept, in `store` under it. One process per directory.")
        .or("data").flag("data-dir");
    PUBLIC_URL: PublicUrl = setting("server.public_url", "The URL that links in answers begin with; without it they are paths.");
    ALLOWED_HOSTS: Vec<HostName> = setting("server.allowed_hosts", "Host names that requests may use besides the loopback names and the host of `public_url`; others are answered 403.")
        .or("");
    ALLOWED_ORIGINS: Vec<Origin> = setting("server.allowed_origins", "Origins of web pages that may call (CORS); others are answered 403.")
        .or("");
    MAX_BODY: Size = setting("server.max_body", "Largest request body; a larger one is answered 413.")
        .or("1MiB").within("1KiB", "1GiB");
    MAX_CONNECTIONS: usize = setting("server.max_connections", "Most connections at once; further ones are refused.")
        .or("20000").within("1", "1000000");
    MAX_STREAMS: usize = setting("server.max_streams", "Most event streams of one principal at once; further ones are answered 429. Without tokens there is no limit.")
        .or("1000").within("1", "1000000");
    HEADER_TIMEOUT: Millis = setting("server.header_timeout", "How long a request's head may take before the connection is closed.")
        .or("10s").within("100ms", "10m");
    STREAM_HEARTBEAT: Millis = setting("server.stream_heartbeat", "After so much quiet an event stream gets a sign of life.")
        .or("15s").within("100ms", "10m");
    STREAM_WRITE_TIMEOUT: Millis = setting("server.stream_write_timeout", "A stream whose reader takes nothing for so long is closed; it can resume.")
        .or("30s").within("100ms", "1h");
    SHUTDOWN_GRACE: Millis = setting("server.shutdown_grace", "How long running jobs may go on at shutdown; after it they are given back, uncounted.")
        .or("10s").within("0s", "1h");
    WORKERS: usize = setting("queue.workers", "How many jobs run at once on this machine.")
        .or("64").within("0", "1024").flag("workers");
    MAX_PENDING: usize = setting("queue.max_pending", "Most unfinished jobs; further ones are answered 429 with Retry-After.")
        .or("1000000").within("1", "100000000");
    MAX_PENDING_BYTES: Size = setting("queue.max_pending_bytes", "Most bytes of their payloads together; beyond it 429 likewise.")
        .or("4GiB").within("1MiB", "1024TiB");
    DURABILITY: Durability = setting("store.durability", "`disk`: answered when it is on the disk. `process`: survives a kill, not a power cut; said at start.")
        .or("disk");
    DISK_RESERVE: Size = setting("store.disk_reserve", "With less free disk than this new jobs are answered 507. Without it 256MiB or 5 % of the disk, whichever is less.")
        .within("0", "1024TiB");
    CACHE: Size = setting("store.cache", "Memory for the store's page cache.")
        .or("64MiB").within("1MiB", "1TiB");
    KEEP: Millis = setting("retention.keep", "How long completed and canceled jobs are kept, with their events.")
        .or("7d").within("0s", "36500d");
    KEEP_FAILED: Millis = setting("retention.keep_failed", "How long failed jobs are kept.")
        .or("30d").within("0s", "36500d");
    MAX_JOBS: u64 = setting("retention.max_jobs", "Most ended jobs that are kept; the longest ended go first.")
        .or("1000000").within("1", "1000000000");
    MAX_BYTES: Size = setting("retention.max_bytes", "Most bytes of ended jobs: payloads, results, partial results and logs, and 1 KiB for each; the longest ended go first. Without it: as many as max_jobs allows.")
        .within("1MiB", "1024TiB");
    MIN_INTERVAL: Millis = setting("progress.min_interval", "Progress of one job that comes sooner after the last is merged with what comes next, unless its step or message changed.")
        .or("500ms").within("0s", "1h");
    MIN_DELTA: f64 = setting("progress.min_delta", "Or unless the percentage moved by this much.")
        .or("10").within("0", "100");
    SESSION_TTL: Millis = setting("mcp.session_ttl", "An MCP session that is idle for so long is forgotten (404).")
        .or("7d").within("1s", "3650d");
    EVENTS: bool = setting("mcp.events.enabled", "Whether MCP clients are offered the Events extension (`docs/mcp-events.md`).")
        .or("true");
    EVENT_CODES: Codes = setting("mcp.events.codes", "Its error codes: `draft` -32023 to -32027, `sketch` -32011 to -32015.")
        .or("draft");
    REQUIRE_MCP_NAME: bool = setting("mcp.events.require_mcp_name", "Whether `Mcp-Name` must repeat the event's name; without this it is only compared where it is sent.")
        .or("false");
    REQUIRE_CAPABILITY: bool = setting("mcp.events.require_client_capability", "Whether only clients that declare the extension are served; others are answered -32021.")
        .or("false");
    LEGACY_CAPABILITY: bool = setting("mcp.events.advertise_legacy_capability", "Whether `capabilities.events` is sent too, which older clients look for.")
        .or("true");
    WEBHOOK_ID: WebhookId = setting("mcp.events.webhook_id", "The `webhook-id` of a delivery: the `event`'s id, or the `message`'s own.")
        .or("event");
    PRIVATE_CALLBACKS: bool = setting("mcp.events.allow_private_callbacks", "Whether callbacks may go to http and to addresses that are not globally routable. Whoever has a token can then reach what this server can reach.")
        .or("false");
    CALLBACK_HOSTS: Vec<HostName> = setting("mcp.events.allowed_callback_hosts", "The only hosts that callbacks may go to; without any, to every one.")
        .or("");
    HELPERS: bool = setting("helpers", "Whether MCP clients see get_job, wait_for_jobs, cancel_job, list_jobs and answer_job.")
        .or("true");
}

settings! {
    /// Retries: at the top the defaults of all tools, in a tool its own.
    RETRY:
    MAX_ATTEMPTS: u32 = setting("retry.max_attempts", "Runs in all, counting those that failed or timed out.")
        .or("5").within("1", "1000");
    BASE_DELAY: Millis = setting("retry.base_delay", "Delay after the first failure; it doubles with each further one.")
        .or("1s").within("0s", "1h");
    MAX_DELAY: Millis = setting("retry.max_delay", "Longest delay, before jitter.")
        .or("5m").within("0s", "30d");
    JITTER: f64 = setting("retry.jitter", "Share of the delay that chance may add.")
        .or("0.2").within("0", "1");
    MAX_INTERRUPTIONS: u32 = setting("retry.max_interruptions", "Deaths of the server under a job after which the job fails as `worker_died`.")
        .or("3").within("1", "1000");
}

settings! {
    /// What a tool says of itself, in `[tools.NAME]`.
    TOOL:
    TYPE: String = setting("type", "Type of its jobs; without it the tool's name. One tool per type.");
    TITLE: String = setting("title", "Its name for people.");
    DESCRIPTION: String = setting("description", "What a model reads to know when to call it. Needed, but for the demo.");
    TIMEOUT: Millis = setting("timeout", "Longest run of one attempt; after it a retry, code `timeout`.")
        .or("10m").within("1ms", "365d");
    EXPIRES_IN: Millis = setting("expires_in", "A job that has not ended so long after its creation is canceled with reason `timeout`.")
        .within("1ms", "3650d");
    CONCURRENCY: u32 = setting("concurrency", "Most attempts at once; without it as many as there are workers.")
        .within("1", "1024");
    TASK_SUPPORT: TaskSupport = setting("task_support", "Whether a call becomes an MCP task: `auto`, where the client knows tasks; `never`; `required`, and clients that know none cannot call it.")
        .or("auto");
    DERIVE_KEY: bool = setting("derive_key", "A call without an idempotency key gets one made of its arguments: the same call finds the same job.")
        .or("false");
    INLINE_WAIT: Millis = setting("inline_wait", "How long a call waits for the result before it answers a handle.")
        .or("0s").within("0s", "10m");
    ON_INTERRUPT: OnInterrupt = setting("on_interrupt", "`retry` runs a job again whose server died; `fail` ends it as `outcome_unknown`.")
        .or("retry");
    CANCEL_GRACE: Millis = setting("cancel_grace", "How long a cancelled attempt has before it is killed.")
        .or("5s").within("0s", "10m");
    MAX_RESULT: Size = setting("max_result", "Largest result; a larger one fails the job as `output_too_large`.")
        .or("64MiB").within("1", "4GiB");
}

settings! {
    /// Retention of a tool's own jobs; what it does not say is as at the top. Its bounds count its jobs alone, beside those of all.
    TOOL_RETENTION:
    TOOL_KEEP: Millis = setting("retention.keep", "How long its completed and canceled jobs are kept.")
        .within("0s", "36500d");
    TOOL_KEEP_FAILED: Millis = setting("retention.keep_failed", "How long its failed jobs are kept.")
        .within("0s", "36500d");
    TOOL_MAX_JOBS: u64 = setting("retention.max_jobs", "Most of its ended jobs that are kept.")
        .within("0", "1000000000");
    TOOL_MAX_BYTES: Size = setting("retention.max_bytes", "Most bytes of its ended jobs, counted as at the top.")
        .within("0", "1024TiB");
}

/// Settings of a tool that are tables of their own kind: read by `tools`, listed here for docs and for near names.
pub const TOOL_TABLES: &[Row] = &[
    table(
        "input_schema",
        "JSON Schema of the arguments, as a table or as a text of JSON; its `type` must be `object`.",
    ),
    table("output_schema", "JSON Schema of the result, likewise."),
    table("annotations", "MCP annotations, such as `{ readOnlyHint = true }`."),
    table("run", "What does the work; see below."),
];

const fn table(key: &'static str, help: &'static str) -> Row {
    Row { key, default: None, bounds: None, help, flag: None, form: "a table" }
}

settings! {
    /// `run` with `kind = "command"`: a child process per attempt.
    COMMAND:
    COMMAND_KIND: String = setting("kind", "`command`.");
    ARGUMENTS: Vec<Argument> = setting("command", "Program and arguments; `{payload.field}` is filled in as a single argument, never through a shell.");
    OUTPUT: Output = setting("output", "What stdout is: `text` (without one line end at its end), `json` (one value) or `events` (one JSON object per line).")
        .or("text");
    ENV: Pairs = setting("env", "Environment variables to add.");
    CWD: PathBuf = setting("cwd", "Working directory; without it the server's.");
    TRANSIENT: Vec<ExitCode> = setting("transient_exit_codes", "Exit codes that are retried, besides 75.")
        .or("");
    PERMANENT: Vec<ExitCode> = setting("permanent_exit_codes", "Exit codes that blame the input, besides 64, 65, 66, 77 and 78.")
        .or("");
    ASK_HOLD: Millis = setting("ask_hold", "How long a program that asks is kept while it waits; then it is ended, and started again with the answers.")
        .or("30s").within("0s", "1d");
}

settings! {
    /// `run` with `kind = "demo"`: the gift analysis that comes with the binary.
    DEMO:
    DEMO_KIND: String = setting("kind", "`demo`.");
    PACE: Millis = setting("pace", "How long each of the four stages takes at least.")
        .or("1s").within("0s", "1h");
}

settings! {
    /// A caller, in `[[auth.tokens]]`; made by `longhaul token new`.
    TOKEN:
    TOKEN_NAME: String = setting("name", "The principal: the owner of what it submits.");
    TOKEN_HASH: String = setting("hash", "`sha256:` and 64 hex digits.");
    SCOPES: Vec<Scope> = setting("scopes", "Any of `submit`, `read`, `work`, `admin`.");
}

settings! {
    /// A resource, or with `{variables}` in its URI a resource template, in `[resources."URI"]`. Exactly one of `text`, `base64`, `file`.
    RESOURCE:
    RESOURCE_NAME: String = setting("name", "Its name; without it the URI.");
    RESOURCE_TITLE: String = setting("title", "Its name for people.");
    RESOURCE_DESCRIPTION: String = setting("description", "What it is, for people and models.");
    RESOURCE_TYPE: MimeType = setting("mime_type", "What its content is. Needed with `base64` and `file`, of which it is not known.")
        .or("text/plain");
    RESOURCE_TEXT: Argument = setting("text", "Its content. In a template each `{variable}` is filled in, escaped for JSON, HTML and XML.");
    RESOURCE_BASE64: Encoded = setting("base64", "Its content, if that is no text. Not in a template.");
    RESOURCE_FILE: PathBuf = setting("file", "A file with its content, its path relative to the configuration file; read at start and by SIGHUP. At most 8MiB.");
}

/// Settings of a resource that are tables of their own kind.
pub const RESOURCE_TABLES: &[Row] = &[table(
    "complete",
    "In a template: values that are suggested for its variables, such as `{ id = [\"a\", \"b\"] }`.",
)];

settings! {
    /// A prompt, in `[prompts.NAME]`.
    PROMPT:
    PROMPT_TITLE: String = setting("title", "Its name for people.");
    PROMPT_DESCRIPTION: String = setting("description", "What it is for. Needed.");
}

/// Settings of a prompt that are lists of tables.
pub const PROMPT_TABLES: &[Row] = &[
    table("arguments", "A list of `{ name, title?, description?, required?, values?, ask?, schema? }`; see below."),
    table(
        "messages",
        "A list of `{ role, text }`, or with `resource`, `image` or `audio` in place of `text`; see below. Needed.",
    ),
];

settings! {
    /// An argument of a prompt.
    ARGUMENT:
    ARGUMENT_NAME: String = setting("name", "Its name; `{name}` in messages is filled in. Needed.");
    ARGUMENT_TITLE: String = setting("title", "Its name for people.");
    ARGUMENT_DESCRIPTION: String = setting("description", "What it means.");
    ARGUMENT_REQUIRED: bool = setting("required", "Whether there is no prompt without it.")
        .or("false");
    ARGUMENT_VALUES: Vec<Argument> = setting("values", "Values that are suggested; others are taken as well.")
        .or("");
    ARGUMENT_ASK: String = setting("ask", "The question to the user when it is missing, where the client can ask (2026-07-28).");
}

/// Settings of an argument that are tables of their own kind.
pub const ARGUMENT_TABLES: &[Row] = &[table(
    "schema",
    "With `ask`: JSON Schema of the answer, of type string, number, integer or boolean; without it a text.",
)];

settings! {
    /// A message of a prompt. Exactly one of `text`, `resource`, `image`, `audio`.
    MESSAGE:
    MESSAGE_ROLE: Role = setting("role", "Who says it: `user` or `assistant`.")
        .or("user");
    MESSAGE_TEXT: Argument = setting("text", "What is said.");
}

/// Settings of a message that are tables of their own kind.
pub const MESSAGE_TABLES: &[Row] = &[
    table(
        "resource",
        "`{ uri, mime_type?, text }`: a resource with its text; arguments are filled in, in the text escaped for JSON, HTML and XML.",
    ),
    table("image", "`{ mime_type, base64 }` or `{ mime_type, file }`."),
    table("audio", "Likewise."),
];

settings! {
    /// `resource` of a message.
    EMBEDDED:
    EMBEDDED_URI: String = setting("uri", "Its URI.");
    EMBEDDED_TYPE: MimeType = setting("mime_type", "What its text is.")
        .or("text/plain");
    EMBEDDED_TEXT: Argument = setting("text", "Its text.");
}

settings! {
    /// `image` and `audio` of a message.
    MEDIA:
    MEDIA_TYPE: MimeType = setting("mime_type", "What kind.");
    MEDIA_BASE64: Encoded = setting("base64", "The bytes.");
    MEDIA_FILE: PathBuf = setting("file", "A file with the bytes, its path relative to the configuration file; read at start and by SIGHUP.");
}

/// All settings as tables of Markdown, as the README has them.
pub fn reference() -> String {
    let parts: [(&str, &[&[Row]]); 10] = [
        ("", &[SERVER]),
        ("Retries, at the top for all tools, or in a tool:", &[RETRY]),
        ("A tool, in `[tools.NAME]`, NAME being 1 to 64 of `A-Z a-z 0-9 _ . -`:", &[TOOL, TOOL_RETENTION, TOOL_TABLES]),
        ("`run = { kind = \"command\", … }`:", &[COMMAND]),
        ("`run = { kind = \"demo\", … }`:", &[DEMO]),
        ("A caller, in `[[auth.tokens]]`:", &[TOKEN]),
        (
            "An MCP resource, in `[resources.\"URI\"]`; with `{variables}` as whole path segments of the URI a template:",
            &[RESOURCE, RESOURCE_TABLES],
        ),
        ("An MCP prompt, in `[prompts.NAME]`:", &[PROMPT, PROMPT_TABLES]),
        ("One of its `arguments`:", &[ARGUMENT, ARGUMENT_TABLES]),
        ("One of its `messages`:", &[MESSAGE, MESSAGE_TABLES]),
    ];
    let mut text = String::new();
    for (title, tables) in parts {
        if !title.is_empty() {
            text += &format!("\n{title}\n\n");
        }
        text += "| key | default | what it does |\n| --- | --- | --- |\n";
        for row in tables.iter().copied().flatten() {
            let default = row.default.filter(|default| !default.is_empty()).unwrap_or("–");
            text += &format!("| `{}` | {default} | {} |\n", row.key, row.help);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_bound_has_the_form_that_its_setting_asks_for() {
        fn check<T: Form>(setting: &Setting<T>) {
            let key = setting.row.key;
            assert_eq!(setting.row.default.is_some(), setting.default().is_some(), "{key}: default");
            assert!(setting.default().is_none_or(|value| setting.admits(&value)), "{key}: default within bounds");
            let bounds = setting.row.bounds.map(|(least, most)| (T::from_text(least), T::from_text(most)));
            let sound =
                |(least, most): (Option<T>, Option<T>)| least.zip(most).is_some_and(|(l, m)| l.is_between(&l, &m));
            assert!(bounds.is_none_or(sound), "{key}: bounds");
        }
        macro_rules! check_all { ($($name:ident)*) => { $(check(&$name);)* }; }
        check_all!(LISTEN DATA_DIR PUBLIC_URL ALLOWED_HOSTS ALLOWED_ORIGINS MAX_BODY MAX_CONNECTIONS MAX_STREAMS);
        check_all!(HEADER_TIMEOUT STREAM_HEARTBEAT STREAM_WRITE_TIMEOUT SHUTDOWN_GRACE WORKERS MAX_PENDING);
        check_all!(MAX_PENDING_BYTES DURABILITY DISK_RESERVE CACHE KEEP KEEP_FAILED MAX_JOBS MAX_BYTES MIN_INTERVAL MIN_DELTA);
        check_all!(EVENTS EVENT_CODES REQUIRE_MCP_NAME REQUIRE_CAPABILITY LEGACY_CAPABILITY);
        check_all!(WEBHOOK_ID PRIVATE_CALLBACKS CALLBACK_HOSTS);
        check_all!(SESSION_TTL HELPERS MAX_ATTEMPTS BASE_DELAY MAX_DELAY JITTER MAX_INTERRUPTIONS TYPE TITLE);
        check_all!(DESCRIPTION TIMEOUT EXPIRES_IN CONCURRENCY TASK_SUPPORT DERIVE_KEY INLINE_WAIT ON_INTERRUPT CANCEL_GRACE);
        check_all!(TOOL_KEEP TOOL_KEEP_FAILED TOOL_MAX_JOBS TOOL_MAX_BYTES);
        check_all!(RESOURCE_NAME RESOURCE_TITLE RESOURCE_DESCRIPTION RESOURCE_TYPE RESOURCE_TEXT RESOURCE_BASE64);
        check_all!(RESOURCE_FILE PROMPT_TITLE PROMPT_DESCRIPTION ARGUMENT_NAME ARGUMENT_TITLE ARGUMENT_DESCRIPTION);
        check_all!(ARGUMENT_REQUIRED ARGUMENT_VALUES ARGUMENT_ASK MESSAGE_ROLE MESSAGE_TEXT EMBEDDED_URI EMBEDDED_TYPE);
        check_all!(EMBEDDED_TEXT MEDIA_TYPE MEDIA_BASE64 MEDIA_FILE);
        check_all!(MAX_RESULT ARGUMENTS OUTPUT ENV CWD TRANSIENT PERMANENT ASK_HOLD PACE TOKEN_NAME TOKEN_HASH SCOPES);
    }

    #[test]
    fn a_variable_is_named_after_its_key() {
        assert_eq!(WORKERS.row.variable(), "LONGHAUL_QUEUE_WORKERS");
        assert_eq!(DATA_DIR.row.variable(), "LONGHAUL_SERVER_DATA_DIR");
    }
}
