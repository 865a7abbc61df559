//! Tests the results and the errors of each edit.

use conductor_patch::{
    Atom, Basis, CanvasId, CordEnds, Document, Edit, EditError, Fault, Format, JournalLimits, Limits, LookupError,
    NewBox, Op, Outcome, Patch, PatchError, Point, Ports, Query, StoredIn, Target, Value, WarningCode, diff, find,
};

use crate::corpus::fixture;

fn root(op: Op) -> Edit {
    Edit { canvas: CanvasId::ROOT, op }
}

fn ends(from: &str, outlet: u32, to: &str, inlet: u32) -> CordEnds {
    CordEnds { from: from.into(), outlet, to: to.into(), inlet }
}

fn add(class: &str, x: f64, y: f64) -> NewBox {
    NewBox { class: class.into(), position: Point::new(x, y), ..NewBox::default() }
}

fn set_text(target: &str, text: &str) -> Op {
    Op::SetText { target: target.into(), text: text.into(), allow_unknown: false }
}

fn set(target: &str, name: &str, value: Value) -> Op {
    Op::SetAttribute { target: target.into(), name: name.into(), value, allow_unknown: false }
}

fn patch(name: &str) -> Patch {
    Patch::new(fixture(name).open(), JournalLimits::default())
}

fn one(document: &mut Document, op: Op) -> Result<Outcome, EditError> {
    document.apply(&[root(op)]).map(|mut applied| applied.outcomes.remove(0)).map_err(|refused| refused.error)
}

fn fault(document: &mut Document, op: Op) -> (Fault, String) {
    let before = document.to_bytes();
    let error = one(document, op).expect_err("the edit was not refused");
    assert_eq!(document.to_bytes(), before, "a refused edit changed the document");
    assert!(!error.hint().is_empty());
    (error.fault(), error.to_string())
}

#[test]
fn adding_knows_classes_sizes_and_ports() {
    let mut document = Document::create(Format::Maxpat);
    let new = NewBox { arguments: vec![Atom::Int(440)], varname: Some("osc1".into()), ..add("cycle~", 100.0, 100.0) };
    let Outcome::Added { key, index, text, rect, ports, .. } = one(&mut document, Op::Add(new)).unwrap() else {
        panic!()
    };
    assert_eq!((key.as_str(), index, text.as_str()), ("obj-1", 0, "cycle~ 440"));
    assert_eq!((rect.w, rect.h), (66.0, 22.0));
    assert_eq!((ports.inlets, ports.outlets, ports.basis), (Some(2), Some(1), Basis::File));
    let Outcome::Added { rect, ports, text, .. } = one(&mut document, Op::Add(add("toggle", 300.0, 100.0))).unwrap()
    else {
        panic!()
    };
    assert_eq!((rect.w, rect.h, text.as_str()), (24.0, 24.0, ""));
    assert_eq!(ports.outlet_types.unwrap(), ["int"]);
    let message = NewBox { arguments: vec!["a, b; c".into(), Atom::Float(2.0)], ..add("message", 300.0, 200.0) };
    let Outcome::Added { text, .. } = one(&mut document, Op::Add(message)).unwrap() else { panic!() };
    assert_eq!(text, "a, b; c 2.");
    // A user interface object accepts no arguments. The error about an unknown class suggests
    // similar classes.
    assert_eq!(
        fault(&mut document, Op::Add(NewBox { arguments: vec![Atom::Int(1)], ..add("toggle", 0.0, 0.0) })).0,
        Fault::BadInput
    );
    let error = one(&mut document, Op::Add(add("cycel~", 0.0, 0.0))).unwrap_err();
    assert!(error.hint().contains("cycle~"), "{}", error.hint());
    for bad in [
        add("", 0.0, 0.0),
        add("cycle~", f64::NAN, 0.0),
        add("cycle~\u{7}", 0.0, 0.0),
        NewBox { size: Some((0.0, 5.0)), ..add("cycle~", 0.0, 0.0) },
    ] {
        assert_eq!(fault(&mut document, Op::Add(bad)).0, Fault::BadInput);
    }
    assert_eq!(
        fault(&mut document, Op::Add(NewBox { varname: Some("osc1".into()), ..add("button", 0.0, 0.0) })).0,
        Fault::BadInput
    );
}

#[test]
fn an_unknown_class_needs_leave_and_gets_no_counts() {
    let mut document = Document::create(Format::Maxpat);
    let applied =
        document.apply(&[root(Op::Add(NewBox { allow_unknown: true, ..add("vendor.thing 3", 10.0, 10.0) }))]).unwrap();
    assert!(applied.warnings.iter().any(|warning| warning.code == WarningCode::UnknownClass));
    assert!(!String::from_utf8(document.to_bytes()).unwrap().contains("numinlets"));
    // A registered abstraction needs no `allow_unknown` and has port counts.
    document.learn_abstraction(
        "my.voice",
        Ports { inlets: Some(2), outlets: Some(1), outlet_types: None, basis: Basis::Structure, exact: true },
    );
    let Outcome::Added { ports, .. } = one(&mut document, Op::Add(add("my.voice", 10.0, 100.0))).unwrap() else {
        panic!()
    };
    assert_eq!((ports.inlets, ports.outlets), (Some(2), Some(1)));
    assert_eq!(document.unknown_classes(), ["vendor.thing"]);
}

