//! Tests of free places, layout checks and alignment proposals.

use conductor_patch::layout::{Adjust, Align, LayoutError, Nub, align, free_place, nub, nubs, suggest_alignment};
use conductor_patch::validate::{Check, Gravity, Options, validate};
use conductor_patch::{CanvasId, Document, Edit, Format, Limits, NewBox, Op, Point, Rect};
use proptest::prelude::*;

use crate::corpus::fixture;

/// A patch of the given boxes (class, x, y, width, height), connected by the given cords (from, to,
/// midpoints).
fn patch(boxes: &[(&str, f64, f64, f64, f64)], cords: &[(usize, usize, &[f64])]) -> Document {
    let boxes: Vec<String> = boxes
        .iter()
        .enumerate()
        .map(|(n, (class, x, y, w, h))| format!(r#"{{"box":{{"id":"obj-{}","maxclass":"{class}","numinlets":1,"numoutlets":1,"text":"","patching_rect":[{x:?},{y:?},{w:?},{h:?}]}}}}"#, n + 1))
        .collect();
    let cords: Vec<String> = cords
        .iter()
        .map(|(from, to, middle)| {
            format!(
                r#"{{"patchline":{{"destination":["obj-{}",0],"midpoints":{middle:?},"source":["obj-{}",0]}}}}"#,
                to + 1,
                from + 1
            )
        })
        .collect();
    let text = format!(r#"{{"patcher":{{"boxes":[{}],"lines":[{}]}}}}"#, boxes.join(","), cords.join(","));
    Document::open(text.into_bytes(), Format::Maxpat, &Limits::default()).unwrap()
}

fn findings(document: &Document, options: &Options) -> Vec<String> {
    let view = document.root();
    let key = |id| view.get(id).unwrap().key().to_owned();
    let report = validate(&view, options);
    report
        .findings
        .iter()
        .map(|found| {
            let cord = |cord: Option<conductor_patch::validate::CordRef>| {
                cord.map(|cord| format!(" {}>{}", key(cord.from), key(cord.to))).unwrap_or_default()
            };
            let objects: Vec<String> = found.objects.iter().map(|id| key(*id)).collect();
            let gravity = if found.gravity == Gravity::Error { "error" } else { "warning" };
            let at = found.at.map(|at| format!(" at {},{}", at.x, at.y)).unwrap_or_default();
            format!(
                "{} {gravity} [{}]{}{}{at} by {}",
                found.check.name(),
                objects.join(" "),
                cord(found.cord),
                cord(found.other_cord),
                (found.amount * 100.0).round() / 100.0
            )
        })
        .collect()
}

#[test]
fn nubs_stand_where_max_and_pd_draw_them() {
    let document = fixture("classic.maxpat").open();
    let view = document.root();
    let object = view.by_key("obj-1").unwrap();
    assert_eq!(nub(&object, false, 0), Some(Point::new(69.5, 120.0)));
    assert_eq!(nub(&object, false, 1), Some(Point::new(116.5, 120.0)));
    assert_eq!(nub(&object, true, 0), Some(Point::new(69.5, 142.0)));
    assert_eq!(nub(&object, true, 1), None);
    assert_eq!(nubs(&view.by_key("obj-11").unwrap(), true).len(), 3);
    let hidden = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"x","numinlets":3,"numoutlets":0,"drawfirstin":0,"patching_rect":[0.0,0.0,100.0,22.0]}}],"lines":[]}}"#;
    let hidden = Document::open(hidden.as_bytes(), Format::Maxpat, &Limits::default()).unwrap();
    assert_eq!(nub(&hidden.root().by_key("obj-1").unwrap(), false, 1), Some(Point::new(9.5, 0.0)));
    // Pd 0.53 draws the nubs of `osc~ 440` at x 50 from 50 to 57 and from 103 to 110.
    let mut pd = Document::create(Format::Pd);
    pd.apply(&[Edit {
        canvas: CanvasId::ROOT,
        op: Op::Add(NewBox { class: "osc~ 440".into(), position: Point::new(50.0, 50.0), ..NewBox::default() }),
    }])
    .unwrap();
    let places = nubs(&pd.root().boxes().next().unwrap(), false);
    assert_eq!(places, [Point::new(53.5, 50.0), Point::new(106.5, 50.0)]);
}

