//! Compares two documents: first their boxes and cords, then their text line by line.

use std::collections::{HashMap, HashSet};

use similar::{Algorithm, DiffTag};

use crate::document::{BoxView, Document, View};

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffKind {
    /// A box that only the second document has.
    BoxAdded,
    /// A box that only the first document has.
    BoxRemoved,
    /// The text or kind of a box differs.
    TextChanged,
    /// The rectangle of a box differs.
    Moved,
    /// The name of a box differs.
    Renamed,
    /// Attributes of a box differ.
    AttributesChanged,
    /// A cord that only the second document has.
    CordAdded,
    /// A cord that only the first document has.
    CordRemoved,
    /// The midpoints, visibility or colour of a cord differ.
    CordChanged,
}

impl DiffKind {
    /// The name of the kind in replies to clients.
    pub fn name(self) -> &'static str {
        match self {
            DiffKind::BoxAdded => "box_added",
            DiffKind::BoxRemoved => "box_removed",
            DiffKind::TextChanged => "text_changed",
            DiffKind::Moved => "moved",
            DiffKind::Renamed => "renamed",
            DiffKind::AttributesChanged => "attributes_changed",
            DiffKind::CordAdded => "cord_added",
            DiffKind::CordRemoved => "cord_removed",
            DiffKind::CordChanged => "cord_changed",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Kind of the difference.
    pub kind: DiffKind,
    /// Path of keys to the box, or the ends of the cord.
    pub subject: String,
    /// The value in the first document.
    pub before: Option<String>,
    /// The value in the second document.
    pub after: Option<String>,
}

/// All differences between two documents.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Differences between boxes and between cords.
    pub changes: Vec<Difference>,
    /// Unified diff of the text.
    pub text: String,
    /// Number of lines that only the second document has.
    pub lines_added: usize,
    /// Number of lines that only the first document has.
    pub lines_removed: usize,
    /// Whether the bytes are the same.
    pub identical: bool,
}

impl Diff {
    /// The number of differences of the given kinds.
    pub fn count(&self, kinds: &[DiffKind]) -> usize {
        self.changes.iter().filter(|change| kinds.contains(&change.kind)).count()
    }
}

/// Compares two texts line by line, with `context` unchanged lines around each change. Does not
/// interpret the texts.
pub fn diff_bytes(before: &[u8], after: &[u8], context: usize) -> Diff {
    lines(before, after, context)
}

/// Compares two documents, with `context` unchanged lines around each change.
pub fn diff(before: &Document, after: &Document, context: usize) -> Diff {
    let mut found = lines(&before.to_bytes(), &after.to_bytes(), context);
    if !found.identical {
        canvases(&before.root(), &after.root(), "", &mut found.changes);
    }
    found
}

/// Maximum number of lines between the equal lines at the start and at the end, in the shorter of
/// both texts. Above this limit a line diff is too slow, so the diff consists of one removed block
/// and one added block.
const MOST_LINES: usize = 20_000;

fn lines(before: &[u8], after: &[u8], context: usize) -> Diff {
    if before == after {
        return Diff { identical: true, ..Diff::default() };
    }
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    // Skip the equal lines at both ends: most edits change one place.
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail =
        old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(old.len().min(new.len()) - head);
    let old_middle = old.get(head..old.len() - tail).unwrap_or_default();
    let new_middle = new.get(head..new.len() - tail).unwrap_or_default();
    let mut rows: Vec<(char, &str)> = Vec::new();
    if old_middle.len().min(new_middle.len()) > MOST_LINES {
        rows.extend(old_middle.iter().map(|line| ('-', *line)));
        rows.extend(new_middle.iter().map(|line| ('+', *line)));
    } else {
        for op in similar::capture_diff_slices(Algorithm::Myers, old_middle, new_middle) {
            let (_, old_range, new_range) = op.as_tag_tuple();
            if op.tag() == DiffTag::Equal {
                rows.extend(old_middle.get(old_range).unwrap_or_default().iter().map(|line| (' ', *line)));
            } else {
                rows.extend(old_middle.get(old_range).unwrap_or_default().iter().map(|line| ('-', *line)));
                rows.extend(new_middle.get(new_range).unwrap_or_default().iter().map(|line| ('+', *line)));
            }
        }
    }
    let lines_added = rows.iter().filter(|(mark, _)| *mark == '+').count();
    let lines_removed = rows.iter().filter(|(mark, _)| *mark == '-').count();
    let first = head.saturating_sub(context);
    let lead = old.get(first..head).unwrap_or_default().iter().map(|line| (' ', *line));
    let trail = old.get(old.len() - tail..).unwrap_or_default().iter().take(context).map(|line| (' ', *line));
    let rows: Vec<(char, &str)> = lead.chain(rows).chain(trail).collect();
    Diff { changes: Vec::new(), text: hunks(&rows, first, context), lines_added, lines_removed, identical: false }
}

