//! FluidSynth on a JACK server: MIDI in, sound out, and the pitch of the sound.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "fluidsynth timgm6mb-soundfont aubio-tools";
/// The ports of FluidSynth on the JACK server.
pub const MIDI_PORT: &str = "fs:midi_00";
const SOUND_PORT: &str = "fs:left";
const SOUNDS: &str = "/usr/share/sounds/sf2/TimGM6mb.sf2";

fn missing(why: String) -> Missing {
    Missing { part: "fluidsynth", package: PACKAGE, why }
}

pub fn probe() -> Result<String, Missing> {
    let output = Command::new("fluidsynth").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    Command::new("aubiopitch").arg("--help").output().map_err(|error| missing(error.to_string()))?;
    if !Path::new(SOUNDS).exists() {
        return Err(missing(format!("{SOUNDS} does not exist")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// A running synthesizer. Dropping it ends the process.
pub struct Running {
    _group: Group,
    server: String,
}

/// Starts FluidSynth on the JACK server of this name.
pub fn start(server: &str) -> Result<Running, Missing> {
    probe()?;
    let mut command = Command::new("fluidsynth");
    command
        .args(["-a", "jack", "-m", "jack", "-o", "audio.jack.id=fs", "-o", "midi.jack.id=fs", "-r", "48000"])
        .args(["-o", "synth.reverb.active=0", "-o", "synth.chorus.active=0", SOUNDS])
        .env("JACK_DEFAULT_SERVER", server)
        // FluidSynth exits when its stdin is closed, so keep this pipe open.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let group = Group::spawn(&mut command, Signal::TERM).map_err(|error| missing(error.to_string()))?;
    let running = Running { _group: group, server: server.to_owned() };
    let listed = || running.tool("jack_lsp").output().ok().map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let ready = wait_for(PATIENCE, || {
        let ports = listed()?;
        (ports.contains(MIDI_PORT) && ports.contains(SOUND_PORT)).then_some(())
    });
    ready.ok_or_else(|| missing("its ports did not appear".into()))?;
    Ok(running)
}

impl Running {
    fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("JACK_DEFAULT_SERVER", &self.server).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Records two seconds. Returns the median of the detected pitches in hertz, or `None` for
    /// silence.
    pub fn pitch(&self, folder: &Path) -> Option<f64> {
        let file = folder.join("heard.wav");
        let recorded = self.tool("jack_rec").args(["-d", "2", "-f"]).arg(&file).arg(SOUND_PORT).output().ok()?;
        recorded.status.success().then_some(())?;
        let said = Command::new("aubiopitch").args(["-p", "yinfft", "-i"]).arg(&file).output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let column = said.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok());
        let mut heard: Vec<f64> = column.filter(|it: &f64| *it > 20.0).collect();
        heard.sort_by(f64::total_cmp);
        heard.get(heard.len() / 2).copied()
    }
}
