//! Broken and malicious files: they are refused or opened with a diagnostic, without a panic. Not
//! here: their memory use (`tests/memory`).

use conductor_patch::{
    AmxdError, CanvasId, CordEnds, Document, Edit, EditError, Fault, Format, Limits, NewBox, Op, OpenError, Point,
    WarningCode,
};
use proptest::prelude::*;

use crate::corpus::{self, fixture};

fn open(text: &str) -> Result<Document, OpenError> {
    Document::open(text.as_bytes(), Format::Maxpat, &Limits::default())
}

fn root(op: Op) -> Edit {
    Edit { canvas: CanvasId::ROOT, op }
}

const TWINS: &str = r#"{"patcher": {"boxes": [
  {"box": {"id": "obj-1", "maxclass": "newobj", "text": "metro 100", "numinlets": 2, "numoutlets": 1, "patching_rect": [10.0, 10.0, 60.0, 22.0]}},
  {"box": {"id": "obj-1", "maxclass": "newobj", "text": "print a", "numinlets": 1, "numoutlets": 0, "patching_rect": [10.0, 60.0, 60.0, 22.0]}},
  {"box": {"maxclass": "newobj", "text": "print b", "numinlets": 1, "numoutlets": 0, "patching_rect": [10.0, 110.0]}},
  {"box": {"id": "obj-4", "maxclass": "button", "patching_rect": [100.0, 10.0, 24.0, 24.0]}},
  {"nobox": 1}, 7
], "lines": [
  {"patchline": {"source": ["obj-1", 0], "destination": ["obj-4", 0]}},
  {"patchline": {"source": ["obj-1", 0], "destination": ["obj-99", 0]}},
  {"patchline": {"source": ["obj-1", 5], "destination": ["obj-4", 0]}},
  {"patchline": {"source": [], "destination": "x"}}, []
]}}"#;

#[test]
fn faults_are_tolerated_and_reported() {
    let document = open(TWINS).unwrap();
    assert_eq!(document.to_bytes(), TWINS.as_bytes());
    let all: Vec<&str> = document.diagnostics().iter().map(|d| d.message.as_str()).collect();
    for part in [
        "share the id obj-1",
        "has no id",
        "has no size",
        "missing box \"obj-99\"",
        "which has fewer",
        "contains no box",
        "has no inlet",
        "no appversion",
    ] {
        assert!(all.iter().any(|message| message.contains(part)), "{part}: {all:?}");
    }
    let keys: Vec<String> = document.root().boxes().map(|object| object.key().to_owned()).collect();
    assert_eq!(keys, ["~1", "~2", "~3", "obj-4"]);
    let dangling: Vec<bool> = document.root().cords().map(|cord| cord.dangling()).collect();
    assert_eq!(dangling, [false, true, true, true]);
    assert_eq!(document.root().by_key("~3").unwrap().rect().h, 22.0, "the size does not come from the table");
}

#[test]
fn cords_to_twins_are_refused_or_warned_about() {
    let mut document = open(TWINS).unwrap();
    let connect = |from: &str, to: &str| {
        root(Op::Connect { ends: CordEnds { from: from.into(), outlet: 0, to: to.into(), inlet: 1 }, hidden: false })
    };
    let applied = document.apply(&[connect("obj-4", "~1")]).unwrap();
    assert!(applied.warnings.iter().any(|warning| warning.code == WarningCode::DuplicateId));
    let ends = |to: &str| {
        root(Op::Connect { ends: CordEnds { from: "~1".into(), outlet: 0, to: to.into(), inlet: 0 }, hidden: false })
    };
    for to in ["~2", "~3"] {
        assert!(matches!(document.apply(&[ends(to)]).unwrap_err().error, EditError::Unreachable { .. }), "{to}");
    }
}

