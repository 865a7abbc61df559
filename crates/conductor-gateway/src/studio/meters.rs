//! Numbers for a monitoring system, in the text format of Prometheus. Counted here; written when
//! somebody asks.
//!
//! `tool` is a name of the catalog or `_unknown`, so that no caller can make new series.

use super::Studio;
use crate::audit_log::SYNC_BOUNDS_MS;
use conductor_core::breaker::State;
use conductor_core::error::AuditResult;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Upper bounds of a call's duration, in milliseconds.
const BOUNDS_MS: [u64; 14] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000];

#[derive(Default)]
pub struct Meters(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    calls: BTreeMap<(String, &'static str), u64>,
    durations: BTreeMap<String, Histogram>,
    decisions: BTreeMap<(&'static str, String), u64>,
    /// Of plugins that were started again.
    restarts: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BOUNDS_MS.len()],
    count: u64,
    sum_us: u64,
}

impl Meters {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock()
    }

    pub fn call(&self, tool: &str, result: AuditResult, micros: u64) {
        let mut counted = self.lock();
        *counted.calls.entry((tool.to_owned(), result.as_str())).or_default() += 1;
        let histogram = counted.durations.entry(tool.to_owned()).or_default();
        for (bucket, bound) in histogram.buckets.iter_mut().zip(BOUNDS_MS) {
            *bucket += u64::from(micros <= bound * 1000);
        }
        histogram.count += 1;
        histogram.sum_us += micros;
    }

    pub fn decision(&self, decision: &'static str, channel: &str) {
        *self.lock().decisions.entry((decision, channel.to_owned())).or_default() += 1;
    }

    pub fn plugin_restarted(&self, plugin: &str) {
        *self.lock().restarts.entry(plugin.to_owned()).or_default() += 1;
    }
}

/// Everything at this moment.
pub fn exposition(studio: &Studio) -> String {
    let mut page = Page(String::new());
    let circuits = studio.circuits.list();
    page.head("conductor_circuit_state", "gauge", "0 Passing, 1 Probing, 2 Tripped");
    for it in &circuits {
        let state = match it.state {
            State::Passing => 0,
            State::Probing => 1,
            State::Tripped => 2,
        };
        page.line("conductor_circuit_state", &[("tool", &it.tool)], state);
    }
    page.head("conductor_circuit_failures_total", "counter", "Failures that counted for a breaker");
    for it in &circuits {
        page.line("conductor_circuit_failures_total", &[("tool", &it.tool)], it.failures_total);
    }
    page.head("conductor_circuit_trips_total", "counter", "How often a breaker tripped");
    for it in &circuits {
        page.line("conductor_circuit_trips_total", &[("tool", &it.tool)], it.trips_total);
    }
    let counted = studio.meters.lock();
    page.head("conductor_tool_calls_total", "counter", "Calls by tool and result");
    for ((tool, result), count) in &counted.calls {
        page.line("conductor_tool_calls_total", &[("tool", tool), ("result", result)], *count);
    }
    page.head("conductor_tool_duration_ms", "histogram", "Whole calls, waiting for a person included");
    for (tool, it) in &counted.durations {
        for (bound, count) in BOUNDS_MS.iter().zip(it.buckets) {
            page.line("conductor_tool_duration_ms_bucket", &[("tool", tool), ("le", &bound.to_string())], count);
        }
        page.line("conductor_tool_duration_ms_bucket", &[("tool", tool), ("le", "+Inf")], it.count);
        page.real("conductor_tool_duration_ms_sum", &[("tool", tool)], it.sum_us as f64 / 1000.0);
        page.line("conductor_tool_duration_ms_count", &[("tool", tool)], it.count);
    }
    page.head("conductor_approvals_total", "counter", "Answers of people");
    for ((decision, channel), count) in &counted.decisions {
        page.line("conductor_approvals_total", &[("decision", decision), ("channel", channel)], *count);
    }
    page.head("conductor_plugin_restarts_total", "counter", "Plugins that were started again");
    for (plugin, count) in &counted.restarts {
        page.line("conductor_plugin_restarts_total", &[("plugin", plugin)], *count);
    }
    drop(counted);
    let pending = studio.approvals.waiting();
    page.head("conductor_approvals_pending", "gauge", "Questions that wait for a person");
    page.line("conductor_approvals_pending", &[], pending as u64);
    page.head("conductor_audit_up", "gauge", "1 when a record can be written");
    page.line("conductor_audit_up", &[], u64::from(studio.audit.up().is_ok()));
    if let Some(health) = studio.audit.health() {
        page.head("conductor_audit_records_total", "counter", "Records written since the start");
        page.line("conductor_audit_records_total", &[], health.records);
        page.head("conductor_audit_unanchored", "gauge", "Records behind the last checkpoint");
        page.line("conductor_audit_unanchored", &[], health.unanchored);
        page.head("conductor_audit_sync_ms", "histogram", "Syncs of the log");
        for (bound, count) in SYNC_BOUNDS_MS.iter().zip(health.sync_buckets) {
            page.line("conductor_audit_sync_ms_bucket", &[("le", &bound.to_string())], count);
        }
        page.line("conductor_audit_sync_ms_bucket", &[("le", "+Inf")], health.syncs);
        page.line("conductor_audit_sync_ms_sum", &[], health.sync_ms);
        page.line("conductor_audit_sync_ms_count", &[], health.syncs);
    }
    page.0
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let _ = writeln!(self.0, "{name}{} {value}", Labels(labels));
    }

    fn real(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = writeln!(self.0, "{name}{} {value}", Labels(labels));
    }
}

struct Labels<'a>(&'a [(&'a str, &'a str)]);

impl std::fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        for (index, (name, value)) in self.0.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, "{}{name}=\"{value}\"", if index == 0 { '{' } else { ',' })?;
        }
        f.write_str("}")
    }
}
