//! Tests of the drawings of patches and Sets. The expected SVG files are in `tests/`.
//! `CONDUCTOR_BLESS=1` rewrites them, so that a person can check them.

use super::patch::{Labels, Options, draw};
use super::{Picture, Shape, piano_roll, session};
use conductor_patch::{Document, Format, Limits};
use conductor_set::{ClipProps, Guard, LiveEdit, Note, OpenSet, PathId, TrackProps};
use corpus::fixture;
use proptest::prelude::*;
use quick_xml::events::Event;

#[allow(clippy::print_stdout, reason = "a test without its corpus prints the reason")]
#[path = "../../../conductor-patch/tests/it/corpus.rs"]
mod corpus;

#[expect(clippy::disallowed_methods, reason = "a person blesses new pictures through the environment")]
fn blessing() -> bool {
    std::env::var_os("CONDUCTOR_BLESS").is_some()
}

fn svg(document: &Document) -> String {
    draw(&document.root(), &Options::default()).picture.to_svg()
}

fn golden(name: &str, document: &Document, options: &Options) {
    let svg = draw(&document.root(), options).picture.to_svg();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/picture/tests");
    let path = folder.join(format!("{name}.svg"));
    if blessing() {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, &svg).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == expected, "{name}.svg differs; check it, then rewrite it with CONDUCTOR_BLESS=1");
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
    let expected = svg(&fixture("classic.maxpat").open());
    for name in [
        "inline.maxpat",
        "four-spaces.maxpat",
        "two-spaces.maxpat",
        "tab-compact.maxpat",
        "minified.maxpat",
        "classic-crlf.maxhelp",
    ] {
        assert_eq!(svg(&fixture(name).open()), expected, "{name}");
    }
}

#[test]
fn locked_pictures_leave_out_what_is_hidden() {
    let document = fixture("classic.maxpat").open();
    let count = |locked| draw(&document.root(), &Options { locked, ..Options::default() }).picture.shapes.len();
    // The difference is the hidden toggle (a square, two strokes, two nubs) and the hidden cord.
    assert_eq!(count(false) - count(true), 6);
}

#[test]
fn labels_show_the_index_or_the_name() {
    let document = fixture("classic.maxpat").open();
    let texts = |labels| {
        let drawn = draw(&document.root(), &Options { labels, ..Options::default() });
        let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { Some(text.clone()) } else { None };
        drawn.picture.shapes.iter().filter_map(text).collect::<Vec<_>>()
    };
    let objects: Vec<_> = document.root().boxes().collect();
    for (n, object) in objects.iter().enumerate().filter(|(_, object)| object.rect().w > 0.0) {
        assert!(texts(Labels::Index).contains(&n.to_string()));
        assert!(texts(Labels::Varname).iter().any(|text| text == object.label()));
    }
}

#[test]
fn size_and_small_text_are_bounded() {
    for sample in corpus::all() {
        let document = sample.open();
        let picture = draw(&document.root(), &Options { max_size: 300, ..Options::default() }).picture;
        assert!(picture.width <= 300 && picture.height <= 300, "{}", sample.name);
        let readable = |shape: &Shape| if let Shape::Text { pen, .. } = shape { pen.size >= 5.0 } else { true };
        assert!(picture.shapes.iter().all(readable), "{}", sample.name);
        let svg = picture.to_svg();
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(!svg.contains("=\"NaN") && !svg.contains("=\"inf"), "{}", sample.name);
    }
}

#[test]
fn text_cannot_leave_its_element() {
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"comment","text":"</text><script>&\"","patching_rect":[0.0,0.0,200.0,20.0]}}],"lines":[]}}"#;
    let svg = svg(&Document::open(text.as_bytes(), Format::Maxpat, &Limits::default()).unwrap());
    assert!(svg.contains("&lt;/text&gt;&lt;script&gt;&amp;&quot;") && !svg.contains("<script"), "{svg}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_patches_are_drawn_without_a_panic(
        which in 0usize..12, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let samples = corpus::fixtures();
        let sample = &samples[which % samples.len()];
        let mut bytes = sample.bytes.clone();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(document) = Document::open(bytes, sample.format, &Limits::default()) {
            svg(&document);
        }
    }

    #[test]
    fn any_pd_text_is_drawn_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut pd = b"#N canvas 0 0 1 1 12;\n".to_vec();
        pd.extend_from_slice(&bytes);
        if let Ok(document) = Document::open(pd, Format::Pd, &Limits::default()) {
            svg(&document);
        }
    }
}

const BEAT: &str = "track:0/clipslot:0/clip";

