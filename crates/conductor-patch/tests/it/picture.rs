//! Pictures. The expected SVG files are in `tests/pictures`; `CONDUCTOR_BLESS=1` writes them anew
//! for a person to look at.

use conductor_patch::render::{Labels, Options, Shape, render};
use conductor_patch::{Document, Format, Limits};

use crate::corpus::{self, fixture};

#[expect(clippy::disallowed_methods, reason = "a person blesses new pictures through the environment")]
fn blessing() -> bool {
    std::env::var_os("CONDUCTOR_BLESS").is_some()
}

fn golden(name: &str, document: &Document, options: &Options) {
    let svg = render(&document.root(), options).to_svg();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures").join(format!("{name}.svg"));
    if blessing() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &svg).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == expected, "{name}.svg differs; look at it, then bless it");
}

#[test]
fn five_patches_look_as_before() {
    let max = fixture("classic.maxpat").open();
    golden("max", &max, &Options::default());
    golden("max-locked", &max, &Options { locked: true, ..Options::default() });
    golden("max-presentation", &max, &Options { presentation: true, ..Options::default() });
    let highlight = vec![max.root().by_key("obj-2").unwrap().id()];
    golden("max-labels", &max, &Options { labels: Labels::Varname, highlight, ..Options::default() });
    golden("pd", &fixture("synth.pd").open(), &Options::default());
}

#[test]
fn every_style_gives_the_same_picture() {
    let picture = |name: &str| render(&fixture(name).open().root(), &Options::default()).to_svg();
    for name in [
        "inline.maxpat",
        "four-spaces.maxpat",
        "two-spaces.maxpat",
        "tab-compact.maxpat",
        "minified.maxpat",
        "classic-crlf.maxhelp",
    ] {
        assert_eq!(picture("classic.maxpat"), picture(name), "{name}");
    }
}

#[test]
fn locked_pictures_leave_out_what_is_hidden() {
    let document = fixture("classic.maxpat").open();
    let count = |locked| render(&document.root(), &Options { locked, ..Options::default() }).shapes.len();
    // The hidden toggle (a square, two strokes, two nubs) and the hidden cord.
    assert_eq!(count(false) - count(true), 6);
}

#[test]
fn size_and_small_text_are_bounded() {
    for sample in corpus::all() {
        let document = sample.open();
        let picture = render(&document.root(), &Options { max_size: 300, ..Options::default() });
        assert!(picture.width <= 300 && picture.height <= 300, "{}", sample.name);
        let readable =
            picture.shapes.iter().all(|shape| if let Shape::Text { size, .. } = shape { *size >= 5.0 } else { true });
        assert!(readable, "{}", sample.name);
        let svg = picture.to_svg();
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(!svg.contains("=\"NaN") && !svg.contains("=\"inf"), "{}", sample.name);
    }
}

#[test]
fn text_cannot_leave_its_element() {
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"comment","text":"</text><script>&\"","patching_rect":[0.0,0.0,200.0,20.0]}}],"lines":[]}}"#;
    let document = Document::open(text.as_bytes(), Format::Maxpat, &Limits::default()).unwrap();
    let svg = render(&document.root(), &Options::default()).to_svg();
    assert!(svg.contains("&lt;/text&gt;&lt;script&gt;&amp;&quot;") && !svg.contains("<script"), "{svg}");
}
