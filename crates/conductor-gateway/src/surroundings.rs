//! Names outside `config.toml` that its rows may use: tools, plugins and ports.
//!
//! Not here: reading the file and putting it in force.

use crate::catalog::Source;
use crate::mapping_call;
use crate::owner_handle::OwnerHandle;
use crate::studio::Studio;
use conductor_core::config::{self, Config, Diagnostic, Loaded, Platform, Severity, Surroundings};
use std::collections::{BTreeMap, BTreeSet};

/// Owned data from which [`Surroundings`] borrows.
#[derive(Debug, Default)]
pub struct OwnedSurroundings {
    tools: BTreeSet<String>,
    plugins: BTreeMap<String, BTreeSet<String>>,
    ports: Option<BTreeSet<String>>,
}

impl OwnedSurroundings {
    /// Collects all names except the ports, which only the owner has.
    pub fn of(studio: &Studio) -> Self {
        let catalog = studio.catalog();
        let mut around = OwnedSurroundings::default();
        for tool in catalog.tools().filter(|it| !it.hidden) {
            around.tools.insert(tool.name.to_string());
            if let Source::Plugin { name, .. } = &tool.source {
                let own = tool.name.strip_prefix(name.as_str()).and_then(|it| it.strip_prefix('.'));
                around.plugins.entry(name.to_string()).or_default().extend(own.map(str::to_owned));
            }
        }
        around
    }

    pub async fn read(studio: &Studio, owner: &OwnerHandle) -> Self {
        let mut around = OwnedSurroundings::of(studio);
        // An owner that is stopping does not answer. In that case, the ports are left out.
        if let Ok(devices) = owner.devices().await {
            let outputs = devices.midi_outputs.into_iter();
            around.ports = Some(outputs.chain(devices.midi_inputs).chain(devices.gamepads).collect());
        }
        around
    }

    pub fn with<T>(&self, act: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        act(&Surroundings {
            platform: Some(platform()),
            ports: self.ports.as_ref(),
            tools: Some(&self.tools),
            plugins: Some(&self.plugins),
        })
    }

    /// Loads the text and reports every fault.
    pub fn load(&self, studio: &Studio, text: &str) -> Loaded {
        let mut loaded = self.with(|around| config::load_with(text, around));
        if let Some(config) = &loaded.config {
            loaded.diagnostics.extend(unserved(config, studio));
        }
        loaded
    }
}

/// Reports rows whose action calls, with constant arguments, a tool that does not exist.
fn unserved(config: &Config, studio: &Studio) -> Vec<Diagnostic> {
    let catalog = studio.catalog();
    let modes = config.modes.iter().map(|it| (it.name.as_str(), &it.rows));
    let mut found = Vec::new();
    for (mode, rows) in modes.chain([("*", &config.global)]) {
        for row in &rows.mappings {
            let calls = row.rule.as_ref().map(|it| mapping_call::constant_calls(&it.action)).unwrap_or_default();
            for (tool, _) in calls.into_iter().filter(|(tool, _)| catalog.named(tool).is_none()) {
                found.push(Diagnostic {
                    severity: Severity::Error,
                    class: config::Class::Rule,
                    message: format!("mapping {mode}/{}: there is no tool \"{tool}\"", row.id),
                    help: None,
                    path: String::new(),
                    span: 0..0,
                    line: 1,
                    column: 1,
                });
            }
        }
    }
    found
}

pub fn platform() -> Platform {
    match std::env::consts::OS {
        "macos" => Platform::MacOs,
        "windows" => Platform::Windows,
        _ => Platform::Linux,
    }
}
