//! Negative controls: each one removes a guarantee, and the check of this guarantee must notice it.

use super::checks::{ANSWERED, CONFIG, EFFECTS, LOGGED, NO_STUCK_NOTE, PLANS, RECOVERED, RESOURCES, VERDICT};
use super::daemon::{self, Disk};
use super::{Stage, faults, pause};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileExt as _;

/// A guarantee that is removed.
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
    /// An acknowledged change is missing in Live.
    Effect,
    /// No client can reach the daemon after the fault.
    Recovery,
}

impl Broken {
    pub const ALL: [Broken; 9] = [
        Broken::Log,
        Broken::Verdict,
        Broken::Note,
        Broken::Answer,
        Broken::Resources,
        Broken::Plans,
        Broken::Config,
        Broken::Effect,
        Broken::Recovery,
    ];

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
            Broken::Effect => EFFECTS,
            Broken::Recovery => RECOVERED,
        }
    }

    pub fn apply(self, stage: &mut Stage) -> Result<(), String> {
        let home = stage.daemon.home.clone();
        match self {
            Broken::Log => {
                faults::heal(&mut stage.daemon)?;
                stage.daemon.set_disk(Disk::WritesLost);
                pause(300);
                stage.daemon.end(Signal::KILL);
                stage.daemon.set_disk(Disk::Works);
            }
            Broken::Verdict => {
                stage.daemon.end(Signal::KILL);
                let segment = stage.daemon.segment().ok_or("there is no audit log")?;
                let file = fs::File::options().write(true).open(segment).map_err(|it| it.to_string())?;
                file.write_all_at(b"#", 40).map_err(|it| it.to_string())?;
            }
            Broken::Answer => {
                faults::heal(&mut stage.daemon)?;
                stage.daemon.signal(Signal::STOP);
                pause(15_000);
                stage.daemon.signal(Signal::CONT);
            }
            Broken::Resources => {
                faults::heal(&mut stage.daemon)?;
                stage.daemon.set_disk(Disk::ClosesLost);
                for _ in 0..60 {
                    drop(stage.daemon.client());
                }
                pause(500);
                stage.daemon.set_disk(Disk::Works);
            }
            Broken::Plans => {
                fs::write(home.join("state/plans/half.json"), "{\"id\":").map_err(|it| it.to_string())?;
            }
            Broken::Config => {
                let text = daemon::config(&stage.world);
                let value = |value: u8| format!("controller = 21, value = {value}");
                let other = text.replace(&value(stage.world.value), &value(stage.world.value + 1));
                fs::write(home.join("config.toml"), other).map_err(|it| it.to_string())?;
                pause(1000);
            }
            Broken::Effect => {
                faults::heal(&mut stage.daemon)?;
                let live = stage.parts.live.as_ref().ok_or("there is no Live")?;
                let mut client = stage.daemon.client()?;
                client.call("live_set_tempo", json!({ "bpm": 99 })).map_err(|it| it.to_string())?;
                *stage.promised.tempo.lock() = Some(99);
                live.run("song.tempo = 98");
            }
            Broken::Recovery => {
                faults::heal(&mut stage.daemon)?;
                fs::remove_file(stage.daemon.control_socket()).map_err(|it| it.to_string())?;
            }
            Broken::Note => {}
        }
        Ok(())
    }
}
