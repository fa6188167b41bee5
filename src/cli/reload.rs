//! SIGHUP: tools, resources and prompts become those that are configured now, without a restart.
//!
//! In: the configuration as it is written now, or what is wrong with it. Out: other tools, and word to the clients that listen; or everything as it was.
//! Other settings stay as they were at start, the retention of each tool among them.

use std::sync::Arc;

use super::failure::Failure;
use super::parts;
use crate::config::Config;
use crate::core::Handle;
use crate::handler::Roster;
use crate::mcp::Endpoint;
use crate::metrics::Metrics;
use crate::service::{Catalogue, Service};

/// What is told.
pub struct Reloaded<'a> {
    /// Goes by the rules of the tools.
    pub core: &'a Handle,
    /// Checks against their schemas.
    pub service: &'a Service,
    /// Runs them.
    pub roster: &'a Roster,
    /// Counts them.
    pub metrics: &'a Metrics,
    /// Shows them.
    pub endpoint: &'a Endpoint,
}

/// Takes the tools, resources and prompts of this configuration; what is wrong with it is logged, and changes nothing.
pub fn reload(old: &Config, new: Result<Config, Failure>, parts: &Reloaded<'_>) {
    let taken = new.map_err(|failure| failure.to_string()).and_then(|new| take(old, new, parts));
    match taken {
        Ok(tools) => tracing::info!(
            tools,
            "tools, resources and prompts are now those of the configuration; other settings, tokens among them, are as at start"
        ),
        Err(why) => tracing::error!("the configuration is not taken, and everything stays as it was: {why}"),
    }
}

fn take(old: &Config, new: Config, reloaded: &Reloaded<'_>) -> Result<usize, String> {
    let config = Config { tools: new.tools, resources: new.resources, prompts: new.prompts, ..old.clone() };
    let catalogue = Arc::new(Catalogue::new(config.tools.iter().map(|tool| tool.tool.clone()).collect())?);
    let handlers = parts::handlers(&config, &catalogue)?;
    let rules = parts::rules(&catalogue);
    // Whoever runs a job before whoever hands it out, and that before whoever makes it.
    reloaded.metrics.configure(rules.keys().cloned());
    reloaded.roster.store(Arc::new(handlers));
    reloaded.core.configure(rules);
    reloaded.service.set_catalogue(catalogue);
    reloaded.endpoint.reload(config.resources, config.prompts);
    Ok(config.tools.len())
}
