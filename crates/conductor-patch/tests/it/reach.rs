//! Tests which boxes have reach (effects outside the patch), and that every change to a box that
//! can send to such a box is detected.

use crate::undo::Dice;
use conductor_patch::reach::{Environment, Reach, Reaching, reach, stays_pure};
use conductor_patch::{
    BoxId, BoxView, CanvasId, CordEnds, Document, Edit, Format, Limits, NewBox, Op, Point, Target, View,
};
use std::collections::{BTreeMap, BTreeSet};

const ALONE: Environment<'static> = Environment { alone: true, heard_elsewhere: None, shadowed: None };

fn pd(body: &str) -> Document {
    Document::open(format!("#N canvas 0 0 9 9 12;\n{body}").into_bytes(), Format::Pd, &Limits::default()).unwrap()
}

fn texts(document: &Document) -> Vec<String> {
    reach(document, &ALONE).boxes.into_iter().map(|it| it.text).collect()
}

fn max(texts: &[&str]) -> Document {
    let mut document = Document::create(Format::Maxpat);
    let new = |text: &&str| {
        let new = NewBox {
            class: (*text).to_owned(),
            position: Point::new(9.0, 9.0),
            allow_unknown: true,
            ..NewBox::default()
        };
        Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }
    };
    document.apply(&texts.iter().map(new).collect::<Vec<_>>()).unwrap();
    document
}

#[test]
fn pure_patches_reach_nothing() {
    let document = pd(
        "#X obj 1 1 loadbang;\n#X obj 1 9 metro 500;\n#X obj 1 9 osc~ 440;\n#X obj 1 9 dac~;\n#X msg 1 9 set \\$1 \\, bang;\n\
        #X obj 1 9 print add;\n#X text 1 9 send \\; pd quit;\n#X obj 1 9 r a;\n#X obj 1 9 s a;\n#X floatatom 1 9 5 0 0 0 - - - 0;\n\
        #X obj 1 9 hsl 128 15 0 127 0 0 empty empty empty -2 -8 0 10 #fcfcfc #000000 #000000 0 1;\n#X obj 1 9 expr \\$f1 * 2, f 20;\n\
        #X obj 1 9 oscparse;\n#X obj 1 9 throw~ x;\n#X obj 1 9 catch~ x;\n#N canvas 0 0 9 9 sub 0;\n#X obj 1 1 inlet;\n#X restore 1 9 pd sub;\n\
        #X coords 0 1 3 -1 9 9 1;\n#X connect 0 0 1 0;\n",
    );
    assert_eq!(texts(&document), [""; 0]);
    assert!(reach(&document, &ALONE).print.is_empty());
    let document =
        max(&["metro 500", "cycle~ 440", "message", "button", "p sub", "gen~", "t b b", "r a", "expr $f1 * 2"]);
    let found = reach(&document, &Environment::default());
    // A new gen~ has no embedded patcher yet.
    assert_eq!(found.boxes.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["gen~"]);
}