#[test]
fn the_last_of_duplicate_keys_counts_and_all_are_kept() {
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"a","maxclass":"button","patching_rect":[0,0,9,9]}}],"lines":[{"patchline":{"source":["b",0],"destination":["b",0]}}],"boxes":[{"box":{"id":"z","id":"b","maxclass":"toggle","patching_rect":[0,0,9,9]}}]}}"#;
    let mut document = open(text).unwrap();
    assert_eq!(document.to_bytes(), text.as_bytes());
    let root_view = document.root();
    assert_eq!(root_view.boxes().map(|object| object.key().to_owned()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(root_view.cords().filter(|cord| cord.from().is_some()).count(), 1);
    document
        .apply(&[root(Op::Add(NewBox {
            class: "button".into(),
            position: Point::new(50.0, 50.0),
            ..NewBox::default()
        }))])
        .unwrap();
    let value: serde_json::Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    assert_eq!(value["patcher"]["boxes"].as_array().unwrap().len(), 2);
}

#[test]
fn broken_json_names_the_place() {
    for (text, line, part) in [
        ("{\n \"patcher\": {\n  \"boxes\": [\n", 4, "ends too early"),
        ("{\n \"patcher\": {,}\n}", 2, "expected a string"),
        ("{\"patcher\": {}} x", 1, "unexpected text"),
        ("", 1, "ends too early"),
        ("{\"patcher\": {\"boxes\": [{\"box\": {\"text\": \"\u{1}\"}}]}}", 1, "control character"),
    ] {
        match open(text) {
            Err(OpenError::Json(error)) => {
                assert!(error.line == line && error.what.contains(part), "{error} for {text:?}")
            }
            other => panic!("{other:?} for {text:?}"),
        }
    }
    let bytes = b"{\"patcher\": {\"boxes\": [], \"x\": \"\xff\"}}".to_vec();
    assert!(matches!(Document::open(bytes, Format::Maxpat, &Limits::default()), Err(OpenError::Json(_))));
    assert!(matches!(open("{}"), Err(OpenError::NotAPatch { .. })));
    assert!(matches!(open("[]"), Err(OpenError::Json(_))));
}

#[test]
fn lone_surrogates_survive() {
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"comment","text":"a\ud800b","patching_rect":[0,0,9,9]}}],"lines":[]}}"#;
    let document = open(text).unwrap();
    assert_eq!(document.root().boxes().next().unwrap().text(), "a\u{fffd}b");
    assert_eq!(document.to_bytes(), text.as_bytes());
}

fn nested_max(depth: usize) -> String {
    let open = r#"{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"p","patcher":"#;
    format!("{{\"patcher\":{}{{}}{}}}", open.repeat(depth), "}}],\"lines\":[]}".repeat(depth))
}

fn nested_pd(depth: usize) -> String {
    format!(
        "#N canvas 0 0 9 9 12;\n{}{}",
        "#N canvas 0 0 9 9 sub 0;\n".repeat(depth),
        "#X restore 1 1 pd sub;\n".repeat(depth)
    )
}

#[test]
fn depth_is_bounded() {
    let pd = |text: String| Document::open(text.into_bytes(), Format::Pd, &Limits::default());
    assert!(open(&nested_max(64)).is_ok());
    assert!(matches!(open(&nested_max(65)), Err(OpenError::TooDeep { limit: 64, .. })));
    assert!(matches!(open(&nested_max(100_000)), Err(OpenError::TooDeep { .. })));
    assert!(pd(nested_pd(64)).is_ok());
    assert!(matches!(pd(nested_pd(65)), Err(OpenError::TooDeep { limit: 64, .. })));
    assert!(matches!(open(&format!("{{\"patcher\":{{\"x\":{}", "[".repeat(1_000_000))), Err(OpenError::Json(_))));
}

#[test]
fn size_and_number_are_bounded() {
    let limit = Limits::default().max_bytes;
    assert!(matches!(
        Document::open(vec![b' '; limit + 1], Format::Maxpat, &Limits::default()),
        Err(OpenError::TooLarge { .. })
    ));
    let many = format!("{{\"patcher\":{{\"boxes\":[{}{{}}]}}}}", "{},".repeat(300_000));
    assert!(matches!(open(&many), Err(OpenError::TooManyItems { .. })));
}

#[test]
fn broken_pd_files() {
    let pd = |text: &str| Document::open(text.as_bytes().to_vec(), Format::Pd, &Limits::default());
    assert!(matches!(pd(""), Err(OpenError::NotAPatch { .. })));
    assert!(matches!(pd("hello;"), Err(OpenError::NotAPatch { .. })));
    assert!(matches!(
        pd("#N canvas 0 0 1 1 12;\n#N canvas 0 0 1 1 a 0;\n"),
        Err(OpenError::Unclosed { canvases: 1, .. })
    ));
    let odd = "#N canvas 0 0 1 1 12;\n#X restore 1 2 pd x;\n#X obj;\n#X obj 1;\n#X connect 0 0;\n#X connect 0 0 9 0;\n#X connect a b c d;\n#A 1 2;\n#X floatatom 1 2;\nrest \\";
    let document = pd(odd).unwrap();
    assert_eq!(document.to_bytes(), odd.as_bytes());
    assert!(document.diagnostics().len() >= 3, "{:?}", document.diagnostics());
}

