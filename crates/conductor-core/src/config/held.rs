//! Decides which part of a changed file comes into force at once, and which part is held until a
//! person accepts it.
//!
//! AI clients have their own file tools, so a change that was not made by an applied plan may come
//! from an AI client. These parts are held: every section except the harmless ones, the keys of a
//! device that make it trusted, most other keys of a trusted device and of the device of the
//! approval pad, and each mapping row that runs a command, a program, a tool or a plugin. A section
//! is not held if the change only removes permissions (see `narrows`).
//!
//! Not here: storing the accepted configuration, and checking that a caller is a person.

use super::root::{self, Loaded};
use super::rows::collect_leaves;
use super::tree::{Entry, Kind, Node};
use super::{Class, Config, Diagnostic, GLOBAL, Mapping, Rule, Severity, Surroundings, schema};
use crate::action::Action;
use crate::digest::Digest;
use crate::mapping::TriggerKind;
use crate::plan::diff;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Sections that come into force as soon as they are saved. All other sections are held.
const HARMLESS: [&str; 10] = [
    "schema",
    "default_mode",
    "modes",
    "global_mappings",
    "global_continuous",
    "routes",
    "feedback",
    "led",
    "per_app_modes",
    "logging",
];

/// Keys that make a device trusted. Events of a trusted device are treated as played by a person,
/// or may have more effects.
const TRUST: [&str; 5] = ["allow_network", "allow_sensitive_actions", "echo_guard", "loopback", "trusted"];

/// Keys of a trusted device, or of the device of the approval pad, that can change without a
/// person's acceptance, because they do not select the ports of the device.
const UNTRUSTED_KEYS: [&str; 4] = ["alias", "description", "enabled", "ask_output"];

/// The configuration that a changed file is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The configuration in force, as a JSON tree.
    pub tree: Value,
    /// Rows that type keys or text and that no person has accepted. They are in force, and `status`
    /// lists them.
    pub typing: BTreeSet<String>,
    /// Whether the accepted configuration could not be verified. If so, nothing is granted, and
    /// every effect needs a person's approval.
    pub closed: bool,
}

impl Accepted {
    /// An accepted configuration that grants nothing.
    pub fn closed() -> Self {
        Accepted { tree: json!({}), typing: BTreeSet::new(), closed: true }
    }

    /// Adds the changes of an applied plan, given as the file before and after it. A section that
    /// was held before the plan is still held, because the person has not reviewed it.
    pub fn with_plan(&self, before: &str, after: &str) -> Self {
        let (Some(before), Some(after)) = (tree_of(before), tree_of(after)) else { return self.clone() };
        let mut accepted = self.clone();
        let keys: BTreeSet<String> = [&before, &after].iter().flat_map(|it| keys(it)).collect();
        for key in keys.iter().filter(|it| !HARMLESS.contains(&it.as_str()) && *it != "devices") {
            if before.get(key) != after.get(key) && before.get(key) == self.tree.get(key) {
                set(&mut accepted.tree, key, after.get(key).cloned());
            }
        }
        for device in items(after.get("devices")) {
            let alias = device.get("alias").and_then(Value::as_str).unwrap_or_default();
            let (was, now) = (device_named(&before, alias), device_named(&self.tree, alias));
            if was != Some(device) && guarded_part(was) == guarded_part(now) {
                let mut devices: Vec<Value> = items(accepted.tree.get("devices")).to_vec();
                devices.retain(|it| it.get("alias").and_then(Value::as_str) != Some(alias));
                devices.push(device.clone());
                set(&mut accepted.tree, "devices", Some(Value::Array(devices)));
            }
        }
        let old = row_keys(&before);
        for (mode, row) in rows_of(&after) {
            if !old.contains(&row_key(&mode, row)) {
                add_row(&mut accepted.tree, &mode, row.clone());
            }
        }
        accepted
    }
}

/// The parts of a file that are held until a person accepts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Names of sections, such as `policy`, and of trust keys, such as `devices.pads.trusted`.
    pub sections: Vec<String>,
    /// Names of rows, as `mode/id`.
    pub rows: Vec<String>,
}

impl Held {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.rows.is_empty()
    }

    /// The names of all held parts, for messages.
    pub fn names(&self) -> Vec<String> {
        let sections = self.sections.iter().map(|it| if it.contains('.') { it.clone() } else { format!("[{it}]") });
        sections.chain(self.rows.iter().map(|it| format!("mapping {it}"))).collect()
    }
}

