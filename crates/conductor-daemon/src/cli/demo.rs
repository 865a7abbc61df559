//! `conductor demo play|hear`: plays on the virtual controllers of the demo studio, and lets
//! fluidsynth play the messages that the demo's instrument receives.
//!
//! Not here: the demo's configuration (`crate::demo`).

use super::args::{DemoCommand, DemoSound};
use super::{Failure, Verdict, call, list, out::Out, text};
use crate::doors::control::client::{Client, ClientError};
use crate::home::Home;
use conductor_hosts::system::{Environment, program_of};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The port that the demo's mappings and routes send to.
const INSTRUMENT: &str = "synth";
/// Time for the last note to fade out.
const FADE_MS: u32 = 1500;
/// Sixteenth notes in a bar.
const BAR: u32 = 16;

pub fn run(command: &DemoCommand, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        DemoCommand::Play { tempo, silent, sound } => play(*tempo, *silent, sound, home, environment, out),
        DemoCommand::Hear { sound } => hear(sound, home, environment, out),
    }
}

fn play(
    tempo: u32,
    silent: bool,
    sound: &DemoSound,
    home: &Home,
    environment: &Environment,
    out: &mut Out,
) -> Result<Verdict, Failure> {
    check_studio(home, out)?;
    let synth = match (silent, Synth::find(environment)) {
        (true, _) => None,
        (false, found) => found,
    };
    let line = match (&synth, silent) {
        (Some(synth), _) => format!("playing eight bars through fluidsynth with {}", synth.sounds.display()),
        (None, true) => "playing eight bars".to_owned(),
        (None, false) => format!("playing eight bars without sound; {INSTALL}"),
    };
    if !out.is_json() {
        out.line(line)?;
        out.finish()?;
    }
    let listening = synth.map(|it| it.start(home, sound)).transpose()?;
    let [pads, keys] = score(tempo);
    let control = home.control_socket();
    let (sent_pads, sent_keys) = std::thread::scope(|scope| {
        let keys = scope.spawn(|| perform(&control, "keys hand", &keys));
        (perform(&control, "pads hand", &pads), keys.join())
    });
    let sent_keys = sent_keys.map_err(|_| Failure::Text("the thread that plays the keys failed".into()))??;
    let sent = sent_pads? + sent_keys;
    if let Some(listening) = listening {
        listening.end()?;
    }
    out.show(&json!({ "bars": 8, "messages_sent": sent }), |out, _| {
        out.line(format_args!("played {sent} messages; `conductor monitor` shows what the mappings did"))
    })
}

fn perform(control: &Path, port: &str, events: &str) -> Result<u64, ClientError> {
    let done = Client::connect(control)?.ask("play", json!({ "port": port, "events": events }))?;
    Ok(done["messages_sent"].as_u64().unwrap_or_default())
}

fn hear(sound: &DemoSound, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let synth = Synth::find(environment).ok_or_else(|| Failure::Text(format!("no sound: {INSTALL}")))?;
    check_studio(home, out)?;
    if !out.is_json() {
        out.line(format_args!("fluidsynth plays the port {INSTRUMENT}. Ctrl-C ends it."))?;
        out.finish()?;
    }
    let mut listening = synth.start(home, sound)?;
    listening.wait()?;
    Ok(Verdict::Good)
}

/// Checks that the daemon has the devices of the demo, and is in the mode that the score uses.
fn check_studio(home: &Home, out: &mut Out) -> Result<(), Failure> {
    let bindings = call::tool(home, out, "conductor_list_device_bindings", json!({}))?;
    let has = |alias: &str| list(&bindings, "device_bindings").iter().any(|it| text(it, "device_id") == alias);
    if !["pads", "keys", INSTRUMENT].iter().all(|it| has(it)) {
        return Err(Failure::Text(
            "this daemon does not run the demo studio; start one with `conductor --home DIR up --demo` and an empty DIR"
                .into(),
        ));
    }
    let modes = call::tool(home, out, "conductor_list_modes", json!({}))?;
    match text(&modes, "current") {
        "Default" => Ok(()),
        other => Err(Failure::Text(format!(
            "the demo is in the mode {other:?}; `conductor mode set Default` selects the mode of the pads"
        ))),
    }
}

