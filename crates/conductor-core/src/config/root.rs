//! Reads the file as a whole: first the names, then everything that may refer to them.
//!
//! To add a section, add one line in `read`, one field in [`Config`], and one file in this folder.

use super::device;
use super::form::{Form, list};
use super::reader::{DeviceName, Fault, Fields, Names, Paths, Reader, RowIds};
use super::render::Lines;
use super::section::{Table, entry, table, unique_rows};
use super::tree::Node;
use super::{Class, Config, Device, Diagnostic, Mode, Plugins, Rows, Severity, Surroundings};
use super::{plugins, policy, rows, settings, tools};
use serde_json::json;
use std::collections::BTreeSet;

/// The result of reading a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Absent when the file as a whole is refused.
    pub config: Option<Config>,
    /// Faults and warnings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Whether there are no errors and no fatal faults. Warnings are allowed.
    pub fn valid(&self) -> bool {
        self.diagnostics.iter().all(|it| it.severity < Severity::Error)
    }

    /// The errors, including fatal ones.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|it| it.severity >= Severity::Error)
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|it| it.severity == Severity::Warning)
    }
}

/// Reads a file. Does not check the names of ports, tools and plugins.
pub fn load(text: &str) -> Loaded {
    load_with(text, &Surroundings::default())
}

/// Reads a file and checks its names against `surroundings`.
pub fn load_with(text: &str, surroundings: &Surroundings<'_>) -> Loaded {
    load_with_tree(text, surroundings).0
}

/// Like [`load_with`], but also returns the tree, which contains every item, valid or not. The tree
/// is absent when the text is not TOML.
pub(crate) fn load_with_tree(text: &str, surroundings: &Surroundings<'_>) -> (Loaded, Option<Node>) {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let shift = text.len() - body.len();
    let document = match toml_edit::Document::parse(body) {
        Ok(document) => document,
        Err(first) => {
            let faults = syntax_faults(body, shift, &first);
            return (Loaded { config: None, diagnostics: placed(text, faults) }, None);
        }
    };
    let tree = Node::from_toml(&document, shift);
    let mut r = Reader::new(surroundings, Paths::Dotted, "");
    let config = read(&mut r, &tree);
    let fatal = r.faults.iter().any(|it| it.severity == Severity::Fatal);
    let diagnostics = placed(text, r.faults);
    (Loaded { config: config.filter(|_| !fatal), diagnostics }, Some(tree))
}

/// Reads the tree of an accepted configuration, or of a file in which held parts were replaced by
/// accepted ones. Faults are not reported, because they were reported when the file was loaded.
pub(crate) fn read_tree(tree: &Node, surroundings: &Surroundings<'_>) -> Option<Config> {
    let mut r = Reader::new(surroundings, Paths::Dotted, "");
    let config = read(&mut r, tree);
    config.filter(|_| r.faults.iter().all(|it| it.severity != Severity::Fatal))
}

/// Combines the faults that two parsers find. `toml_edit` stops at its first fault. The recovering
/// parser of `toml` finds further faults, but misses a few that `toml_edit` finds.
fn syntax_faults(body: &str, shift: usize, first: &toml_edit::TomlError) -> Vec<Fault> {
    let (_, others) = toml::de::DeTable::parse_recoverable(body);
    let others = others.iter().map(|it| (it.span(), it.message().to_owned()));
    let known: BTreeSet<Option<usize>> = others.clone().map(|(span, _)| span.map(|it| it.start)).collect();
    let first = Some((first.span(), first.message().to_owned()));
    let first = first.filter(|(span, _)| !known.contains(&span.as_ref().map(|it| it.start)));
    others
        .chain(first)
        .map(|(span, message)| Fault {
            severity: Severity::Fatal,
            class: Class::Syntax,
            message: message.lines().next().unwrap_or_default().to_owned(),
            help: None,
            path: String::new(),
            place: span.map(|it| it.start + shift..it.end + shift),
        })
        .collect()
}

/// Adds lines and columns, and sorts by place. Diagnostics without a place are first.
pub(crate) fn placed(text: &str, faults: Vec<Fault>) -> Vec<Diagnostic> {
    let lines = Lines::new(text);
    let mut diagnostics: Vec<Diagnostic> = faults
        .into_iter()
        .map(|fault| {
            let (line, column) = fault.place.as_ref().map_or((1, 1), |it| lines.place(it.start));
            Diagnostic {
                severity: fault.severity,
                class: fault.class,
                message: fault.message,
                help: fault.help,
                path: fault.path,
                span: fault.place.unwrap_or(0..0),
                line,
                column,
            }
        })
        .collect();
    diagnostics.sort_by_key(|it| it.span.start);
    diagnostics
}