#[test]
fn a_new_box_stands_last_or_in_front_of_what_it_covers() {
    let mut document = fixture("inline.maxpat").open();
    let count = document.root().box_count();
    let Outcome::Added { index, .. } = one(&mut document, Op::Add(add("metro", 700.0, 700.0))).unwrap() else {
        panic!()
    };
    assert_eq!(index, count);
    let applied = document.apply(&[root(Op::Add(add("metro", 65.0, 245.0)))]).unwrap();
    let Outcome::Added { index, .. } = &applied.outcomes[0] else { panic!() };
    assert_eq!(document.root().boxes().nth(index + 1).unwrap().key(), "obj-2");
    assert!(applied.warnings.iter().any(|warning| warning.code == WarningCode::Overlap));
}

#[test]
fn subpatchers_are_made_empty_and_can_be_filled() {
    for format in [Format::Maxpat, Format::Pd] {
        let mut patch = Patch::new(Document::create(format), JournalLimits::default());
        let class = if format == Format::Pd { "pd" } else { "p" };
        patch
            .apply(
                &[root(Op::Add(NewBox {
                    arguments: vec!["inner".into()],
                    varname: Some("sub".into()),
                    ..add(class, 50.0, 50.0)
                }))],
                "add",
                None,
            )
            .unwrap();
        let canvas = patch.canvas(&["inner"]).unwrap();
        let inside = |op| Edit { canvas: canvas.clone(), op };
        let edits = [
            inside(Op::Add(NewBox { handle: Some("$i".into()), ..add("inlet", 40.0, 20.0) })),
            inside(Op::Add(NewBox { handle: Some("$o".into()), ..add("outlet", 40.0, 90.0) })),
            inside(Op::Connect { ends: ends("$i", 0, "$o", 0), hidden: false }),
        ];
        let revised = patch.apply(&edits, "fill", Some(2)).unwrap();
        assert_eq!(revised.applied.handles.len(), 2);
        // The port counts outside are updated.
        let ports = patch.document().root().boxes().next().unwrap().ports();
        assert_eq!((ports.inlets, ports.outlets), (Some(1), Some(1)), "{format:?}");
        let again = Document::open(patch.document().to_bytes(), format, &Limits::default()).unwrap();
        assert_eq!(again.root().subpatchers(true).len(), 1);
        assert_eq!(again.root().boxes().next().unwrap().inside().unwrap().cord_count(), 1);
    }
}

#[test]
fn cords_outside_stay_with_their_inlet() {
    for (name, holder, from) in [("classic.maxpat", "obj-8", "obj-5"), ("synth.pd", "~7", "~5")] {
        let mut patch = patch(name);
        let canvas = patch.canvas(&["scale"]).unwrap();
        // A second inlet to the left of the first becomes number 0; the cord stays with the first
        // inlet, now number 1.
        patch
            .apply(
                &[Edit {
                    canvas: canvas.clone(),
                    op: Op::Add(NewBox { varname: Some("left".into()), ..add("inlet", 5.0, 40.0) }),
                }],
                "add",
                None,
            )
            .unwrap();
        let inlet = |patch: &Patch| {
            let view = patch.document().root();
            let cord = view.cords().find(|cord| cord.to().is_some_and(|to| to.key() == holder)).unwrap();
            assert_eq!(cord.from().unwrap().key(), from);
            cord.inlet()
        };
        assert_eq!(inlet(&patch), 1, "{name}");
        let reopened =
            Document::open(patch.document().to_bytes(), patch.document().format(), &Limits::default()).unwrap();
        assert!(reopened.root().cords().all(|cord| !cord.dangling()), "{name}");
        patch.apply(&[Edit { canvas, op: Op::Remove("left".into()) }], "remove", None).unwrap();
        assert_eq!(inlet(&patch), 0);
        patch.undo(2).unwrap();
        assert_eq!(patch.document().to_bytes(), fixture(name).bytes);
    }
}

#[test]
fn removing_takes_the_cords_along() {
    let mut document = fixture("classic.maxpat").open();
    let Outcome::Removed { key, text, cords, .. } = one(&mut document, Op::Remove("gain".into())).unwrap() else {
        panic!()
    };
    assert_eq!((key.as_str(), text.as_str(), cords), ("obj-2", "*~ 0.1", 4));
    assert_eq!(document.root().cord_count(), 4);
    assert_eq!(fault(&mut document, Op::Remove("obj-2".into())).0, Fault::StaleReference);
    assert_eq!(fault(&mut document, Op::Remove("gane".into())).0, Fault::NotFound);
}

