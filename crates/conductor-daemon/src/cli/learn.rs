//! `conductor learn`: shows the events of a control while it is played. After Enter, prints the
//! triggers that would fire on these events.

use super::args::Learn;
use super::{Failure, Verdict, list, monitor, out::Out, text};
use crate::doors::control::client::Client;
use crate::home::Home;
use serde_json::{Value, json};
use std::io::{self, BufRead};

pub fn run(args: &Learn, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    // Learning ends with the connection that started it, so Ctrl-C ends it too.
    let mut client = Client::connect(&home.control_socket())?;
    let arguments = json!({ "timeout_ms": args.seconds * 1000, "let_through": args.let_through });
    client.call("conductor_start_midi_learn", arguments)?;
    if !out.is_json() {
        out.line("Play the control slowly a few times; turn an encoder both ways. Then press Enter.")?;
        out.finish()?;
        show_events(Client::connect(&home.control_socket())?)?;
    }
    // The end of stdin is treated as Enter.
    io::stdin().lock().read_line(&mut String::new())?;
    let learned = client.call("conductor_stop_midi_learn", json!({}))?;
    out.show(&learned, show)?;
    Ok(Verdict::good_if(!list(&learned, "suggestions").is_empty()))
}

/// Prints events on a separate thread, because this thread waits for Enter. The thread ends with
/// the command.
fn show_events(mut client: Client) -> Result<(), Failure> {
    client.ask("monitor", json!({}))?;
    std::thread::Builder::new().name("heard".into()).spawn(move || {
        let mut out = Out::new(false, super::out::ColorChoice::Never);
        while let Ok(Some(item)) = client.next_item() {
            // Stop when the output is closed.
            if out.line(monitor::line(&item)).and_then(|()| out.finish()).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

fn show(out: &mut Out, learned: &Value) -> io::Result<()> {
    let (suggestions, info) = (list(learned, "suggestions"), list(learned, "suggestion_info"));
    out.line(format_args!("{} events received", list(learned, "events").len()))?;
    if suggestions.is_empty() {
        return out
            .line("none of the events can be mapped; check whether the device is muted or its channel is excluded");
    }
    for (at, trigger) in suggestions.iter().enumerate() {
        let info = info.get(at).unwrap_or(&Value::Null);
        let sure = (info["confidence"].as_f64().unwrap_or(0.0) * 100.0).round();
        out.line(format_args!("\n# {sure}%: {}", text(info, "reason")))?;
        if info["needs"].is_string() {
            out.line(format_args!("# to confirm: {}", text(info, "needs")))?;
        }
        out.line(format_args!("trigger = {}", inline(trigger)))?;
    }
    Ok(())
}

/// Converts a JSON value to one line of TOML. Numbers, strings and lists are the same in both
/// formats.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let fields: Vec<String> = members.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_is_a_line_that_the_file_takes() {
        let trigger = json!({ "type": "Note", "note": 36, "velocity_range": [1, 127], "device": "pads" });
        let row =
            format!("[[global_mappings]]\ntrigger = {}\naction = {{ type = \"Delay\", ms = 1 }}\n", inline(&trigger));
        let loaded = conductor_core::config::load(&format!("[[devices]]\nalias = \"pads\"\nloopback = true\n{row}"));
        assert!(loaded.valid(), "{row}: {:?}", loaded.diagnostics);
    }
}
