//! Reading `[live]`: where Live Sets may lie, and how many are held open.
//!
//! Not here: looking whether the folders exist, which the daemon does.

use super::Live;
use super::reader::Reader;
use super::tree::Node;

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Live> {
    let mut f = r.table(node)?;
    let d = Live::default();
    let path = |r: &mut Reader<'t>, it: &'t Node| r.text(it, 0, 4096);
    let live = Live {
        default_set: f.or(r, "default_set", d.default_set, path),
        template_set: f.or(r, "template_set", d.template_set, path),
        file_roots: f.or(r, "file_roots", d.file_roots, |r, it| r.set(it, 0, 64, |r, it| r.text(it, 1, 4096))),
        max_open: f.or(r, "max_open", d.max_open, |r, it| r.whole(it, 1, 64).and_then(|it| it.try_into().ok())),
        max_xml_mb: f.or(r, "max_xml_mb", d.max_xml_mb, |r, it| r.whole(it, 1, 4096).and_then(|it| it.try_into().ok())),
        undo_depth: f
            .or(r, "undo_depth", d.undo_depth, |r, it| r.whole(it, 1, 10_000).and_then(|it| it.try_into().ok())),
        render_dir: f.or(r, "render_dir", d.render_dir, |r, it| r.text(it, 1, 4096)),
    };
    f.finish(r);
    Some(live)
}

#[cfg(test)]
mod tests {
    use super::super::{Live, load};

    #[test]
    fn every_key_is_read_and_a_wrong_one_falls_back_alone() {
        let text = "[live]\ndefault_set = \"a.als\"\ntemplate_set = \"t.als\"\nfile_roots = [\"/m\", \"~/s\"]\nmax_open = 3\nmax_xml_mb = 9\n\
                    undo_depth = 7\nrender_dir = \"r\"\n";
        let live = load(text).config.map(|it| it.live);
        let wanted = Live {
            default_set: "a.als".into(),
            template_set: "t.als".into(),
            file_roots: vec!["/m".into(), "~/s".into()],
            max_open: 3,
            max_xml_mb: 9,
            undo_depth: 7,
            render_dir: "r".into(),
        };
        assert_eq!(live, Some(wanted));
        let wrong = load("[live]\nmax_open = 0\nundo_depth = 5\nhosts = 1\n");
        assert_eq!(wrong.config.map(|it| (it.live.max_open, it.live.undo_depth)), Some((8, 5)));
        assert_eq!(wrong.diagnostics.len(), 2, "{:?}", wrong.diagnostics);
    }
}