/// The result of reading a file: the part in force and the held part.
#[derive(Debug)]
pub struct Judged {
    /// The configuration to run, and all diagnostics.
    pub loaded: Loaded,
    /// The configuration that the next change is compared with. Unchanged when the whole file is
    /// refused.
    pub accepted: Accepted,
    /// The held parts.
    pub held: Held,
    /// The difference between the configuration in force and the file, as lines of `key = value`.
    /// Empty when nothing is held.
    pub difference: String,
}

/// Reads a file without holding any part, because a person accepted the file or the home is new.
pub fn load_accepted(text: &str, surroundings: &Surroundings<'_>) -> Judged {
    let (loaded, tree) = root::load_with_tree(text, surroundings);
    let tree = tree.map_or_else(|| json!({}), |it| it.to_json());
    let accepted = Accepted { tree, typing: BTreeSet::new(), closed: false };
    Judged { loaded, accepted, held: Held::default(), difference: String::new() }
}

/// The configuration in force when the file is missing or cannot be read.
pub fn in_force(accepted: &Accepted) -> Config {
    let node = Node::from_json(&accepted.tree);
    let mut config = root::read_tree(&node, &Surroundings::default()).unwrap_or_default();
    if accepted.closed {
        config.policy = None;
    }
    config
}

/// Reads a file that changed without a plan or an acceptance by a person.
pub fn load_held(text: &str, accepted: &Accepted, surroundings: &Surroundings<'_>) -> Judged {
    let (mut loaded, tree) = root::load_with_tree(text, surroundings);
    let (Some(_), Some(mut tree)) = (&loaded.config, tree) else {
        return Judged { loaded, accepted: accepted.clone(), held: Held::default(), difference: String::new() };
    };
    let whole = tree.to_json();
    let places = places(&tree);
    let mut held = Held::default();
    hold_sections(&mut tree, &whole, accepted, &mut held);
    hold_devices(&mut tree, &accepted.tree, &mut held);
    let mut config = match loaded.config.take().filter(|_| held.is_empty()) {
        Some(config) => config,
        None => root::read_tree(&tree, surroundings).unwrap_or_default(),
    };
    if accepted.closed {
        config.policy = None;
    }
    let mut in_force = tree.to_json();
    for name in &held.sections {
        let place = places.get(name.split('.').next().unwrap_or_default()).cloned().unwrap_or(0..0);
        let message = format!("{name} has changed and is not in force");
        loaded.diagnostics.push(waits(text, place, name.clone(), message));
    }
    let base = if needs_rows(&config) { in_force_rows(accepted) } else { BTreeSet::new() };
    let (rows, typing) = hold_rows(&mut config, &base, accepted);
    for row in &rows {
        loaded.diagnostics.push(row.diagnostic(text, &tree));
    }
    loaded.diagnostics.sort_by_key(|it| it.span.start);
    remove_rows(&mut in_force, &rows);
    held.rows = rows.iter().map(|it| format!("{}/{}", it.mode, it.id)).collect();
    loaded.config = Some(config);
    let difference = if held.is_empty() { String::new() } else { difference(&in_force, &whole) };
    Judged { loaded, accepted: Accepted { tree: in_force, typing, closed: accepted.closed }, held, difference }
}

/// Digests of the sections, for the audit log.
pub fn section_hashes(tree: &Value) -> Value {
    let hash = |value: &Value| Digest::of_json(value).unwrap_or_else(|_| Digest::of(value.to_string().as_bytes()));
    let sections = tree.as_object().into_iter().flatten();
    Value::Object(sections.map(|(key, value)| (key.clone(), hash(value).to_string().into())).collect())
}

/// Returns a message if the file was probably truncated while it was saved: the new text is only
/// the beginning of the old text, and it has no final newline, lacks a section, or is less than
/// half as long. Returns `None` if the change may be an edit.
pub fn is_cut(old: &str, new: &str) -> Option<String> {
    if new.trim().is_empty() && !old.trim().is_empty() {
        return Some("the file is empty".to_owned());
    }
    if new.len() >= old.trim_end().len() || !old.starts_with(new) {
        return None;
    }
    let lost = old.lines().count().saturating_sub(new.lines().count());
    let cut = match lost {
        0 => "the file is incomplete: its last line is cut off".to_owned(),
        1 => "the file is incomplete: the last line is missing".to_owned(),
        lost => format!("the file is incomplete: the last {lost} lines are missing"),
    };
    let (was, is) = (tree_of(old)?, tree_of(new)?);
    let section_lost = keys(&was).any(|key| is.get(&key).is_none());
    (!new.ends_with('\n') || section_lost || new.len() < old.len() / 2).then_some(cut)
}