#[test]
fn whatever_is_not_known_to_be_pure_reaches() {
    for line in [
        "#X obj 1 1 textfile;",
        "#X obj 1 1 qlist;",
        "#X obj 1 1 text define x;",
        "#X obj 1 1 array define x;",
        "#X obj 1 1 table x;",
        "#X obj 1 1 value x;",
        "#X obj 1 1 clone voice 4;",
        "#X obj 1 1 file handle;",
        "#X obj 1 1 voice;",
        "#X obj 1 1 send;",
        "#X obj 1 1 s a;",
        "#X obj 1 1 s pd;",
        "#X obj 1 1 s \\$0-a;",
        "#X obj 1 1 s~ \\$1;",
        "#X msg 1 1 \\; pd quit;",
        "#X msg 1 1 \\; a b;",
        "#X msg 1 1 addsemi \\, add2 pd quit;",
        "#X msg 1 1 send pd;",
        "#X obj 1 1 list prepend send;",
        "#X obj 1 1 symbol addsemi;",
        "#X obj 1 1 makefilename %s;\n#X obj 1 1 route a;",
        "#X obj 1 1 list tosymbol;\n#X obj 1 1 list trim;",
        "#X obj 1 1 tgl 15 0 a empty empty 17 7 0 10 #fcfcfc #000000 #000000 0 1;",
        "#X floatatom 1 1 5 0 0 0 - - a 0;",
        "#X obj 1 1 adc~;",
        "#X obj 1 1 noteout;",
        "#X obj 1 1 key;",
        "#X obj 1 1 pdcontrol;",
        "#X obj 1 1 declare -path x;",
        "#X declare -lib x;",
        "#X obj 1 1 namecanvas x;",
        "#X obj 1 1 expr x = 3;",
        "#X obj 1 1 pd~;",
        "#X obj 1 1 r #key;",
        "#X scalar x 1 2 \\;;",
        "#X array a 3 float 1;",
        "pd quit;",
        "#X vis 1;",
        "#X obj 1 1 f, vis 1;",
        "#N struct x float y;",
        "#X obj 1 1 f;\n#A write x;",
        "#X obj 1 1 f;\n#X obj 1 1 f;\n#X connect 0 0 1 0, vis 1;",
        "#X obj 1 1 metro\u{2003}x;",
        "#X obj 1 1 bng 15 250 50 0\\ empty a empty empty 17 7 0 10 #fcfcfc #000000 #000000;",
        "#X obj 1 1 osc~;\n#X obj 1 1 throw~ \\$1;",
        "#X obj 1 1 inlet;\n#X obj 1 1 throw~ a;\n#X connect 0 0 1 0;",
        "#X obj 1 1 savestate;",
        "#X obj 1 1 soundfiler;",
    ] {
        assert!(!texts(&pd(&format!("{line}\n"))).is_empty(), "{line}");
    }
    for text in [
        "js a.js",
        "v8 a.js",
        "node.script a.js",
        "shell",
        "coll x",
        "dict x",
        "jit.matrix",
        "vst~",
        "amxd~",
        "live.object",
        "buffer~ x",
        "sfplay~",
        "udpsend 127.0.0.1 9",
        "maxurl",
        "thispatcher",
        "pcontrol",
        "poly~ voice 4",
        "pattr",
        "pattrstorage x",
        "send a",
        "s a",
        "forward a",
        "value x",
        "voice",
        "message ;max quit",
        "message send a",
        "loadmess send a",
        "if $i1 then send a 1",
        "poke~ x",
        "key",
        "noteout",
        "adc~",
        "slider.x @jspainterfile a.js",
        "mc.vst~",
        "text",
        "textedit",
        "gen~ file",
    ] {
        assert!(!reach(&max(&[text]), &Environment::default()).is_empty(), "{text}");
    }
    // A patch file named `metro` overrides the built-in class.
    let shadowed = BTreeSet::from(["metro".to_owned()]);
    let around = Environment { shadowed: Some(&shadowed), ..Environment::default() };
    assert_eq!(reach(&max(&["metro 5"]), &around).boxes.len(), 1);
    let mut painted = max(&["button"]);
    let key = painted.root().boxes().next().unwrap().id();
    let set = Op::SetAttribute {
        target: key.into(),
        name: "jspainterfile".into(),
        value: conductor_patch::Value::One("a.js".into()),
        allow_unknown: true,
    };
    painted.apply(&[Edit { canvas: CanvasId::ROOT, op: set }]).unwrap();
    assert_eq!(
        reach(&painted, &Environment::default()).boxes.first().map(|it| it.reach.clone()),
        Some(vec![Reach::LoadsCode])
    );
}

#[test]
fn names_stay_in_the_patch_only_where_nothing_else_hears_them() {
    let body = "#X obj 1 1 s a;\n#X obj 1 1 r a;\n";
    assert_eq!(texts(&pd(body)), [""; 0]);
    assert_eq!(
        reach(&pd(body), &Environment::default()).boxes.len(),
        1,
        "a name that other patches may receive was treated as local"
    );
    let heard = BTreeSet::from(["a".to_owned()]);
    let around = Environment { heard_elsewhere: Some(&heard), ..ALONE };
    assert_eq!(reach(&pd(body), &around).boxes.len(), 1, "a name that another patch receives was treated as local");
    let found = reach(&pd("#X obj 1 1 s a;\n#X obj 1 1 r a;\n#X obj 1 1 netsend;\n#X connect 1 0 2 0;\n"), &ALONE);
    assert_eq!(found.hears, heard);
    assert_eq!(found.driving.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["s a", "r a"]);
}

