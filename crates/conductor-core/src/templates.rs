//! Templates of known controllers: matchers for their ports, the names of their controls, and the
//! colours of their lights. Each template is a file in `templates/`, which names the source of its
//! numbers.
//!
//! Not here: finding ports (the daemon), and writing the row of a device (`plan`, from
//! [`Template::devices_row`]).

use crate::config::{Matcher, Protocol, input};
use crate::event::{Axis, Body, Button, Side};
use crate::feedback::led::{Pad, Palette};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const FILES: [&str; 9] = [
    include_str!("templates/nanokontrol2.toml"),
    include_str!("templates/apc-mini-mk2.toml"),
    include_str!("templates/launchpad-mini-mk3.toml"),
    include_str!("templates/beatstep.toml"),
    include_str!("templates/maschine-mikro-mk3.toml"),
    include_str!("templates/keys-25.toml"),
    include_str!("templates/xbox.toml"),
    include_str!("templates/playstation.toml"),
    include_str!("templates/switch-pro.toml"),
];

/// All templates. A file that cannot be read is left out; a test checks that each file can be read.
static ALL: LazyLock<Vec<Template>> = LazyLock::new(|| FILES.iter().filter_map(|it| load(it).ok()).collect());

/// A known controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Name in the configuration.
    pub name: String,
    /// Free text for people.
    pub description: String,
    /// The kind of connection.
    pub protocol: Protocol,
    /// Matchers for the ports of the controller.
    pub matchers: Vec<Matcher>,
    /// The documents that contain the numbers of the controls.
    pub sources: Vec<String>,
    /// The controls of the controller.
    pub controls: Vec<Control>,
    /// The lights of the controller, if it has any.
    pub light: Option<Light>,
    /// The matchers as written in the file.
    written_matchers: Value,
}

/// One control of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Name of the control, unique within the template.
    pub name: String,
    /// `pad`, `button`, `fader`, `knob`, `encoder`, `wheel`, `pedal`, `stick` or `trigger`.
    pub kind: String,
    /// The message that the control sends.
    pub address: Address,
    /// Whether a light scheme may use the light of this control.
    pub lit: bool,
}

/// The message of a control, without its channel, because the channel of most controllers can be
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Note(u8),
    /// A controller number.
    Cc(u8),
    /// Pitch bend of a channel.
    Bend,
    /// A gamepad button.
    Button(Button),
    /// A gamepad axis.
    Axis(Axis),
    /// A gamepad trigger.
    Trigger(Side),
}

/// The lights of a controller. Lit controls are listed row by row, from the bottom left.
#[derive(Clone, Debug, PartialEq)]
pub struct Light {
    /// Number of controls in a row.
    pub columns: usize,
    /// Channel of the messages that the pads send.
    pub input_channel: u8,
    /// Channel of the messages that set the lights.
    pub channel: u8,
    /// Velocities for each colour name.
    pub palette: Palette,
}

/// The reason why a template file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum TemplateError {
    #[error("not a template: {0}")]
    Form(String),
    #[error("matcher {index}: {reason}")]
    Matcher { index: usize, reason: String },
    #[error("control \"{control}\": {reason}")]
    Control { control: String, reason: &'static str },
    #[error("`sources` must name the document that the numbers are from")]
    NoSource,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    #[serde(default)]
    protocol: Protocol,
    matchers: Vec<Value>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    controls: Vec<ControlRow>,
    light: Option<LightRow>,
}

/// One control, or `count` controls with consecutive numbers, or one control for each entry of
/// `ccs`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlRow {
    name: String,
    kind: String,
    note: Option<u8>,
    cc: Option<u8>,
    #[serde(default)]
    ccs: Vec<u8>,
    #[serde(default)]
    bend: bool,
    button: Option<String>,
    axis: Option<String>,
    trigger: Option<String>,
    count: Option<u8>,
    #[serde(default)]
    lit: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LightRow {
    columns: usize,
    input_channel: u8,
    channel: u8,
    #[serde(default)]
    palette: BTreeMap<String, Vec<u8>>,
}