#[test]
fn pd_cords_are_renumbered_when_a_box_goes() {
    let mut document = fixture("synth.pd").open();
    one(&mut document, Op::Remove("~1".into())).unwrap();
    let text = String::from_utf8(document.to_bytes()).unwrap();
    assert!(text.contains("#X connect 0 0 1 0;\n#X connect 0 0 1 1;\n#X connect 3 0 5 0;\n#X connect 5 0 0 1;\n#X connect 6 0 7 0;\n#X coords"), "{text}");
}

#[test]
fn replacing_keeps_what_it_can() {
    let mut document = fixture("classic.maxpat").open();
    // The new object has no outlets (the old one has three) and the same number of inlets.
    let before = document.clone();
    let outcome = one(&mut document, set_text("obj-11", "print x")).unwrap();
    assert_eq!(outcome, Outcome::TextSet { old_text: "trigger b i foo".into(), kept: 1, dropped: vec![] });
    let value: serde_json::Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    let changed = value["patcher"]["boxes"].as_array().unwrap().iter().find(|b| b["box"]["id"] == "obj-11").unwrap();
    assert_eq!(changed["box"]["numoutlets"], 0);
    assert!(changed["box"].get("outlettype").is_none());
    // The old box was wider than its text, so its width stays.
    assert_eq!(document.root().by_key("obj-11").unwrap().rect(), before.root().by_key("obj-11").unwrap().rect());

    let mut document = before.clone();
    let Outcome::TextSet { kept, dropped, .. } = one(&mut document, set_text("gain", "sig~ 2")).unwrap() else {
        panic!()
    };
    assert_eq!((kept, dropped.len()), (3, 1));
    assert_eq!((dropped[0].from.as_str(), dropped[0].to.as_str(), dropped[0].inlet), ("obj-8", "gain", 1));
    assert!(dropped[0].reason.contains("number of inlets: 1"), "{}", dropped[0].reason);
    let folded = document.root().cords().find(|cord| !cord.midpoints().is_empty()).unwrap();
    assert_eq!(folded.from().unwrap().varname(), Some("gain"));

    let mut document = before.clone();
    assert_eq!(fault(&mut document, set_text("gain", "nosuch~ 2")).0, Fault::BadInput);
    assert_eq!(fault(&mut document, set_text("gain", "  ")).0, Fault::BadInput);
    // The arguments of an unknown class can be changed.
    one(&mut document, set_text("obj-13", "vendor.thing 5")).unwrap();
    assert_eq!(document.root().by_key("obj-13").unwrap().ports().inlets, Some(1));
    // The text of a message or comment is not parsed as a class.
    one(&mut document, set_text("fade", "")).unwrap();
    one(&mut document, set_text("obj-6", "cycle~ is only a word here")).unwrap();
    assert_eq!(document.root().by_key("obj-6").unwrap().maxclass(), "comment");
}

#[test]
fn an_object_becomes_a_user_interface_object_and_back() {
    let mut document = fixture("inline.maxpat").open();
    one(&mut document, set_text("obj-11", "toggle")).unwrap();
    let toggle = document.root().by_key("obj-11").unwrap();
    assert_eq!((toggle.maxclass(), toggle.text()), ("toggle", ""));
    one(&mut document, set_text("obj-11", "t b b")).unwrap();
    let object = document.root().by_key("obj-11").unwrap();
    assert_eq!((object.maxclass(), object.text(), object.ports().outlets), ("newobj", "t b b", Some(2)));
    // When the class changes, the embedded patcher is removed; undo restores it.
    let bytes = document.to_bytes();
    let applied = document.apply(&[root(set_text("obj-8", "metro 5"))]).unwrap();
    assert!(document.root().by_key("obj-8").unwrap().inside().is_none());
    assert!(!String::from_utf8(document.to_bytes()).unwrap().contains("saved_object_attributes"));
    document.apply(&[root(Op::Restore(applied.inverse))]).unwrap();
    assert_eq!(document.to_bytes(), bytes);
}

#[test]
fn attributes_live_in_the_box_or_in_its_text() {
    let mut document = fixture("classic.maxpat").open();
    let Outcome::AttributeSet { old, value, stored_in } =
        one(&mut document, set("obj-1", "fontsize", Value::One(Atom::Int(14)))).unwrap()
    else {
        panic!()
    };
    assert_eq!((old, value, stored_in), (None, Some(Value::One(Atom::Float(14.0))), StoredIn::Box));
    let Outcome::AttributeSet { stored_in, .. } =
        one(&mut document, set("obj-1", "phase", Value::One(Atom::Float(0.25)))).unwrap()
    else {
        panic!()
    };
    assert_eq!(stored_in, StoredIn::Text);
    assert_eq!(document.root().by_key("obj-1").unwrap().text(), "cycle~ 440 @phase 0.25");
    one(&mut document, set("obj-1", "phase", Value::One(Atom::Float(0.5)))).unwrap();
    assert_eq!(document.root().by_key("obj-1").unwrap().text(), "cycle~ 440 @phase 0.5");
    assert_eq!(document.root().by_key("obj-1").unwrap().attribute("phase"), Some(Value::One(Atom::Float(0.5))));
    one(&mut document, set("obj-4", "minimum", Value::One(Atom::Int(0)))).unwrap();
    for (name, value) in [
        ("id", Value::One("x".into())),
        ("text", Value::One("x".into())),
        ("patcher", Value::One("x".into())),
        ("fontsize", Value::Many(vec![])),
        ("phaze", Value::One(Atom::Int(1))),
        ("presentation_rect", Value::Many(vec![1.0.into(); 3])),
        ("patching_rect", Value::One("x".into())),
        ("a b", Value::One(Atom::Int(1))),
        ("hidden", Value::One(Atom::Int(2))),
        ("hidden", Value::One("x".into())),
        ("hidden", Value::Many(vec![1.0.into(); 2])),
    ] {
        assert_eq!(fault(&mut document, set("obj-1", name, value)).0, Fault::BadInput, "{name}");
    }
    assert!(one(&mut document, set("obj-1", "phaze", Value::One(Atom::Int(1)))).unwrap_err().hint().contains("phase"));
    let unknown = Op::SetAttribute {
        target: "obj-4".into(),
        name: "vendor_key".into(),
        value: Value::One("v".into()),
        allow_unknown: true,
    };
    one(&mut document, unknown).unwrap();
    assert_eq!(document.root().by_key("obj-4").unwrap().attribute("vendor_key"), Some(Value::One("v".into())));
}