#[test]
fn subpatches_are_followed_both_ways() {
    let document = pd(
        "#X obj 1 1 metro;\n#N canvas 0 0 9 9 sub 0;\n#X obj 1 1 inlet;\n#X obj 1 9 netsend;\n#X obj 50 1 osc~;\n#X obj 50 9 outlet~;\n\
        #X connect 0 0 1 0;\n#X connect 2 0 3 0;\n#X restore 1 9 pd sub;\n#X obj 1 90 dac~;\n#X obj 9 9 random;\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n",
    );
    let found = reach(&document, &ALONE);
    let driving: Vec<&str> = found.driving.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(driving, ["metro", "pd sub", "inlet"], "the driving boxes are not exactly those that lead to `netsend`");
    // The positions of the inlets determine their order.
    let two = |a: u32, b: u32| {
        pd(&format!(
            "#N canvas 0 0 9 9 sub 0;\n#X obj {a} 1 inlet;\n#X obj {b} 1 inlet;\n#X obj 1 9 netsend;\n#X connect 0 0 2 0;\n#X restore 1 9 pd sub;\n"
        ))
    };
    let print = |document: &Document| reach(document, &ALONE).print;
    assert_eq!(print(&two(1, 9)), print(&two(2, 8)));
    assert_ne!(print(&two(1, 9)), print(&two(9, 1)));
}

/// All boxes with reach and all boxes that can send to them, with their texts and incoming cords.
/// This function finds them independently of the product code, by following the cords forward from
/// every box.
fn snapshot(document: &Document, found: &Reaching) -> BTreeMap<String, String> {
    type Node = (CanvasId, BoxId, bool);
    let mut next: BTreeMap<String, (Node, Vec<String>)> = BTreeMap::new();
    let name = |canvas: &CanvasId, id: BoxId, out: bool| format!("{canvas:?} {id:?} {out}");
    let inner = |it: &BoxView<'_>| it.inside().is_some();
    let word = |it: &BoxView<'_>, n: usize| it.text().split(' ').nth(n).unwrap_or_default().to_owned();
    let mut hearers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    document.walk(&mut |view: &View<'_>| {
        for it in view.boxes() {
            for out in [false, true] {
                next.entry(name(view.id(), it.id(), out)).or_insert(((view.id().clone(), it.id(), out), Vec::new()));
            }
            if matches!(word(&it, 0).as_str(), "r" | "catch~") {
                hearers.entry(word(&it, 1)).or_default().push(name(view.id(), it.id(), false));
            }
        }
    });
    document.walk(&mut |view: &View<'_>| {
        let mut add = |from: String, to: String| next.get_mut(&from).unwrap().1.push(to);
        for it in view.boxes() {
            if !inner(&it) {
                add(name(view.id(), it.id(), false), name(view.id(), it.id(), true));
            }
            if matches!(word(&it, 0).as_str(), "s" | "throw~") {
                for to in hearers.get(&word(&it, 1)).into_iter().flatten() {
                    add(name(view.id(), it.id(), false), to.clone());
                }
            }
            if let (Some(holder), Some(around)) = (view.holder(), view.id().parent()) {
                match word(&it, 0).as_str() {
                    "inlet" => add(name(&around, holder.id(), false), name(view.id(), it.id(), false)),
                    "outlet" => add(name(view.id(), it.id(), false), name(&around, holder.id(), true)),
                    _ => {}
                }
            }
        }
        for cord in view.cords() {
            if let (Some(from), Some(to)) = (cord.from(), cord.to()) {
                add(name(view.id(), from.id(), true), name(view.id(), to.id(), false));
            }
        }
    });
    let goals: BTreeSet<String> = found.boxes.iter().filter_map(|it| Some(name(&it.canvas, it.id?, false))).collect();
    let leads = |start: &String| {
        let (mut open, mut seen) = (vec![start.clone()], BTreeSet::new());
        while let Some(at) = open.pop() {
            if goals.contains(&at) {
                return true;
            }
            if seen.insert(at.clone()) {
                open.extend(next.get(&at).map(|it| it.1.clone()).unwrap_or_default());
            }
        }
        false
    };
    let mut all = BTreeMap::new();
    for (key, ((canvas, id, _), _)) in next.iter().filter(|it| !it.1.0.2 && leads(it.0)) {
        let view = document.view(canvas).unwrap();
        let it = view.get(*id).unwrap();
        let cords: Vec<String> = view
            .cords()
            .filter(|cord| cord.to().is_some_and(|to| to.id() == *id))
            .filter_map(|cord| Some(format!("{:?} {} {}", cord.from()?.id(), cord.outlet(), cord.inlet())))
            .collect();
        all.insert(key.clone(), format!("{} {cords:?}", it.text()));
    }
    all
}

