//! The invariants, and a way to break each invariant.

use super::control::Client;
use super::daemon::{Daemon, Resources};
use super::faults::{Fault, World};
use super::{EFFECT, Promised, call_effect, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A guarantee that a negative control removes. The check of this guarantee must notice that.
#[cfg(feature = "broken")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Acknowledged calls are not written to the log.
    Log,
    /// A record of the log is changed.
    Verdict,
    /// A released pad does not release its note.
    Note,
    /// The daemon does not answer.
    Answer,
    /// Descriptors are not closed.
    Resources,
    /// A plan is half written.
    Plans,
    /// Only one of two changed mappings is in force.
    Config,
}

#[cfg(feature = "broken")]
impl Broken {
    pub const ALL: [Broken; 7] =
        [Broken::Log, Broken::Verdict, Broken::Note, Broken::Answer, Broken::Resources, Broken::Plans, Broken::Config];

    /// The invariant that is violated without this guarantee.
    pub fn invariant(self) -> &'static str {
        match self {
            Broken::Log => LOGGED,
            Broken::Verdict => VERDICT,
            Broken::Note => NO_STUCK_NOTE,
            Broken::Answer => ANSWERED,
            Broken::Resources => RESOURCES,
            Broken::Plans => PLANS,
            Broken::Config => CONFIG,
        }
    }

    pub fn apply(self, daemon: &mut Daemon, world: &mut World) -> Result<(), String> {
        use super::daemon::Disk;
        use rustix::process::Signal;
        use std::os::unix::fs::FileExt as _;
        match self {
            Broken::Log => {
                super::faults::heal(daemon)?;
                daemon.set_disk(Disk::WritesLost);
                super::pause(300);
                daemon.end(Signal::KILL);
                daemon.set_disk(Disk::Works);
            }
            Broken::Verdict => {
                daemon.end(Signal::KILL);
                let segment = daemon.segment().ok_or("there is no audit log")?;
                let file = fs::File::options().write(true).open(segment).map_err(|it| it.to_string())?;
                file.write_all_at(b"#", 40).map_err(|it| it.to_string())?;
            }
            Broken::Answer => {
                super::faults::heal(daemon)?;
                daemon.signal(Signal::STOP);
                super::pause(15_000);
                daemon.signal(Signal::CONT);
            }
            Broken::Resources => {
                super::faults::heal(daemon)?;
                daemon.set_disk(Disk::ClosesLost);
                for _ in 0..60 {
                    drop(daemon.client());
                }
                super::pause(500);
                daemon.set_disk(Disk::Works);
            }
            Broken::Plans => {
                fs::write(daemon.home.join("state/plans/half.json"), "{\"id\":").map_err(|it| it.to_string())?
            }
            Broken::Config => {
                let text = super::daemon::config(world.value, world.osc_port);
                let other = text.replace(
                    &format!("controller = 21, value = {}", world.value),
                    &format!("controller = 21, value = {}", world.value + 1),
                );
                fs::write(daemon.home.join("config.toml"), other).map_err(|it| it.to_string())?;
                super::pause(1000);
            }
            Broken::Note => {}
        }
        Ok(())
    }
}

pub const LOGGED: &str = "every acknowledged call is in the log";
pub const VERDICT: &str = "the audit log is intact";
pub const NO_STUCK_NOTE: &str = "no note is stuck";
pub const ANSWERED: &str = "every call is answered";
pub const RESOURCES: &str = "memory, descriptors and threads are near the baseline";
pub const PLANS: &str = "plans are consistent";
pub const CONFIG: &str = "the configuration is applied as a whole";

/// Number of times that each note sounds on the synth, by note number.
type Sounding = BTreeMap<u8, i64>;

struct Held {
    hand: Client,
    heard: Receiver<Vec<u8>>,
}

pub struct Checks {
    /// Number of acknowledged calls that were not made by the worker.
    own_calls: usize,
    held: Option<Held>,
    baseline: Resources,
}

/// Receives the messages that are sent to the synth, until the stream ends.
fn listen(daemon: &Daemon) -> Result<Receiver<Vec<u8>>, String> {
    let mut client = daemon.client()?;
    client.ask("monitor", json!({ "port": "synth" })).map_err(|it| it.to_string())?;
    let (sender, heard) = channel();
    thread::spawn(move || {
        // A time limit for answers would end the stream while nothing is played.
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
    pub fn new(daemon: &Daemon) -> Result<Self, String> {
        let mut checks = Checks { own_calls: 0, held: None, baseline: daemon.resources() };
        let mut client = daemon.client()?;
        for _ in 0..20 {
            call_effect(&mut client).map_err(|it| it.to_string())?;
            checks.own_calls += 1;
        }
        drop(client);
        checks.baseline = daemon.resources();
        Ok(checks)
    }

    /// Presses the pad whose note sounds until the pad is released.
    pub fn hold_a_note(&mut self, daemon: &Daemon) {
        self.held = None;
        let (Ok(heard), Ok(mut hand)) = (listen(daemon), daemon.client()) else { return };
        if daemon.play(&mut hand, [0x90, 38, 100]).is_ok() {
            self.held = Some(Held { hand, heard });
        }
    }

    pub fn run(
        &mut self,
        daemon: &mut Daemon,
        promised: &Promised,
        world: &World,
        fault: Fault,
        lets_go: bool,
    ) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut note = |invariant, result: Result<(), String>| {
            if let Err(text) = result {
                found.push((invariant, text));
            }
        };
        if let Some(held) = self.held.take() {
            note(NO_STUCK_NOTE, no_stuck_note(daemon, held, fault, lets_go));
        }
        let unanswered = promised.unanswered.swap(0, Ordering::Relaxed);
        note(ANSWERED, if unanswered == 0 { Ok(()) } else { Err(format!("{unanswered} calls were not answered")) });
        note(LOGGED, self.logged(daemon, promised));
        note(VERDICT, until(100, || verdict(daemon)));
        note(PLANS, plans(daemon));
        note(CONFIG, until(200, || config(daemon, world)));
        note(RESOURCES, until(800, || self.resources(daemon)));
        found
    }

    fn logged(&self, daemon: &Daemon, promised: &Promised) -> Result<(), String> {
        let acknowledged = promised.acknowledged.load(Ordering::Relaxed) + self.own_calls;
        let logged = daemon.logged_calls(EFFECT);
        if logged >= acknowledged {
            Ok(())
        } else {
            Err(format!("{acknowledged} calls were acknowledged, {logged} are in the log"))
        }
    }

    fn resources(&self, daemon: &Daemon) -> Result<(), String> {
        let now = daemon.resources();
        let is_back = now.descriptors <= self.baseline.descriptors + 10
            && now.threads <= self.baseline.threads + 6
            && now.resident_kb <= self.baseline.resident_kb * 2 + 32_000;
        if is_back { Ok(()) } else { Err(format!("{now:?}; the baseline is {:?}", self.baseline)) }
    }
}

fn no_stuck_note(daemon: &Daemon, held: Held, fault: Fault, lets_go: bool) -> Result<(), String> {
    let Held { mut hand, heard } = held;
    if lets_go {
        // This fails if the daemon has ended. The end of the daemon also releases the note.
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
