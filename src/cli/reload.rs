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
pub fn reload(current: &mut Config, new: Result<Config, Failure>, parts: &Reloaded<'_>) {
    let taken = new.map_err(|failure| failure.to_string()).and_then(|new| take(current, new, parts));
    match taken {
        Ok(taken) => {
            *current = taken;
            tell_doubts(current);
            tracing::info!(
                tools = current.tools.len(),
                "tools, resources and prompts are now those of the configuration; other settings, tokens among them, are as at start"
            );
        }
        Err(why) => tracing::error!("the configuration is not taken, and everything stays as it was: {why}"),
    }
}

/// Logs what will not work as it is written.
pub fn tell_doubts(config: &Config) {
    for doubt in &config.doubts {
        tracing::warn!("{doubt}");
    }
}

fn take(current: &Config, new: Config, reloaded: &Reloaded<'_>) -> Result<Config, String> {
    // A file that is being written, or that is gone, must not turn a server into a demo.
    if current.has_tools && !new.has_tools {
        return Err(
            "it is missing, empty or has no [tools.NAME]; to serve the demo in place of the tools, restart".into()
        );
    }
    let Config { tools, has_tools, resources, prompts, doubts, .. } = new;
    let config = Config { tools, has_tools, resources, prompts, doubts, ..current.clone() };
    let catalogue = Arc::new(Catalogue::new(config.tools.iter().map(|tool| tool.tool.clone()).collect())?);
    let handlers = parts::handlers(&config, &catalogue)?;
    let rules = parts::rules(&catalogue);
    // Whoever runs a job before whoever hands it out, and that before whoever makes it.
    reloaded.metrics.configure(rules.keys().cloned());
    reloaded.roster.store(Arc::new(handlers));
    reloaded.core.configure(rules);
    reloaded.service.set_catalogue(catalogue);
    reloaded.endpoint.reload(config.resources.clone(), config.prompts.clone());
    Ok(config)
}
