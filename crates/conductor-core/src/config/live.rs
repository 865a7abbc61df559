//! `[live]`: the folders of Live Sets, the limits for open Sets, and the connection to Live.
//!
//! Not here: whether the folders exist; the daemon checks that.

use super::form::{Form, named, set, text, whole};
use super::reader::Reader;
use super::section::{section, table};
use super::tree::Node;
use crate::named_enum::named_enum;
use std::net::IpAddr;

section! {
    /// Live Sets and the connection to Live. In paths, `~/` is the user's home directory, and a
    /// relative path starts at Conductor's home.
    #[derive(Eq)]
    pub struct Live {
        /// Target of calls that name no Set. `auto`: the script in Live, then AbletonOSC, then
        /// `default_set`. `document`: always `default_set`.
        host: LiveHostChoice = LiveHostChoice::Auto, named(), "\"document\"";
        /// Set file for calls that name no Set and use no running Live; empty means none.
        default_set: String = String::new(), text(0..=4096), "\"song.als\"";
        /// Set that new Sets are copied from; empty means the built-in template.
        template_set: String = String::new(), text(0..=4096), "\"template.als\"";
        /// Folders in which Sets may be opened.
        file_roots: Vec<String> = vec!["~/Music".into()], set(text(1..=4096), 0..=64), "[\"~/Sets\"]";
        /// Maximum number of Sets that are open at the same time.
        max_open: u32 = 8, whole(1..=64), "4";
        /// Largest unpacked Set in MiB.
        max_xml_mb: u32 = 256, whole(1..=4096), "512";
        /// Number of undo steps kept per Set.
        undo_depth: u32 = 200, whole(1..=10_000), "50";
        /// Folder of rendered pictures.
        render_dir: String = "state/renders".into(), text(1..=4096), "\"~/Pictures/Sets\"";
        /// AbletonOSC.
        osc: LiveOsc = LiveOsc::default(), table();
        /// Our script in Live.
        script: LiveScript = LiveScript::default(), table();
    }
}

named_enum! {
    /// `[live] host`: the target of calls that name no Set.
    pub enum LiveHostChoice {
        /// The first available target: the script in Live, then AbletonOSC, then `default_set`.
        Auto = "auto",
        /// The target is always `default_set`.
        Document = "document",
        /// The AbletonOSC script in Live.
        AbletonOsc = "abletonosc",
        /// Our own script in Live.
        Script = "script",
    }
}

section! {
    /// The connection to AbletonOSC.
    #[derive(Eq)]
    pub struct LiveOsc {
        /// Numeric address of the machine that runs Live.
        host: String = "127.0.0.1".into(), text(1..=64).ruled(address), "\"192.168.1.20\"";
        /// UDP port of AbletonOSC.
        port: u16 = 11_000, whole(1..=65_535);
        /// UDP port on which Conductor receives replies.
        reply_port: u16 = 11_001, whole(1..=65_535);
        /// Longest wait for a reply, in milliseconds.
        timeout_ms: u32 = 1500, whole(100..=60_000), "3000";
    }
}

section! {
    /// The connection to Conductor's script in Live.
    #[derive(Eq)]
    pub struct LiveScript {
        /// Longest wait for a reply from the script, in milliseconds.
        timeout_ms: u32 = 2000, whole(100..=60_000), "3000";
    }
}

fn address<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    if text.parse::<IpAddr>().is_ok() {
        return Some(text);
    }
    let help = "write a numeric address such as \"127.0.0.1\"";
    r.reject(node, format!("\"{text}\" is not an address"), help)
}

#[cfg(test)]
mod tests {
    use super::super::{Live, LiveHostChoice, LiveOsc, LiveScript, load};

    #[test]
    fn every_key_is_read_and_a_wrong_one_falls_back_alone() {
        let text = "[live]\nhost = \"script\"\ndefault_set = \"a.als\"\ntemplate_set = \"t.als\"\nfile_roots = [\"/m\", \"~/s\"]\nmax_open = 3\nmax_xml_mb = 9\n\
                    undo_depth = 7\nrender_dir = \"r\"\n[live.osc]\nhost = \"10.0.0.2\"\nport = 1\nreply_port = 2\ntimeout_ms = 300\n\
                    [live.script]\ntimeout_ms = 400\n";
        let live = load(text).config.map(|it| it.live);
        let wanted = Live {
            host: LiveHostChoice::Script,
            default_set: "a.als".into(),
            template_set: "t.als".into(),
            file_roots: vec!["/m".into(), "~/s".into()],
            max_open: 3,
            max_xml_mb: 9,
            undo_depth: 7,
            render_dir: "r".into(),
            osc: LiveOsc { host: "10.0.0.2".into(), port: 1, reply_port: 2, timeout_ms: 300 },
            script: LiveScript { timeout_ms: 400 },
        };
        assert_eq!(live, Some(wanted));
        let wrong = load("[live]\nmax_open = 0\nundo_depth = 5\nhosts = 1\n");
        assert_eq!(wrong.config.map(|it| (it.live.max_open, it.live.undo_depth)), Some((8, 5)));
        assert_eq!(wrong.diagnostics.len(), 2, "{:?}", wrong.diagnostics);
        let named = load("[live]\nhost = \"max\"\n[live.osc]\nhost = \"studio.local\"\nport = 0\n");
        assert_eq!(
            named.config.map(|it| (it.live.host, it.live.osc)),
            Some((LiveHostChoice::Auto, LiveOsc::default()))
        );
        assert_eq!(named.diagnostics.len(), 3, "{:?}", named.diagnostics);
    }
}
