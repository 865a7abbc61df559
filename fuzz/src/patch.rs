//! Patches of every format: an unedited file is written back with the same bytes. An edited file
//! that is opened again has the same content. Undo restores the bytes.

use crate::SEEDED;
use arbitrary::Unstructured;
use conductor_patch::{
    Atom, CanvasId, CordEnds, Document, Edit, Format, JournalLimits, Limits, NewBox, Op, Patch, Point, Target,
};

fn open(data: &[u8], format: Format) -> Option<Document> {
    let limits = Limits { max_bytes: 1 << 20, max_depth: 64, max_items: 2000 };
    Document::open(data.to_vec(), format, &limits).ok()
}

fn written(document: &Document) -> Vec<u8> {
    let mut bytes = document.to_bytes();
    // The seeded mistake: a patch without any box loses its last byte, such as a newline.
    if SEEDED && document.root().box_count() == 0 {
        bytes.pop();
    }
    bytes
}

fn counts(document: &Document) -> Vec<(usize, usize)> {
    let mut counts = Vec::new();
    document.walk(&mut |view| counts.push((view.box_count(), view.cord_count())));
    counts
}

/// Edits of the root canvas, selected by the bytes in `choices`.
fn edits(document: &Document, choices: &mut Unstructured<'_>) -> arbitrary::Result<Vec<Edit>> {
    const CLASSES: [&str; 6] = ["osc~", "dac~", "print", "metro", "message", "comment"];
    let boxes: Vec<Target> = document.root().boxes().map(|it| it.id().into()).collect();
    let target = |u: &mut Unstructured<'_>| -> arbitrary::Result<Target> {
        Ok(if boxes.is_empty() { "$new".into() } else { u.choose(&boxes)?.clone() })
    };
    let mut edits = Vec::new();
    for _ in 0..choices.int_in_range(1..=4)? {
        let ends = CordEnds {
            from: target(choices)?,
            outlet: choices.int_in_range(0..=2)?,
            to: target(choices)?,
            inlet: choices.int_in_range(0..=2)?,
        };
        let text: String = choices.arbitrary::<&str>()?.chars().take(12).collect();
        let position = Point::new(f64::from(choices.arbitrary::<u8>()?), f64::from(choices.arbitrary::<u8>()?));
        let op = match choices.int_in_range(0..=6)? {
            0 => Op::Add(NewBox {
                class: (*choices.choose(&CLASSES)?).to_owned(),
                position,
                arguments: vec![Atom::Word(text)],
                handle: Some("$new".into()),
                ..NewBox::default()
            }),
            1 => Op::Remove(target(choices)?),
            2 => Op::SetText { target: target(choices)?, text, allow_unknown: true },
            3 => Op::Connect { ends, hidden: false },
            4 => Op::Disconnect(ends),
            5 => Op::SetRect { target: target(choices)?, position, size: None },
            _ => Op::SetVarname { target: target(choices)?, name: (!text.is_empty()).then_some(text) },
        };
        edits.push(Edit { canvas: CanvasId::ROOT, op });
    }
    Ok(edits)
}

pub fn check(data: &[u8], format: Format) {
    let Some(document) = open(data, format) else { return };
    assert_eq!(written(&document), data, "an unedited patch was written with other bytes");
    // The second half of the file also selects the edits, although these bytes are part of the
    // patch too.
    let Ok(edits) = edits(&document, &mut Unstructured::new(&data[data.len() / 2..])) else { return };
    let mut patch = Patch::new(document, JournalLimits::default());
    for edit in edits {
        if patch.apply(&[edit], "edit", None).is_err() {
            continue;
        }
        let bytes = patch.document().to_bytes();
        let again = open(&bytes, format).expect("an edited patch cannot be opened");
        assert_eq!(again.to_bytes(), bytes);
        assert_eq!(
            counts(&again),
            counts(patch.document()),
            "opening the edited patch again changed its boxes or cords:\n{}",
            bytes.escape_ascii()
        );
    }
    let (undo, _) = patch.depths();
    if undo > 0 {
        patch.undo(undo).expect("the edits cannot be undone");
    }
    assert_eq!(patch.document().to_bytes(), data, "undo did not restore the bytes");
}
