//! Reads `[live]`: the folders of Live Sets, the limits of open Sets, and the connection to Live.
//!
//! Not here: whether the folders exist; the daemon checks that.

use super::reader::Reader;
use super::tree::Node;
use super::{Live, LiveOsc};
use std::net::IpAddr;

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Live> {
    let mut f = r.table(node)?;
    let d = Live::default();
    let path = |r: &mut Reader<'t>, it: &'t Node| r.text(it, 0, 4096);
    let live = Live {
        host: f.or(r, "host", d.host, Reader::named),
        default_set: f.or(r, "default_set", d.default_set, path),
        template_set: f.or(r, "template_set", d.template_set, path),
        file_roots: f.or(r, "file_roots", d.file_roots, |r, it| r.set(it, 0, 64, |r, it| r.text(it, 1, 4096))),
        max_open: f.or(r, "max_open", d.max_open, |r, it| r.whole(it, 1, 64)),
        max_xml_mb: f.or(r, "max_xml_mb", d.max_xml_mb, |r, it| r.whole(it, 1, 4096)),
        undo_depth: f.or(r, "undo_depth", d.undo_depth, |r, it| r.whole(it, 1, 10_000)),
        render_dir: f.or(r, "render_dir", d.render_dir, |r, it| r.text(it, 1, 4096)),
        osc: f.or_default(r, "osc", osc),
        script_timeout_ms: f.opt(r, "script", script).unwrap_or(d.script_timeout_ms),
    };
    f.finish(r);
    Some(live)
}

fn osc<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<LiveOsc> {
    let mut f = r.table(node)?;
    let d = LiveOsc::default();
    let port = |r: &mut Reader<'t>, it: &'t Node| r.whole(it, 1, 65_535);
    let osc = LiveOsc {
        host: f.or(r, "host", d.host, address),
        port: f.or(r, "port", d.port, port),
        reply_port: f.or(r, "reply_port", d.reply_port, port),
        timeout_ms: f.or(r, "timeout_ms", d.timeout_ms, |r, it| r.whole(it, 100, 60_000)),
    };
    f.finish(r);
    Some(osc)
}

fn address<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.text(node, 1, 64)?;
    if text.parse::<IpAddr>().is_ok() {
        return Some(text);
    }
    let help = "write a numeric address such as \"127.0.0.1\"".to_owned();
    r.reject(node, format!("\"{text}\" is not an address"), help)
}

fn script<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<u32> {
    let mut f = r.table(node)?;
    let timeout = f.or(r, "timeout_ms", Live::default().script_timeout_ms, |r, it| r.whole(it, 100, 60_000));
    f.finish(r);
    Some(timeout)
}

#[cfg(test)]
mod tests {
    use super::super::{Live, LiveHostChoice, LiveOsc, load};

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
            script_timeout_ms: 400,
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