fn waits(text: &str, span: std::ops::Range<usize>, path: String, message: String) -> Diagnostic {
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count() as u32 + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u32 + 1;
    let help = Some("a person can accept it with `conductor config accept`".to_owned());
    Diagnostic { severity: Severity::Error, class: Class::Rule, message, help, path, span, line, column }
}

fn places(tree: &Node) -> BTreeMap<String, std::ops::Range<usize>> {
    let entries = tree.entries().unwrap_or_default().iter();
    entries.filter_map(|it| Some((it.key.clone(), it.key_place.clone().or(it.node.place.clone())?))).collect()
}

fn tree_of(text: &str) -> Option<Value> {
    let (_, tree) = root::load_with_tree(text, &Surroundings::default());
    tree.map(|it| it.to_json())
}

fn keys(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_object().into_iter().flat_map(Map::keys).cloned()
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn set(tree: &mut Value, key: &str, value: Option<Value>) {
    let Value::Object(members) = tree else { return };
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.shift_remove(key)),
    }
}

fn hold_sections(tree: &mut Node, whole: &Value, accepted: &Accepted, held: &mut Held) {
    let all: BTreeSet<String> = keys(whole).chain(keys(&accepted.tree)).collect();
    for key in all.iter().filter(|it| !HARMLESS.contains(&it.as_str()) && *it != "devices") {
        let (old, new) = (accepted.tree.get(key), whole.get(key));
        if old == new || narrows(key, old, new) {
            continue;
        }
        held.sections.push(key.clone());
        put(tree, key, old);
    }
}

fn put(tree: &mut Node, key: &str, value: Option<&Value>) {
    let Kind::Table(entries) = &mut tree.kind else { return };
    let node = value.map(Node::from_json);
    let at = entries.iter().position(|it| it.key == key);
    match (at.and_then(|at| entries.get_mut(at)), node) {
        (Some(entry), Some(node)) => entry.node = node,
        (Some(_), None) => entries.retain(|it| it.key != key),
        (None, Some(node)) => entries.push(Entry { key: key.to_owned(), key_place: None, node }),
        (None, None) => {}
    }
}

fn device_named<'a>(tree: &'a Value, alias: &str) -> Option<&'a Value> {
    items(tree.get("devices")).iter().find(|it| it.get("alias").and_then(Value::as_str) == Some(alias))
}