/// Formats rows as hunks. Unchanged rows farther than `context` from a change are omitted.
fn hunks(rows: &[(char, &str)], first: usize, context: usize) -> String {
    let mut keep = vec![false; rows.len()];
    for (at, _) in rows.iter().enumerate().filter(|(_, (mark, _))| *mark != ' ') {
        let from = at.saturating_sub(context);
        keep.iter_mut().skip(from).take(at - from + context + 1).for_each(|place| *place = true);
    }
    let mut out = String::new();
    let (mut old_line, mut new_line) = (first + 1, first + 1);
    let mut at = 0;
    while at < rows.len() {
        let length = keep.iter().skip(at).take_while(|kept| **kept).count();
        let hunk = rows.get(at..at + length).unwrap_or_default();
        if !hunk.is_empty() {
            let olds = hunk.iter().filter(|(mark, _)| *mark != '+').count();
            let news = hunk.iter().filter(|(mark, _)| *mark != '-').count();
            out.push_str(&format!("@@ -{old_line},{olds} +{new_line},{news} @@\n"));
            for (mark, line) in hunk {
                out.push(*mark);
                out.push_str(line.trim_end_matches(['\n', '\r']));
                out.push('\n');
            }
            (old_line, new_line) = (old_line + olds, new_line + news);
            at += length;
        } else {
            (old_line, new_line) = (old_line + 1, new_line + 1);
            at += 1;
        }
    }
    out
}

/// Pairs the boxes of two canvases. Two states of one opened file are paired by key only. Otherwise
/// boxes are paired by the key in the file, then by text and position, then by text, then by
/// position.
fn pairs<'a>(before: &View<'a>, after: &View<'a>) -> Vec<(Option<BoxView<'a>>, Option<BoxView<'a>>)> {
    let mut old: Vec<Option<BoxView<'a>>> = before.boxes().map(Some).collect();
    let mut fresh: Vec<Option<BoxView<'a>>> = after.boxes().map(Some).collect();
    let mut found = Vec::new();
    let same_opening = std::sync::Arc::ptr_eq(&before.document.source, &after.document.source);
    type Name<'b> = Box<dyn Fn(&BoxView<'_>) -> Option<String> + 'b>;
    let mut ways: Vec<Name<'_>> = Vec::new();
    if same_opening {
        ways.push(Box::new(|object| Some(object.key().to_owned())));
    } else {
        ways.push(Box::new(|object| (!object.key().starts_with('~')).then(|| object.key().to_owned())));
        ways.push(Box::new(|object| Some(format!("{}\n{}\n{:?}", object.maxclass(), object.text(), object.rect()))));
        ways.push(Box::new(|object| Some(format!("{}\n{}", object.maxclass(), object.text()))));
        ways.push(Box::new(|object| Some(format!("{}\n{:?}", object.maxclass(), object.rect()))));
    }
    for way in &ways {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, object) in fresh.iter().enumerate().rev() {
            if let Some(name) = object.as_ref().and_then(way) {
                places.entry(name).or_default().push(at);
            }
        }
        for place in &mut old {
            let Some(name) = place.as_ref().and_then(way) else {
                continue;
            };
            if let Some(at) = places.get_mut(&name).and_then(Vec::pop)
                && let Some(other) = fresh.get_mut(at)
            {
                found.push((place.take(), other.take()));
            }
        }
    }
    found.extend(old.into_iter().flatten().map(|object| (Some(object), None)));
    found.extend(fresh.into_iter().flatten().map(|object| (None, Some(object))));
    found
}

fn canvases(before: &View<'_>, after: &View<'_>, path: &str, changes: &mut Vec<Difference>) {
    let mut push = |kind, subject: String, old: Option<String>, new: Option<String>| {
        changes.push(Difference { kind, subject, before: old, after: new })
    };
    let mut renamed: HashMap<u32, u32> = HashMap::new();
    let mut deeper = Vec::new();
    for pair in pairs(before, after) {
        match pair {
            (Some(old), Some(new)) => {
                renamed.insert(old.slot, new.slot);
                let subject = format!("{path}{}", new.key());
                let described = |object: &BoxView<'_>| {
                    if object.text().is_empty() { object.maxclass().to_owned() } else { object.text().to_owned() }
                };
                if (old.text(), old.maxclass()) != (new.text(), new.maxclass()) {
                    push(DiffKind::TextChanged, subject.clone(), Some(described(&old)), Some(described(&new)));
                }
                if (old.rect().x, old.rect().y) != (new.rect().x, new.rect().y)
                    || (old.rect() != new.rect() && old.text() == new.text())
                {
                    push(
                        DiffKind::Moved,
                        subject.clone(),
                        Some(format!("{:?}", old.rect().array())),
                        Some(format!("{:?}", new.rect().array())),
                    );
                }
                if old.varname() != new.varname() {
                    push(
                        DiffKind::Renamed,
                        subject.clone(),
                        old.varname().map(str::to_owned),
                        new.varname().map(str::to_owned),
                    );
                }
                let (a, b) = (other_keys(&old, &new), other_keys(&new, &old));
                if a != b {
                    push(DiffKind::AttributesChanged, subject.clone(), Some(a.join(", ")), Some(b.join(", ")));
                }
                if let (Some(a), Some(b)) = (old.inside(), new.inside()) {
                    deeper.push((a, b, format!("{subject}/")));
                }
            }
            (Some(old), None) => push(
                DiffKind::BoxRemoved,
                format!("{path}{}", old.key()),
                Some(old.text().to_owned()).filter(|t| !t.is_empty()).or(Some(old.maxclass().to_owned())),
                None,
            ),
            (None, Some(new)) => push(
                DiffKind::BoxAdded,
                format!("{path}{}", new.key()),
                None,
                Some(new.text().to_owned()).filter(|t| !t.is_empty()).or(Some(new.maxclass().to_owned())),
            ),
            (None, None) => {}
        }
    }
    cords(before, after, path, &renamed, changes);
    for (a, b, path) in deeper {
        canvases(&a, &b, &path, changes);
    }
}

