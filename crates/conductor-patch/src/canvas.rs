//! One patcher (Max) or canvas (Pd) in memory: its bytes as a list of pieces, its boxes and cords,
//! and the indexes over them.
//!
//! A slot is the address of a box or cord inside its canvas. Slots are not reused while the
//! document is open, so undoing a removal restores the same slot. Not here: the meaning of edits
//! (`edit`) and the file formats (`max`, `pd`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::chunk::{Chunk, Writer};
use crate::geometry::Rect;
use crate::grid::Grid;
use crate::sequence::Sequence;

pub(crate) type Slot = u32;

/// Zero-width positions at which new items are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// After the last box of a `boxes` list, and before the whitespace in front of `]`.
    Boxes,
    /// After the last cord of a `lines` list.
    Lines,
    /// After the last member of a patcher object.
    Members,
}

/// One piece of the text of a canvas, in file order.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Text(Chunk),
    Mark(Mark),
    Box(Slot),
    Cord(Slot),
}

/// The facts that the file states about a box.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) varname: Option<Arc<str>>,
    pub(crate) maxclass: Arc<str>,
    /// Pd: the kind of the statement as Pd names it.
    pub(crate) native: Option<&'static str>,
    pub(crate) text: Arc<str>,
    pub(crate) rect: Rect,
    pub(crate) presentation_rect: Option<Rect>,
    pub(crate) presentation: bool,
    pub(crate) hidden: bool,
    pub(crate) background: bool,
    pub(crate) inlets: Option<u32>,
    pub(crate) outlets: Option<u32>,
    pub(crate) font_size: Option<f64>,
    /// Max: the first inlet is not drawn.
    pub(crate) first_inlet_hidden: bool,
    /// Pd: width in characters, if the statement ends with `, f N`.
    pub(crate) columns: Option<u32>,
}

/// The text and the facts of a box; replaced as a whole when the box changes.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) key: Arc<str>,
    /// Bytes before the embedded canvas; all bytes when there is none.
    pub(crate) before: Chunk,
    /// Bytes after the embedded canvas.
    pub(crate) after: Chunk,
    pub(crate) facts: Facts,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) face: Arc<Face>,
    pub(crate) inner: Option<Arc<Canvas>>,
    /// Slots of the cords that start or end at the box.
    pub(crate) cords: Vec<Slot>,
    hint: u32,
}

/// One end of a cord.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    /// The box; `None` if the file names a missing box.
    pub(crate) slot: Option<Slot>,
    /// Name that the file uses for the box: an id (Max) or an object number (Pd).
    pub(crate) name: Arc<str>,
    pub(crate) port: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Cord {
    pub(crate) text: Chunk,
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) hidden: bool,
    /// Interior points as a flat list: x, y, x, y, and so on.
    pub(crate) midpoints: Arc<[f64]>,
}

/// The facts that the file states about a patcher.
#[derive(Clone, Debug, Default)]
pub(crate) struct CanvasFacts {
    /// The namespace `box` or `dsp.gen`; `None` if the file does not name a namespace.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) open_in_presentation: bool,
    pub(crate) font_size: Option<f64>,
    pub(crate) app_version: Option<String>,
    pub(crate) background: Option<[f64; 4]>,
    /// Pd: name of a subpatch.
    pub(crate) name: Option<Arc<str>>,
    /// Pd: area of the canvas that is shown on its box (graph on parent), as x, y, width and
    /// height.
    pub(crate) graph: Option<Rect>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas {
    pub(crate) items: Sequence<Item>,
    boxes: Vec<Option<Entry>>,
    cords: Vec<Option<(Arc<Cord>, u32)>>,
    keys: HashMap<Arc<str>, Slot>,
    varnames: HashMap<Arc<str>, Vec<Slot>>,
    gone: HashSet<Arc<str>>,
    pub(crate) facts: CanvasFacts,
    pub(crate) box_count: usize,
    pub(crate) cord_count: usize,
    /// The largest N of all ids `obj-N` and keys `~N` so far.
    pub(crate) highest: u64,
    marks: [u32; 3],
    grid: Option<Grid>,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Sequence::from_vec(Vec::new())
    }
}

