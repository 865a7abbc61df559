//! `conductor status`: shows the state of the daemon.

use super::call::tool_and_show;
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, list, text, texts};
use crate::home::Home;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io;

/// The rows that are shown only if something needs attention.
const FAULTS: [&str; 5] = ["audit", "faults", "mappings", "plans", "waits"];

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    tool_and_show(home, out, ("conductor_get_status", json!({})), |out, status| show(out, home, status))
}

fn row(out: &mut Out, label: &str, text: impl Display) -> io::Result<()> {
    let tone = if FAULTS.contains(&label) { Tone::Note } else { Tone::Faint };
    out.table(&[vec![tone.cell(format_args!("{label:<8}")), cell(text)]])
}

fn show(out: &mut Out, home: &Home, status: &Value) -> io::Result<()> {
    let count = |key: &str| status["statistics"][key].as_u64().unwrap_or(0);
    let state = text(status, "lifecycle_state").to_lowercase();
    let (uptime, pid, home) = (&status["uptime_secs"], &status["pid"], home.root().display());
    row(out, "conductor", format_args!("{state} for {uptime} s, pid {pid}, home {home}"))?;
    let locked = if status["performance_lock"] == true { ", performance lock on" } else { "" };
    row(out, "mode", format_args!("{}{locked}", text(status, "current_mode")))?;
    let learning = &status["learning"];
    if let Some(until) = learning["until"].as_str() {
        let rest = if learning["let_through"] == true { "" } else { "; mapped actions pause until it ends" };
        let since = text(learning, "since");
        row(out, "learning", format_args!("since {since}, until {until} at the latest{rest}"))?;
    }
    match status["pending_plans"].as_u64() {
        None | Some(0) => {}
        Some(1) => row(out, "plans", "1 waits for you (see `conductor plans list`)")?,
        Some(many) => row(out, "plans", format_args!("{many} wait for you (see `conductor plans list`)"))?,
    }
    audit(out, &status["audit"])?;
    match status["device"]["name"].as_str() {
        Some(name) => {
            let alias = status["device"]["alias"].as_str().filter(|it| *it != name);
            row(out, "device", format_args!("{name}{}", alias.map(|it| format!(", {it}")).unwrap_or_default()))?;
        }
        None => row(out, "device", "none connected")?,
    }
    let (events, dropped) = (count("events_processed"), count("events_dropped"));
    let (executed, failed) = (count("actions_executed"), count("actions_failed"));
    row(out, "events", format_args!("{events} in, {dropped} dropped; {executed} done, {failed} failed"))?;
    config(out, &status["config"])?;
    for listener in list(status, "http") {
        let fingerprint = listener["fingerprint"].as_str().map(|it| format!(", {it}")).unwrap_or_default();
        row(out, "http", format_args!("{}{fingerprint}", text(listener, "url")))?;
    }
    for webhook in list(status, "webhooks") {
        let (name, waiting) = (text(webhook, "name"), &webhook["waiting"]);
        let (delivered, dropped) = (&webhook["delivered"], &webhook["dropped"]);
        let error = webhook["error"].as_str().map(|it| format!(": {}", escape(it))).unwrap_or_default();
        row(out, "webhook", format_args!("{name}: {delivered} sent, {waiting} waiting, {dropped} dropped{error}"))?;
    }
    if let Some(it) = status["cluster"].as_object().map(|_| &status["cluster"]) {
        let state = if it["connected"] == true { "connected" } else { "not connected" };
        let error = it["error"].as_str().map(|it| format!(": {}", escape(it))).unwrap_or_default();
        let (rig, server, waiting) = (text(it, "rig"), text(it, "server"), &it["unwitnessed"]);
        row(out, "cluster", format_args!("{rig} on {server}: {state}, {waiting} records not witnessed{error}"))?;
    }
    for backend in list(status, "backends") {
        let reason = backend["reason"].as_str().map(|it| format!(": {it}")).unwrap_or_default();
        row(out, "backend", format_args!("{} {}{reason}", text(backend, "name"), text(backend, "state")))?;
    }
    Ok(())
}

fn config(out: &mut Out, config: &Value) -> io::Result<()> {
    if let Some(error) = config["error"].as_str() {
        row(out, "config", format_args!("the old configuration is still in force: {error}"))?;
    } else {
        let hash = config["hash"].as_str().map_or("built in", |it| it.get(..15).unwrap_or(it));
        let disabled = match config["disabled_mappings"].as_u64() {
            None | Some(0) => String::new(),
            Some(rows) => format!(", {rows} rows disabled (see `conductor config check`)"),
        };
        row(out, "config", format_args!("{hash}, loaded {}{disabled}", text(config, "loaded_at")))?;
    }
    if let Some(why) = config["closed"].as_str() {
        row(out, "config", format_args!("no rights are granted: {why} (see `conductor config accept`)"))?;
    }
    let held = texts(config, "held").join(", ");
    if !held.is_empty() {
        let since = text(config, "held_since");
        row(
            out,
            "waits",
            format_args!("{} not in force since {since} (see `conductor config accept`)", escape(&held)),
        )?;
    }
    match config["faults"].as_u64() {
        None | Some(0) => {}
        Some(faults) => row(out, "faults", format_args!("{faults} in config.toml (see `conductor config check`)"))?,
    }
    for fault in texts(config, "fault_lines") {
        row(out, "", escape(fault))?;
    }
    let typing = texts(config, "unprotected").join(", ");
    if !typing.is_empty() {
        row(out, "mappings", format_args!("{} type keys or text and were added without a plan", escape(&typing)))?;
    }
    Ok(())
}

/// Prints one row for each problem of the audit log.
fn audit(out: &mut Out, audit: &Value) -> io::Result<()> {
    if let Some(reason) = audit["reason"].as_str() {
        row(out, "audit", format_args!("no tool is served: {reason}"))?;
    }
    if let Some(fault) = audit["copy_fault"].as_str() {
        row(out, "audit", format_args!("the second copy is behind: {fault}"))?;
    }
    match audit["waiting"].as_u64() {
        None | Some(0) => Ok(()),
        Some(waiting) => row(out, "audit", format_args!("{waiting} records wait in memory to be written")),
    }
}