/// All keys of a device except `UNTRUSTED_KEYS`. A key with the value `false` is treated as absent.
fn guarded_part(device: Option<&Value>) -> Map<String, Value> {
    let members = device.and_then(Value::as_object).into_iter().flatten();
    let kept = members.filter(|(key, value)| !UNTRUSTED_KEYS.contains(&key.as_str()) && **value != Value::Bool(false));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn hold_devices(tree: &mut Node, accepted: &Value, held: &mut Held) {
    let pad = accepted.pointer("/policy/approval/pad/device").and_then(Value::as_str);
    let mut devices: Vec<Node> = tree.get("devices").and_then(Node::items).unwrap_or_default().to_vec();
    let alias = |node: &Node| node.get("alias").and_then(Node::text).map(str::to_owned);
    devices.retain_mut(|device| {
        let Some(name) = alias(device) else { return true };
        let known = device_named(accepted, &name);
        let is_pad = pad == Some(&name);
        if is_pad && known.is_none() {
            held.sections.push(format!("devices.{name}"));
            return false;
        }
        let was = guarded_part(known);
        let now = guarded_part(Some(&device.to_json()));
        let trusted = is_pad || TRUST.iter().any(|key| was.contains_key(*key));
        let changed: BTreeSet<&String> =
            was.keys().chain(now.keys()).filter(|it| was.get(*it) != now.get(*it)).collect();
        for key in changed.into_iter().filter(|it| trusted || TRUST.contains(&it.as_str())) {
            held.sections.push(format!("devices.{name}.{key}"));
            put(device, key, was.get(key));
        }
        true
    });
    // Keep the device of the approval pad. Without the device, `[policy]` would have a fault and
    // would not be loaded.
    if let Some(known) = pad.and_then(|pad| device_named(accepted, pad))
        && let Some(pad) = pad.filter(|pad| !devices.iter().any(|it| alias(it).as_deref() == Some(*pad)))
    {
        held.sections.push(format!("devices.{pad}"));
        devices.push(Node::from_json(known));
    }
    let Kind::Table(entries) = &mut tree.kind else { return };
    match entries.iter_mut().find(|it| it.key == "devices") {
        Some(entry) if entry.node.items().is_some() => entry.node.kind = Kind::List(devices),
        Some(_) => {}
        None if devices.is_empty() => {}
        None => {
            let node = Node { place: None, kind: Kind::List(devices) };
            entries.push(Entry { key: "devices".to_owned(), key_place: None, node });
        }
    }
}

struct HeldRow {
    mode: String,
    index: usize,
    id: String,
    runs: &'static str,
}

impl HeldRow {
    fn diagnostic(&self, text: &str, tree: &Node) -> Diagnostic {
        let (list, path) = if self.mode == GLOBAL {
            (tree.get("global_mappings"), format!("global_mappings[{}]", self.index))
        } else {
            let modes = tree.get("modes").and_then(Node::items).unwrap_or_default();
            let at = modes.iter().position(|it| it.get("name").and_then(Node::text) == Some(&self.mode));
            let path = format!("modes[{}].mappings[{}]", at.unwrap_or_default(), self.index);
            (at.and_then(|at| modes.get(at)).and_then(|it| it.get("mappings")), path)
        };
        let row = list.and_then(Node::items).and_then(|it| it.get(self.index));
        let place = row.and_then(|it| it.get("action").and_then(|it| it.place.clone()).or(it.place.clone()));
        let message = format!("this row runs {} and is not in force, because no person has accepted it", self.runs);
        waits(text, place.unwrap_or(0..0), path, message)
    }
}

/// Every action of a row: its own action, nested actions, and the actions of velocity zones in its
/// trigger.
fn leaves(rule: &Rule) -> Vec<&Action> {
    let mut leaves = Vec::new();
    collect_leaves(&rule.action, &mut leaves);
    if let TriggerKind::VelocityRange { zones, .. } = &rule.trigger.kind {
        zones.iter().for_each(|it| collect_leaves(&it.action, &mut leaves));
    }
    leaves
}

/// The kind of program or tool that a row runs, or `None` if it runs nothing.
fn runs(rule: &Rule) -> Option<&'static str> {
    leaves(rule).into_iter().find_map(|it| match it {
        Action::Shell { .. } => Some("a command"),
        Action::Launch { .. } => Some("a program"),
        Action::CallTool { .. } => Some("a tool"),
        Action::Plugin { .. } => Some("a plugin"),
        Action::Keystroke(_)
        | Action::Text { .. }
        | Action::VolumeControl(_)
        | Action::ModeChange { .. }
        | Action::SendMidi(_)
        | Action::MidiForward { .. }
        | Action::Sequence { .. }
        | Action::Delay { .. }
        | Action::Repeat { .. }
        | Action::Conditional { .. }
        | Action::MouseClick { .. }
        | Action::OscSend { .. } => None,
    })
}

fn types(rule: &Rule) -> bool {
    leaves(rule).into_iter().any(|it| matches!(it, Action::Keystroke(_) | Action::Text { .. }))
}

/// All parts of a row that have an effect, as one text for comparison.
fn key_of(mode: &str, row: &Mapping) -> String {
    let id = row.id_is_written.then_some(&row.id);
    let written = json!({
        "mode": mode, "id": id, "trigger": row.written.trigger, "action": row.written.action,
        "let_through": row.let_through, "enabled": row.enabled,
    });
    super::rows::sorted(&written).to_string()
}

fn in_force_rows(accepted: &Accepted) -> BTreeSet<String> {
    let config = in_force(accepted);
    let mut keys = BTreeSet::new();
    for (mode, rows) in all_rows(&config) {
        keys.extend(rows.mappings.iter().map(|row| key_of(mode, row)));
    }
    keys
}

