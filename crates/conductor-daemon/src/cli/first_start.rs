//! Asks a person which studio to create, at the first `conductor up` in an empty home. Without a
//! terminal nothing is asked.
//!
//! Not here: writing the file, which the daemon does when it starts.

use super::{Failure, out::Out};
use crate::demo;
use crate::home::Home;
use crate::owner::backends;
use conductor_core::config::{self, Device, Protocol};
use conductor_core::plan::row_text;
use conductor_core::templates::{self, Template};
use conductor_hosts::midi::identity::{Identity, Roster};
use conductor_hosts::midi::{PortInfo, Way};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal};

/// The configuration that a new home starts with.
pub struct FirstConfig {
    pub text: Cow<'static, str>,
    /// Whether this is the demo studio.
    pub is_demo: bool,
    /// What to do next, for a person who made a choice.
    pub next: Option<&'static str>,
}

impl FirstConfig {
    pub fn demo() -> Self {
        FirstConfig { text: demo::CONFIG.into(), is_demo: true, next: None }
    }

    pub fn empty() -> Self {
        FirstConfig { text: config::TUTORIAL.into(), is_demo: false, next: None }
    }
}

const LEARN: &str = "Next: play a control, and `conductor learn` prints a trigger for it.";

/// Whether the home has no configuration, and a person can answer at the terminal.
pub fn can_ask(home: &Home, out: &Out) -> bool {
    !out.is_json() && !home.config_file().exists() && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks for one of three studios.
pub fn ask(home: &Home, out: &mut Out) -> Result<FirstConfig, Failure> {
    let found = controllers(&backends::inputs());
    out.line(format_args!("{} has no configuration yet. Choose a studio:\n", home.root().display()))?;
    out.line("  1  demo: virtual pads, keys and an instrument; needs no hardware")?;
    match found.len() {
        0 => out.line("  2  your controllers (none is plugged in now)")?,
        1 => out.line("  2  your controller:")?,
        count => out.line(format_args!("  2  your {count} controllers:"))?,
    }
    for it in &found {
        let about = it.template.map(|it| format!(" (template {})", it.name)).unwrap_or_default();
        out.line(format_args!("       {}{about}", it.port))?;
    }
    out.line("  3  empty: a file with commented examples\n")?;
    loop {
        match answer(out, "1, 2 or 3 [1]: ")?.as_str() {
            "" | "1" => return Ok(FirstConfig::demo()),
            "2" => return with_controllers(&found, out),
            "3" => return Ok(FirstConfig { next: Some(LEARN), ..FirstConfig::empty() }),
            _ => {}
        }
    }
}

/// Writes a question and reads one line. The end of the input is an error, so that nothing is
/// written without an answer.
fn answer(out: &mut Out, question: &'static str) -> Result<String, Failure> {
    out.control(question)?;
    out.finish()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Failure::Text("no answer; nothing was written".into()));
    }
    Ok(line.trim().to_owned())
}

/// A controller that is plugged in.
struct Controller {
    port: String,
    protocol: Protocol,
    template: Option<&'static Template>,
}

/// The controllers among these ports: hardware, gamepads, and ports that a template describes.
fn controllers(ports: &[(Protocol, PortInfo)]) -> Vec<Controller> {
    let rows = templates::all().iter().map(|it| device_row(&it.devices_row(&it.name)));
    let devices = config::load(&format!("schema = 1\n{}", rows.collect::<String>())).config.map(|it| it.devices);
    let devices = devices.unwrap_or_default();
    let of = |protocol: Protocol| of_protocol(ports, protocol, &devices);
    of(Protocol::Midi).into_iter().chain(of(Protocol::Gamepad)).collect()
}

fn of_protocol(ports: &[(Protocol, PortInfo)], protocol: Protocol, devices: &[Device]) -> Vec<Controller> {
    let ports = ports.iter().filter(|(of, port)| *of == protocol && port.way == Way::Input);
    let ports: Vec<PortInfo> = ports.map(|(_, port)| port.clone()).collect();
    let known = Roster::new(devices, protocol).assign(&ports);
    let mut seen = BTreeSet::new();
    let found = ports.iter().zip(known).filter_map(|(port, identity)| {
        let template = match identity {
            Identity::Alias(name) => templates::find(&name),
            Identity::Raw(_) => None,
        };
        let is_controller = template.is_some() || port.is_hardware || protocol == Protocol::Gamepad;
        // A device may offer the same port through two backends.
        (is_controller && seen.insert(port.name.clone())).then(|| Controller {
            port: port.name.clone(),
            protocol,
            template,
        })
    });
    found.collect()
}

