//! Random edits on real files: every state is valid, undoing all edits restores the opened bytes,
//! and redoing them restores the edited bytes.

use conductor_patch::{
    Atom, CanvasId, CordEnds, Document, Edit, Format, JournalLimits, Limits, NewBox, Op, Patch, Point, Target, Value,
};

use crate::corpus::{self, Sample};

/// A small deterministic generator, so that a failure can be repeated by its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

fn any_canvas(document: &Document, dice: &mut Dice) -> CanvasId {
    let mut ids = Vec::new();
    document.walk(&mut |view| ids.push(view.id().clone()));
    ids.swap_remove(dice.below(ids.len()))
}

/// A random edit; the document may refuse it.
pub fn random_edit(document: &Document, dice: &mut Dice) -> Edit {
    let canvas = any_canvas(document, dice);
    let view = document.view(&canvas).unwrap();
    let boxes: Vec<_> = view.boxes().collect();
    let pick = |dice: &mut Dice| {
        boxes.get(dice.below(boxes.len())).map_or(Target::from("nothing"), |object| Target::Box(object.id()))
    };
    let cords: Vec<_> = view.cords().filter(|cord| cord.from().is_some() && cord.to().is_some()).collect();
    let ends = |dice: &mut Dice| match cords.get(dice.below(cords.len())) {
        Some(cord) => CordEnds {
            from: Target::Box(cord.from().unwrap().id()),
            outlet: cord.outlet(),
            to: Target::Box(cord.to().unwrap().id()),
            inlet: cord.inlet(),
        },
        None => CordEnds { from: "nothing".into(), outlet: 0, to: "nothing".into(), inlet: 0 },
    };
    let pd = document.format() == Format::Pd;
    let classes: &[&str] = if pd {
        &["osc~", "msg", "text", "floatatom", "tgl", "pd", "pack", "hsl", "nosuchclass"]
    } else {
        &["cycle~", "message", "comment", "toggle", "p", "trigger", "bpatcher", "live.dial", "nosuchclass"]
    };
    let texts: &[&str] = if pd {
        &["osc~ 220", "pack 1 2 3", "t b b", "bang", "pd other"]
    } else {
        &["cycle~ 220", "pack 1 2 3", "t b b", "toggle", "p other", "metro 100", "gate 5 1"]
    };
    let position = Point::new(dice.below(2000) as f64 / 2.0, dice.below(1500) as f64);
    let op = match dice.below(13) {
        0 | 1 => {
            let class = classes[dice.below(classes.len())];
            let takes = !matches!(class, "toggle" | "bpatcher" | "live.dial");
            let arguments = if takes && dice.below(2) == 0 {
                vec![Atom::Int(dice.below(9) as i64), Atom::Word("a b".into()), Atom::Float(0.5)]
            } else {
                vec![]
            };
            let varname = (dice.below(3) == 0).then(|| format!("name{}", dice.below(50)));
            Op::Add(NewBox {
                class: class.into(),
                position,
                arguments,
                varname,
                allow_unknown: dice.below(2) == 0,
                ..NewBox::default()
            })
        }
        2 | 3 => Op::Remove(pick(dice)),
        4 => Op::SetText { target: pick(dice), text: texts[dice.below(texts.len())].into(), allow_unknown: false },
        5 => {
            let (name, value) = [
                ("fontsize", Value::One(Atom::Float(14.0))),
                ("bgcolor", Value::Many(vec![0.1.into(), 0.2.into(), 0.3.into(), 1.0.into()])),
                ("presentation", Value::One(Atom::Int(1))),
                ("width", Value::One(Atom::Int(12))),
                ("annotation", Value::One("some \"quoted\" text\nof two lines".into())),
                ("zzz_unknown", Value::One(Atom::Int(3))),
            ][dice.below(6)]
            .clone();
            Op::SetAttribute { target: pick(dice), name: name.into(), value, allow_unknown: dice.below(2) == 0 }
        }
        6 => {
            Op::SetVarname { target: pick(dice), name: (dice.below(4) != 0).then(|| format!("name{}", dice.below(50))) }
        }
        7 => Op::SetHidden { target: pick(dice), hidden: dice.below(2) == 0 },
        8 => Op::SetRect { target: pick(dice), position, size: (dice.below(2) == 0).then_some((60.0, 22.0)) },
        9 => {
            let (from, to) = (pick(dice), pick(dice));
            Op::Connect {
                ends: CordEnds { from, outlet: dice.below(3) as u32, to, inlet: dice.below(3) as u32 },
                hidden: !pd && dice.below(5) == 0,
            }
        }
        10 => Op::Disconnect(ends(dice)),
        11 => Op::SetMidpoints {
            ends: ends(dice),
            points: (0..dice.below(3)).map(|n| Point::new(n as f64 * 10.5, 7.0)).collect(),
        },
        _ => Op::Encapsulate {
            targets: (0..1 + dice.below(4)).map(|_| pick(dice)).collect(),
            name: "group".into(),
            varname: None,
        },
    };
    Edit { canvas, op }
}

