//! `conductor monitor`: shows devices, events, fired mappings with reasons, latency and drops. On a
//! terminal it redraws one screen. Otherwise it prints a summary, and then one line per record
//! until it is interrupted. With `--port` it prints the bytes that are sent to a port.

use super::args::Monitor;
use super::{Failure, Verdict, devices, list, out::Out, text};
use crate::doors::control::client::Client;
use crate::home::Home;
use conductor_core::text::escape;
use conductor_hosts::system::{Clock, RealClock};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Minimum time between two redraws.
const REDRAW_US: u64 = 50_000;
/// The screen is redrawn after this time even without a new item, because its size may have
/// changed.
const REFRESH: Duration = Duration::from_secs(1);
/// Number of latencies from which the percentiles are computed.
const LATENCIES: usize = 500;
/// Number of lines that are kept, in case the terminal becomes larger.
const LINES: usize = 500;
/// Rows and columns to assume for a terminal that does not report its size.
const SCREEN: (usize, usize) = (24, 80);

pub fn run(args: Monitor, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut client = Client::connect(&home.control_socket())?;
    let is_view = args.port.is_none() && !out.is_json();
    client.ask("monitor", json!({ "port": args.port, "state": is_view }))?;
    if is_view && io::stdout().is_terminal() {
        return watch(client, out);
    }
    if is_view && let Some(state) = client.next_item()? {
        let lines = head(&state["status"]).into_iter().chain(device_lines(&state["bindings"]));
        for line in lines.chain([String::new()]) {
            out.line(escape(&line))?;
        }
        out.finish()?;
    }
    while let Some(item) = client.next_item()? {
        if item["status"].is_null() {
            out.show(&item, |out, item| out.line(escape(&line(item))))?;
            out.finish()?;
        }
    }
    Ok(Verdict::Good)
}

/// Draws until the daemon ends or the person interrupts the command. The terminal mode is not
/// changed, so the terminal works normally after an interrupt and shows the last screen.
fn watch(mut stream: Client, out: &mut Out) -> Result<Verdict, Failure> {
    let (sender, items) = sync_channel(LINES);
    // A separate thread waits for items of the daemon. It ends with the command.
    std::thread::Builder::new().name("records".into()).spawn(move || {
        while let Ok(Some(item)) = stream.next_item() {
            if sender.send(item).is_err() {
                return;
            }
        }
    })?;
    let clock = RealClock::new();
    let mut view = View::default();
    out.control("\x1b[2J")?;
    loop {
        let drawn = clock.now();
        let mut patience = REFRESH;
        loop {
            match view.take_next(&items, patience) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return ended(out),
            }
            patience = Duration::from_micros(drawn.plus_us(REDRAW_US).since(clock.now()));
        }
        draw(out, &view.picture(screen()))?;
    }
}

fn ended(out: &mut Out) -> Result<Verdict, Failure> {
    out.line("the daemon ended")?;
    Ok(Verdict::Good)
}

fn screen() -> (usize, usize) {
    conductor_hosts::system::terminal::size(io::stdout()).filter(|it| it.0 > 0 && it.1 > 0).unwrap_or(SCREEN)
}

/// Overwrites the screen line by line and clears the rest at the end, so that the screen does not
/// flicker.
fn draw(out: &mut Out, lines: &[String]) -> io::Result<()> {
    out.control("\x1b[H")?;
    for line in lines {
        out.text(line)?;
        out.control("\x1b[K\r\n")?;
    }
    out.control("\x1b[J")?;
    out.finish()
}

/// The items received so far.
#[derive(Default)]
struct View {
    status: Value,
    bindings: Value,
    lines: VecDeque<String>,
    latencies: VecDeque<u64>,
    next_seq: Option<u64>,
    /// Number of records that were lost because they arrived faster than they were read.
    missed: u64,
}

impl View {
    fn take_next(&mut self, items: &Receiver<Value>, patience: Duration) -> Result<(), RecvTimeoutError> {
        let item = items.recv_timeout(patience)?;
        self.take(&item);
        Ok(())
    }

    fn take(&mut self, item: &Value) {
        if item["status"].is_object() {
            (self.status, self.bindings) = (item["status"].clone(), item["bindings"].clone());
            return;
        }
        if let Some(seq) = item["seq"].as_u64() {
            self.missed += self.next_seq.map_or(0, |next| seq.saturating_sub(next));
            self.next_seq = Some(seq + 1);
        }
        keep(&mut self.lines, line(item), LINES);
        if let Some(latency) = item["latency_us"].as_u64() {
            keep(&mut self.latencies, latency, LATENCIES);
        }
    }

