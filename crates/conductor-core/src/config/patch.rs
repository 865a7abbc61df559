//! Reads `[patch]`: the folders of patches, how many may be open, and the connections to Pd and
//! Max.
//!
//! Not here: whether the folders and programs exist; the daemon checks that.

use super::reader::Reader;
use super::tree::Node;
use super::{MaxBridge, Patch, Pd};

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Patch> {
    let mut f = r.table(node)?;
    let d = Patch::default();
    let paths = |r: &mut Reader<'t>, it: &'t Node| r.set(it, 0, 64, |r, it| r.text(it, 1, 4096));
    let count = |max: i64| move |r: &mut Reader<'t>, it: &'t Node| r.whole(it, 1, max);
    let patch = Patch {
        roots: f.or(r, "roots", d.roots, paths),
        open: f.or(r, "open", d.open, paths),
        max_open: f.or(r, "max_open", d.max_open, count(1024)),
        max_file_mb: f.or(r, "max_file_mb", d.max_file_mb, count(1024)),
        journal_steps: f.or(r, "journal_steps", d.journal_steps, count(10_000)),
        journal_mb: f.or(r, "journal_mb", d.journal_mb, count(4096)),
        pd: f.or_default(r, "pd", pd),
        max: f.or_default(r, "max", max),
    };
    f.finish(r);
    Some(patch)
}

fn pd<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Pd> {
    let mut f = r.table(node)?;
    let d = Pd::default();
    let pd = Pd {
        mode: f.or(r, "mode", d.mode, Reader::named),
        command: f.or(r, "command", d.command, |r, it| r.text(it, 1, 4096)),
        sleepgrain_ms: f.or(r, "sleepgrain_ms", d.sleepgrain_ms, |r, it| r.number(it, 0.1, 100.0)),
        audio: f.or(r, "audio", d.audio, Reader::named),
    };
    f.finish(r);
    Some(pd)
}

fn max<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<MaxBridge> {
    let mut f = r.table(node)?;
    let d = MaxBridge::default();
    let max = MaxBridge {
        enabled: f.or(r, "enabled", d.enabled, Reader::boolean),
        port: f.or(r, "port", d.port, |r, it| r.whole(it, 0, 65535)),
    };
    f.finish(r);
    Some(max)
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