#[test]
fn hidden_is_a_key_that_comes_and_goes() {
    let sample = fixture("classic.maxpat");
    let mut document = sample.open();
    one(&mut document, Op::SetHidden { target: "obj-1".into(), hidden: true }).unwrap();
    assert!(document.root().by_key("obj-1").unwrap().hidden());
    one(&mut document, Op::SetHidden { target: "obj-1".into(), hidden: false }).unwrap();
    assert_eq!(document.to_bytes(), sample.bytes);
    one(&mut document, set("obj-1", "hidden", Value::One(Atom::Int(1)))).unwrap();
    assert!(document.root().by_key("obj-1").unwrap().hidden());
    one(&mut document, set("obj-1", "hidden", Value::One(Atom::Float(0.0)))).unwrap();
    assert_eq!(document.to_bytes(), sample.bytes);
    let mut pd = fixture("synth.pd").open();
    assert_eq!(fault(&mut pd, Op::SetHidden { target: "~1".into(), hidden: true }).0, Fault::Unsupported);
    assert_eq!(fault(&mut pd, Op::SetMidpoints { ends: ends("~1", 0, "~2", 0), points: vec![] }).0, Fault::Unsupported);
}

#[test]
fn names_are_checked_before_any_is_given() {
    let mut document = fixture("inline.maxpat").open();
    let assign = |list: &[(usize, &str)]| {
        Op::AssignVarnames(list.iter().map(|(index, name)| (*index, (*name).to_owned())).collect())
    };
    let Outcome::Named(done) = one(&mut document, assign(&[(1, "osc"), (2, "amp")])).unwrap() else { panic!() };
    assert_eq!((done[1].index, done[1].old_varname.as_deref(), done[1].maxclass.as_str()), (2, Some("gain"), "newobj"));
    // Two names are exchanged in one call.
    one(&mut document, assign(&[(1, "amp"), (2, "osc")])).unwrap();
    assert_eq!(document.root().boxes().nth(1).unwrap().varname(), Some("amp"));
    assert_eq!(fault(&mut document, assign(&[(99, "x")])).1, "Index 99 out of range (0-12)");
    for bad in [&[(1, "a"), (1, "b")][..], &[(1, "a"), (2, "a")], &[(1, "fade")], &[(1, "")]] {
        assert_eq!(fault(&mut document, assign(bad)).0, Fault::BadInput, "{bad:?}");
    }
}

#[test]
fn cords_are_checked_and_never_doubled() {
    let mut document = fixture("inline.maxpat").open();
    assert_eq!(
        one(&mut document, Op::Connect { ends: ends("obj-1", 0, "gain", 0), hidden: false }).unwrap(),
        Outcome::Connected { already: true }
    );
    let (kind, message) = fault(&mut document, Op::Connect { ends: ends("obj-1", 1, "gain", 0), hidden: false });
    assert_eq!(kind, Fault::BadInput);
    assert_eq!(message, "obj-1 has no outlet 1 (inlets: 2, outlets: 1)");
    one(&mut document, Op::Connect { ends: ends("obj-11", 2, "fade", 1), hidden: true }).unwrap();
    assert!(document.root().cords().last().unwrap().hidden());
    let Outcome::MidpointsSet(points) = one(
        &mut document,
        Op::SetMidpoints {
            ends: ends("obj-11", 2, "fade", 1),
            points: vec![Point::new(1.0, 2.0), Point::new(3.5, 4.0)],
        },
    )
    .unwrap() else {
        panic!()
    };
    assert_eq!(points.len(), 2);
    one(&mut document, Op::SetMidpoints { ends: ends("obj-11", 2, "fade", 1), points: vec![] }).unwrap();
    one(&mut document, Op::Disconnect(ends("obj-11", 2, "fade", 1))).unwrap();
    assert_eq!(fault(&mut document, Op::Disconnect(ends("obj-11", 2, "fade", 1))).0, Fault::NotFound);
    // When the counts are unknown, the cord is drawn with a warning.
    let mut fresh = Document::create(Format::Maxpat);
    let edits = [
        root(Op::Add(NewBox { allow_unknown: true, handle: Some("$a".into()), ..add("vendor.x", 0.0, 0.0) })),
        root(Op::Add(NewBox { handle: Some("$b".into()), ..add("button", 0.0, 100.0) })),
        root(Op::Connect { ends: ends("$a", 3, "$b", 0), hidden: false }),
    ];
    let applied = fresh.apply(&edits).unwrap();
    assert!(applied.warnings.iter().any(|warning| warning.code == WarningCode::UnverifiedPorts));
}

