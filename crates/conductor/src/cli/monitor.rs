//! `conductor monitor`: trace records, or the bytes at a port, until interrupted.

use super::args::Monitor;
use super::{Failure, Verdict, out::Out, text};
use crate::daemon::home::Home;
use crate::doors::control::client::Client;
use serde_json::{Value, json};

pub fn run(args: Monitor, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut client = Client::connect(&home.control_socket())?;
    if args.port.is_none() && !out.is_json() {
        head(out, &client.ask("status", json!({}))?, &client.ask("bindings", json!({}))?)?;
        out.finish()?;
    }
    match args.port {
        Some(port) => client.ask("listen", json!({ "port": port }))?,
        None => client.ask("monitor", json!({}))?,
    };
    while let Some(item) = client.next_item()? {
        out.show(&item, |out, item| out.line(line(item)))?;
        out.finish()?;
    }
    Ok(Verdict::Good)
}

/// Who is there, before what happens.
fn head(out: &mut Out, status: &Value, bindings: &Value) -> std::io::Result<()> {
    let count = |key: &str| status["statistics"][key].as_u64().unwrap_or(0);
    out.line(format_args!(
        "mode {}, {} events heard, {} dropped, {} actions, {} failed",
        text(status, "current_mode"),
        count("events_processed"),
        count("events_dropped"),
        count("actions_executed"),
        count("actions_failed")
    ))?;
    for row in bindings["device_bindings"].as_array().into_iter().flatten() {
        let is = |key: &str| row[key] == true;
        let state = match (is("connected"), is("enabled")) {
            (true, true) => "connected",
            (true, false) => "muted",
            (false, _) => "absent",
        };
        out.line(format_args!("  {:<12} {state:<10} {}", text(row, "device_id"), text(row, "port_name")))?;
    }
    out.line("")
}

pub fn line(item: &Value) -> String {
    if let Some(bytes) = item["bytes"].as_array() {
        let hex: Vec<String> = bytes.iter().map(|it| format!("{:02X}", it.as_u64().unwrap_or(0))).collect();
        return hex.join(" ");
    }
    let parts = ["device", "event", "mapping_id", "gesture", "outcome", "action", "reason"];
    let shown: Vec<&str> = parts.iter().map(|key| text(item, key)).filter(|it| !["-", ""].contains(it)).collect();
    match item["latency_us"].as_u64() {
        Some(latency) => format!("{} ({latency} us)", shown.join(" ")),
        None => shown.join(" "),
    }
}