/// How to hear the demo, in one line. `program` is the command that a person types.
pub fn how_to_hear(environment: &Environment, program: &str) -> String {
    match Synth::find(environment) {
        Some(_) => format!("Hear it: {program} demo play"),
        None => format!("To hear it, {INSTALL}, then run: {program} demo play"),
    }
}

const INSTALL: &str = "install fluidsynth and a sound font (Debian: fluidsynth and timgm6mb-soundfont)";

/// An installed fluidsynth with a sound font.
struct Synth {
    program: PathBuf,
    sounds: PathBuf,
}

impl Synth {
    fn find(environment: &Environment) -> Option<Self> {
        let program = program_of(Path::new("fluidsynth"), &environment.search_path)?;
        let places = ["sounds/sf2/default-GM.sf2", "sounds/sf3/default-GM.sf3", "soundfonts/default.sf2"];
        let others = ["sounds/sf2/FluidR3_GM.sf2", "sounds/sf2/TimGM6mb.sf2", "soundfonts/FluidR3_GM.sf2"];
        let files = places.iter().chain(&others);
        let mut files = files.flat_map(|name| environment.xdg_data_dirs.iter().map(move |dir| dir.join(name)));
        Some(Synth { program, sounds: files.find(|it| it.is_file())? })
    }

    /// Starts fluidsynth and a thread that passes the messages of the instrument to it.
    fn start(self, home: &Home, sound: &DemoSound) -> Result<Listening, Failure> {
        let mut messages = Client::connect(&home.control_socket())?;
        messages.ask("monitor", json!({ "port": INSTRUMENT }))?;
        let mut command = Command::new(&self.program);
        command.args(["-q", "-n", "-g", "0.7"]);
        if let Some(driver) = &sound.audio {
            command.args(["-a", driver]);
        }
        command.arg(&self.sounds).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| super::file_error(&self.program, error))?;
        let Some(mut shell) = child.stdin.take() else { return Err(Failure::Text("fluidsynth has no input".into())) };
        // The thread ends when fluidsynth or the daemon ends.
        std::thread::Builder::new().name("messages".into()).spawn(move || {
            while let Ok(Some(item)) = messages.next_item() {
                if pass_on(&mut shell, &item).is_err() {
                    return;
                }
            }
        })?;
        Ok(Listening { child })
    }
}

/// A running fluidsynth. Dropping it ends the process.
struct Listening {
    child: Child,
}