#[test]
fn a_device_keeps_its_frame_in_order() {
    for name in ["effect.amxd", "frozen.amxd"] {
        let sample = fixture(name);
        let mut document = sample.open();
        for text in ["a comment that makes the device longer", ""] {
            document
                .apply(&[root(Op::Add(NewBox {
                    class: "comment".into(),
                    position: Point::new(9.0, 300.0),
                    arguments: vec![text.into()],
                    ..NewBox::default()
                }))])
                .unwrap();
        }
        document.apply(&[root(Op::Remove("obj-1".into()))]).unwrap();
        let bytes = document.to_bytes();
        let big = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize, bytes.len() - 20);
        let json = big(32) - 16;
        assert_eq!(bytes[36 + json - 1], 0, "the length does not include the NUL");
        serde_json::from_slice::<serde_json::Value>(&bytes[36..36 + json - 1]).unwrap();
        let field = |name: &[u8], n: usize| {
            bytes.windows(4).enumerate().filter(|(_, window)| *window == name).nth(n).map(|(at, _)| big(at + 8))
        };
        assert_eq!(field(b"sz32", 0), Some(json));
        assert_eq!(field(b"of32", 0), Some(16));
        if name == "frozen.amxd" {
            let offset = field(b"of32", 1).unwrap();
            assert!(bytes[20 + offset..].starts_with(b"a second file"), "{offset}");
        }
        let again = Document::open(bytes.clone(), Format::Amxd, &Limits::default()).unwrap();
        assert_eq!(again.read_only(), None);
        assert_eq!(again.to_bytes(), bytes);
    }
}

#[test]
fn a_device_whose_numbers_do_not_add_up_is_read_only() {
    let sample = fixture("frozen.amxd");
    let at = sample.bytes.windows(4).rposition(|window| window == b"of32").unwrap() + 8;
    let mut bytes = sample.bytes.clone();
    bytes[at + 3] = bytes[at + 3].wrapping_sub(9);
    let mut document = Document::open(bytes.clone(), Format::Amxd, &Limits::default()).unwrap();
    assert!(document.read_only().is_some());
    assert_eq!(document.to_bytes(), bytes);
    let refused = document.apply(&[root(Op::Remove("obj-1".into()))]).unwrap_err();
    assert_eq!(refused.error.fault(), Fault::Unsupported);
    assert!(matches!(
        Document::open(b"ampf".to_vec(), Format::Amxd, &Limits::default()),
        Err(OpenError::Amxd(AmxdError::Header))
    ));
    let cut = sample.bytes[..200].to_vec();
    assert!(matches!(
        Document::open(cut, Format::Amxd, &Limits::default()),
        Err(OpenError::Amxd(AmxdError::Length { .. }))
    ));
}

#[test]
fn a_document_only_holds_what_it_names() {
    // Opening reads no other file and executes nothing, so dangerous object names have no effect.
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"shell rm -rf /","patching_rect":[0,0,9,9]}},{"box":{"id":"obj-2","maxclass":"newobj","text":"node.script evil.js @autostart 1","patching_rect":[0,0,9,9]}}],"lines":[]}}"#;
    assert_eq!(open(text).unwrap().root().box_count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Truncated and corrupted files are opened without loss or refused.
    #[test]
    fn damaged_files_never_panic(which in 0usize..12, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let samples = corpus::fixtures();
        let sample = &samples[which % samples.len()];
        let mut bytes = sample.bytes.clone();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(mut document) = Document::open(bytes.clone(), sample.format, &Limits::default()) {
            prop_assert!(document.to_bytes() == bytes);
            let view = document.root();
            for object in view.boxes() {
                let _ = (object.ports(), object.attribute("name"), object.stored_value());
            }
            let _ = conductor_patch::validate::validate(&view, &Default::default());
            let _ = document.apply(&[root(Op::Add(NewBox { class: "button".into(), position: Point::new(5.0, 5.0), ..NewBox::default() }))]);
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in [Format::Maxpat, Format::Amxd, Format::Pd] {
            let _ = Document::open(bytes.clone(), format, &Limits::default());
        }
        let mut pd = b"#N canvas 0 0 1 1 12;\n".to_vec();
        pd.extend_from_slice(&bytes);
        if let Ok(document) = Document::open(pd.clone(), Format::Pd, &Limits::default()) {
            prop_assert!(document.to_bytes() == pd);
        }
    }
}