fn needs_rows(config: &Config) -> bool {
    let mut rules = all_rows(config).flat_map(|(_, rows)| &rows.mappings).filter_map(|it| it.rule.as_ref());
    rules.any(|it| runs(it).is_some() || types(it))
}

fn all_rows(config: &Config) -> impl Iterator<Item = (&str, &super::Rows)> {
    let modes = config.modes.iter().map(|it| (it.name.as_str(), &it.rows));
    modes.chain(std::iter::once((GLOBAL, &config.global)))
}

/// Disables the held rows and returns them. Also returns the rows that type keys or text and that
/// no person has accepted.
fn hold_rows(config: &mut Config, base: &BTreeSet<String>, accepted: &Accepted) -> (Vec<HeldRow>, BTreeSet<String>) {
    let (mut held, mut typing) = (Vec::new(), BTreeSet::new());
    let modes = config.modes.iter_mut().map(|it| (it.name.clone(), &mut it.rows));
    for (mode, rows) in modes.chain(std::iter::once((GLOBAL.to_owned(), &mut config.global))) {
        for (index, row) in rows.mappings.iter_mut().enumerate() {
            let Some(rule) = &row.rule else { continue };
            let name = format!("{mode}/{}", row.id);
            let is_known = base.contains(&key_of(&mode, row));
            match runs(rule) {
                Some(runs) if !is_known => {
                    held.push(HeldRow { mode: mode.clone(), index, id: row.id.clone(), runs });
                    row.rule = None;
                }
                Some(_) | None => {
                    if types(rule) && (!is_known || accepted.typing.contains(&name)) {
                        typing.insert(name);
                    }
                }
            }
        }
    }
    (held, typing)
}

fn remove_rows(tree: &mut Value, held: &[HeldRow]) {
    for row in held.iter().rev() {
        let list = if row.mode == GLOBAL {
            tree.get_mut("global_mappings")
        } else {
            let modes = tree.get_mut("modes").and_then(Value::as_array_mut);
            let mode = modes.and_then(|it| it.iter_mut().find(|it| it["name"].as_str() == Some(&row.mode)));
            mode.and_then(|it| it.get_mut("mappings"))
        };
        if let Some(list) = list.and_then(Value::as_array_mut).filter(|it| it.len() > row.index) {
            list.remove(row.index);
        }
    }
}

fn rows_of(tree: &Value) -> Vec<(String, &Value)> {
    let modes = items(tree.get("modes")).iter().flat_map(|mode| {
        let name = mode["name"].as_str().unwrap_or_default();
        items(mode.get("mappings")).iter().map(move |row| (name.to_owned(), row))
    });
    modes.chain(items(tree.get("global_mappings")).iter().map(|row| (GLOBAL.to_owned(), row))).collect()
}

fn row_key(mode: &str, row: &Value) -> String {
    super::rows::sorted(&json!([mode, row])).to_string()
}

fn row_keys(tree: &Value) -> BTreeSet<String> {
    rows_of(tree).into_iter().map(|(mode, row)| row_key(&mode, row)).collect()
}

fn add_row(tree: &mut Value, mode: &str, row: Value) {
    let Value::Object(members) = tree else { return };
    let list = if mode == GLOBAL {
        members.entry("global_mappings").or_insert_with(|| json!([]))
    } else {
        let modes = members.entry("modes").or_insert_with(|| json!([]));
        let Some(modes) = modes.as_array_mut() else { return };
        let at = modes.iter().position(|it| it["name"].as_str() == Some(mode)).unwrap_or_else(|| {
            modes.push(json!({ "name": mode }));
            modes.len() - 1
        });
        let Some(Value::Object(mode)) = modes.get_mut(at) else { return };
        mode.entry("mappings").or_insert_with(|| json!([]))
    };
    if let Some(list) = list.as_array_mut() {
        list.push(row);
    }
}

/// Lists whose entries grant permissions, so that removing an entry only removes permissions. `*`
/// matches any name. An absent list is empty, except `live.file_roots`.
const GRANTS: [&str; 16] = [
    "policy.rules",
    "tools.filesystem.roots",
    "tools.shell.commands",
    "tools.web.allow_hosts",
    "tools.web.http_hosts",
    "http.tokens",
    "http.hooks",
    "http.hosts",
    "http.origins",
    "cluster.deciders",
    "cluster.rigs",
    "plugins.*.net",
    "plugins.*.files_read",
    "plugins.*.files_write",
    "patch.roots",
    "live.file_roots",
];

