//! mido on RtMidi, the MIDI library of Python programs.

use super::Missing;
use std::process::Command;

/// The system's Python with mido, which need not be the first one in the path.
pub fn python() -> Result<&'static str, Missing> {
    let works = |python: &&str| {
        let tried = Command::new(*python).args(["-c", "import mido, rtmidi"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(works).ok_or(Missing {
        part: "mido",
        package: "python3-mido python3-rtmidi",
        why: "no Python here has mido and rtmidi".into(),
    })
}