#[test]
fn each_fault_is_found() {
    let clean = patch(&[("button", 0.0, 0.0, 24.0, 24.0), ("button", 0.0, 100.0, 24.0, 24.0)], &[(0, 1, &[])]);
    assert!(validate(&clean.root(), &Options::default()).clean());
    let up = patch(&[("button", 0.0, 100.0, 24.0, 24.0), ("button", 50.0, 0.0, 24.0, 24.0)], &[(0, 1, &[])]);
    assert_eq!(findings(&up, &Options::default()), ["upward error [obj-1 obj-2] obj-1>obj-2 at 9.5,124 by 124"]);
    let folded = patch(
        &[("button", 0.0, 100.0, 24.0, 24.0), ("button", 50.0, 0.0, 24.0, 24.0)],
        &[(0, 1, &[9.5, 140.0, 59.5, 140.0])],
    );
    assert_eq!(findings(&folded, &Options::default()), ["upward warning [obj-1 obj-2] obj-1>obj-2 at 59.5,140 by 140"]);
    let over = patch(
        &[("button", 0.0, 0.0, 24.0, 24.0), ("message", 20.0, 14.0, 50.0, 22.0), ("message", 69.0, 14.0, 50.0, 22.0)],
        &[],
    );
    assert_eq!(
        findings(&over, &Options::default()),
        ["overlap error [obj-1 obj-2] at 20,14 by 40"],
        "an overlap of one pixel was reported, or a larger one was not"
    );
    let through = patch(
        &[("button", 0.0, 0.0, 24.0, 24.0), ("message", 0.0, 50.0, 50.0, 22.0), ("button", 0.0, 100.0, 24.0, 24.0)],
        &[(0, 2, &[])],
    );
    assert_eq!(findings(&through, &Options::default()), ["cord_object error [obj-2] obj-1>obj-3 at 9.5,50 by 22"]);
    let same = patch(
        &[("button", 0.0, 0.0, 24.0, 24.0), ("button", 100.0, 0.0, 24.0, 24.0), ("button", 50.0, 100.0, 24.0, 24.0)],
        &[(0, 2, &[9.5, 60.0, 59.5, 60.0]), (1, 2, &[109.5, 60.0, 30.0, 60.0, 59.5, 60.0])],
    );
    let found = findings(&same, &Options::default());
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("cord_cord warning [] obj-1>obj-3 obj-2>obj-3"), "{found:?}");
}

#[test]
fn scope_background_and_limits() {
    let document = patch(
        &[
            ("panel", 0.0, 0.0, 300.0, 300.0),
            ("comment", 10.0, 10.0, 80.0, 20.0),
            ("button", 20.0, 15.0, 24.0, 24.0),
            ("button", 30.0, 20.0, 24.0, 24.0),
        ],
        &[],
    );
    assert_eq!(validate(&document.root(), &Options::default()).summary, [0, 1, 0, 0, 0]);
    let all = Options { include_background: true, ..Options::default() };
    assert_eq!(validate(&document.root(), &all).summary[1], 6);
    let limited = validate(&document.root(), &Options { limit: 2, ..all.clone() });
    assert!(limited.findings.len() == 2 && limited.truncated && limited.summary[1] == 6);
    let scope = Some(vec![document.root().by_key("obj-2").unwrap().id()]);
    assert_eq!(validate(&document.root(), &Options { scope, ..all.clone() }).summary[1], 3);
    let only = Options { checks: Some(vec![Check::Upward]), ..all };
    assert!(validate(&document.root(), &only).clean());
    let shown = fixture("classic.maxpat").open();
    assert!(validate(&shown.root(), &Options { presentation: true, ..Options::default() }).clean());
}

#[test]
fn free_places_follow_the_rules() {
    let empty = Document::create(Format::Maxpat);
    assert_eq!(free_place(&empty.root(), 50.0, 20.0, None, None).position, Point::new(50.0, 50.0));
    let document = patch(&[("button", 100.0, 0.0, 24.0, 24.0), ("button", 200.0, 100.0, 100.0, 24.0)], &[]);
    let right = free_place(&document.root(), 50.0, 20.0, None, None);
    assert_eq!(right.position, Point::new(350.0, 50.0));
    assert!(right.rationale.contains("right of existing objects"));
    assert_eq!(free_place(&document.root(), 50.0, 20.0, Some(-9.0), None).position, Point::new(0.0, 50.0));
    let moved = free_place(&document.root(), 50.0, 20.0, Some(205.0), Some(100.0));
    assert_eq!(moved.position, Point::new(205.0, 70.0), "{}", moved.rationale);
}