fn random(document: &Document, dice: &mut Dice) -> Edit {
    let mut ids = Vec::new();
    document.walk(&mut |view| ids.push(view.id().clone()));
    let canvas = ids.swap_remove(dice.below(ids.len()));
    let view = document.view(&canvas).unwrap();
    let boxes: Vec<_> = view.boxes().map(|it| it.id()).collect();
    let pick = |dice: &mut Dice| boxes.get(dice.below(boxes.len())).map_or(Target::from("none"), |it| Target::Box(*it));
    let texts = [
        "osc~ 440", "metro 5", "netsend", "textfile", "s a", "r a", "s b", "r b", "pd sub", "inlet", "outlet",
        "throw~ x", "catch~ x", "f 1", "message", "nosuch",
    ];
    let position = Point::new(dice.below(900) as f64, dice.below(900) as f64);
    let op = match dice.below(10) {
        0..=2 => Op::Add(NewBox {
            class: texts[dice.below(texts.len())].into(),
            position,
            allow_unknown: true,
            ..NewBox::default()
        }),
        3 => Op::Remove(pick(dice)),
        4 => Op::SetText { target: pick(dice), text: texts[dice.below(texts.len())].into(), allow_unknown: true },
        5..=7 => {
            let ends = CordEnds { from: pick(dice), outlet: 0, to: pick(dice), inlet: dice.below(2) as u32 };
            if dice.below(4) == 0 { Op::Disconnect(ends) } else { Op::Connect { ends, hidden: false } }
        }
        8 => Op::SetRect { target: pick(dice), position, size: None },
        _ => Op::Encapsulate { targets: vec![pick(dice), pick(dice)], name: "group".into(), varname: None },
    };
    Edit { canvas, op }
}

#[test]
fn the_same_print_means_that_nothing_that_can_reach_changed() {
    let (mut same, mut different) = (0, 0);
    for seed in 0..120 {
        let mut dice = Dice(seed * 7919 + 1);
        let mut document = Document::create(Format::Pd);
        for _ in 0..60 {
            let edit = random(&document, &mut dice);
            let mut after = document.clone();
            if after.apply(std::slice::from_ref(&edit)).is_err() {
                continue;
            }
            let (was, is) = (reach(&document, &ALONE), reach(&after, &ALONE));
            let (one, two) = (snapshot(&document, &was), snapshot(&after, &is));
            if was.print == is.print && !was.is_empty() {
                same += 1;
                assert_eq!(one, two, "seed {seed}: {edit:?}");
            } else {
                different += 1;
            }
            // A box with reach is always in the list, regardless of the rest of the patch.
            let mut count = 0;
            after.walk(&mut |view| {
                count += view.boxes().filter(|it| matches!(it.class(), "netsend" | "textfile" | "nosuch")).count();
            });
            assert!(is.boxes.len() >= count, "seed {seed}");
            document = after;
        }
    }
    assert!(same > 500 && different > 500, "{same} {different}");
}

#[test]
fn a_look_at_the_change_alone_never_misses_a_box_that_reaches() {
    let (mut short, mut found) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice(seed * 104_729 + 3);
        let mut document = Document::create(Format::Pd);
        for _ in 0..40 {
            let mut after = document.clone();
            if after.apply(&[random(&document, &mut dice)]).is_err() {
                continue;
            }
            let is = reach(&after, &ALONE);
            if stays_pure(&document, &after) {
                short += 1;
                assert!(is.is_empty() && !is.names, "seed {seed}");
            }
            if is.is_empty() && !is.names {
                document = after;
            } else {
                found += 1;
            }
        }
    }
    assert!(short > 500 && found > 500, "{short} {found}");
}