pub(crate) fn read<'t>(r: &mut Reader<'t>, tree: &'t Node) -> Option<Config> {
    let mut f = r.table(tree)?;
    schema(r, &mut f);
    r.names = names(tree);

    let devices = f.or_default(r, "devices", devices);
    let modes = f.opt(r, "modes", modes).filter(|it| !it.is_empty()).unwrap_or_else(|| Config::default().modes);
    let global = rows::read(r, &mut f, rows::GLOBAL, ["global_mappings", "global_continuous"]);
    r.names.rows = Some(row_ids(&modes, &global));
    let first = modes.first().map(|it| it.name.clone()).unwrap_or_default();

    let config = Config {
        default_mode: f.or(r, "default_mode", first, Reader::mode_name),
        routes: f.over(r, "routes", Vec::new(), &list(entry(), 0..=usize::MAX)),
        feedback: f.over(r, "feedback", Vec::new(), &list(entry(), 0..=usize::MAX)),
        watch: section(r, &mut f, "config"),
        advanced: section(r, &mut f, "advanced_settings"),
        performance: section(r, &mut f, "performance"),
        led: section(r, &mut f, "led"),
        per_app_modes: f.over(r, "per_app_modes", None, &table().maybe()),
        log_level: section::<settings::Logging>(r, &mut f, "logging").level,
        live: section(r, &mut f, "live"),
        patch: section(r, &mut f, "patch"),
        // A policy with a fault is not used, because one part of a policy could allow calls that a
        // missing part refuses. The daemon then keeps the old policy.
        policy: f.opt(r, "policy", |r, it| Some(entry().read(r, it))).unwrap_or_else(|| policy::without_section(tree)),
        limits: section(r, &mut f, "limits"),
        circuit: section(r, &mut f, "circuit"),
        retry: section(r, &mut f, "retry"),
        audit: section(r, &mut f, "audit"),
        http: section(r, &mut f, "http"),
        webhooks: f.over(r, "webhooks", Vec::new(), &unique_rows(32, "name", "webhook")),
        cluster: section(r, &mut f, "cluster"),
        mcp: section(r, &mut f, "mcp"),
        plugins: f.over(r, "plugins", Plugins::new(), &plugins::plugins()),
        tools: f.or_default(r, "tools", tools::tools),
        secrets: section::<tools::Secrets>(r, &mut f, "secrets").key,
        modes,
        global,
        devices,
    };
    f.finish(r);
    for line in std::mem::take(&mut r.commands) {
        tools::judge_command(r, line, &config.tools.commands);
    }
    Some(config)
}

fn section<'t, T: Table + Default>(r: &mut Reader<'t>, f: &mut Fields<'t>, key: &'static str) -> T {
    f.over(r, key, T::default(), &table())
}

/// A file with an unknown schema number cannot be checked, so it is refused.
fn schema<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) {
    f.opt(r, "schema", |r, node| {
        r.describe(|| json!({ "const": 1 }))?;
        if node.kind != super::tree::Kind::Int(1) {
            let message = "`schema` must be 1: this version of Conductor supports no other value".to_owned();
            r.fault(Severity::Fatal, Class::Shape, &node.place, message, None);
        }
        Some(())
    });
}

/// Collects the names before the rows are read, so that a row may refer to a name further down in
/// the file.
fn names(tree: &Node) -> Names {
    let listed = |key: &str| tree.get(key).and_then(Node::items).unwrap_or_default();
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let usable = |name: &String| name != rows::GLOBAL && (1..=64).contains(&name.chars().count());
    let mut modes: Vec<String> = listed("modes").iter().filter_map(|it| text(it, "name")).filter(usable).collect();
    if modes.is_empty() {
        modes = Config::default().modes.into_iter().map(|it| it.name).collect();
    }
    let devices = listed("devices").iter().filter_map(|it| {
        let alias = text(it, "alias")?;
        let loopback = it.get("loopback").is_some_and(|it| it.kind == super::tree::Kind::Bool(true));
        let hand = loopback.then(|| format!("{alias} hand"));
        let direction = text(it, "direction");
        Some(DeviceName {
            sends: direction.as_deref() != Some("Input"),
            hears: direction.as_deref() != Some("Output"),
            ports: text(it, "virtual_port").into_iter().chain(hand).collect(),
            alias,
        })
    });
    Names { modes: Some(modes), devices: Some(devices.collect()), rows: None }
}

fn devices<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<Device>> {
    let mut seen = BTreeSet::new();
    r.list_of(node, 0, usize::MAX, |r, item| {
        let device = device::read(r, item)?;
        if !seen.insert(device.alias.clone()) {
            let place = item.get("alias").and_then(|it| it.place.clone());
            r.under("alias", |r| r.rule(&place, format!("there is already a device \"{}\"", device.alias)));
            return None;
        }
        warn_of_open_doors(r, item, &device);
        Some(device)
    })
}

fn warn_of_open_doors(r: &mut Reader<'_>, node: &Node, device: &Device) {
    let place = |key: &str| node.get(key).and_then(|it| it.place.clone());
    if device.allow_network {
        let message = format!("anyone on the network can press the controls of \"{}\"", device.alias);
        r.under("allow_network", |r| r.warn(&place("allow_network"), message, None));
    }
    if device.allow_sensitive_actions {
        let message = format!(
            "unauthenticated senders can press keys, start programs and call tools through \"{}\"",
            device.alias
        );
        r.under("allow_sensitive_actions", |r| r.warn(&place("allow_sensitive_actions"), message, None));
    }
}

fn modes<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<Mode>> {
    let mut seen = BTreeSet::new();
    r.list_of(node, 0, usize::MAX, |r, item| {
        let mut f = r.table(item)?;
        let name = f.need(r, "name", |r, it| {
            let name = r.name(it)?;
            if name == rows::GLOBAL {
                r.rule(&it.place, "\"*\" is reserved for the global rows".to_owned());
                return None;
            }
            if !seen.insert(name.clone()) {
                rows::duplicate_mode(r, &it.place, &name);
            }
            Some(name)
        });
        let color = f.opt(r, "color", settings::color);
        // Read the rows even if the mode has no valid name, so that the faults of the rows are
        // reported too.
        let shown = name.clone().unwrap_or_default();
        let rows = rows::read(r, &mut f, &shown, ["mappings", "continuous"]);
        f.finish(r);
        Some(Mode { name: name?, color, rows })
    })
}

fn row_ids(modes: &[Mode], global: &Rows) -> RowIds {
    let all = || modes.iter().map(|it| &it.rows).chain(std::iter::once(global));
    RowIds {
        mappings: all().flat_map(|it| &it.mappings).map(|it| it.id.clone()).collect(),
        continuous: all().flat_map(|it| &it.continuous).map(|it| it.id.clone()).collect(),
    }
}