/// Asks for the name of each controller, and adds a device with this name to the configuration.
fn with_controllers(found: &[Controller], out: &mut Out) -> Result<FirstConfig, Failure> {
    if found.is_empty() {
        out.line("No controller is plugged in. Every controller that you plug in later is used.")?;
        return Ok(FirstConfig { next: Some(LEARN), ..FirstConfig::empty() });
    }
    out.line("Mappings use the name of a controller. Press Enter to accept a name.")?;
    let mut text = format!("{}\n# Controllers that were plugged in at the first start.\n", config::TUTORIAL);
    let mut names = BTreeSet::new();
    for controller in found {
        let proposal = proposal(controller, &names);
        out.line(format_args!("{}", controller.port))?;
        loop {
            out.text(&format!("  name [{proposal}]"))?;
            let typed = answer(out, ": ")?;
            let name = if typed.is_empty() { proposal.clone() } else { typed };
            let with_row = format!("{text}{}", device_row(&row(controller, &name)));
            let loaded = config::load(&with_row);
            match loaded.errors().next() {
                None => {
                    names.insert(name);
                    text = with_row;
                    break;
                }
                Some(error) => out.line(format_args!("  {}", error.message))?,
            }
        }
    }
    Ok(FirstConfig { text: text.into(), is_demo: false, next: Some(LEARN) })
}

fn row(controller: &Controller, name: &str) -> Value {
    match (controller.template, controller.protocol) {
        (Some(template), _) => template.devices_row(name),
        (None, Protocol::Gamepad) => json!({
            "alias": name, "protocol": "Gamepad", "direction": "Input",
            "matchers": [{ "type": "ExactName", "pattern": controller.port }],
        }),
        (None, Protocol::Midi | Protocol::Osc) => json!({
            "alias": name, "matchers": [{ "type": "ExactName", "pattern": controller.port }],
        }),
    }
}

fn device_row(row: &Value) -> String {
    let empty = Map::new();
    format!("\n[[devices]]\n{}", row_text(row.as_object().unwrap_or(&empty)))
}

/// Proposes a name that is not in use: the name of the template, or the port name in lower case.
fn proposal(controller: &Controller, names: &BTreeSet<String>) -> String {
    let base = match controller.template {
        Some(template) => template.name.clone(),
        None => {
            let name = controller.port.to_lowercase();
            let words: Vec<&str> =
                name.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty()).collect();
            words.join("-").chars().take(24).collect()
        }
    };
    let base = if base.is_empty() { "controller".to_owned() } else { base };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|it| !names.contains(it)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, is_hardware: bool) -> (Protocol, PortInfo) {
        (Protocol::Midi, PortInfo { is_hardware, ..PortInfo::new("test", Way::Input, name, name) })
    }

    #[test]
    fn hardware_and_known_controllers_are_found_and_programs_are_not() {
        let pad = (Protocol::Gamepad, PortInfo::new("gamepad", Way::Input, "0", "Odd Pad"));
        let ports = [
            port("nanoKONTROL2 MIDI 1", false),
            port("Midi Through Port-0", false),
            port("UM-ONE MIDI 1", true),
            port("UM-ONE MIDI 1", true),
            pad,
        ];
        let found = controllers(&ports);
        let short: Vec<_> = found.iter().map(|it| (it.port.as_str(), it.template.map(|it| it.name.as_str()))).collect();
        assert_eq!(short, [("nanoKONTROL2 MIDI 1", Some("nanokontrol2")), ("UM-ONE MIDI 1", None), ("Odd Pad", None)]);
    }

    #[test]
    fn every_written_file_is_valid_and_names_are_unique() {
        let found = controllers(&[port("Keys\"\\\u{1b} 1", true), port("keys  1!", true), port("日本", true)]);
        let mut names = BTreeSet::new();
        let mut text = config::TUTORIAL.to_owned();
        for it in &found {
            let name = proposal(it, &names);
            text.push_str(&device_row(&row(it, &name)));
            names.insert(name);
        }
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["controller", "keys-1", "keys-1-2"]);
        let loaded = config::load(&text);
        assert!(loaded.valid(), "{:?}", loaded.diagnostics);
        assert_eq!(loaded.config.map(|it| it.devices.len()), Some(3));
    }
}