impl Canvas {
    pub(crate) fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.boxes.get(slot as usize)?.as_ref()
    }

    pub(crate) fn face(&self, slot: Slot) -> Option<&Arc<Face>> {
        Some(&self.entry(slot)?.face)
    }

    pub(crate) fn inner(&self, slot: Slot) -> Option<&Arc<Canvas>> {
        self.entry(slot)?.inner.as_ref()
    }

    pub(crate) fn inner_mut(&mut self, slot: Slot) -> Option<&mut Arc<Canvas>> {
        self.boxes.get_mut(slot as usize)?.as_mut()?.inner.as_mut()
    }

    pub(crate) fn cord(&self, slot: Slot) -> Option<&Arc<Cord>> {
        self.cords.get(slot as usize)?.as_ref().map(|(cord, _)| cord)
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<Slot> {
        self.keys.get(key).copied()
    }

    pub(crate) fn by_varname(&self, name: &str) -> &[Slot] {
        self.varnames.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a box with this key existed after the document was opened, and was removed.
    pub(crate) fn was(&self, key: &str) -> bool {
        self.gone.contains(key)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.varnames.keys().chain(self.keys.keys())
    }

    /// Slots of the boxes in file order; the position of a box in this order is its index.
    pub(crate) fn box_slots(&self) -> impl Iterator<Item = Slot> {
        self.items.iter().filter_map(|item| match item {
            Item::Box(slot) => Some(*slot),
            Item::Text(_) | Item::Mark(_) | Item::Cord(_) => None,
        })
    }

    pub(crate) fn cord_slots(&self) -> impl Iterator<Item = Slot> {
        self.items.iter().filter_map(|item| match item {
            Item::Cord(slot) => Some(*slot),
            Item::Text(_) | Item::Mark(_) | Item::Box(_) => None,
        })
    }

    /// Slots and faces of the boxes in file order.
    pub(crate) fn faces(&self) -> impl Iterator<Item = (Slot, &Arc<Face>)> {
        self.box_slots().filter_map(|slot| Some((slot, self.face(slot)?)))
    }

    pub(crate) fn index_of(&self, slot: Slot) -> Option<usize> {
        self.box_slots().position(|found| found == slot)
    }

    pub(crate) fn next_box_slot(&self) -> Slot {
        self.boxes.len() as Slot
    }

    pub(crate) fn next_cord_slot(&self) -> Slot {
        self.cords.len() as Slot
    }

    pub(crate) fn position_of_box(&self, slot: Slot) -> Option<usize> {
        let hint = self.entry(slot)?.hint as usize;
        self.items.position(hint, |item| matches!(item, Item::Box(found) if *found == slot))
    }

    pub(crate) fn position_of_cord(&self, slot: Slot) -> Option<usize> {
        let hint = self.cords.get(slot as usize)?.as_ref()?.1 as usize;
        self.items.position(hint, |item| matches!(item, Item::Cord(found) if *found == slot))
    }

    pub(crate) fn position_of_mark(&self, mark: Mark) -> Option<usize> {
        let hint = self.marks.get(mark as usize).copied().unwrap_or(0) as usize;
        self.items.position(hint, |item| matches!(item, Item::Mark(found) if *found == mark))
    }

    pub(crate) fn remember_mark(&mut self, mark: Mark, at: usize) {
        if let Some(hint) = self.marks.get_mut(mark as usize) {
            *hint = at as u32;
        }
    }

    pub(crate) fn attach_box(&mut self, slot: Slot, face: Arc<Face>, inner: Option<Arc<Canvas>>, hint: usize) {
        self.gone.remove(&face.key);
        self.keys.insert(face.key.clone(), slot);
        if let Some(name) = &face.facts.varname {
            self.varnames.entry(name.clone()).or_default().push(slot);
        }
        for name in [Some(&face.key), face.facts.id.as_ref()].into_iter().flatten() {
            let number =
                name.strip_prefix("obj-").or_else(|| name.strip_prefix('~')).and_then(|n| n.parse::<u64>().ok());
            // Ignore huge numbers in a file, so that the next number cannot overflow.
            self.highest = self.highest.max(number.filter(|n| *n < 1 << 53).unwrap_or(0));
        }
        if let Some(grid) = &mut self.grid {
            grid.insert(slot, &face.facts.rect);
        }
        let entry = Entry { face, inner, cords: Vec::new(), hint: hint as u32 };
        let at = slot as usize;
        if self.boxes.len() <= at {
            self.boxes.resize_with(at + 1, || None);
        }
        if let Some(place) = self.boxes.get_mut(at) {
            *place = Some(entry);
        }
        self.box_count += 1;
    }

    pub(crate) fn detach_box(&mut self, slot: Slot) -> Option<(Arc<Face>, Option<Arc<Canvas>>)> {
        let entry = self.boxes.get_mut(slot as usize)?.take()?;
        self.keys.remove(&entry.face.key);
        self.gone.insert(entry.face.key.clone());
        self.drop_varname(slot, &entry.face);
        if let Some(grid) = &mut self.grid {
            grid.remove(slot, &entry.face.facts.rect);
        }
        self.box_count -= 1;
        Some((entry.face, entry.inner))
    }

    fn drop_varname(&mut self, slot: Slot, face: &Face) {
        if let Some(name) = &face.facts.varname
            && let Some(list) = self.varnames.get_mut(name)
        {
            list.retain(|found| *found != slot);
            if list.is_empty() {
                self.varnames.remove(name);
            }
        }
    }

    pub(crate) fn swap_face(&mut self, slot: Slot, face: Arc<Face>) -> Option<Arc<Face>> {
        let old = self.face(slot)?.clone();
        self.drop_varname(slot, &old);
        if let Some(name) = &face.facts.varname {
            self.varnames.entry(name.clone()).or_default().push(slot);
        }
        if let Some(grid) = &mut self.grid {
            grid.remove(slot, &old.facts.rect);
            grid.insert(slot, &face.facts.rect);
        }
        self.boxes.get_mut(slot as usize)?.as_mut()?.face = face;
        Some(old)
    }

    pub(crate) fn swap_inner(&mut self, slot: Slot, inner: Option<Arc<Canvas>>) -> Option<Option<Arc<Canvas>>> {
        let entry = self.boxes.get_mut(slot as usize)?.as_mut()?;
        Some(std::mem::replace(&mut entry.inner, inner))
    }

    fn link(&mut self, cord: Slot, ends: [&End; 2], on: bool) {
        for slot in ends.into_iter().filter_map(|end| end.slot) {
            if let Some(Some(entry)) = self.boxes.get_mut(slot as usize) {
                entry.cords.retain(|found| *found != cord);
                if on {
                    entry.cords.push(cord);
                }
            }
        }
    }

    pub(crate) fn attach_cord(&mut self, slot: Slot, cord: Arc<Cord>, hint: usize) {
        self.link(slot, [&cord.from, &cord.to], true);
        let at = slot as usize;
        if self.cords.len() <= at {
            self.cords.resize_with(at + 1, || None);
        }
        if let Some(place) = self.cords.get_mut(at) {
            *place = Some((cord, hint as u32));
        }
        self.cord_count += 1;
    }

    pub(crate) fn detach_cord(&mut self, slot: Slot) -> Option<Arc<Cord>> {
        let (cord, _) = self.cords.get_mut(slot as usize)?.take()?;
        self.link(slot, [&cord.from, &cord.to], false);
        self.cord_count -= 1;
        Some(cord)
    }

    pub(crate) fn swap_cord(&mut self, slot: Slot, cord: Arc<Cord>) -> Option<Arc<Cord>> {
        let hint = self.cords.get(slot as usize)?.as_ref()?.1 as usize;
        let old = self.detach_cord(slot)?;
        self.attach_cord(slot, cord, hint);
        Some(old)
    }

    /// Cords that start or end at a box, in the order in which they were added.
    pub(crate) fn cords_at(&self, slot: Slot) -> Vec<Slot> {
        self.entry(slot).map(|entry| entry.cords.clone()).unwrap_or_default()
    }

    pub(crate) fn find_cord(&self, from: Slot, outlet: u32, to: Slot, inlet: u32) -> Option<Slot> {
        self.entry(from)?.cords.iter().copied().find(|slot| {
            self.cord(*slot).is_some_and(|cord| {
                cord.from.slot == Some(from)
                    && cord.from.port == outlet
                    && cord.to.slot == Some(to)
                    && cord.to.port == inlet
            })
        })
    }

    /// The spatial index of the boxes. Built on first use and then kept up to date.
    pub(crate) fn grid(&mut self) -> &Grid {
        if self.grid.is_none() {
            let mut grid = Grid::default();
            for (slot, face) in self.faces() {
                grid.insert(slot, &face.facts.rect);
            }
            self.grid = Some(grid);
        }
        self.grid.get_or_insert_default()
    }

    /// Builds a canvas from its pieces, boxes and cords. Boxes and cords are in the order of their
    /// slots.
    pub(crate) fn assemble(
        items: Vec<Item>,
        boxes: Vec<(Face, Option<Arc<Canvas>>)>,
        cords: Vec<Cord>,
        facts: CanvasFacts,
    ) -> Canvas {
        let mut canvas = Canvas { facts, ..Canvas::default() };
        let mut hints = vec![0; boxes.len()];
        let mut cord_hints = vec![0; cords.len()];
        for (at, item) in items.iter().enumerate() {
            match item {
                Item::Box(slot) => {
                    if let Some(hint) = hints.get_mut(*slot as usize) {
                        *hint = at;
                    }
                }
                Item::Cord(slot) => {
                    if let Some(hint) = cord_hints.get_mut(*slot as usize) {
                        *hint = at;
                    }
                }
                Item::Mark(mark) => canvas.remember_mark(*mark, at),
                Item::Text(_) => {}
            }
        }
        for (slot, ((face, inner), hint)) in boxes.into_iter().zip(hints).enumerate() {
            canvas.attach_box(slot as Slot, Arc::new(face), inner, hint);
        }
        for (slot, (cord, hint)) in cords.into_iter().zip(cord_hints).enumerate() {
            canvas.attach_cord(slot as Slot, Arc::new(cord), hint);
        }
        canvas.items = Sequence::from_vec(items);
        canvas
    }

    /// Copies the text pieces out of `source`, so that the canvas owns their bytes. Call this
    /// function only for a canvas that an edit generated and that has no boxes.
    pub(crate) fn own(&mut self, source: &[u8]) {
        let items = self.items.iter().map(|item| match item {
            Item::Text(chunk) => Item::Text(Chunk::owned(chunk.bytes(source))),
            Item::Mark(_) | Item::Box(_) | Item::Cord(_) => item.clone(),
        });
        self.items = Sequence::from_vec(items.collect());
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>, source: &[u8], format: crate::Format) {
        // Pd cords name boxes by number. The numbers are corrected while writing, so that removing
        // a box changes only its own cords.
        let numbers = format.is_pd().then(|| self.numbers());
        for item in self.items.iter() {
            match item {
                Item::Text(chunk) => writer.chunk(chunk),
                Item::Mark(_) => {}
                Item::Box(slot) => {
                    if let Some(entry) = self.entry(*slot) {
                        writer.chunk(&entry.face.before);
                        if let Some(inner) = &entry.inner {
                            inner.write(writer, source, format);
                        }
                        writer.chunk(&entry.face.after);
                    }
                }
                Item::Cord(slot) => {
                    if let Some(cord) = self.cord(*slot) {
                        match &numbers {
                            Some(numbers) => crate::pd::write_cord(writer, source, cord, numbers),
                            None => writer.chunk(&cord.text),
                        }
                    }
                }
            }
        }
    }

    /// Number of nested levels of patchers in this canvas.
    pub(crate) fn levels(&self) -> usize {
        self.boxes.iter().flatten().filter_map(|it| it.inner.as_ref()).map(|it| 1 + it.levels()).max().unwrap_or(0)
    }

    /// The index of every box, listed by slot.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let mut numbers = vec![u32::MAX; self.boxes.len()];
        for (index, slot) in self.box_slots().enumerate() {
            if let Some(place) = numbers.get_mut(slot as usize) {
                *place = index as u32;
            }
        }
        numbers
    }

    /// Estimate of the bytes that this canvas keeps in memory in addition to the opened file. They
    /// count towards the size limit of the journal.
    pub(crate) fn weight(&self) -> usize {
        let mut total = self.items.len() * size_of::<Item>();
        for entry in self.boxes.iter().flatten() {
            total += size_of::<Entry>() + entry.face.weight() + entry.inner.as_ref().map_or(0, |inner| inner.weight());
        }
        total + self.cords.iter().flatten().map(|(cord, _)| size_of::<Cord>() + cord.text.weight()).sum::<usize>()
    }
}

impl Face {
    pub(crate) fn weight(&self) -> usize {
        size_of::<Face>()
            + self.before.weight()
            + self.after.weight()
            + self.facts.text.len()
            + self.facts.maxclass.len()
    }
}
