//! `[patch]`: the folders of patches, how many may be open, and the connections to Pd and Max.
//!
//! Not here: whether the folders and programs exist; the daemon checks that.

use super::form::{boolean, named, number, set, text, whole};
use super::section::{section, table};
use crate::named_enum::named_enum;

section! {
    /// Patches, and the connections to Pd and Max. In paths, `~/` is the user's home directory, and
    /// a relative path starts at `patches` in Conductor's home.
    pub struct Patch {
        /// Folders of patches, in addition to `patches` in Conductor's home.
        roots: Vec<String> = Vec::new(), set(text(1..=4096), 0..=64), "[\"~/Patches\"]";
        /// Patches that are opened at start.
        open: Vec<String> = Vec::new(), set(text(1..=4096), 0..=64), "[\"synth.maxpat\"]";
        /// Maximum number of patches that are open at the same time.
        max_open: u32 = 64, whole(1..=1024), "16";
        /// Largest patch file in MiB.
        max_file_mb: u32 = 64, whole(1..=1024), "16";
        /// Number of undo steps kept per patch.
        journal_steps: u32 = 200, whole(1..=10_000), "1000";
        /// Maximum memory for the undo steps of one patch, in MiB.
        journal_mb: u32 = 64, whole(1..=4096), "16";
        /// Pure Data.
        pd: Pd = Pd::default(), table();
        /// The bridge to Max.
        max: MaxBridge = MaxBridge::default(), table();
    }
}

section! {
    /// Pure Data.
    pub struct Pd {
        /// How Pd runs. `spawn`: the daemon starts Pd. `attach`: a person starts Pd and opens
        /// Conductor's helper patch in it.
        mode: PdMode = PdMode::Off, named(), "\"spawn\"";
        /// Command that starts Pd.
        command: String = "pd".into(), text(1..=4096), "\"/opt/pd/bin/pd\"";
        /// Longest sleep of Pd between two ticks, in milliseconds.
        sleepgrain_ms: f64 = 0.5, number(0.1..=100.0), "2.0";
        /// Audio of a Pd that the daemon starts. `default`: the audio settings that Pd uses by
        /// default.
        audio: PdAudio = PdAudio::Off, named(), "\"jack\"";
    }
}

named_enum! {
    /// How Pd runs.
    pub enum PdMode {
        /// Pd is not used.
        Off = "off",
        /// The daemon starts Pd.
        Spawn = "spawn",
        /// A person starts Pd and opens our helper patch in it.
        Attach = "attach",
    }
}

named_enum! {
    /// Audio of a Pd that the daemon starts.
    pub enum PdAudio {
        /// No audio.
        Off = "off",
        /// The audio settings that Pd uses by default.
        Default = "default",
        /// Audio through JACK.
        Jack = "jack",
    }
}

section! {
    /// The bridge to Max.
    #[derive(Copy, Eq)]
    pub struct MaxBridge {
        /// Whether the daemon listens for the bridge in Max.
        enabled: bool = false, boolean(), "true";
        /// TCP port of the listener; 0 means any free port.
        port: u16 = 0, whole(0..=65_535), "7474";
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MaxBridge, Patch, Pd, PdAudio, PdMode, load};

    #[test]
    fn every_key_is_read_and_a_wrong_one_falls_back_alone() {
        let text = "[patch]\nroots = [\"/p\", \"~/q\"]\nopen = [\"a.maxpat\"]\nmax_open = 3\nmax_file_mb = 4\njournal_steps = 5\njournal_mb = 6\n\
                    [patch.pd]\nmode = \"spawn\"\ncommand = \"/opt/pd\"\nsleepgrain_ms = 2\naudio = \"jack\"\n\
                    [patch.max]\nenabled = true\nport = 7474\n";
        let wanted = Patch {
            roots: vec!["/p".into(), "~/q".into()],
            open: vec!["a.maxpat".into()],
            max_open: 3,
            max_file_mb: 4,
            journal_steps: 5,
            journal_mb: 6,
            pd: Pd { mode: PdMode::Spawn, command: "/opt/pd".into(), sleepgrain_ms: 2.0, audio: PdAudio::Jack },
            max: MaxBridge { enabled: true, port: 7474 },
        };
        assert_eq!(load(text).config.map(|it| it.patch), Some(wanted));
        let wrong = load("[patch]\nmax_open = 0\n[patch.pd]\nmode = \"spwan\"\naudio = \"jack\"\nsleep = 1\n");
        let found = wrong.config.map(|it| (it.patch.max_open, it.patch.pd.mode, it.patch.pd.audio));
        assert_eq!(found, Some((64, PdMode::Off, PdAudio::Jack)));
        assert_eq!(wrong.diagnostics.len(), 3, "{:?}", wrong.diagnostics);
    }
}