/// Attributes that differ and are not covered by another [`DiffKind`].
fn other_keys(object: &BoxView<'_>, other: &BoxView<'_>) -> Vec<String> {
    const OWN: &[&str] =
        &["text", "maxclass", "patching_rect", "varname", "patcher", "numinlets", "numoutlets", "outlettype", "id"];
    if object.face.before.bytes(&object.view.document.source) == other.face.before.bytes(&other.view.document.source)
        && object.face.after.bytes(&object.view.document.source) == other.face.after.bytes(&other.view.document.source)
    {
        return Vec::new();
    }
    let (Some(shape), Some(theirs)) = (object.shape(), other.shape()) else {
        return Vec::new();
    };
    let mut keys: Vec<&str> = shape.keys().filter(|key| !OWN.contains(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter(|key| shape.get(key).map(|(raw, _)| raw) != theirs.get(key).map(|(raw, _)| raw))
        .map(|key| {
            format!(
                "{key}: {}",
                shape.get(key).map(|(raw, _)| String::from_utf8_lossy(raw).into_owned()).unwrap_or_default()
            )
        })
        .collect()
}

fn cords(before: &View<'_>, after: &View<'_>, path: &str, renamed: &HashMap<u32, u32>, changes: &mut Vec<Difference>) {
    type Ends = (Option<u32>, String, u32, Option<u32>, String, u32);
    let ends = |cord: &crate::canvas::Cord, map: Option<&HashMap<u32, u32>>| -> Ends {
        let slot =
            |slot: Option<u32>| slot.map(|slot| map.map_or(slot, |map| map.get(&slot).copied().unwrap_or(u32::MAX)));
        let name = |end: &crate::canvas::End| {
            if end.slot.is_some() { String::new() } else { end.name.to_string() }
        };
        (slot(cord.from.slot), name(&cord.from), cord.from.port, slot(cord.to.slot), name(&cord.to), cord.to.port)
    };
    let label = |cord: &crate::document::CordView<'_>| {
        let key = |object: Option<BoxView<'_>>, name: &str| {
            object.map_or_else(|| name.to_owned(), |object| object.key().to_owned())
        };
        format!(
            "{path}{}:{} -> {path}{}:{}",
            key(cord.from(), cord.from_name()),
            cord.outlet(),
            key(cord.to(), cord.to_name()),
            cord.inlet()
        )
    };
    let look = |cord: &crate::document::CordView<'_>| {
        format!("midpoints {:?}, hidden {}, color {:?}", cord.cord.midpoints, cord.hidden(), cord.color())
    };
    let mut old: HashMap<Ends, crate::document::CordView<'_>> =
        before.cords().map(|cord| (ends(cord.cord, Some(renamed)), cord)).collect();
    let mut seen = HashSet::new();
    for cord in after.cords() {
        let key = ends(cord.cord, None);
        seen.insert(key.clone());
        match old.remove(&key) {
            None => changes.push(Difference {
                kind: DiffKind::CordAdded,
                subject: label(&cord),
                before: None,
                after: Some(label(&cord)),
            }),
            Some(was)
                if was.cord.midpoints != cord.cord.midpoints
                    || was.hidden() != cord.hidden()
                    || was.color() != cord.color() =>
            {
                changes.push(Difference {
                    kind: DiffKind::CordChanged,
                    subject: label(&cord),
                    before: Some(look(&was)),
                    after: Some(look(&cord)),
                });
            }
            Some(_) => {}
        }
    }
    for cord in before.cords() {
        if old.remove(&ends(cord.cord, Some(renamed))).is_some() {
            changes.push(Difference {
                kind: DiffKind::CordRemoved,
                subject: label(&cord),
                before: Some(label(&cord)),
                after: None,
            });
        }
    }
}