fn path(text: &str) -> PathId {
    text.parse().unwrap()
}

/// The Set from the examples, with the tracks Drums, Bass and Vocals.
fn example_set() -> conductor_set::Document {
    let als = include_bytes!("../../../../examples/sets/golden.als");
    conductor_set::Document::open(als, conductor_set::DEFAULT_XML_LIMIT).unwrap()
}

fn edited(document: &conductor_set::Document, edits: &[LiveEdit]) -> conductor_set::Document {
    let mut set = OpenSet::new(document.clone());
    set.apply(edits, &Guard::default()).unwrap();
    set.document().clone()
}

fn with_notes(document: &conductor_set::Document, notes: &[Note]) -> conductor_set::Document {
    edited(document, &[LiveEdit::ReplaceNotes { clip_id: path(BEAT), notes: notes.to_vec(), window: None }])
}

/// Fails unless the SVG is well formed and contains only plain shapes.
fn check_svg(picture: &Picture) {
    let svg = picture.to_svg();
    let mut reader = quick_xml::Reader::from_str(&svg);
    loop {
        let event = reader.read_event().expect("not well formed");
        if matches!(event, Event::Eof) {
            break;
        }
        if let Event::Start(tag) | Event::Empty(tag) = event {
            let name = String::from_utf8_lossy(tag.name().as_ref()).into_owned();
            assert!(["svg", "rect", "polyline", "text", "polygon", "ellipse"].contains(&name.as_str()), "{name}");
            for attribute in tag.attributes() {
                let key = attribute.expect("bad attribute").key;
                assert!(!key.as_ref().ends_with(b"href") && !key.as_ref().starts_with(b"on"));
            }
        }
    }
    assert!(!svg.contains("url(") && !svg.contains("NaN") && !svg.contains("inf\""));
}

#[test]
fn drawings_of_sets_are_well_formed_and_the_same_every_time() {
    let evil = Some("</text><script>alert(1)</script>&\"'".to_owned());
    let track = TrackProps { name: evil.clone(), ..Default::default() };
    let clip = ClipProps { name: evil, muted: Some(true), ..Default::default() };
    let set = edited(
        &example_set(),
        &[
            LiveEdit::SetTrackProps { track_id: path("track:0"), props: track },
            LiveEdit::SetClipProps { clip_id: path(BEAT), props: clip },
        ],
    );
    let all = [0, 60, 127].map(|p| Note { muted: p == 60, probability: 0.5, ..Note::new(p, f64::from(p), 0.25) });
    let (wide, empty) = (with_notes(&set, &all), with_notes(&set, &[]));
    check_svg(&session::draw(&set, 800));
    check_svg(&session::draw(&set, 0));
    for set in [&set, &wide, &empty] {
        for width in [320, 1200, 4096] {
            let drawn = piano_roll::draw_clip(set, path(BEAT), width).unwrap();
            assert_eq!(drawn, piano_roll::draw_clip(set, path(BEAT), width).unwrap());
            assert_eq!((drawn.picture.width, drawn.picture.height), (width, drawn.height));
            check_svg(&drawn.picture);
        }
    }
    assert_eq!(piano_roll::draw_clip(&wide, path(BEAT), 640).unwrap().pitch_range, Some([0, 127]));
    assert_eq!(piano_roll::draw_clip(&empty, path(BEAT), 640).unwrap().pitch_range, None);
    for (id, width, code) in
        [(BEAT, 319, "BAD_INPUT"), ("track:2/clip:0", 640, "WRONG_TYPE"), ("track:0", 640, "WRONG_TYPE")]
    {
        assert_eq!(piano_roll::draw_clip(&set, path(id), width).expect_err(id).code().as_str(), code);
    }
}

#[test]
fn damaged_sets_are_drawn_without_a_panic() {
    let xml = example_set().to_xml();
    for at in (0..xml.len()).step_by(xml.len() / 150).filter(|at| xml.is_char_boundary(*at)) {
        if let Ok(set) = conductor_set::Document::from_xml(format!("{}{}", &xml[..at], &xml[at + 1..])) {
            session::draw(&set, 800);
        }
    }
}

#[test]
fn text_is_shortened_to_its_room() {
    assert_eq!(session::shorten("Drums", 10.0, 100.0), "Drums");
    assert_eq!(session::shorten("A very long name", 10.0, 40.0), "A ve…");
    assert_eq!(session::shorten("A very long name", 10.0, 5.0), "");
}

#[test]
fn coordinates_are_short() {
    assert_eq!([1.0, 0.126, -0.001].map(super::svg::number), ["1", "0.13", "0"]);
}
