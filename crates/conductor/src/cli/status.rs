//! `conductor status`.

use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::home::Home;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let status = ask(home, "status", json!({}))?;
    out.show(&status, |out, status| show(out, home, status))?;
    Ok(Verdict::Good)
}

fn show(out: &mut Out, home: &Home, status: &Value) -> io::Result<()> {
    let count = |key: &str| status["statistics"][key].as_u64().unwrap_or(0);
    out.line(format_args!(
        "{:<9} {} for {} s, pid {}, home {}",
        "conductor",
        text(status, "lifecycle_state").to_lowercase(),
        status["uptime_secs"],
        status["pid"],
        home.root().display()
    ))?;
    let locked = if status["performance_lock"] == true { ", performance lock on" } else { "" };
    out.line(format_args!("{:<9} {}{locked}", "mode", text(status, "current_mode")))?;
    if let Some(until) = status["learning"]["until"].as_str() {
        let rest = if status["learning"]["let_through"] == true { "" } else { "; mapped actions rest until it ends" };
        let since = text(&status["learning"], "since");
        out.line(format_args!("{:<9} since {since}, until {until} at the latest{rest}", "learning"))?;
    }
    match status["pending_plans"].as_u64() {
        None | Some(0) => {}
        Some(1) => out.line(format_args!("{:<9} 1 waits for you (see `conductor plans list`)", "plans"))?,
        Some(many) => out.line(format_args!("{:<9} {many} wait for you (see `conductor plans list`)", "plans"))?,
    }
    audit(out, &status["audit"])?;
    match status["device"]["name"].as_str() {
        Some(name) => {
            let alias = status["device"]["alias"].as_str().filter(|it| *it != name);
            let alias = alias.map(|it| format!(", {it}")).unwrap_or_default();
            out.line(format_args!("{:<9} {name}{alias}", "device"))?;
        }
        None => out.line(format_args!("{:<9} none connected", "device"))?,
    }
    out.line(format_args!(
        "{:<9} {} in, {} dropped; {} done, {} failed",
        "events",
        count("events_processed"),
        count("events_dropped"),
        count("actions_executed"),
        count("actions_failed")
    ))?;
    let config = &status["config"];
    match config["error"].as_str() {
        Some(error) => out.line(format_args!("{:<9} kept the old one: {error}", "config"))?,
        None => {
            let hash = config["hash"].as_str().map_or("built in", |it| it.get(..15).unwrap_or(it));
            let disabled = match config["disabled_mappings"].as_u64() {
                None | Some(0) => String::new(),
                Some(rows) => format!(", {rows} rows disabled (see `conductor config check`)"),
            };
            out.line(format_args!("{:<9} {hash}, loaded {}{disabled}", "config", text(config, "loaded_at")))?;
        }
    }
    if let Some(why) = config["closed"].as_str() {
        out.line(format_args!("{:<9} closed defaults serve: {why} (see `conductor config accept`)", "config"))?;
    }
    let held: Vec<&str> = list(config, "held").iter().filter_map(Value::as_str).collect();
    if !held.is_empty() {
        let since = text(config, "held_since");
        let held = held.join(", ");
        out.line(format_args!("{:<9} {} since {since} (see `conductor config accept`)", "waits", escape(&held)))?;
    }
    match config["faults"].as_u64() {
        None | Some(0) => {}
        Some(faults) => {
            out.line(format_args!("{:<9} {faults} in config.toml (see `conductor config check`)", "faults"))?
        }
    }
    for fault in list(config, "fault_lines") {
        out.line(format_args!("{:<9} {}", "", escape(fault.as_str().unwrap_or_default())))?;
    }
    let typing: Vec<&str> = list(config, "unprotected").iter().filter_map(Value::as_str).collect();
    if !typing.is_empty() {
        let typing = typing.join(", ");
        out.line(format_args!("{:<9} {} type keys or text and came without a plan", "mappings", escape(&typing)))?;
    }
    for backend in list(status, "backends") {
        let reason = backend["reason"].as_str().map(|it| format!(": {it}")).unwrap_or_default();
        out.line(format_args!("{:<9} {} {}{reason}", "backend", text(backend, "name"), text(backend, "state")))?;
    }
    Ok(())
}

/// Only when something is wrong: then no tool is served, or the second copy is behind.
fn audit(out: &mut Out, audit: &Value) -> io::Result<()> {
    if let Some(reason) = audit["reason"].as_str() {
        out.line(format_args!("{:<9} no tool is served: {reason}", "audit"))?;
    }
    if let Some(fault) = audit["copy_fault"].as_str() {
        out.line(format_args!("{:<9} the second copy is behind: {fault}", "audit"))?;
    }
    match audit["waiting"].as_u64() {
        None | Some(0) => Ok(()),
        Some(waiting) => out.line(format_args!("{:<9} {waiting} records wait in memory to be written", "audit")),
    }
}