const KINDS: &[&str] = &["pad", "button", "fader", "knob", "encoder", "wheel", "pedal", "stick", "trigger"];

/// Every built-in template.
pub fn all() -> &'static [Template] {
    &ALL
}

/// The template with this name.
pub fn find(name: &str) -> Option<&'static Template> {
    ALL.iter().find(|it| it.name == name)
}

/// The possible values of `template = "…"`.
pub fn names() -> BTreeSet<String> {
    ALL.iter().map(|it| it.name.clone()).collect()
}

/// The result of `conductor_list_templates`.
pub fn list() -> Vec<Value> {
    ALL.iter().map(Template::to_json).collect()
}

/// Reads one template file.
pub fn load(text: &str) -> Result<Template, TemplateError> {
    let file: File = toml::from_str(text).map_err(|fault| TemplateError::Form(fault.to_string()))?;
    let mut matchers = Vec::new();
    for (index, written) in file.matchers.iter().enumerate() {
        let matcher = input::matcher(written, "").map_err(|faults| TemplateError::Matcher {
            index,
            reason: faults.first().map(|it| it.message.clone()).unwrap_or_default(),
        })?;
        matchers.push(matcher);
    }
    if matchers.is_empty() {
        return Err(TemplateError::Form("`matchers` is empty".to_owned()));
    }
    let mut controls = Vec::new();
    for row in &file.controls {
        expand(row, &mut controls).map_err(|reason| TemplateError::Control { control: row.name.clone(), reason })?;
    }
    let numbered = |it: &Control| matches!(it.address, Address::Note(_) | Address::Cc(_));
    let has_numbers = controls.iter().any(numbered)
        || file.light.as_ref().is_some_and(|it| !it.palette.is_empty())
        || matchers.iter().any(|it| matches!(it, Matcher::UsbIdentifier { .. }));
    if has_numbers && file.sources.iter().all(|it| it.trim().is_empty()) {
        return Err(TemplateError::NoSource);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = controls.iter().find(|it| !seen.insert(&it.name)) {
        return Err(TemplateError::Control { control: twice.name.clone(), reason: "two controls have this name" });
    }
    Ok(Template {
        name: file.name,
        description: file.description,
        protocol: file.protocol,
        written_matchers: Value::Array(file.matchers),
        matchers,
        sources: file.sources,
        light: file.light.map(light).transpose()?,
        controls,
    })
}

fn light(row: LightRow) -> Result<Light, TemplateError> {
    let fault = |reason| Err(TemplateError::Control { control: "light".to_owned(), reason });
    if row.columns == 0 || row.input_channel > 15 || row.channel > 15 {
        return fault("`columns` must be at least 1, and channels must be 0-15");
    }
    if row.palette.values().flatten().any(|it| *it > 127) {
        return fault("a colour must be a velocity of 0-127");
    }
    let colors: Vec<(&str, &[u8])> = row.palette.iter().map(|(word, levels)| (word.as_str(), &levels[..])).collect();
    let palette = Palette::of(&colors);
    if palette.colors.len() != colors.len() {
        return fault("a colour of the palette is unknown");
    }
    let palette = if colors.is_empty() { Palette::default() } else { palette };
    Ok(Light { columns: row.columns, input_channel: row.input_channel, channel: row.channel, palette })
}

fn expand(row: &ControlRow, out: &mut Vec<Control>) -> Result<(), &'static str> {
    if !KINDS.contains(&row.kind.as_str()) {
        return Err("the `kind` of this control is unknown");
    }
    let mut addresses: Vec<Address> = Vec::new();
    let count = row.count.unwrap_or(1);
    let following =
        |first: u8| first.checked_add(count.saturating_sub(1)).filter(|last| *last <= 127).map(|last| first..=last);
    if let Some(first) = row.note {
        addresses.extend(following(first).ok_or("a note number is above 127")?.map(Address::Note));
    }
    if let Some(first) = row.cc {
        addresses.extend(following(first).ok_or("a controller number is above 127")?.map(Address::Cc));
    }
    if row.ccs.iter().any(|it| *it > 127) {
        return Err("a controller number is above 127");
    }
    addresses.extend(row.ccs.iter().copied().map(Address::Cc));
    if row.bend {
        addresses.push(Address::Bend);
    }
    if let Some(name) = &row.button {
        addresses.push(Address::Button(Button::from_name(name).ok_or("there is no button with this name")?));
    }
    if let Some(name) = &row.axis {
        addresses.push(Address::Axis(Axis::from_name(name).ok_or("there is no axis with this name")?));
    }
    if let Some(name) = &row.trigger {
        addresses.push(Address::Trigger(Side::from_name(name).ok_or("there is no trigger with this name")?));
    }
    let said = usize::from(row.note.is_some()) + usize::from(row.cc.is_some()) + usize::from(!row.ccs.is_empty());
    let named = [row.bend, row.button.is_some(), row.axis.is_some(), row.trigger.is_some()];
    if said + named.iter().filter(|it| **it).count() != 1 {
        return Err("exactly one of note, cc, ccs, bend, button, axis and trigger is required");
    }
    let many = addresses.len() > 1;
    for (at, address) in addresses.into_iter().enumerate() {
        let name = if many { format!("{}-{}", row.name, at + 1) } else { row.name.clone() };
        out.push(Control { name, kind: row.kind.clone(), address, lit: row.lit });
    }
    Ok(())
}

