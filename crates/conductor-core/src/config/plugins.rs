//! Reads `[plugins.<name>]`: the enabled plugins, their files and their permissions.
//!
//! A fault in one row disables only that plugin. Not here: whether the file exists and its digest
//! is unchanged; the daemon checks that.

use super::reader::{Reader, is_slug};
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use crate::policy::Tier;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The plugins by name. A plugin with a fault is present but not enabled.
pub type Plugins = BTreeMap<String, Plugin>;

/// One `[plugins.<name>]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Whether the plugin is loaded.
    pub enabled: bool,
    /// Name of a file in `plugins/`.
    pub file: String,
    /// Digest of the file that a person enabled; absent when not enabled.
    pub pin: Option<Digest>,
    /// Hosts that the plugin may fetch from.
    pub net: Vec<String>,
    /// Names of file roots that the plugin may read.
    pub files_read: Vec<String>,
    /// Names of file roots that the plugin may also write.
    pub files_write: Vec<String>,
    /// Names of secrets that the plugin may send in requests.
    pub secrets: Vec<String>,
    /// Whether failed calls are repeated.
    pub retry: PluginRetry,
    /// Longest processor time of one call.
    pub cpu_ms: u32,
    /// Longest duration of one call, including all waiting.
    pub timeout_ms: u32,
    /// Maximum memory of the script, in MiB.
    pub heap_mb: u32,
    /// Settings passed to the plugin; checked against its schema when it is loaded.
    pub config: Map<String, Value>,
    /// Settings of single tools, by full tool name.
    pub tools: BTreeMap<String, PluginTool>,
}

named_enum! {
    /// Whether a failed call of a plugin is repeated automatically.
    #[derive(Default)]
    pub enum PluginRetry {
        /// Only if the plugin declares the tool idempotent.
        #[default]
        Declared = "declared",
        /// After every failure.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

/// Settings of one tool. For an absent field, the value that the plugin declares is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginTool {
    /// Replaces the declared tier.
    pub tier: Option<Tier>,
    /// Replaces the declared `requires_approval`.
    pub requires_approval: Option<bool>,
}

impl Plugin {
    /// A disabled plugin with the default settings.
    pub fn of_file(file: impl Into<String>) -> Self {
        Plugin {
            enabled: false,
            file: file.into(),
            pin: None,
            net: Vec::new(),
            files_read: Vec::new(),
            files_write: Vec::new(),
            secrets: Vec::new(),
            retry: PluginRetry::Declared,
            cpu_ms: 1000,
            timeout_ms: 30_000,
            heap_mb: 32,
            config: Map::new(),
            tools: BTreeMap::new(),
        }
    }

    /// Everything that an approval for a tool of this plugin depends on.
    pub fn to_json(&self) -> Value {
        let tools: Map<String, Value> = self
            .tools
            .iter()
            .map(|(name, tool)| {
                (name.clone(), json!({ "tier": tool.tier, "requires_approval": tool.requires_approval }))
            })
            .collect();
        json!({
            "enabled": self.enabled, "file": self.file, "pin": self.pin, "net": self.net, "files_read": self.files_read,
            "files_write": self.files_write, "secrets": self.secrets, "retry": self.retry.as_str(), "cpu_ms": self.cpu_ms,
            "timeout_ms": self.timeout_ms, "heap_mb": self.heap_mb, "config": self.config, "tools": tools,
        })
    }
}

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Plugins> {
    r.map_of(node, |r, entry| {
        if is_slug(&entry.key, 32) {
            return plugin(r, &entry.node, &entry.key);
        }
        let message =
            "a plugin's name must begin with a-z and contain only a-z, 0-9, `_` and `-`, at most 32 characters";
        r.rule(&entry.key_place, message.to_owned());
        None
    })
}

fn plugin<'t>(r: &mut Reader<'t>, node: &'t Node, name: &str) -> Option<Plugin> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let d = Plugin::of_file(format!("{name}.js"));
    let mut row = Plugin {
        enabled: f.or(r, "enabled", d.enabled, Reader::boolean),
        file: f.or(r, "file", d.file, file_name),
        pin: f.opt(r, "pin", |r, it| r.digest(it, Some("`conductor plugins enable` writes it"))),
        net: f.or(r, "net", d.net, |r, it| r.set(it, 0, 64, host)),
        files_read: f.or(r, "files_read", d.files_read, |r, it| r.set(it, 0, 64, Reader::alias)),
        files_write: f.or(r, "files_write", d.files_write, |r, it| r.set(it, 0, 64, Reader::alias)),
        secrets: f.or(r, "secrets", d.secrets, |r, it| r.set(it, 0, 64, |r, it| r.text(it, 1, 64))),
        retry: f.or(r, "retry", d.retry, Reader::named),
        cpu_ms: f.or(r, "cpu_ms", d.cpu_ms, |r, it| r.whole(it, 10, 60_000)),
        timeout_ms: f.or(r, "timeout_ms", d.timeout_ms, |r, it| r.whole(it, 10, 600_000)),
        heap_mb: f.or(r, "heap_mb", d.heap_mb, |r, it| r.whole(it, 1, 1024)),
        config: f.or(r, "config", d.config, Reader::object),
        tools: f.or(r, "tools", d.tools, |r, it| tools(r, it, name)),
    };
    f.finish(r);
    // A row with an error may grant more than intended, so the plugin must not run.
    if r.errors() != before {
        row.enabled = false;
    }
    Some(row)
}

