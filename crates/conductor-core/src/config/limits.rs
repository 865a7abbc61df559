//! `[circuit]`: the breakers of all tools.
//!
//! Not here: `[limits]` and `[retry]` (`crate::policy::limits`), and the breaker
//! (`crate::breaker`).

use super::form::{Form, names};
use super::reader::{Fields, Reader};
use super::section::{Keys, Table, table};
use crate::breaker::Settings;
use std::collections::BTreeMap;

/// The section `[circuit]`, with the complete settings of each tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Settings of tools that have no entry in `tools`.
    pub base: Settings,
    /// Settings of single tools. For a key that is missing in the file, the tool's built-in value
    /// is used, or else the value of `base`.
    pub tools: BTreeMap<String, Settings>,
}

impl Circuit {
    fn over(base: Settings) -> Self {
        let own =
            |&(tool, failures, open_ms): &(&str, u32, u64)| (tool.to_owned(), Settings { failures, open_ms, ..base });
        Circuit { base, tools: Settings::BUILT_IN.iter().map(own).collect() }
    }

    /// The settings of a tool.
    pub fn of(&self, tool: &str) -> Settings {
        self.tools.get(tool).copied().unwrap_or(self.base)
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Circuit::over(Settings::default())
    }
}

impl Table for Circuit {
    const ABOUT: &'static [&'static str] =
        &["The circuit breaker: a tool that fails repeatedly is switched off for some time."];

    fn read<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, _: Option<Self>) -> Option<Self> {
        let mut circuit = Circuit::over(Settings::read(r, f, None)?);
        let tools = f.opt(r, "tools", |r, it| {
            r.map_of(it, |r, entry| Some(table().read_over(r, &entry.node, circuit.of(&entry.key))))
        });
        circuit.tools.extend(tools.unwrap_or_default());
        Some(circuit)
    }

    fn keys(_: Option<&Self>) -> Keys {
        let mut keys = Settings::keys(None);
        let about = "Settings of single tools, by tool name. \
                     Missing keys have the tool's built-in values, or else the values of this section.";
        keys.add("tools", &[about], &names(table::<Settings>()), Some(&BTreeMap::new()), None);
        keys
    }
}
