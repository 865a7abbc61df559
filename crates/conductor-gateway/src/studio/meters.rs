//! Metrics in the text format of Prometheus.
//!
//! The label `tool` is a tool name of the catalog or `_unknown`, so that no caller can create new
//! series.

use super::Studio;
use crate::histogram::Histogram;
use conductor_core::breaker::State;
use conductor_core::error::AuditResult;
use parking_lot::Mutex;
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
    plugin_restarts: BTreeMap<String, u64>,
}

impl Meters {
    pub fn call(&self, tool: &str, result: AuditResult, micros: u64) {
        let mut counted = self.0.lock();
        *counted.calls.entry((tool.to_owned(), result.as_str())).or_default() += 1;
        counted.durations.entry(tool.to_owned()).or_insert_with(|| Histogram::new(&BOUNDS_MS)).add(micros);
    }

    /// The number of calls, and the number of calls whose result is not ok.
    pub fn totals(&self) -> (u64, u64) {
        let counted = self.0.lock();
        let failed = counted.calls.iter().filter(|((_, result), _)| *result != AuditResult::Ok.as_str());
        (counted.calls.values().sum(), failed.map(|(_, count)| count).sum())
    }

    pub fn decision(&self, decision: &'static str, channel: &str) {
        *self.0.lock().decisions.entry((decision, channel.to_owned())).or_default() += 1;
    }

    pub fn plugin_restarted(&self, plugin: &str) {
        *self.0.lock().plugin_restarts.entry(plugin.to_owned()).or_default() += 1;
    }
}

/// All metrics as they are now.
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
    page.head("conductor_circuit_failures_total", "counter", "Failures that a circuit breaker counted");
    for it in &circuits {
        page.line("conductor_circuit_failures_total", &[("tool", &it.tool)], it.failures_total);
    }
    page.head("conductor_circuit_trips_total", "counter", "How often a circuit breaker tripped");
    for it in &circuits {
        page.line("conductor_circuit_trips_total", &[("tool", &it.tool)], it.trips_total);
    }
    let counted = studio.meters.0.lock();
    page.head("conductor_tool_calls_total", "counter", "Calls by tool and result");
    for ((tool, result), count) in &counted.calls {
        page.line("conductor_tool_calls_total", &[("tool", tool), ("result", result)], *count);
    }
    page.head("conductor_tool_duration_ms", "histogram", "Duration of calls, including the wait for a person");
    for (tool, durations) in &counted.durations {
        page.histogram("conductor_tool_duration_ms", Some(("tool", tool)), durations);
    }
    page.head("conductor_approvals_total", "counter", "Answers to approval requests");
    for ((decision, channel), count) in &counted.decisions {
        page.line("conductor_approvals_total", &[("decision", decision), ("channel", channel)], *count);
    }
    page.head("conductor_plugin_restarts_total", "counter", "Restarts of plugins");
    for (plugin, count) in &counted.plugin_restarts {
        page.line("conductor_plugin_restarts_total", &[("plugin", plugin)], *count);
    }
    drop(counted);
    let pending = studio.approvals.waiting();
    page.head("conductor_approvals_pending", "gauge", "Approval requests that wait for a person");
    page.line("conductor_approvals_pending", &[], pending as u64);
    page.head("conductor_audit_up", "gauge", "1 if records can be written");
    page.line("conductor_audit_up", &[], u64::from(studio.audit.up().is_ok()));
    if let Some(health) = studio.audit.health() {
        page.head("conductor_audit_records_total", "counter", "Records written since the start");
        page.line("conductor_audit_records_total", &[], health.records);
        page.head("conductor_audit_unanchored", "gauge", "Records after the last checkpoint");
        page.line("conductor_audit_unanchored", &[], health.unanchored);
        page.head("conductor_audit_sync_ms", "histogram", "Duration of syncs of the audit log");
        page.histogram("conductor_audit_sync_ms", None, &health.syncs);
    }
    page.0
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{} {value}", Labels(labels));
    }

    fn histogram(&mut self, name: &str, label: Option<(&str, &str)>, histogram: &Histogram) {
        let mut bucket = |bound: &str, count: u64| {
            let labels: Vec<_> = label.into_iter().chain([("le", bound)]).collect();
            self.line(&format!("{name}_bucket"), &labels, count);
        };
        histogram.buckets().for_each(|(bound, count)| bucket(&bound.to_string(), count));
        bucket("+Inf", histogram.count());
        self.line(&format!("{name}_sum"), label.as_slice(), histogram.sum_ms());
        self.line(&format!("{name}_count"), label.as_slice(), histogram.count());
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
