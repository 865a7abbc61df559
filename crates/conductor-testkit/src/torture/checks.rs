//! The invariants that are checked after each fault.

use super::calls::{EFFECT, Promised, effect};
use super::control::Client;
use super::daemon::{Daemon, Resources};
use super::faults::Fault;
use super::{Stage, World, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

pub const LOGGED: &str = "every acknowledged call is in the log";
pub const VERDICT: &str = "the audit log is intact";
pub const NO_STUCK_NOTE: &str = "no note is stuck";
pub const ANSWERED: &str = "every call is answered";
pub const RESOURCES: &str = "memory, descriptors and threads are near the baseline";
pub const PLANS: &str = "plans are consistent";
pub const CONFIG: &str = "the configuration is applied as a whole";
pub const EFFECTS: &str = "every acknowledged effect is in its host";
pub const RECOVERED: &str = "the daemon recovers from the fault";

/// A violated invariant.
#[derive(Clone, Debug)]
pub struct Breach {
    pub invariant: &'static str,
    pub text: String,
}

/// Number of times that each note sounds on the synth, by note number.
type Sounding = BTreeMap<u8, i64>;

struct Held {
    hand: Client,
    heard: Receiver<Vec<u8>>,
}

pub struct Checks {
    held: Option<Held>,
    baseline: Resources,
}

/// Receives the messages that are sent to the synth, until the stream ends.
fn listen(daemon: &Daemon) -> Result<Receiver<Vec<u8>>, String> {
    let mut client = daemon.client()?;
    client.ask("monitor", json!({ "port": "synth" })).map_err(|it| it.to_string())?;
    let (sender, heard) = channel();
    thread::spawn(move || {
        // Remove the time limit for answers: it would end the stream while nothing is played.
        let _ = client.set_patience(None);
        while let Ok(item) = client.next_item() {
            let bytes = item["bytes"]
                .as_array()
                .map_or(Vec::new(), |it| it.iter().filter_map(|it| it.as_u64().map(|it| it as u8)).collect());
            if sender.send(bytes).is_err() {
                break;
            }
        }
    });
    Ok(heard)
}

impl Checks {
    /// Measures the resources of a daemon that has used each of its hosts.
    pub fn new(stage: &Stage) -> Result<Self, String> {
        let mut client = stage.daemon.client()?;
        for _ in 0..20 {
            stage.promised.call(&mut client, EFFECT, effect()).map_err(|it| it.to_string())?;
        }
        Ok(Checks { held: None, baseline: stage.daemon.resources() })
    }

    /// Presses the pad whose note sounds until the pad is released.
    pub fn hold_a_note(&mut self, daemon: &Daemon) {
        self.held = None;
        let (Ok(heard), Ok(mut hand)) = (listen(daemon), daemon.client()) else { return };
        if daemon.play(&mut hand, [0x90, 38, 100]).is_ok() {
            self.held = Some(Held { hand, heard });
        }
    }

    /// Checks all invariants. With `lets_go`, the held pad is released first.
    pub fn run(&mut self, stage: &Stage, fault: Fault, lets_go: bool) -> Vec<Breach> {
        let Stage { daemon, promised, world, .. } = stage;
        let mut found = Vec::new();
        let mut note = |invariant, result: Result<(), String>| {
            if let Err(text) = result {
                found.push(Breach { invariant, text });
            }
        };
        if let Some(held) = self.held.take() {
            note(NO_STUCK_NOTE, no_stuck_note(daemon, held, fault, lets_go));
        }
        let unanswered = promised.unanswered.swap(0, Ordering::Relaxed);
        note(ANSWERED, if unanswered == 0 { Ok(()) } else { Err(format!("{unanswered} calls were not answered")) });
        note(EFFECTS, tempo(stage));
        note(LOGGED, logged(daemon, promised));
        note(VERDICT, until(100, || verdict(daemon)));
        note(PLANS, plans(daemon));
        note(CONFIG, until(200, || config(daemon, world)));
        note(RESOURCES, until(800, || self.resources(daemon)));
        found
    }

    fn resources(&self, daemon: &Daemon) -> Result<(), String> {
        let now = daemon.resources();
        let is_back = now.children <= self.baseline.children
            && now.descriptors <= self.baseline.descriptors + 10
            && now.threads <= self.baseline.threads + 6
            && now.resident_kb <= self.baseline.resident_kb * 2 + 32_000;
        if is_back { Ok(()) } else { Err(format!("{now:?}; the baseline is {:?}", self.baseline)) }
    }
}

/// Live must have the tempo that was acknowledged last.
fn tempo(stage: &Stage) -> Result<(), String> {
    let (Some(live), Some(promised)) = (&stage.parts.live, *stage.promised.tempo.lock()) else { return Ok(()) };
    match live.tempo().get() {
        Some(found) if found == f64::from(promised) => Ok(()),
        found => Err(format!("tempo {promised} was acknowledged, Live has {found:?}")),
    }
}

fn logged(daemon: &Daemon, promised: &Promised) -> Result<(), String> {
    let logged = daemon.logged_calls();
    for (tool, acknowledged) in promised.acknowledged() {
        let logged = logged.get(tool).copied().unwrap_or(0);
        if logged < acknowledged {
            return Err(format!("{tool}: {acknowledged} acknowledged, {logged} in the log"));
        }
    }
    Ok(())
}

fn no_stuck_note(daemon: &Daemon, held: Held, fault: Fault, lets_go: bool) -> Result<(), String> {
    let Held { mut hand, heard } = held;
    if lets_go {
        // Ignore an error: the daemon may have ended, and its end also releases the note.
        let _ = daemon.play(&mut hand, [0x80, 38, 0]);
        drop(hand);
    } else {
        // Leak the connection, so that it stays open and the pad stays pressed.
        std::mem::forget(hand);
    }
    if fault.kills() {
        return Ok(());
    }
    let mut sounding = Sounding::new();
    until(60, || {
        while let Ok(bytes) = heard.try_recv() {
            match bytes[..] {
                [0x90, note, velocity] if velocity > 0 => *sounding.entry(note).or_default() += 1,
                [0x80 | 0x90, note, _] => _ = sounding.remove(&note),
                _ => {}
            }
        }
        if sounding.is_empty() { Ok(()) } else { Err(format!("still sounding: {sounding:?}")) }
    })
}

fn verdict(daemon: &Daemon) -> Result<(), String> {
    let (code, text) = daemon.command(&["--json", "audit", "verify"]);
    let verdict: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_default();
    if code == 0 && verdict["verdict"] == "INTACT" { Ok(()) } else { Err(format!("exit code {code}: {text}")) }
}

fn plans(daemon: &Daemon) -> Result<(), String> {
    let mapping = json!({
        "mode": "Default", "trigger": { "type": "Note", "note": 50 },
        "action": { "type": "SendMidi", "port": "synth", "message_type": "CC", "channel": 0, "controller": 1, "value": 1 },
    });
    let mut client = daemon.client()?;
    // The call is refused while too many plans wait for an answer.
    let _ = client.call("conductor_create_mapping", mapping);
    client.call("conductor_list_plans", json!({})).map_err(|it| format!("plans cannot be listed: {it}"))?;
    for file in fs::read_dir(daemon.home.join("state/plans")).map_err(|it| it.to_string())?.flatten() {
        if file.path().extension() == Some("json".as_ref()) {
            let bytes = fs::read(file.path()).map_err(|it| it.to_string())?;
            serde_json::from_slice::<Value>(&bytes).map_err(|it| format!("{:?}: {it}", file.file_name()))?;
        }
    }
    Ok(())
}

/// Checks that both pads send the value that is in the file.
fn config(daemon: &Daemon, world: &World) -> Result<(), String> {
    let heard = listen(daemon)?;
    let mut hand = daemon.client()?;
    for note in [36, 37] {
        daemon.play(&mut hand, [0x90, note, 100])?;
        daemon.play(&mut hand, [0x80, note, 0])?;
    }
    let mut values = BTreeMap::new();
    while values.len() < 2 {
        match heard.recv_timeout(Duration::from_secs(2)).as_deref() {
            Ok(&[0xB0, controller @ (20 | 21), value]) => _ = values.insert(controller, value),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let expected = BTreeMap::from([(20, world.value), (21, world.value)]);
    if values == expected { Ok(()) } else { Err(format!("the pads send {values:?}, the file has {}", world.value)) }
}
