//! `conductor devices`: lists devices and ports.

use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, call, list, text, texts};
use crate::home::Home;
use serde_json::{Value, json};
use std::io;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut found = call::tool(home, out, "conductor_list_devices", json!({}))?;
    let bindings = call::tool(home, out, "conductor_list_device_bindings", json!({}))?;
    if let (Value::Object(found), Value::Object(bindings)) = (&mut found, bindings) {
        found.extend(bindings);
    }
    out.show(&found, show)
}

/// The state of one device binding.
pub fn state(binding: &Value) -> &'static str {
    match (binding["connected"] == true, binding["enabled"] == true) {
        (true, true) => "connected",
        (true, false) => "muted",
        (false, _) => "absent",
    }
}

fn show(out: &mut Out, found: &Value) -> io::Result<()> {
    let bindings = list(found, "device_bindings");
    if bindings.is_empty() {
        out.line("no devices")?;
    }
    let mut rows = Vec::new();
    for binding in bindings {
        let state = state(binding);
        let tone = match state {
            "connected" => Tone::Good,
            _ => Tone::Note,
        };
        let (device, port) = (text(binding, "device_id"), text(binding, "port_name"));
        let about = binding["description"].as_str().unwrap_or("");
        rows.push(vec![Tone::Strong.cell(device), tone.cell(state), cell(port), cell(about)]);
    }
    for (key, label) in
        [("midi_inputs", "MIDI in"), ("midi_outputs", "MIDI out"), ("gamepads", "gamepads"), ("osc_listeners", "OSC")]
    {
        let names = texts(found, key);
        if !names.is_empty() {
            rows.push(vec![cell(label), cell(names.join(", "))]);
        }
    }
    for backend in list(found, "backends").iter().filter(|it| it["state"] != "ready") {
        rows.push(vec![cell(text(backend, "name")), Tone::Note.cell("missing"), cell(text(backend, "reason"))]);
    }
    out.table(&rows)
}