/// Number of cords whose box or port is missing.
fn dangling(document: &Document) -> usize {
    let mut count = 0;
    document.walk(&mut |view| count += view.cords().filter(|cord| cord.dangling()).count());
    count
}

/// The observable facts of a document, for comparing it with its reopened bytes.
fn summary(document: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    document.walk(&mut |view| {
        lines.push(format!("canvas {} {} {}", view.id().depth(), view.box_count(), view.cord_count()));
        for object in view.boxes() {
            lines.push(format!(
                "{} {:?} {:?} {:?}",
                object.maxclass(),
                object.text(),
                object.rect(),
                (object.hidden(), object.in_presentation())
            ));
        }
        for cord in view.cords() {
            let index = |object: Option<conductor_patch::BoxView<'_>>| object.map(|object| object.index());
            lines.push(format!(
                "{:?}:{} {:?}:{} {:?}",
                index(cord.from()),
                cord.outlet(),
                index(cord.to()),
                cord.inlet(),
                cord.midpoints()
            ));
        }
    });
    lines
}

fn check(sample: &Sample, seed: u64, count: usize) -> usize {
    let document = sample.open();
    let before = dangling(&document);
    let mut patch = Patch::new(document, JournalLimits { steps: 10_000, bytes: usize::MAX });
    let mut dice = Dice(seed);
    let mut made = 0;
    for _ in 0..count {
        let edit = random_edit(patch.document(), &mut dice);
        let bytes = patch.document().to_bytes();
        let shown = format!("{edit:?}");
        match patch.apply(&[edit], "random", None) {
            Ok(revised) => {
                made += usize::from(revised.applied.changed);
                let bytes = patch.document().to_bytes();
                let reopened = Document::open(bytes.clone(), sample.format, &Limits::default())
                    .unwrap_or_else(|error| panic!("{} seed {seed}: {error} after {shown}", sample.name));
                assert!(reopened.to_bytes() == bytes, "{} seed {seed}: {shown}", sample.name);
                for (reread, held) in summary(&reopened).iter().zip(summary(patch.document())) {
                    assert_eq!(*reread, held, "{} seed {seed}: {shown}", sample.name);
                }
                assert_eq!(
                    summary(&reopened).len(),
                    summary(patch.document()).len(),
                    "{} seed {seed}: {shown}",
                    sample.name
                );
                if sample.format != Format::Pd && sample.format != Format::Amxd {
                    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
                    assert!(parsed.is_ok(), "{} seed {seed}: {shown}", sample.name);
                }
            }
            Err(_) => assert!(
                patch.document().to_bytes() == bytes,
                "{} seed {seed}: a refused edit changed the document: {shown}",
                sample.name
            ),
        }
    }
    assert!(dangling(patch.document()) <= before, "{} seed {seed}: a new cord dangles", sample.name);
    let edited = patch.document().to_bytes();
    let (steps, _) = patch.depths();
    assert_eq!(steps, made);
    if made > 0 {
        patch.undo(steps).unwrap();
        assert!(
            patch.document().to_bytes() == sample.bytes,
            "{} seed {seed}: undo did not restore the opened bytes",
            sample.name
        );
        assert!(!patch.dirty());
        patch.redo(steps).unwrap();
        assert!(
            patch.document().to_bytes() == edited,
            "{} seed {seed}: redo did not restore the edited bytes",
            sample.name
        );
        assert_eq!(
            patch.at_revision(1).unwrap().to_bytes(),
            sample.bytes,
            "{} seed {seed}: revision 1 differs from the opened file",
            sample.name
        );
    }
    made
}

