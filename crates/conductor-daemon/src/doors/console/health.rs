//! Samples of counters and gauges, for the graphs of the console.

use super::Console;
use conductor_core::breaker;
use conductor_core::event::Micros;
use conductor_gateway::report::MetersNow;
use conductor_hosts::system::memory;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Time between two samples.
pub const INTERVAL_MS: u64 = 2000;
/// One hour of samples.
const MOST: usize = 1800;

#[derive(Default)]
pub struct Health {
    samples: Mutex<VecDeque<Value>>,
    /// Number and total duration of the audit log's syncs at the last sample.
    syncs: Mutex<(u64, f64)>,
}

impl Health {
    pub fn samples(&self) -> Vec<Value> {
        self.samples.lock().iter().cloned().collect()
    }

    /// The mean duration of the syncs since the last call.
    fn sync_ms(&self, count: u64, sum_ms: f64) -> Option<f64> {
        let (old_count, old_sum) = std::mem::replace(&mut *self.syncs.lock(), (count, sum_ms));
        let new = count.checked_sub(old_count).filter(|it| *it > 0)?;
        Some((sum_ms - old_sum) / new as f64)
    }
}

/// Takes samples until the daemon stops.
pub async fn run(console: Arc<Console>, stop: CancellationToken) {
    let studio = Arc::clone(console.studio());
    loop {
        let next = studio.clock.now().plus_us(INTERVAL_MS * 1000);
        tokio::select! {
            () = studio.sleeper.until(next) => {}
            () = stop.cancelled() => return,
        }
        console.control.gateway.consoles.reap();
        // No firing is newer than this time, so the answer lists no firings.
        let Ok(meters) = console.control.handle.meters(Micros(u64::MAX)).await else { return };
        let sample = console.sample(&meters);
        let has_readers = *console.control.gateway.consoles.watch().borrow() > 0;
        if has_readers {
            console.feed.push("health", sample.clone());
            if console.refresh(&meters).await.is_none() {
                return;
            }
        }
        let mut samples = console.health.samples.lock();
        if samples.len() >= MOST {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

impl Console {
    fn sample(&self, meters: &MetersNow) -> Value {
        let studio = self.studio();
        let (calls, call_errors) = studio.meters.totals();
        let open = studio.circuits.list().iter().filter(|it| it.state != breaker::State::Passing).count();
        let audit = studio.audit_health();
        let (p50, p99) = self.seen.lock().frame.latencies.sample();
        json!({
            "at_ms": studio.clock.wall_ms(),
            "events": meters.statistics.events_processed, "actions": meters.statistics.actions_executed,
            "dropped": meters.statistics.events_dropped, "failed": meters.statistics.actions_failed,
            "calls": calls, "call_errors": call_errors,
            "waiting": studio.approvals.waiting(), "circuits_open": open, "memory_bytes": memory::resident_bytes(),
            "latency_p50_us": p50, "latency_p99_us": p99,
            "audit_records": audit.as_ref().map(|it| it.records),
            "audit_unanchored": audit.as_ref().map(|it| it.unanchored),
            "audit_sync_ms": audit.as_ref().and_then(|it| self.health.sync_ms(it.syncs.count(), it.syncs.sum_ms())),
        })
    }
}