#[test]
fn a_batch_is_all_or_nothing_and_its_preview_is_true() {
    let mut patch = patch("two-spaces.maxpat");
    let bytes = patch.document().to_bytes();
    let good = [
        root(Op::Add(NewBox { handle: Some("$m".into()), ..add("metro 100", 700.0, 50.0) })),
        root(Op::Connect { ends: ends("$m", 0, "obj-11", 0), hidden: false }),
        root(Op::Remove("obj-6".into())),
    ];
    let mut bad = good.to_vec();
    bad.push(root(Op::Remove("nothing".into())));
    let Err(PatchError::Refused(refused)) = patch.apply(&bad, "bad", None) else { panic!() };
    assert_eq!(refused.index, 3);
    assert_eq!((patch.revision(), patch.document().to_bytes() == bytes), (1, true));
    let (preview, _) = patch.preview(&good).unwrap();
    let promised = diff(patch.document(), &preview, 3);
    let opened = patch.document().clone();
    let revised = patch.apply(&good, "good", Some(1)).unwrap();
    assert_eq!(revised.revision, 2);
    assert_eq!(diff(&opened, patch.document(), 3).text, promised.text);
    assert_eq!(preview.to_bytes(), patch.document().to_bytes());
    assert!(matches!(patch.apply(&good, "late", Some(1)), Err(PatchError::WrongRevision { expected: 1, now: 2 })));
    // A list that changes nothing does not create a revision.
    let revised =
        patch.apply(&[root(Op::Connect { ends: ends("obj-1", 0, "gain", 0), hidden: false })], "again", None).unwrap();
    assert_eq!((revised.revision, revised.applied.changed), (2, false));
}

#[test]
fn undo_and_redo_have_labels_depths_and_limits() {
    let mut patch = Patch::new(fixture("inline.maxpat").open(), JournalLimits { steps: 3, bytes: usize::MAX });
    assert!(matches!(patch.undo(1), Err(PatchError::Nothing("undo"))));
    for n in 0..5 {
        patch
            .apply(
                &[root(Op::SetRect { target: "gain".into(), position: Point::new(f64::from(n), 0.0), size: None })],
                &format!("move {n}"),
                None,
            )
            .unwrap();
    }
    assert_eq!(patch.depths(), (3, 0));
    assert_eq!(patch.undo(2).unwrap(), ["move 4", "move 3"]);
    assert_eq!(patch.redo(1).unwrap(), ["move 3"]);
    assert_eq!(patch.revision(), 9);
    assert!(patch.dirty());
    patch.mark_saved(patch.document().to_bytes());
    assert!(!patch.dirty());
    patch.apply(&[root(Op::Remove("gain".into()))], "remove", None).unwrap();
    assert_eq!(patch.depths().1, 0, "a new edit did not clear redo");
    assert!(patch.at_revision(9).is_some_and(|document| document.to_bytes() == patch.saved_bytes()));
    assert!(patch.at_revision(2).is_none() && patch.at_revision(99).is_none());
    // Many values in quick succession become one undo step.
    let depth = patch.depths().0;
    patch.apply(&[root(set("obj-1", "fontsize", Value::One(Atom::Float(10.0))))], "knob", None).unwrap();
    for size in 11..20 {
        patch.extend(&[root(set("obj-1", "fontsize", Value::One(Atom::Float(f64::from(size)))))], "knob").unwrap();
    }
    assert_eq!(patch.depths().0, (depth + 1).min(3));
    let turned = patch.document().to_bytes();
    patch.undo(1).unwrap();
    assert_eq!(patch.document().root().by_key("obj-1").unwrap().attribute("fontsize"), None);
    patch.redo(1).unwrap();
    assert_eq!(patch.document().to_bytes(), turned);
}