#[test]
fn alignments_are_proposed() {
    let document = fixture("classic.maxpat").open();
    let view = document.root();
    let id = |key: &str| view.by_key(key).unwrap().id();
    let anchor = Nub { object: id("obj-8"), outlet: true, index: 0 };
    let target = Nub { object: id("obj-2"), outlet: false, index: 1 };
    let left = suggest_alignment(&view, anchor, target, Adjust::Left).unwrap();
    assert_eq!((left.anchor_x, left.target_x, left.proposal.rect), (209.5, 90.5, Rect::new(179.0, 240.0, 40.0, 22.0)));
    let width = suggest_alignment(&view, anchor, target, Adjust::Width).unwrap();
    assert_eq!(width.proposal.rect, Rect::new(60.0, 240.0, 159.0, 22.0));
    let first = Nub { index: 0, ..target };
    assert_eq!(suggest_alignment(&view, anchor, first, Adjust::Width), Err(LayoutError::FixedNub));
    assert!(matches!(
        suggest_alignment(&view, anchor, Nub { index: 7, ..target }, Adjust::Left),
        Err(LayoutError::NoSuchNub { .. })
    ));
    let behind = Nub { object: id("obj-11"), outlet: true, index: 2 };
    assert!(matches!(suggest_alignment(&view, anchor, behind, Adjust::Width), Err(LayoutError::NoWidth { .. })));

    let row = patch(
        &[("button", 10.0, 0.0, 20.0, 20.0), ("button", 50.0, 5.0, 30.0, 30.0), ("button", 110.0, 9.0, 20.0, 20.0)],
        &[],
    );
    let view = row.root();
    let ids: Vec<_> = view.boxes().map(|object| object.id()).collect();
    let places = |mode| align(&view, &ids, mode).unwrap().0.iter().map(|p| (p.rect.x, p.rect.y)).collect::<Vec<_>>();
    assert_eq!(places(Align::Left), [(10.0, 5.0), (10.0, 9.0)]);
    assert_eq!(places(Align::Right), [(110.0, 0.0), (100.0, 5.0)]);
    assert_eq!(places(Align::Top), [(50.0, 0.0), (110.0, 0.0)]);
    assert_eq!(places(Align::Bottom), [(10.0, 15.0), (110.0, 15.0)]);
    assert_eq!(places(Align::VCenter), [(10.0, 7.5), (50.0, 2.5), (110.0, 7.5)]);
    assert_eq!(places(Align::DistributeH), [(55.0, 5.0)]);
    assert_eq!(align(&view, &ids[..2], Align::DistributeV), Err(LayoutError::TooFew { needed: 3, given: 2 }));
    assert_eq!(align(&view, &ids[..1], Align::Left), Err(LayoutError::TooFew { needed: 2, given: 1 }));
}

/// A patch of `n` boxes in rows, each connected to the box below it, like typical patches.
pub fn tall_patch(n: usize) -> Document {
    let columns = (n as f64).sqrt().ceil() as usize;
    let boxes: Vec<_> =
        (0..n).map(|i| ("message", (i % columns) as f64 * 70.0, (i / columns) as f64 * 50.0, 50.0, 22.0)).collect();
    let cords: Vec<(usize, usize, &[f64])> =
        (0..n.saturating_sub(columns)).map(|i| (i, i + columns, &[][..])).collect();
    patch(&boxes, &cords)
}

/// The cost is counted in comparisons, so the speed of the machine does not matter.
#[test]
fn the_cost_of_validation_follows_the_size_of_the_patch() {
    let cost = |n: usize| {
        let report = validate(&tall_patch(n).root(), &Options::default());
        assert!(report.clean());
        report.compared as f64 / n as f64
    };
    let (small, middle, large) = (cost(100), cost(1_000), cost(10_000));
    println!("comparisons per box: {small:.1} at 100, {middle:.1} at 1,000, {large:.1} at 10,000");
    assert!(large < small * 2.0, "{small} {large}");
    // Comparing all pairs would need about 5,000 comparisons per box.
    assert!(large < 10_000.0 / 100.0);
}

#[test]
fn a_pile_of_boxes_ends() {
    let pile = patch(&vec![("button", 5.0, 5.0, 24.0, 24.0); 1_000], &[]);
    let report = validate(&pile.root(), &Options::default());
    assert!(report.truncated && report.summary[1] >= 100_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_free_place_is_free(boxes in prop::collection::vec((0.0f64..900.0, 0.0f64..700.0, 5.0f64..200.0, 5.0f64..80.0), 0..60), w in 1.0f64..300.0, h in 1.0f64..200.0, near in prop::option::of((-100.0f64..900.0, -100.0f64..700.0))) {
        let boxes: Vec<_> = boxes.into_iter().map(|(x, y, w, h)| ("button", x, y, w, h)).collect();
        let document = patch(&boxes, &[]);
        let place = free_place(&document.root(), w, h, near.map(|n| n.0), near.map(|n| n.1)).position;
        prop_assert!(place.x >= 0.0 && place.y >= 0.0);
        let wanted = Rect::new(place.x, place.y, w, h).grown(8.0);
        for object in document.root().boxes() {
            prop_assert!(!wanted.overlaps(&object.rect()), "{place:?} {:?}", object.rect());
        }
    }

    /// The index finds exactly the pairs that a comparison of all pairs finds.
    #[test]
    fn overlaps_agree_with_comparing_all(boxes in prop::collection::vec((-300.0f64..900.0, -300.0f64..700.0, 1.0f64..2500.0, 1.0f64..80.0), 0..40)) {
        let boxes: Vec<_> = boxes.into_iter().map(|(x, y, w, h)| ("button", x, y, w, h)).collect();
        let document = patch(&boxes, &[]);
        let rects: Vec<Rect> = document.root().boxes().map(|object| object.rect()).collect();
        let mut expected = 0;
        for (n, a) in rects.iter().enumerate() {
            for b in &rects[n + 1..] {
                let (x, y) = a.penetration(b);
                expected += usize::from(x > 2.0 && y > 2.0);
            }
        }
        prop_assert_eq!(validate(&document.root(), &Options::default()).summary[1], expected);
    }
}
