//! From the configuration to what each part is told.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Config, Run};
use crate::handler::command::{Check, Program, strays};
use crate::handler::demo::Analysis;
use crate::handler::{Handler, Handlers};
use crate::job::Rules;
use crate::service::{Catalogue, Tool};
use crate::{core, http, mcp, store};

/// What the store is told.
pub fn store(config: &Config) -> store::sled::Options {
    store::sled::Options {
        dir: config.data_dir.join("store"),
        cache_bytes: config.cache.0,
        durability: config.durability,
    }
}

/// What the core is told.
pub fn core(config: &Config) -> core::Options {
    core::Options {
        max_pending: config.max_pending as u64,
        max_pending_bytes: config.max_pending_bytes.0,
        disk_reserve: config.disk_reserve.map(|size| size.0),
        throttle: config.throttle,
        retention: config.retention.clone(),
    }
}

/// What the MCP endpoint is told.
pub fn mcp(config: &Config) -> mcp::Options {
    mcp::Options {
        base: config.public_url.clone().unwrap_or_default(),
        helpers: config.helpers,
        session_ttl: config.session_ttl,
        events: config.events.clone(),
        stock: config.resources.clone(),
        prompts: config.prompts.clone(),
    }
}

/// What the HTTP side is told.
pub fn http(config: &Config, clock: &dyn Clock) -> http::Options {
    let seed = [clock.job_id(), clock.job_id()].map(|id| id.as_u128().to_be_bytes());
    let mut ticket_seed = [0; 32];
    ticket_seed[..16].copy_from_slice(&seed[0]);
    ticket_seed[16..].copy_from_slice(&seed[1]);
    http::Options {
        listen: config.listen,
        public_url: config.public_url.clone(),
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        tokens: config.tokens.clone(),
        max_body: usize::try_from(config.max_body.0).unwrap_or(usize::MAX),
        max_connections: config.max_connections,
        max_streams: config.max_streams,
        header_timeout: config.header_timeout.duration(),
        stream_heartbeat: config.stream_heartbeat.duration(),
        stream_write_timeout: config.stream_write_timeout.duration(),
        ticket_seed,
    }
}

/// Who does the work of each type.
///
/// # Errors
/// Which tool cannot run, and why.
pub fn handlers(config: &Config, catalogue: &Arc<Catalogue>) -> Result<Handlers, String> {
    let mut handlers = Handlers::default();
    for tool in &config.tools {
        let handler: Arc<dyn Handler> = match &tool.run {
            Run::Command(settings) => {
                let mut settings = settings.clone();
                settings.env.push((strays::MARK.into(), mark(config)));
                let program = Program::new(settings, check(&tool.tool, catalogue));
                Arc::new(program.map_err(|why| format!("tool {}: command: {why}", tool.tool.name))?)
            }
            Run::Demo { pace } => Arc::new(Analysis::new(*pace)),
            #[cfg(any(debug_assertions, feature = "trial"))]
            Run::Trial => Arc::new(crate::handler::trial::Trial),
        };
        handlers.insert(tool.tool.job_type.clone(), handler);
    }
    Ok(handlers)
}

/// The rules of each type.
pub fn rules(catalogue: &Catalogue) -> HashMap<Arc<str>, Rules> {
    catalogue.tools().map(|tool| (tool.job_type.clone(), tool.rules.clone())).collect()
}

/// What names this store among all on this machine, in the environment of its children.
pub fn mark(config: &Config) -> String {
    let path = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
    path.to_string_lossy().into_owned()
}

/// Results are checked only against a schema that there is.
fn check(tool: &Tool, catalogue: &Arc<Catalogue>) -> Option<Check> {
    tool.output_schema.as_ref()?;
    let (catalogue, job_type) = (catalogue.clone(), tool.job_type.clone());
    Some(Arc::new(move |result| {
        let name = |violation: crate::service::Violation| match violation.pointer.as_str() {
            "" => violation.message,
            pointer => format!("{pointer}: {}", violation.message),
        };
        catalogue.check_output(&job_type, result).into_iter().map(name).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Written, read};

    /// What was wrong with a result as a whole was told with an empty pointer: ": : 1 is not of …".
    #[test]
    fn a_result_that_is_wrong_as_a_whole_is_told_without_a_pointer() {
        let text = "[tools.t]\ndescription = 'd'\noutput_schema = { type = 'object', required = ['a'], properties = { a = { type = 'null' } } }\n\
                    run = { kind = 'command', command = ['true'], output = 'json' }\n";
        let file = Some(File { name: "f".to_owned(), text: text.to_owned() });
        let config = read(&Written { file, ..Written::default() }).expect("complete");
        let tool = &config.tools[0].tool;
        let check = check(tool, &Arc::new(Catalogue::new(vec![tool.clone()]).expect("one tool"))).expect("a schema");
        assert_eq!(check(&serde_json::json!([])), ["value is not of type \"object\""]);
        assert_eq!(check(&serde_json::json!({ "a": 1 })), ["/a: 1 is not of type \"null\""]);
    }
}
