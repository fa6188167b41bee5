//! What clients are shown of the configuration, as a whole: replaced when it is read again.
//!
//! In: tools, resources and prompts. Out: their lists, written once; and a mark of each, by which who listens knows whether it is another.

use std::fmt;
use std::str::FromStr;

use super::era::Revision;
use super::session::Abilities;
use super::{app, helpers, lists, params, prompts, resources};
use crate::service::Catalogue;

/// The list of tools is another.
pub(super) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// The lists of resources and templates are others.
pub(super) const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// The list of prompts is another.
pub(super) const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

/// See the head of this file.
pub(super) struct Shown {
    pub lists: lists::Lists,
    pub bound: params::ByTool,
    pub stock: resources::Stock,
    pub prompts: Vec<prompts::Prompt>,
    pub marks: Marks,
}

/// A checksum of each list. Written into the ids of standing streams, so that a list which changed over a restart is told as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub tools: u32,
    pub resources: u32,
    pub prompts: u32,
}

impl Shown {
    /// The lists of these, the helper tools last.
    pub(super) fn new(
        catalogue: &Catalogue,
        own: Option<&Catalogue>,
        stock: resources::Stock,
        prompts: Vec<prompts::Prompt>,
    ) -> Self {
        // Without its own tools the app could not ask for anything.
        let shown = if own.is_some() { app::Part::Shown } else { app::Part::None };
        let own = own.into_iter().flat_map(Catalogue::tools).map(|tool| (tool, helpers::part(&tool.name)));
        let all: Vec<_> = catalogue.tools().map(|tool| (tool, shown)).chain(own).collect();
        let lists = lists::Lists::new(&all);
        let tools = lists.page(Revision::July2026, Abilities::default(), None);
        let tools = tools.map(|page| crc32fast::hash(&page.json)).unwrap_or_default();
        let (resources, told) = (mark(&stock), mark(&prompts));
        let marks = Marks { tools, resources, prompts: told };
        Self { bound: params::read(catalogue.tools()), lists, stock, prompts, marks }
    }
}

/// What is equal is written equally.
fn mark(value: &impl fmt::Debug) -> u32 {
    crc32fast::hash(format!("{value:?}").as_bytes())
}

impl Marks {
    /// The notifications that are due to who has heard of these when those are shown.
    pub(super) fn changed(self, now: Self) -> impl Iterator<Item = &'static str> {
        let lists = [
            (self.tools != now.tools, TOOLS_CHANGED),
            (self.resources != now.resources, RESOURCES_CHANGED),
            (self.prompts != now.prompts, PROMPTS_CHANGED),
        ];
        lists.into_iter().filter_map(|(is_due, method)| is_due.then_some(method))
    }
}

impl Marks {
    /// The first of these, and what has been heard of with it.
    pub(super) fn next(self, now: Self) -> Option<(&'static str, Self)> {
        let method = self.changed(now).next()?;
        let marks = match method {
            TOOLS_CHANGED => Self { tools: now.tools, ..self },
            RESOURCES_CHANGED => Self { resources: now.resources, ..self },
            _ => Self { prompts: now.prompts, ..self },
        };
        Some((method, marks))
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:08x}{:08x}", self.tools, self.resources, self.prompts)
    }
}

/// Not what `Display` writes.
#[derive(Debug)]
pub(super) struct NoMarks;

impl FromStr for Marks {
    type Err = NoMarks;

    fn from_str(text: &str) -> Result<Self, NoMarks> {
        let part = |at: usize| {
            let digits = text.get(at..at + 8).filter(|_| text.len() == 24).ok_or(NoMarks)?;
            u32::from_str_radix(digits, 16).map_err(|_| NoMarks)
        };
        Ok(Self { tools: part(0)?, resources: part(8)?, prompts: part(16)? })
    }
}
