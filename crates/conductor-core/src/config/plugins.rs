//! `[plugins.<name>]`: the enabled plugins, their files and their permissions.
//!
//! A fault in one row disables only that plugin. Not here: whether the file exists and has the
//! pinned digest. The daemon checks both.

use super::form::{Form, alias, boolean, by, hash, named, names, object, opaque, set, text, whole};
use super::reader::{Reader, is_slug};
use super::section::{section, table};
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use crate::policy::Tier;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The plugins by name. A plugin with a fault is present but not enabled; one with an invalid name
/// is left out.
pub type Plugins = BTreeMap<String, Plugin>;

section! {
    /// A plugin. `conductor plugins enable` writes this section.
    #[derive(Serialize)]
    pub struct Plugin {
        /// Whether the plugin is loaded.
        enabled: bool = false, boolean(), "true";
        /// Name of a file in the folder `plugins` of the home. The default is the name of the
        /// plugin with `.js`.
        file: String = String::new(), opaque(file_name), "\"weather.mjs\"";
        /// Digest of the file that a person enabled; absent when not enabled.
        pin: Option<Digest> = None, hash("`conductor plugins enable` writes it").maybe(),
            "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"";
        /// Hosts that the plugin may fetch from.
        net: Vec<String> = Vec::new(), set(text(1..=253).ruled(host), 0..=64), "[\"api.example.org\"]";
        /// Names of file roots that the plugin may read.
        files_read: Vec<String> = Vec::new(), set(alias(), 0..=64), "[\"studio\"]";
        /// Names of file roots that the plugin may write.
        files_write: Vec<String> = Vec::new(), set(alias(), 0..=64), "[\"scratch\"]";
        /// Names of secrets that the plugin may send in requests.
        secrets: Vec<String> = Vec::new(), set(text(1..=64), 0..=64), "[\"weather-key\"]";
        /// Whether a failed call is repeated. `declared`: only if the plugin declares the tool
        /// idempotent.
        retry: PluginRetry = PluginRetry::Declared, named(), "\"never\"";
        /// Longest processor time of one call, in milliseconds.
        cpu_ms: u32 = 1000, whole(10..=60_000), "500";
        /// Longest duration of one call, including all waiting, in milliseconds.
        timeout_ms: u32 = 30_000, whole(10..=600_000), "10000";
        /// Maximum memory of the script, in MiB.
        heap_mb: u32 = 32, whole(1..=1024), "64";
        /// Settings passed to the plugin; checked against its schema when it is loaded.
        config: Map<String, Value> = Map::new(), object(), "{ units = \"metric\" }";
        /// Settings of single tools, by full tool name.
        tools: BTreeMap<String, PluginTool> = BTreeMap::new(), names(table());
    }
}

named_enum! {
    /// Whether a failed call of a plugin is repeated automatically.
    #[derive(Default)]
    pub enum PluginRetry {
        /// A failed call is repeated only if the plugin declares the tool idempotent.
        #[default]
        Declared = "declared",
        /// A failed call is always repeated.
        Always = "always",
        /// A failed call is never repeated.
        Never = "never",
    }
}

section! {
    /// Settings of one tool. For an absent key, the value that the plugin declares is used.
    #[derive(Copy, Eq, Serialize)]
    pub struct PluginTool {
        /// Replaces the declared tier.
        tier: Option<Tier> = None, tier().maybe(), "\"HardwareIO\"";
        /// Replaces the declared `requires_approval`.
        requires_approval: Option<bool> = None, boolean().maybe(), "true";
    }
}

impl Plugin {
    /// A disabled plugin with the default settings.
    pub fn of_file(file: impl Into<String>) -> Self {
        Plugin { file: file.into(), ..Plugin::default() }
    }

    /// All settings of the plugin as JSON. An approval for a tool of the plugin depends on them.
    pub fn to_json(&self) -> Value {
        json!(self)
    }
}

/// The form of `[plugins]`.
pub(crate) fn plugins() -> impl Form<Out = Plugins> {
    opaque(read)
}

fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Plugins> {
    r.map_of(node, |r, entry| {
        let name = &entry.key;
        if !r.is_describing() && !is_slug(name, 32) {
            let message =
                "a plugin's name must begin with a-z and contain only a-z, 0-9, `_` and `-`, at most 32 characters";
            r.rule(&entry.key_place, message.to_owned());
            return None;
        }
        let before = r.errors();
        let mut plugin = table().read_over(r, &entry.node, Plugin::of_file(format!("{name}.js")));
        foreign_tools(r, &entry.node, name);
        // A row with an error may grant more than intended, so the plugin is disabled.
        if r.errors() != before {
            plugin.enabled = false;
        }
        Some(plugin)
    })
}

/// Refuses settings for tools of other plugins.
fn foreign_tools<'t>(r: &mut Reader<'t>, node: &'t Node, plugin: &str) {
    let tools = node.get("tools").and_then(Node::entries).unwrap_or_default();
    for entry in tools.iter().filter(|it| !it.key.starts_with(&format!("{plugin}."))) {
        let help = format!("write it in quotes and in full, such as \"{plugin}.{}\"", entry.key);
        let message = format!("no tool of this plugin is named \"{}\"", entry.key);
        r.under("tools", |r| r.under(&entry.key, |r| r.rule_help(&entry.key_place, message, help)));
    }
}

/// The tiers that a tool of a plugin may have. Only built-in tools change the configuration.
fn tier() -> impl Form<Out = Tier> {
    const TIERS: &[(&str, Tier)] =
        &[("ReadOnly", Tier::ReadOnly), ("Stateful", Tier::Stateful), ("HardwareIO", Tier::HardwareIo)];
    by(|r, node| r.word(node, TIERS))
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
fn host<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
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