impl Template {
    /// The template as JSON, for `conductor_list_templates`.
    pub fn to_json(&self) -> Value {
        let controls: Vec<Value> = self.controls.iter().map(Control::to_json).collect();
        json!({"name": self.name, "description": self.description, "controls": controls})
    }

    /// The row of `[[devices]]` that is added when this template is applied with an alias.
    pub fn devices_row(&self, alias: &str) -> Value {
        let mut row = Map::new();
        row.insert("alias".into(), json!(alias));
        row.insert("description".into(), json!(self.description));
        match self.protocol {
            Protocol::Midi => {}
            Protocol::Gamepad => {
                row.insert("protocol".into(), json!("Gamepad"));
                row.insert("direction".into(), json!("Input"));
            }
            Protocol::Osc => {
                row.insert("protocol".into(), json!("Osc"));
            }
        }
        row.insert("matchers".into(), self.written_matchers.clone());
        row.insert("template".into(), json!(self.name));
        Value::Object(row)
    }

    /// The name of the control that sent this message.
    pub fn name_of(&self, body: &Body) -> Option<&str> {
        let address = match body {
            Body::NoteOn { note, .. } | Body::NoteOff { note, .. } | Body::PolyPressure { note, .. } => {
                Address::Note(*note)
            }
            Body::Cc { controller, .. } => Address::Cc(*controller),
            Body::PitchBend { .. } => Address::Bend,
            Body::ButtonDown(button) | Body::ButtonUp(button) => Address::Button(*button),
            Body::Axis { axis, .. } => Address::Axis(*axis),
            Body::Trigger { side, .. } => Address::Trigger(*side),
            Body::Program { .. }
            | Body::ChannelPressure { .. }
            | Body::SysEx(_)
            | Body::RealTime(_)
            | Body::Common { .. }
            | Body::Osc(_) => return None,
        };
        self.controls.iter().find(|it| it.address == address).map(|it| it.name.as_str())
    }

    /// The pads whose lights a scheme may use, row by row from the bottom left.
    pub fn pads(&self) -> Vec<Pad> {
        let Some(light) = &self.light else { return Vec::new() };
        let lit = self.controls.iter().filter(|it| it.lit);
        lit.filter_map(|it| match it.address {
            Address::Note(note) => Some(Pad { channel: light.input_channel, light_channel: light.channel, note }),
            Address::Cc(_) | Address::Bend | Address::Button(_) | Address::Axis(_) | Address::Trigger(_) => None,
        })
        .collect()
    }
}

