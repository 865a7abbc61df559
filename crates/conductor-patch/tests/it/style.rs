//! Edited parts have the style of the file, and no other line changes.

use conductor_patch::{Atom, CanvasId, CordEnds, Document, Edit, NewBox, Op, Point, Value, diff};

use crate::corpus::{self, fixture};

fn root(op: Op) -> Edit {
    Edit { canvas: CanvasId::ROOT, op }
}

fn new_metro() -> Op {
    Op::Add(NewBox {
        class: "metro".into(),
        arguments: vec![Atom::Int(500)],
        position: Point::new(600.0, 420.5),
        varname: Some("clock".into()),
        ..NewBox::default()
    })
}

fn added_lines(name: &str, op: Op) -> (String, usize, usize) {
    let before = fixture(name).open();
    let mut after = before.clone();
    after.apply(&[root(op)]).unwrap();
    let found = diff(&before, &after, 0);
    let lines: Vec<&str> = found.text.lines().filter(|line| !line.starts_with("@@")).collect();
    (lines.join("\n"), found.lines_added, found.lines_removed)
}

#[test]
fn a_box_in_the_classic_style() {
    let (text, added, removed) = added_lines("classic.maxpat", new_metro());
    let expected = "\
, \t\t\t{
+\t\t\t\t\"box\" : \t\t\t\t{
+\t\t\t\t\t\"id\" : \"obj-14\",
+\t\t\t\t\t\"maxclass\" : \"newobj\",
+\t\t\t\t\t\"numinlets\" : 2,
+\t\t\t\t\t\"numoutlets\" : 1,
+\t\t\t\t\t\"outlettype\" : [ \"bang\" ],
+\t\t\t\t\t\"patching_rect\" : [ 600.0, 420.5, 63.0, 22.0 ],
+\t\t\t\t\t\"text\" : \"metro 500\",
+\t\t\t\t\t\"varname\" : \"clock\"
+\t\t\t\t}
+
+\t\t\t}";
    assert!(text.contains(expected), "{text}");
    assert_eq!((added, removed), (13, 0));
}