#[test]
fn references_are_tried_in_order_and_age() {
    let text = r#"{"patcher":{"boxes":[
      {"box":{"id":"obj-1","maxclass":"button","patching_rect":[0,0,9,9],"varname":"obj-2"}},
      {"box":{"id":"obj-2","maxclass":"button","patching_rect":[0,20,9,9],"varname":"twin"}},
      {"box":{"id":"obj-3","maxclass":"button","patching_rect":[0,40,9,9],"varname":"twin"}}],"lines":[]}}"#;
    let mut patch = Patch::new(
        Document::open(text.as_bytes(), Format::Maxpat, &Limits::default()).unwrap(),
        JournalLimits::default(),
    );
    let key = |patch: &Patch, name: &str| {
        patch.object(&CanvasId::ROOT, name).map(|id| patch.document().root().get(id).unwrap().key().to_owned())
    };
    assert_eq!(key(&patch, "obj-2").unwrap(), "obj-1", "a key had precedence over a varname");
    assert_eq!(key(&patch, "obj-3").unwrap(), "obj-3");
    assert!(matches!(key(&patch, "twin"), Err(LookupError::Ambiguous { keys, .. }) if keys == ["obj-2", "obj-3"]));
    assert_eq!(key(&patch, "#1@1").unwrap(), "obj-2");
    assert!(matches!(key(&patch, "#9@1"), Err(LookupError::NotFound { .. })));
    // `#i@rev` refers to the state before the first edit of the call.
    patch.apply(&[root(Op::Remove("#0@1".into())), root(Op::Remove("#1@1".into()))], "remove two", None).unwrap();
    assert_eq!(patch.document().root().boxes().map(|object| object.key().to_owned()).collect::<Vec<_>>(), ["obj-3"]);
    assert!(matches!(key(&patch, "#0@1"), Err(LookupError::OldRevision { now: 2, .. })));
    assert!(matches!(key(&patch, "obj-1"), Err(LookupError::Gone { .. })));
    assert!(
        matches!(key(&patch, "twinn"), Err(LookupError::NotFound { nearest, .. }) if nearest.contains(&"twin".to_owned()))
    );
    assert!(
        matches!(patch.canvas(&["obj-3"]), Err(LookupError::NotFound { .. })),
        "a box without a patcher was found as a canvas"
    );
}

fn edges(document: &Document) -> Vec<String> {
    // Follows cords through subpatchers named `group` to the boxes at their ends.
    fn targets(view: &conductor_patch::View<'_>, id: conductor_patch::BoxId, outlet: u32, out: &mut Vec<String>) {
        for cord in view
            .cords_of(id)
            .into_iter()
            .filter(|cord| cord.from().is_some_and(|from| from.id() == id) && cord.outlet() == outlet)
        {
            let to = cord.to().unwrap();
            if let Some(inside) = to.inside().filter(|_| to.text().ends_with(" group")) {
                let mut gates: Vec<_> = inside.boxes().filter(|b| b.class().starts_with("inlet")).collect();
                gates.sort_by(|a, b| a.rect().x.total_cmp(&b.rect().x));
                targets(&inside, gates[cord.inlet() as usize].id(), 0, out);
            } else if to.class().starts_with("outlet")
                && view.holder().is_some_and(|holder| holder.text().ends_with(" group"))
            {
                let mut gates: Vec<_> = view.boxes().filter(|b| b.class().starts_with("outlet")).collect();
                gates.sort_by(|a, b| a.rect().x.total_cmp(&b.rect().x));
                let number = gates.iter().position(|gate| gate.id() == to.id()).unwrap() as u32;
                let holder = view.holder().unwrap();
                let outer_document = holder.clone();
                targets(&outer_view(&outer_document), holder.id(), number, out);
            } else {
                out.push(format!("{}:{}", to.text().to_owned() + to.maxclass(), cord.inlet()));
            }
        }
    }
    fn outer_view<'a>(holder: &conductor_patch::BoxView<'a>) -> conductor_patch::View<'a> {
        holder.canvas()
    }
    let mut found = Vec::new();
    document.walk(&mut |view| {
        for object in
            view.boxes().filter(|object| !object.text().ends_with(" group") && !object.class().starts_with("inlet"))
        {
            for outlet in 0..object.ports().outlets.unwrap_or(4) {
                let mut out = Vec::new();
                targets(view, object.id(), outlet, &mut out);
                found.extend(
                    out.into_iter().map(|to| format!("{}{}:{outlet} -> {to}", object.text(), object.maxclass())),
                );
            }
        }
    });
    found.sort();
    found
}