fn tools<'t>(r: &mut Reader<'t>, node: &'t Node, plugin: &str) -> Option<BTreeMap<String, PluginTool>> {
    const TIERS: &[(&str, Tier)] =
        &[("ReadOnly", Tier::ReadOnly), ("Stateful", Tier::Stateful), ("HardwareIO", Tier::HardwareIo)];
    r.map_of(node, |r, entry| {
        if !entry.key.starts_with(&format!("{plugin}.")) {
            let help = format!("write it in quotes and in full, such as \"{plugin}.{}\"", entry.key);
            r.rule_help(&entry.key_place, format!("no tool of this plugin is named \"{}\"", entry.key), help);
            return None;
        }
        let mut f = r.table(&entry.node)?;
        let tool = PluginTool {
            tier: f.opt(r, "tier", |r, it| r.word(it, TIERS)),
            requires_approval: f.opt(r, "requires_approval", Reader::boolean),
        };
        f.finish(r);
        Some(tool)
    })
}

/// The name of a file in `plugins/`. Paths are refused.
fn file_name<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let name = r.text(node, 1, 128)?;
    let known = [".js", ".mjs", ".cjs"].iter().any(|it| name.ends_with(it));
    if !known || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        let help = "write only the name of a file in the folder `plugins` of the home".to_owned();
        return r.reject(node, format!("\"{name}\" is not the name of a .js, .mjs or .cjs file"), help);
    }
    Some(name)
}

/// A host, with a port if the port is not the default of the scheme.
fn host<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.text(node, 1, 253)?;
    let fits = text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b".-:[]".contains(&it));
    if !fits {
        let help = "write the name in lower case, such as \"api.example.org\"; there are no wildcards".to_owned();
        return r.reject(node, format!("\"{text}\" is not a host"), help);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    #[test]
    fn every_key_is_read() {
        let pin = format!("sha256:{}", "0".repeat(64));
        let text = format!(
            "[plugins.weather]\nenabled = true\nfile = \"w.mjs\"\npin = \"{pin}\"\nnet = [\"api.example.org\"]\nfiles_read = [\"studio\"]\n\
             files_write = [\"scratch\"]\nsecrets = [\"weather-key\"]\nretry = \"always\"\ncpu_ms = 50\ntimeout_ms = 60\nheap_mb = 7\n\
             config = {{ units = \"metric\" }}\n[plugins.weather.tools.\"weather.alarm\"]\ntier = \"HardwareIO\"\nrequires_approval = true\n"
        );
        let loaded = load(&text);
        assert_eq!(loaded.diagnostics, []);
        let row = loaded.config.unwrap().plugins.remove("weather").unwrap();
        let wanted = Plugin {
            enabled: true,
            file: "w.mjs".into(),
            pin: pin.parse().ok(),
            net: vec!["api.example.org".into()],
            files_read: vec!["studio".into()],
            files_write: vec!["scratch".into()],
            secrets: vec!["weather-key".into()],
            retry: PluginRetry::Always,
            cpu_ms: 50,
            timeout_ms: 60,
            heap_mb: 7,
            config: json!({ "units": "metric" }).as_object().unwrap().clone(),
            tools: BTreeMap::from([(
                "weather.alarm".to_owned(),
                PluginTool { tier: Some(Tier::HardwareIo), requires_approval: Some(true) },
            )]),
        };
        assert_eq!(row, wanted);
        assert_ne!(row.to_json(), Plugin::of_file("w.mjs").to_json());
    }

    #[test]
    fn a_fault_disables_that_plugin_alone_and_says_where() {
        let loaded = load(
            "[plugins.a]\nenabled = true\nfile = \"../../etc/x.js\"\n[plugins.b]\nenabled = true\n[plugins.c]\nenabled = true\nnet = [\"*.example.org\"]\n\
             [plugins.d]\nenabled = true\nheap_mb = 0\n[plugins.e]\nenabled = true\ntools.alarm = {}\n[plugins.f]\nenabled = true\npin = \"x\"\n[plugins.G]\n",
        );
        let plugins = loaded.config.as_ref().unwrap().plugins.clone();
        let enabled: Vec<&str> = plugins.iter().filter(|(_, it)| it.enabled).map(|(name, _)| name.as_str()).collect();
        assert_eq!(enabled, ["b"]);
        assert_eq!(plugins["b"].file, "b.js");
        let paths: Vec<&str> = loaded.errors().map(|it| it.path.as_str()).collect();
        let wanted = [
            "plugins.a.file",
            "plugins.c.net[0]",
            "plugins.d.heap_mb",
            "plugins.e.tools.alarm",
            "plugins.f.pin",
            "plugins.G",
        ];
        assert_eq!(paths, wanted);
    }
}