/// Numbers for which a smaller value is stricter. Not in this list: `cooldown_ms`, `hold_ms`,
/// `open_ms`, `window_ms`, all of `[audit]`, and undo depths. Smaller values of those keys are less
/// strict or lose data.
const NUMBERS: [&str; 25] = [
    "limits.in_flight",
    "limits.result_bytes",
    "limits.read.per_minute",
    "limits.read.burst",
    "limits.effect.per_minute",
    "limits.effect.burst",
    "limits.pending_per_principal",
    "limits.asks_per_minute",
    "policy.approval.ttl_ms",
    "circuit.failures",
    "retry.attempts",
    "mcp.max_message_bytes",
    "mcp.max_in_flight",
    "mcp.max_connections",
    "mcp.session_idle_s",
    "tools.web.timeout_ms",
    "tools.database.*.max_rows_affected",
    "plugins.*.cpu_ms",
    "plugins.*.timeout_ms",
    "plugins.*.heap_mb",
    "live.max_open",
    "live.max_xml_mb",
    "patch.max_open",
    "patch.max_file_mb",
    "advanced_settings.max_events_per_sec",
];

fn fits(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut there) = (pattern.split('.'), path.split('\u{1f}'));
    loop {
        match (wanted.next(), there.next()) {
            (None, None) => return true,
            (Some(wanted), Some(there)) if wanted == "*" || wanted == there => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// Whether a change only removes permissions. The only such changes are a removed entry of
/// `GRANTS`, a smaller number of `NUMBERS`, and a removed plugin. The keys in `path` are joined by
/// a separator that no key of the file format contains.
fn narrows(path: &str, old: Option<&Value>, new: Option<&Value>) -> bool {
    if old == new {
        return true;
    }
    if GRANTS.iter().any(|it| fits(it, path)) {
        let absent_is_empty = path != "live\u{1f}file_roots";
        return match (old, new) {
            (Some(Value::Array(old)), Some(Value::Array(new))) => only_removed(path, old, new),
            (Some(Value::Array(old)), None) => absent_is_empty && only_removed(path, old, &[]),
            (_, Some(_) | None) => false,
        };
    }
    if let Some(key) = NUMBERS.iter().find(|it| fits(it, path)) {
        let number = |value: Option<&Value>| value.or_else(|| schema::default_of(key)).and_then(Value::as_u64);
        return number(old).zip(number(new)).is_some_and(|(old, new)| new <= old);
    }
    // A removed plugin has no permissions.
    if fits("plugins.*", path) && new.is_none() {
        return true;
    }
    let empty = Map::new();
    let table = |value: Option<&Value>| match value {
        None => Some(empty.clone()),
        Some(Value::Object(members)) => Some(members.clone()),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => None,
    };
    let (Some(old), Some(new)) = (table(old), table(new)) else { return false };
    let is_container = !old.is_empty() || !new.is_empty();
    is_container
        && old.keys().chain(new.keys()).all(|key| narrows(&format!("{path}\u{1f}{key}"), old.get(key), new.get(key)))
}

/// Whether the new list is the old list without some entries, in the same order. A policy rule may
/// be removed only if its only effect is to allow calls.
fn only_removed(path: &str, old: &[Value], new: &[Value]) -> bool {
    let is_rules = path == "policy\u{1f}rules";
    let may_go = |it: &Value| !is_rules || (it["decision"] == "allow" && it.get("channel").is_none());
    let mut rest = new.iter().peekable();
    for it in old {
        if rest.peek() == Some(&it) {
            rest.next();
        } else if !may_go(it) {
            return false;
        }
    }
    rest.peek().is_none()
}

/// The difference of two trees as lines of values. TOML formatting cannot hide a change in it.
fn difference(old: &Value, new: &Value) -> String {
    diff::preview(&flat(old), &flat(new))
}

fn flat(tree: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", &super::rows::sorted(tree), &mut lines);
    lines.join("\n")
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                let bare = !key.is_empty() && key.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it));
                let key = if bare { key.clone() } else { Value::from(key.as_str()).to_string() };
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(&path, value, lines);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), item, lines);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            lines.push(format!("{path} = {value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_default() {
        let unknown: Vec<_> =
            NUMBERS.iter().filter(|it| schema::default_of(it).and_then(Value::as_u64).is_none()).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }
}