#[test]
fn an_encapsulated_group_does_the_same() {
    for (name, members) in [
        ("classic.maxpat", ["gain", "obj-8"]),
        ("inline.maxpat", ["obj-1", "gain"]),
        ("four-spaces.maxpat", ["obj-1", "obj-4"]),
        ("synth.pd", ["~1", "~2"]),
        ("synth.pd", ["~7", "~2"]),
    ] {
        let sample = fixture(name);
        let mut document = sample.open();
        let before = edges(&document);
        let targets = members.iter().map(|member| Target::from(*member)).collect();
        let applied = document
            .apply(&[root(Op::Encapsulate { targets, name: "group".into(), varname: Some("sub".into()) })])
            .unwrap();
        let Outcome::Encapsulated { canvas, .. } = &applied.outcomes[0] else { panic!() };
        assert_eq!(edges(&document), before, "{name} {members:?}");
        let inner = document.view(canvas).unwrap();
        let corner = inner
            .boxes()
            .filter(|object| !object.class().contains("let"))
            .fold((f64::MAX, f64::MAX), |corner, object| {
                (corner.0.min(object.rect().x), corner.1.min(object.rect().y))
            });
        assert_eq!(corner, (50.0, 60.0), "{name}");
        let reopened = Document::open(document.to_bytes(), sample.format, &Limits::default()).unwrap();
        assert_eq!(edges(&reopened), before, "{name} reopened");
        if name == "synth.pd" && members[0] == "~1" {
            let text = String::from_utf8(document.to_bytes()).unwrap();
            assert!(text.contains(" outlet~;"), "{text}");
        }
        document.apply(&[root(Op::Restore(applied.inverse))]).unwrap();
        assert_eq!(document.to_bytes(), sample.bytes);
    }
    let mut document = fixture("classic.maxpat").open();
    assert_eq!(
        fault(&mut document, Op::Encapsulate { targets: vec![], name: "x".into(), varname: None }).0,
        Fault::BadInput
    );
    assert_eq!(
        fault(&mut document, Op::Encapsulate { targets: vec!["gain".into()], name: " ".into(), varname: None }).0,
        Fault::BadInput
    );
    let applied = document
        .apply(&[root(Op::Encapsulate {
            targets: vec!["obj-4".into(), "obj-1".into()],
            name: "x".into(),
            varname: None,
        })])
        .unwrap();
    let codes: Vec<WarningCode> = applied.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [WarningCode::PresentationLost]);
}