    /// The lines of one screen, with the newest record last.
    fn picture(&self, (rows, columns): (usize, usize)) -> Vec<String> {
        let mut lines: Vec<String> = head(&self.status).into_iter().chain([self.latency()]).collect();
        lines.extend(device_lines(&self.bindings));
        lines.extend(list(&self.status, "backends").iter().filter(|it| it["reason"].is_string()).map(|it| {
            let (name, reason) = (text(it, "name"), text(it, "reason"));
            format!("  {:<12} {:<10} {reason}", name, text(it, "state"))
        }));
        lines.push(match self.lines.is_empty() {
            true => "Play a control. Press Ctrl-C to stop.".to_owned(),
            false => "device, event, mapping, gesture, outcome and reason (latency)".to_owned(),
        });
        // The last row stays empty, because a line break there would scroll the screen.
        let left = rows.saturating_sub(lines.len() + 1);
        lines.extend(self.lines.iter().skip(self.lines.len().saturating_sub(left)).map(|it| format!("  {it}")));
        lines.truncate(rows.saturating_sub(1));
        lines.iter().map(|it| escape(it).chars().take(columns).collect()).collect()
    }

    fn latency(&self) -> String {
        let mut sorted: Vec<u64> = self.latencies.iter().copied().collect();
        sorted.sort_unstable();
        let at = |share: usize| sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
        let missed = if self.missed == 0 { String::new() } else { format!(", {} records not shown", self.missed) };
        match (at(50), at(99), sorted.last()) {
            (Some(p50), Some(p99), Some(most)) => {
                format!("latency p50 {p50} us, p99 {p99} us, max {most} us (of the last {}){missed}", sorted.len())
            }
            (_, _, _) => format!("latency: no measurement yet{missed}"),
        }
    }
}

fn keep<T>(all: &mut VecDeque<T>, new: T, most: usize) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(new);
}

/// The summary above the records.
fn head(status: &Value) -> Vec<String> {
    let count = |key: &str| status["statistics"][key].as_u64().unwrap_or(0);
    let mut lines = vec![format!(
        "mode {}, {} events received, {} dropped, {} actions, {} failed",
        text(status, "current_mode"),
        count("events_processed"),
        count("events_dropped"),
        count("actions_executed"),
        count("actions_failed")
    )];
    let state = text(status, "lifecycle_state");
    if state != "Running" {
        lines.push(format!(
            "{state}{}",
            status["config"]["error"].as_str().map_or_else(String::new, |it| format!(": {it}"))
        ));
    }
    lines
}

fn device_lines(bindings: &Value) -> Vec<String> {
    let row = |row: &Value| {
        format!("  {:<12} {:<10} {}", text(row, "device_id"), devices::state(row), text(row, "port_name"))
    };
    list(bindings, "device_bindings").iter().map(row).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, latency_us: u64) -> Value {
        json!({ "seq": seq, "device": "pads", "event": format!("on:{seq}"), "outcome": "fired", "latency_us": latency_us })
    }

    fn now() -> Value {
        let status = json!({ "current_mode": "Play", "lifecycle_state": "Reconnecting",
            "statistics": { "events_processed": 9, "events_dropped": 2, "actions_executed": 5, "actions_failed": 1 },
            "backends": [{ "name": "loopback", "state": "ready", "reason": null }, { "name": "jack", "state": "missing", "reason": "no server" }] });
        let bindings = json!({ "device_bindings": [
            { "device_id": "pads", "port_name": "Pads\u{1b}[2J", "connected": true, "enabled": false },
            { "device_id": "keys", "port_name": null, "connected": false, "enabled": true }] });
        json!({ "status": status, "bindings": bindings })
    }

    #[test]
    fn the_newest_records_stand_below_devices_figures_and_drops() {
        let mut view = View::default();
        for seq in 1..=40 {
            view.take(&record(seq, seq * 10));
        }
        view.take(&record(44, 7));
        view.take(&now());
        let picture = view.picture((12, 80));
        let whole = picture.join("\n");
        assert_eq!(picture.len(), 11, "{whole}");
        assert_eq!(picture[0], "mode Play, 9 events received, 2 dropped, 5 actions, 1 failed");
        assert_eq!(picture[1], "Reconnecting");
        assert_eq!(picture[2], "latency p50 200 us, p99 400 us, max 400 us (of the last 41), 3 records not shown");
        assert!(
            picture[3].contains("muted") && picture[3].contains("\\u{1b}[2J"),
            "control characters are not escaped: {whole}"
        );
        assert!(picture[4].contains("absent") && picture[5].contains("no server"), "{whole}");
        assert_eq!(picture[10], "  pads on:44 fired (7 us)");
        assert_eq!(picture[9], "  pads on:40 fired (400 us)");
    }

    #[test]
    fn a_terminal_of_any_size_gets_a_picture() {
        let mut view = View::default();
        view.take(&now());
        for rows in 0..9 {
            for columns in [0, 1, 80] {
                let picture = view.picture((rows, columns));
                assert!(picture.len() <= rows.saturating_sub(1));
                assert!(picture.iter().all(|it| it.chars().count() <= columns), "{picture:?}");
            }
        }
    }
}