#[test]
fn a_box_in_the_other_styles() {
    let (text, added, removed) = added_lines("inline.maxpat", new_metro());
    assert!(
        text.contains("+            {\n+                \"box\": {\n+                    \"id\": \"obj-14\","),
        "{text}"
    );
    assert!(text.contains("+                    \"outlettype\": [ \"bang\" ],\n+                    \"patching_rect\": [ 600.0, 420.5, 63.0, 22.0 ],"), "{text}");
    assert_eq!((added, removed), (12, 0), "the diff does not only add the lines of the box: {text}");
    let (text, ..) = added_lines("four-spaces.maxpat", new_metro());
    assert!(
        text.contains(
            "+                    \"outlettype\": [\n+                        \"bang\"\n+                    ],"
        ),
        "{text}"
    );
    let (text, ..) = added_lines("two-spaces.maxpat", new_metro());
    assert!(text.contains("+          \"patching_rect\": [\n+            600.0,\n+            420.5,"), "{text}");
    let (text, ..) = added_lines("tab-compact.maxpat", new_metro());
    assert!(text.contains("+\t\t\t\t\t\"id\": \"obj-14\",\n"), "{text}");
    let (text, ..) = added_lines("minified.maxpat", new_metro());
    assert!(text.contains(r#",{"box":{"id":"obj-14","maxclass":"newobj","numinlets":2,"numoutlets":1,"outlettype":["bang"],"patching_rect":[600.0,420.5,63.0,22.0],"text":"metro 500","varname":"clock"}}]"#), "{text}");
}

#[test]
fn line_ends_follow_the_file() {
    let mut document = fixture("classic-crlf.maxhelp").open();
    document.apply(&[root(new_metro())]).unwrap();
    let text = String::from_utf8(document.to_bytes()).unwrap();
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
}

#[test]
fn a_first_box_and_a_first_cord_open_their_lists() {
    let before = fixture("empty-classic.maxpat");
    let mut document = before.open();
    let applied = document
        .apply(&[
            root(new_metro()),
            root(Op::Connect {
                ends: CordEnds { from: "clock".into(), outlet: 0, to: "clock".into(), inlet: 0 },
                hidden: false,
            }),
        ])
        .unwrap();
    let text = String::from_utf8(document.to_bytes()).unwrap();
    assert!(text.contains("\t\t\"boxes\" : [ \t\t\t{\n\t\t\t\t\"box\" : \t\t\t\t{\n"), "{text}");
    assert!(text.contains("\t\t\"lines\" : [ \t\t\t{\n\t\t\t\t\"patchline\" : \t\t\t\t{\n\t\t\t\t\t\"destination\" : [ \"obj-1\", 0 ],\n\t\t\t\t\t\"source\" : [ \"obj-1\", 0 ]\n\t\t\t\t}\n\n\t\t\t}\n ]\n"), "{text}");
    document.apply(&[root(Op::Restore(applied.inverse))]).unwrap();
    assert_eq!(document.to_bytes(), before.bytes);
}

#[test]
fn a_patcher_without_lists_gets_them() {
    let text = "{\n\t\"patcher\" : \t{\n\t\t\"fileversion\" : 1\n\t}\n\n}\n";
    let mut document = Document::open(text.as_bytes(), conductor_patch::Format::Maxpat, &Default::default()).unwrap();
    document.apply(&[root(new_metro())]).unwrap();
    let bytes = document.to_bytes();
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["patcher"]["boxes"][0]["box"]["text"], "metro 500");
}

/// In every style, a small edit (move, name, font size) changes at most two lines.
#[test]
fn a_small_edit_changes_few_lines() {
    // Devices are skipped: their frame contains a length that changes too, which another test
    // covers.
    for sample in corpus::all().into_iter().filter(|sample| sample.format != conductor_patch::Format::Amxd) {
        let before = sample.open();
        let lines = sample.bytes.iter().filter(|b| **b == b'\n').count();
        let Some((canvas, id)) = first_object(&before) else {
            continue;
        };
        let rect = before.view(&canvas).unwrap().get(id).unwrap().rect();
        let moved = Op::SetRect { target: id.into(), position: Point::new(rect.x + 7.0, rect.y), size: None };
        let named = Op::SetVarname { target: id.into(), name: Some("a_name_of_its_own".into()) };
        let font = Op::SetAttribute {
            target: id.into(),
            name: "fontsize".into(),
            value: Value::One(Atom::Float(13.0)),
            allow_unknown: false,
        };
        for (op, most) in [(moved, 1), (named, 2), (font, 2)] {
            let mut after = before.clone();
            if after.apply(&[Edit { canvas: canvas.clone(), op }]).is_err() {
                continue;
            }
            let found = diff(&before, &after, 0);
            // In a file of one line, that line changes.
            assert!(found.lines_added <= most || lines < 3, "{}: {}", sample.name, found.text);
            assert!(found.lines_removed <= most, "{}: {}", sample.name, found.text);
        }
    }
}

fn first_object(document: &Document) -> Option<(CanvasId, conductor_patch::BoxId)> {
    let mut found = None;
    document.walk(&mut |view| {
        if found.is_none() {
            found = view
                .boxes()
                .find(|object| matches!(object.native_class(), None | Some("obj" | "msg")))
                .map(|object| (view.id().clone(), object.id()));
        }
    });
    found
}

#[test]
fn untouched_numbers_keep_their_spelling() {
    let text = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"t","numinlets":1,"numoutlets":1,"patching_rect":[1e1,20.500,3.0E1,22]}}],"lines":[]}}"#;
    let mut document = Document::open(text.as_bytes(), conductor_patch::Format::Maxpat, &Default::default()).unwrap();
    document
        .apply(&[root(Op::SetRect { target: "obj-1".into(), position: Point::new(11.0, 20.5), size: None })])
        .unwrap();
    assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), text.replace("[1e1,", "[11.0,"));
}

/// Printed statements have the same line breaks as in Pd.
#[test]
fn pd_statements_are_wrapped_as_pd_does() {
    let (mut same, mut all) = (0, 0);
    for sample in corpus::pd() {
        let before = sample.open();
        let mut after = before.clone();
        let mut ids = Vec::new();
        for object in
            before.root().boxes().filter(|object| object.native_class() == Some("obj") && object.text().len() > 20)
        {
            ids.push((object.id(), object.text().to_owned()));
        }
        for (id, text) in ids {
            all += 1;
            after.apply(&[root(Op::SetText { target: id.into(), text, allow_unknown: true })]).unwrap();
            same += usize::from(after.to_bytes() == sample.bytes);

            after = before.clone();
        }
    }
    println!("{same} of {all} statements were printed unchanged");
    assert!(same * 100 >= all * 97, "{same} of {all}");
}