impl Control {
    fn to_json(&self) -> Value {
        let (key, value) = match self.address {
            Address::Note(note) => ("note", json!(note)),
            Address::Cc(cc) => ("cc", json!(cc)),
            Address::Bend => ("bend", json!(true)),
            Address::Button(button) => ("button", json!(button.name())),
            Address::Axis(axis) => ("axis", json!(axis.name())),
            Address::Trigger(side) => ("trigger", json!(side.name())),
        };
        json!({"name": self.name, "kind": self.kind, key: value})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn every_file_loads_and_cites_what_its_numbers_come_from() {
        for file in FILES {
            load(file).unwrap_or_else(|fault| panic!("{fault}\n{file}"));
        }
        assert_eq!(all().len(), FILES.len());
        assert_eq!(names().len(), FILES.len(), "two templates have the same name");
    }

    #[test]
    fn a_number_without_a_document_is_refused() {
        let bare = "name = \"x\"\ndescription = \"x\"\nmatchers = [{ type = \"NameContains\", pattern = \"x\" }]\n";
        assert!(load(bare).is_ok());
        let numbered = format!("{bare}controls = [{{ name = \"a\", kind = \"pad\", note = 1 }}]\n");
        assert_eq!(load(&numbered), Err(TemplateError::NoSource));
        let usb = "name = \"x\"\ndescription = \"x\"\nmatchers = [{ type = \"UsbIdentifier\", vendor_id = 1, product_id = 2 }]\n";
        assert_eq!(load(usb), Err(TemplateError::NoSource));
        let sourced = format!("{bare}sources = [\"a book\"]\n");
        for (controls, word) in [
            ("{ name = \"a\", kind = \"pad\", note = 120, count = 9 }", "127"),
            ("{ name = \"a\", kind = \"lamp\", note = 1 }", "kind"),
            ("{ name = \"a\", kind = \"pad\" }", "exactly one of"),
            ("{ name = \"a\", kind = \"pad\", note = 1, cc = 1 }", "exactly one of"),
            ("{ name = \"a\", kind = \"pad\", note = 1 }, { name = \"a\", kind = \"pad\", note = 2 }", "two"),
            ("{ name = \"a\", kind = \"button\", button = \"nose\" }", "button"),
            ("{ name = \"a\", kind = \"pad\", nte = 1 }", "nte"),
        ] {
            let fault = load(&format!("{sourced}controls = [{controls}]\n")).expect_err(controls).to_string();
            assert!(fault.contains(word), "{controls}: {fault}");
        }
    }

    #[test]
    fn what_a_plan_adds_is_a_sound_device() {
        for template in all() {
            let row = template.devices_row("mine");
            let rows = BTreeMap::from([("devices", vec![row.clone()])]);
            let text = toml_of(&rows);
            let loaded = config::load(&text);
            let faults: Vec<String> = loaded.errors().map(|it| it.render(&text, "config.toml")).collect();
            assert!(loaded.valid(), "{text}\n{}", faults.join("\n"));
            let device = &loaded.config.expect("a fatal fault").devices[0];
            assert_eq!((device.alias.as_str(), device.template.as_deref()), ("mine", Some(template.name.as_str())));
            assert_eq!((&device.matchers, device.protocol), (&template.matchers, template.protocol));
        }
    }

    /// Writes JSON values as inline TOML.
    fn toml_of(rows: &BTreeMap<&str, Vec<Value>>) -> String {
        fn inline(value: &Value) -> String {
            match value {
                Value::Object(map) => {
                    let fields: Vec<String> = map.iter().map(|(key, it)| format!("{key} = {}", inline(it))).collect();
                    format!("{{ {} }}", fields.join(", "))
                }
                Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
                Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
            }
        }
        rows.iter()
            .map(|(key, rows)| format!("{key} = [{}]\n", rows.iter().map(inline).collect::<Vec<_>>().join(", ")))
            .collect()
    }

    #[test]
    fn controls_have_names() {
        let apc = find("apc-mini-mk2").expect("no such template");
        assert_eq!(apc.name_of(&Body::NoteOn { channel: 0, note: 9, velocity: 1 }), Some("row-2-pad-2"));
        assert_eq!(apc.name_of(&Body::Cc { channel: 3, controller: 56, value: 1 }), Some("master"));
        assert_eq!(apc.name_of(&Body::Cc { channel: 3, controller: 1, value: 1 }), None);
        assert_eq!((apc.pads().len(), apc.pads()[0]), (64, Pad { channel: 0, light_channel: 6, note: 0 }));
        let launchpad = find("launchpad-mini-mk3").expect("no such template");
        assert_eq!(launchpad.pads().iter().map(|it| it.note).max(), Some(88));
        let beatstep = find("beatstep").expect("no such template");
        assert_eq!(beatstep.name_of(&Body::Cc { channel: 0, controller: 114, value: 1 }), Some("encoder-9"));
        let xbox = find("xbox").expect("no such template");
        assert_eq!(xbox.name_of(&Body::ButtonDown(Button::South)), Some("a"));
        assert_eq!(find("switch-pro").and_then(|it| it.name_of(&Body::ButtonDown(Button::South))), Some("b"));
        assert!(find("maschine-mikro-mk3").is_some_and(|it| it.controls.is_empty()));
    }

    #[test]
    fn names_find_their_device_and_no_other() {
        let finds = |template: &str, port: &str| {
            find(template).expect("no such template").matchers.iter().any(|it| match it {
                Matcher::NameContains(text) => port.contains(text.as_str()),
                Matcher::NameRegex(pattern) => regex::Regex::new(pattern).is_ok_and(|it| it.is_match(port)),
                Matcher::ExactName(name) => port == name,
                Matcher::PlatformId(_)
                | Matcher::UsbTopology(_)
                | Matcher::ControllerGuid(_)
                | Matcher::UsbIdentifier { .. }
                | Matcher::CoreMidiUniqueId(_) => false,
            })
        };
        for (template, port, found) in [
            ("nanokontrol2", "nanoKONTROL2 SLIDER/KNOB", true),
            ("nanokontrol2", "nanoKONTROL Studio", false),
            ("beatstep", "Arturia BeatStep", true),
            ("beatstep", "Arturia BeatStep MIDI 1", true),
            ("beatstep", "Arturia BeatStep Pro", false),
            ("beatstep", "BeatStepPro", false),
            ("xbox", "Microsoft X-Box One S pad", true),
            ("xbox", "Xbox Wireless Controller", true),
            ("switch-pro", "Nintendo Switch Pro Controller", true),
            ("switch-pro", "Pro Controller", true),
            ("switch-pro", "DualSense Wireless Controller", false),
            ("playstation", "Sony Interactive Entertainment DualSense Wireless Controller", true),
            ("keys-25", "Keystation 25 MIDI 1", true),
            ("keys-25", "Keystation 61 MIDI 1", false),
            ("launchpad-mini-mk3", "Launchpad Mini MK3 LPMiniMK3 MIDI Out", true),
            ("apc-mini-mk2", "APC mini mk2 Control", true),
            ("apc-mini-mk2", "APC MINI", false),
        ] {
            assert_eq!(finds(template, port), found, "{template} and {port}");
        }
    }

    #[test]
    fn the_list_is_what_the_tool_returns() {
        let list = list();
        let first = &list[0];
        assert_eq!(first["name"], "nanokontrol2");
        assert_eq!(first["controls"][0], json!({"name": "fader-1", "kind": "fader", "cc": 0}));
        assert_eq!(list.len(), 9);
    }
}
