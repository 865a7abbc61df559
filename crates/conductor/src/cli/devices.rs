//! `conductor devices`: lists devices and ports.

use super::{Failure, Verdict, call, list, out::Out, text, texts};
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
    for binding in bindings {
        let state = state(binding);
        let about = binding["description"].as_str().map(|it| format!("  {it}")).unwrap_or_default();
        let (device, port) = (text(binding, "device_id"), text(binding, "port_name"));
        out.line(format_args!("{device:<12} {state:<10} {port}{about}"))?;
    }
    for (key, label) in
        [("midi_inputs", "MIDI in"), ("midi_outputs", "MIDI out"), ("gamepads", "gamepads"), ("osc_listeners", "OSC")]
    {
        let names = texts(found, key);
        if !names.is_empty() {
            out.line(format_args!("{label:<12} {}", names.join(", ")))?;
        }
    }
    for backend in list(found, "backends").iter().filter(|it| it["state"] != "ready") {
        out.line(format_args!("{:<12} missing    {}", text(backend, "name"), text(backend, "reason")))?;
    }
    Ok(())
}