impl Listening {
    /// Ends fluidsynth. Returns an error if it has already ended: it then did not play to the end.
    fn end(mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(_) => Err(self.failure()),
        }
    }

    /// Waits until fluidsynth ends. An exit code other than 0 is a failure; a signal is not.
    fn wait(&mut self) -> Result<(), Failure> {
        match self.child.wait()?.code() {
            Some(0) | None => Ok(()),
            Some(_) => Err(self.failure()),
        }
    }

    fn failure(&mut self) -> Failure {
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // An incomplete reason is better than none.
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let reason = said.lines().rfind(|it| !it.trim().is_empty()).unwrap_or("no reason was given");
        Failure::Text(format!("fluidsynth ended: {reason}; choose another driver with --audio"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a MIDI message as a command of fluidsynth's shell. Messages without a command there are
/// ignored.
fn pass_on(shell: &mut ChildStdin, item: &Value) -> io::Result<()> {
    let bytes: Vec<u64> = list(item, "bytes").iter().filter_map(Value::as_u64).collect();
    match shell_command(&bytes) {
        Some(line) => writeln!(shell, "{line}").and_then(|()| shell.flush()),
        None => Ok(()),
    }
}

fn shell_command(bytes: &[u64]) -> Option<String> {
    let (status, channel) = (bytes.first()? & 0xF0, bytes.first()? & 0x0F);
    let (first, second) = (*bytes.get(1)?, bytes.get(2).copied().unwrap_or(0));
    match status {
        0x90 if second > 0 => Some(format!("noteon {channel} {first} {second}")),
        0x80 | 0x90 => Some(format!("noteoff {channel} {first}")),
        0xB0 => Some(format!("cc {channel} {first} {second}")),
        0xC0 => Some(format!("prog {channel} {first}")),
        0xE0 => Some(format!("pitch_bend {channel} {}", second * 128 + first)),
        _ => None,
    }
}

/// The eight bars as two event scripts, for the pads and for the keys.
fn score(tempo: u32) -> [String; 2] {
    let mut pads = Part::default();
    let mut keys = Part::default();
    // A soft press of this pad selects the piano, a medium press the electric piano.
    pads.hit(0, 38, 20);
    keys.events.push((0, "cc:7=110".to_owned()));
    for bar in 0..8 {
        let start = bar * BAR;
        if bar == 4 {
            pads.hit(start, 38, 70);
        }
        for step in [0, 8] {
            pads.hit(start + step, 36, 110);
        }
        for step in (0..BAR).step_by(2) {
            pads.hit(start + step, 45, 80);
        }
        if bar == 7 {
            // The long press of this pad is a roll.
            pads.hold(start + 8, 7, 39, 100);
        } else {
            pads.hit(start + 4, 39, 100);
            pads.hit(start + 12, 39, 100);
        }
    }
    // The pad with the chord of C, and chords on the keys in the other bars.
    for bar in [0, 4, 7] {
        pads.hold(bar * BAR, 14, 37, 90);
    }
    for (bar, chord) in [(1, [45, 48, 52]), (2, [41, 45, 48]), (3, [43, 47, 50]), (5, [45, 48, 52]), (6, [41, 45, 48])]
    {
        for note in chord {
            keys.hold(bar * BAR, 14, note, 70);
        }
    }
    let melody = [
        [67, 64, 67, 72],
        [69, 64, 69, 72],
        [65, 69, 72, 69],
        [67, 71, 74, 71],
        [67, 64, 67, 72],
        [69, 72, 76, 72],
        [65, 69, 67, 65],
        [64, 62, 60, 60],
    ];
    for (bar, notes) in (0..).zip(melody) {
        for (beat, note) in (0..).zip(notes) {
            keys.hold(bar * BAR + beat * 4, 3, note - 12, 95);
        }
    }
    [pads.script(tempo), keys.script(tempo)]
}

/// Events with their times in sixteenth notes.
#[derive(Default)]
struct Part {
    events: Vec<(u32, String)>,
}

impl Part {
    fn hit(&mut self, at: u32, note: u8, velocity: u8) {
        self.hold(at, 1, note, velocity);
    }

    fn hold(&mut self, at: u32, length: u32, note: u8, velocity: u8) {
        self.events.push((at, format!("on:{note}@{velocity}")));
        self.events.push((at + length, format!("off:{note}")));
    }

    /// The script. Times are rounded from the start, so that rounding errors do not add up.
    fn script(mut self, tempo: u32) -> String {
        // If a release and a press have the same time, the release comes first.
        self.events.sort_by_key(|(at, event)| (*at, event.starts_with("on")));
        let ms = |at: u32| at * 15_000 / tempo;
        let mut words = Vec::new();
        let mut now = 0;
        for (at, event) in self.events {
            if ms(at) > now {
                words.push(format!("t:{}", ms(at) - now));
                now = ms(at);
            }
            words.push(event);
        }
        words.push(format!("t:{}", ms(8 * BAR).saturating_sub(now) + FADE_MS));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_lasts_eight_bars_and_releases_every_note() {
        for part in score(120) {
            let words: Vec<&str> = part.split(' ').collect();
            let length: u32 = words.iter().filter_map(|it| it.strip_prefix("t:")?.parse::<u32>().ok()).sum();
            assert_eq!(length, 8 * 4 * 500 + FADE_MS);
            let count = |prefix: &str| words.iter().filter(|it| it.starts_with(prefix)).count();
            assert!(count("on:") > 20 && count("on:") == count("off:"), "{part}");
        }
    }

    #[test]
    fn messages_become_commands_of_the_synthesizer() {
        let command = |bytes: &[u64]| shell_command(bytes);
        assert_eq!(command(&[0x99, 36, 100]).as_deref(), Some("noteon 9 36 100"));
        assert_eq!(command(&[0x90, 36, 0]).as_deref(), Some("noteoff 0 36"));
        assert_eq!(command(&[0x81, 36, 64]).as_deref(), Some("noteoff 1 36"));
        assert_eq!(command(&[0xB0, 7, 90]).as_deref(), Some("cc 0 7 90"));
        assert_eq!(command(&[0xC0, 4]).as_deref(), Some("prog 0 4"));
        assert_eq!(command(&[0xE0, 0, 64]).as_deref(), Some("pitch_bend 0 8192"));
        assert_eq!(command(&[0xF0, 1, 2, 0xF7]), None);
        assert_eq!(command(&[]), None);
    }
}
