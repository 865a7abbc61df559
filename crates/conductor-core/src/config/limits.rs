//! Reads `[limits]`, `[circuit]` and `[retry]`. A key with a fault gets its default value; the
//! other keys keep their values.
//!
//! Not here: the limits themselves (`crate::policy::limits`) and the breaker (`crate::breaker`).

use super::reader::{Fields, Reader};
use super::tree::Node;
use crate::breaker::Settings;
use crate::policy::limits::{Limits, Rate, Retry};
use std::collections::BTreeMap;

/// `[circuit]`, with the complete settings of each tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Settings of tools that have no entry in `tools`.
    pub base: Settings,
    /// Settings of single tools. A key that is missing in the file has the tool's built-in value,
    /// or else the value of `base`.
    pub tools: BTreeMap<String, Settings>,
}

impl Circuit {
    fn over(base: Settings) -> Self {
        let own =
            |&(tool, failures, open_ms): &(&str, u32, u64)| (tool.to_owned(), Settings { failures, open_ms, ..base });
        Circuit { base, tools: Settings::BUILT_IN.iter().map(own).collect() }
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Circuit::over(Settings::default())
    }
}

pub(crate) fn limits<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Limits> {
    let mut f = r.table(node)?;
    let d = Limits::default();
    let limits = Limits {
        in_flight: f.or(r, "in_flight", d.in_flight, |r, it| r.whole(it, 1, 65_536)),
        result_bytes: f.or(r, "result_bytes", d.result_bytes, |r, it| r.whole(it, 1024, 64 << 20)),
        read: f.or(r, "read", d.read, |r, it| rate(r, it, d.read)),
        effect: f.or(r, "effect", d.effect, |r, it| rate(r, it, d.effect)),
        pending_per_principal: f.or(r, "pending_per_principal", d.pending_per_principal, |r, it| {
            // 32 is also the limit for all principals together.
            r.whole(it, 1, 32)
        }),
        asks_per_minute: f.or(r, "asks_per_minute", d.asks_per_minute, |r, it| r.whole(it, 1, 600)),
        ..d
    };
    f.finish(r);
    Some(limits)
}

fn rate<'t>(r: &mut Reader<'t>, node: &'t Node, default: Rate) -> Option<Rate> {
    let mut f = r.table(node)?;
    let rate = Rate {
        per_minute: f.or(r, "per_minute", default.per_minute, |r, it| r.whole(it, 1, 1_000_000)),
        burst: f.or(r, "burst", default.burst, |r, it| r.whole(it, 1, 1_000_000)),
    };
    f.finish(r);
    Some(rate)
}

pub(crate) fn circuit<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Circuit> {
    let mut f = r.table(node)?;
    let mut circuit = Circuit::over(breaker(r, &mut f, Settings::default()));
    let tools = f.opt(r, "tools", |r, it| {
        r.map_of(it, |r, entry| {
            let default = circuit.tools.get(&entry.key).copied().unwrap_or(circuit.base);
            let mut f = r.table(&entry.node)?;
            let own = breaker(r, &mut f, default);
            f.finish(r);
            Some(own)
        })
    });
    circuit.tools.extend(tools.unwrap_or_default());
    f.finish(r);
    Some(circuit)
}

fn breaker<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, d: Settings) -> Settings {
    Settings {
        mode: f.or(r, "mode", d.mode, Reader::named),
        failures: f.or(r, "failures", d.failures, |r, it| r.whole(it, 1, 1000)),
        window_ms: f.or(r, "window_ms", d.window_ms, |r, it| r.whole(it, 1, 86_400_000)),
        open_ms: f.or(r, "open_ms", d.open_ms, |r, it| r.whole(it, 1, 86_400_000)),
        close_after: f.or(r, "close_after", d.close_after, |r, it| r.whole(it, 1, 100)),
    }
}

pub(crate) fn retry<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Retry> {
    let mut f = r.table(node)?;
    let d = Retry::default();
    let retry = Retry {
        attempts: f.or(r, "attempts", d.attempts, |r, it| r.whole(it, 1, 10)),
        base_ms: f.or(r, "base_ms", d.base_ms, |r, it| r.whole(it, 1, 60_000)),
        cap_ms: f.or(r, "cap_ms", d.cap_ms, |r, it| r.whole(it, 1, 600_000)),
    };
    f.finish(r);
    Some(retry)
}
