//! mido on RtMidi, the MIDI library of Python programs.

use super::Missing;
use std::process::Command;

/// A Python that has mido. It may not be the first Python in PATH.
pub fn python() -> Result<&'static str, Missing> {
    let works = |python: &&str| {
        let tried = Command::new(*python).args(["-c", "import mido, rtmidi"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(works).ok_or(Missing {
        part: "mido",
        package: "python3-mido python3-rtmidi",
        why: "no installed Python has mido and rtmidi".into(),
    })
}
