//! Sets the system volume with a program of the desktop: `wpctl` of PipeWire, or else `pactl` of
//! PulseAudio; on macOS `osascript`. On Windows, a call of the Windows API sets the volume.
//!
//! These programs run on the volume worker's thread, with fixed arguments. Not here: the decision
//! when the volume changes (`conductor_core::engine`).

use super::{Mixer, Unavailable};
use conductor_core::action::Volume;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of one step up or down, in percent.
const STEP: u8 = 10;
/// A program that hangs is killed after this many checks.
const CHECKS: u32 = 300;
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The programs, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Wpctl,
    Pactl,
    Osascript,
}

/// Sets the volume without a program, where the system has an API for it.
#[cfg_attr(windows, path = "volume/windows.rs")]
#[cfg_attr(not(windows), path = "volume/none.rs")]
mod platform;

/// The volume of the default output.
#[derive(Debug, Default)]
pub struct SystemVolume;

impl Mixer for SystemVolume {
    fn carry_out(&mut self, volume: Volume) -> Result<(), Unavailable> {
        platform::set(volume).unwrap_or_else(|| set_with_programs(volume))
    }
}

fn set_with_programs(volume: Volume) -> Result<(), Unavailable> {
    let programs: &[Program] = match std::env::consts::OS {
        "macos" => &[Program::Osascript],
        _ => &[Program::Wpctl, Program::Pactl],
    };
    let mut refusals = Vec::new();
    for program in programs {
        match program.set(volume) {
            Ok(()) => return Ok(()),
            Err(why) => refusals.push(why),
        }
    }
    Err(Unavailable(refusals.join("; ")))
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Wpctl => "wpctl",
            Program::Pactl => "pactl",
            Program::Osascript => "osascript",
        }
    }

    fn set(self, volume: Volume) -> Result<(), String> {
        // `pactl` can raise the volume above 100 percent, so the new value is computed and limited
        // here.
        let percent = match (self, volume) {
            (Program::Pactl, Volume::Up) => Some(self.now()?.saturating_add(STEP.into()).min(100)),
            (Program::Pactl | Program::Wpctl | Program::Osascript, _) => None,
        };
        self.run(&self.arguments(volume, percent)).map(drop)
    }

    /// The volume of the loudest channel, in percent.
    fn now(self) -> Result<u32, String> {
        let said = self.run(&["get-sink-volume", "@DEFAULT_SINK@"].map(str::to_owned))?;
        loudest(&said).ok_or_else(|| format!("{}: no volume in '{}'", self.name(), said.trim()))
    }

    fn arguments(self, volume: Volume, percent: Option<u32>) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        match self {
            Program::Wpctl => {
                const SINK: &str = "@DEFAULT_AUDIO_SINK@";
                match volume {
                    Volume::Up => words(&["set-volume", "-l", "1.0", SINK, &format!("{STEP}%+")]),
                    Volume::Down => words(&["set-volume", SINK, &format!("{STEP}%-")]),
                    Volume::Set(value) => words(&["set-volume", SINK, &format!("{value}%")]),
                    Volume::Mute => words(&["set-mute", SINK, "1"]),
                    Volume::Unmute => words(&["set-mute", SINK, "0"]),
                }
            }
            Program::Pactl => {
                const SINK: &str = "@DEFAULT_SINK@";
                match volume {
                    Volume::Up => words(&["set-sink-volume", SINK, &format!("{}%", percent.unwrap_or(100))]),
                    Volume::Down => words(&["set-sink-volume", SINK, &format!("-{STEP}%")]),
                    Volume::Set(value) => words(&["set-sink-volume", SINK, &format!("{value}%")]),
                    Volume::Mute => words(&["set-sink-mute", SINK, "1"]),
                    Volume::Unmute => words(&["set-sink-mute", SINK, "0"]),
                }
            }
            Program::Osascript => {
                let by = |sign: char| {
                    format!("set volume output volume ((output volume of (get volume settings)) {sign} {STEP})")
                };
                let script = match volume {
                    Volume::Up => by('+'),
                    Volume::Down => by('-'),
                    Volume::Set(value) => format!("set volume output volume {value}"),
                    Volume::Mute => "set volume output muted true".to_owned(),
                    Volume::Unmute => "set volume output muted false".to_owned(),
                };
                words(&["-e", &script])
            }
        }
    }

    /// Returns the output of the program. Kills the program when it takes too long, so that it does
    /// not block the next change.
    fn run(self, arguments: &[String]) -> Result<String, String> {
        let failed = |why: io::Error| {
            let is_missing = why.kind() == io::ErrorKind::NotFound;
            if is_missing { format!("{} is not installed", self.name()) } else { format!("{}: {why}", self.name()) }
        };
        let mut child = Command::new(self.name())
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        for _ in 0..CHECKS {
            if let Some(status) = child.try_wait().map_err(failed)? {
                let (mut said, mut complaint) = (String::new(), String::new());
                let _ = child.stdout.take().map(|mut it| it.read_to_string(&mut said));
                let _ = child.stderr.take().map(|mut it| it.read_to_string(&mut complaint));
                let first = complaint.lines().next().unwrap_or("no reason was reported");
                return if status.success() { Ok(said) } else { Err(format!("{}: {first}", self.name())) };
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
        // The errors are ignored: the function fails in any case.
        let _ = child.kill();
        let _ = child.wait();
        Err(format!("{} did not end in time and was killed", self.name()))
    }
}

/// Parses `Volume: front-left: 27525 /  42% / -22.61 dB, ...`.
fn loudest(said: &str) -> Option<u32> {
    said.split('/').filter_map(|it| it.trim().strip_suffix('%')?.trim().parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loudest_channel_counts() {
        let said = "Volume: front-left: 27525 /  42% / -22.61 dB,   front-right: 30802 /  47% / -19.68 dB\n";
        assert_eq!(loudest(said), Some(47));
        assert_eq!(loudest("Connection refused"), None);
    }

    #[test]
    fn each_program_is_told_in_its_own_words() {
        let joined = |program: Program, volume, percent| program.arguments(volume, percent).join(" ");
        assert_eq!(joined(Program::Wpctl, Volume::Up, None), "set-volume -l 1.0 @DEFAULT_AUDIO_SINK@ 10%+");
        assert_eq!(joined(Program::Pactl, Volume::Up, Some(52)), "set-sink-volume @DEFAULT_SINK@ 52%");
        assert_eq!(joined(Program::Pactl, Volume::Set(42), None), "set-sink-volume @DEFAULT_SINK@ 42%");
        assert_eq!(joined(Program::Osascript, Volume::Mute, None), "-e set volume output muted true");
    }
}