#[test]
fn boxes_are_found_by_what_they_say() {
    let document = fixture("classic.maxpat").open();
    let keys = |query: Query, recursive: bool| {
        find(&document.root(), &query, recursive, 100)
            .0
            .iter()
            .map(|object| object.key().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(Query { text: Some("CYCLE".into()), ..Query::default() }, true), ["obj-1"]);
    assert_eq!(
        keys(Query { class: Some("t".into()), ..Query::default() }, true),
        ["obj-11"],
        "an alias did not match its class"
    );
    assert_eq!(keys(Query { class: Some("inlet".into()), ..Query::default() }, true).len(), 2);
    assert_eq!(keys(Query { class: Some("inlet".into()), ..Query::default() }, false).len(), 0);
    assert_eq!(keys(Query { varname: Some("ga".into()), ..Query::default() }, false), ["obj-2"]);
    assert_eq!(
        keys(
            Query { attribute: Some("hidden".into()), value: Some(Value::One(Atom::Float(1.0))), ..Query::default() },
            false
        ),
        ["obj-7"]
    );
    assert_eq!(
        keys(Query { unconnected: Some(true), ..Query::default() }, false),
        ["obj-12", "obj-6", "obj-10", "obj-13"]
    );
    let (found, more) = find(&document.root(), &Query::default(), true, 5);
    assert!(found.len() == 5 && more);
}

#[test]
fn differences_are_named() {
    let before = fixture("classic.maxpat").open();
    let mut after = before.clone();
    after
        .apply(&[
            root(Op::Remove("obj-6".into())),
            root(set_text("gain", "*~ 0.2")),
            root(Op::Disconnect(ends("obj-7", 0, "obj-11", 0))),
            root(Op::SetVarname { target: "obj-4".into(), name: Some("freq".into()) }),
            root(set("obj-4", "fontsize", Value::One(Atom::Float(9.0)))),
        ])
        .unwrap();
    let found = diff(&before, &after, 1);
    let kinds: Vec<&str> = found.changes.iter().map(|change| change.kind.name()).collect();
    assert_eq!(kinds, ["text_changed", "renamed", "attributes_changed", "box_removed", "cord_removed"]);
    assert!(
        found.text.contains("-\t\t\t\t\t\"text\" : \"*~ 0.1\",\n+\t\t\t\t\t\"text\" : \"*~ 0.2\",\n"),
        "{}",
        found.text
    );
    assert!(diff(&before, &before.clone(), 3).identical);
    // Two separately opened copies of a Pd file are paired by box text, not by number.
    let pd = fixture("synth.pd").open();
    let mut shorter = fixture("synth.pd").open();
    shorter.apply(&[root(Op::Remove("~4".into()))]).unwrap();
    let reopened = Document::open(shorter.to_bytes(), Format::Pd, &Limits::default()).unwrap();
    let kinds: Vec<&str> = diff(&pd, &reopened, 0).changes.iter().map(|change| change.kind.name()).collect();
    assert_eq!(kinds, ["box_removed", "cord_removed"]);
}

#[test]
fn pd_names_live_beside_the_file() {
    let sample = fixture("synth.pd");
    let mut document = sample.open();
    assert_eq!(document.names_file(), None);
    one(&mut document, Op::SetVarname { target: "~1".into(), name: Some("osc".into()) }).unwrap();
    one(&mut document, Op::SetVarname { target: "~10".into(), name: Some("ghost".into()) }).unwrap();
    assert_eq!(document.to_bytes(), sample.bytes, "the file itself changed");
    let names = document.names_file().unwrap();
    let mut reopened = sample.open();
    assert_eq!(reopened.take_names(&names).unwrap(), []);
    assert_eq!(reopened.root().by_key("~1").unwrap().varname(), Some("osc"));
    // A moved box is found by its text and index; a name without a box is reported.
    one(&mut reopened, Op::Remove("~10".into())).unwrap();
    one(&mut reopened, Op::SetRect { target: "~1".into(), position: Point::new(99.0, 99.0), size: None }).unwrap();
    let mut third = Document::open(reopened.to_bytes(), Format::Pd, &Limits::default()).unwrap();
    let lost = third.take_names(&names).unwrap();
    assert_eq!(lost.iter().map(|lost| lost.name.as_str()).collect::<Vec<_>>(), ["ghost"]);
    assert_eq!(third.root().by_key("~1").unwrap().varname(), Some("osc"));
    assert!(third.take_names("[]").is_err());
}

#[test]
fn pd_boxes_have_fields_and_widths() {
    let mut document = fixture("synth.pd").open();
    assert_eq!(document.root().by_key("~11").unwrap().attribute("label"), Some(Value::One("level".into())));
    one(&mut document, set("~11", "maximum", Value::One(Atom::Int(1000)))).unwrap();
    one(&mut document, set("~1", "width", Value::One(Atom::Int(20)))).unwrap();
    let text = String::from_utf8(document.to_bytes()).unwrap();
    assert!(text.contains("#X obj 300 200 hsl 128 15 0 1000 0 0"), "{text}");
    assert!(text.contains("#X obj 40 60 osc~ 440, f 20;"), "{text}");
    assert_eq!(document.root().by_key("~1").unwrap().rect().w, 144.0);
    for (class, statement) in [
        ("message", "#X msg 5 5;"),
        ("toggle", "#X obj 5 5 tgl 15 0 empty"),
        ("flonum", "#X floatatom 5 5 5 0 0 0 - - - 0;"),
        ("comment", "#X text 5 5;"),
        ("slider", "#X obj 5 5 hsl 128 15 0 127"),
    ] {
        one(&mut document, Op::Add(add(class, 5.0, 5.0))).unwrap();
        let text = String::from_utf8(document.to_bytes()).unwrap();
        assert!(text.contains(statement), "{class}: {text}");
    }
    let message = NewBox { arguments: vec!["1, $1; pd quit".into()], ..add("message", 7.0, 7.0) };
    one(&mut document, Op::Add(message)).unwrap();
    assert!(String::from_utf8(document.to_bytes()).unwrap().contains("#X msg 7 7 1 \\, \\$1 \\; pd quit;"));
    let reopened = Document::open(document.to_bytes(), Format::Pd, &Limits::default()).unwrap();
    assert_eq!(reopened.root().box_count(), document.root().box_count(), "an escaped semicolon ended a statement");
    assert_eq!(fault(&mut document, set("~1", "colour", Value::One(Atom::Int(1)))).0, Fault::BadInput);
}

/// Rectangles that Pd 0.53.1 drew for these boxes.
#[test]
fn pd_boxes_have_the_size_pd_draws() {
    let long = "osc~ 440 a very long text that goes on and on and on until it wraps at some sixty chars width yes";
    for (class, w, h) in [
        ("osc~ 440", 60.0, 21.0),
        ("f", 25.0, 21.0),
        ("floatatom", 37.0, 20.0),
        ("symbolatom", 72.0, 20.0),
        ("listbox", 142.0, 20.0),
        ("bng", 15.0, 15.0),
        (long, 410.0, 37.0),
    ] {
        let mut document = Document::create(Format::Pd);
        let Outcome::Added { rect, .. } = one(&mut document, Op::Add(add(class, 10.0, 10.0))).unwrap() else {
            panic!()
        };
        assert!((rect.w - w).abs() <= 1.0 && (rect.h - h).abs() <= 1.0, "{class}: {rect:?}");
    }
}

#[test]
fn subpatchers_and_gen_are_seen() {
    let document = fixture("classic.maxpat").open();
    let found = document.root().subpatchers(true);
    let kinds: Vec<(&str, Option<&str>)> = found.iter().map(|sub| (sub.kind, sub.name.as_deref())).collect();
    assert_eq!(kinds, [("patcher", Some("scale")), ("gen~", None), ("bpatcher", None)]);
    let gen_view = document.view(found[1].canvas.as_ref().unwrap()).unwrap();
    assert!(gen_view.is_gen() && gen_view.holder().unwrap().varname() == Some("dsp"));
    assert_eq!(gen_view.key_path(), ["obj-9"]);
    // Inside gen an operator with an argument has one inlet.
    let mut edited = document.clone();
    let applied =
        edited.apply(&[Edit { canvas: gen_view.id().clone(), op: Op::Add(add("* 3", 200.0, 200.0)) }]).unwrap();
    let Outcome::Added { ports, .. } = &applied.outcomes[0] else { panic!() };
    assert_eq!(ports.inlets, Some(1));
    assert!(edited.apply(&[Edit { canvas: gen_view.id().clone(), op: Op::Add(add("toggle", 0.0, 0.0)) }]).is_err());
}