#[test]
fn random_edits_on_every_file_can_be_undone() {
    let mut made = 0;
    for (n, sample) in corpus::all().iter().enumerate() {
        // Large files get fewer edits, because the file is reopened after each edit.
        let count = if sample.bytes.len() > 100_000 { 4 } else { 8 };
        made += check(sample, n as u64 + 1, count);
    }
    println!("{made} edits applied and undone");
    assert!(made > 40);
}

#[test]
fn many_edits_on_the_fixtures_can_be_undone() {
    for sample in corpus::fixtures() {
        for seed in 100..112 {
            check(&sample, seed, 60);
        }
    }
}

/// Applying one list of edits equals applying its edits one by one, and one inverse undoes the
/// whole list.
#[test]
fn lists_of_edits_compose() {
    for sample in corpus::fixtures() {
        let mut dice = Dice(7);
        let mut step_by_step = sample.open();
        let mut list = Vec::new();
        while list.len() < 12 {
            let edit = random_edit(&step_by_step, &mut dice);
            if step_by_step.apply(std::slice::from_ref(&edit)).is_ok() {
                list.push(edit);
            }
        }
        let mut at_once = sample.open();
        let applied = at_once.apply(&list).unwrap();
        assert!(at_once.to_bytes() == step_by_step.to_bytes(), "{}", sample.name);
        let back = Edit { canvas: CanvasId::ROOT, op: Op::Restore(applied.inverse) };
        let again = at_once.apply(std::slice::from_ref(&back)).unwrap();
        assert!(at_once.to_bytes() == sample.bytes, "{}", sample.name);
        // The inverse of the inverse applies the list again.
        at_once.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Restore(again.inverse) }]).unwrap();
        assert!(at_once.to_bytes() == step_by_step.to_bytes(), "{}", sample.name);
    }
}

/// An inverse applies only to the state after its edits; in another state it is refused and nothing
/// changes.
#[test]
fn an_inverse_out_of_turn_is_refused() {
    let root = |op| Edit { canvas: CanvasId::ROOT, op };
    let mut document = corpus::fixture("classic.maxpat").open();
    let removal = document.apply(&[root(Op::Remove("obj-1".into()))]).unwrap();
    document.apply(&[root(Op::Remove("obj-2".into())), root(Op::Remove("obj-5".into()))]).unwrap();
    let bytes = document.to_bytes();
    let changes = [root(Op::Restore(removal.inverse.clone())), root(Op::Restore(removal.inverse))];
    assert!(document.apply(&changes).is_err());
    assert_eq!(document.to_bytes(), bytes);
}

#[test]
fn the_journal_is_bounded_in_bytes() {
    let mut patch = Patch::new(corpus::fixture("inline.maxpat").open(), JournalLimits { steps: 100, bytes: 20_000 });
    let text = "x".repeat(5_000);
    for n in 0..20 {
        let new = NewBox {
            class: "comment".into(),
            arguments: vec![Atom::Word(format!("{text}{n}"))],
            position: Point::new(0.0, 900.0 + 40.0 * f64::from(n)),
            ..NewBox::default()
        };
        patch.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }], "add", None).unwrap();
    }
    assert!((1..10).contains(&patch.depths().0), "{:?}", patch.depths());
}
