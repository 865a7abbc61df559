//! A spatial index of rectangles: finds the rectangles near a given one without a full scan.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::canvas::Slot;
use crate::geometry::Rect;

/// Side of a cell in pixels. At usual spacing a cell contains a few boxes.
const CELL: f64 = 128.0;
/// A rectangle that covers more cells than this, such as a background panel, is stored in a plain
/// list.
const MANY: i64 = 64;

/// A fast hasher for cell positions. It is needed because cells are looked up many times per box,
/// and the standard hasher would take most of the time of a lookup.
#[derive(Clone, Debug, Default)]
struct CellHasher(u64);

impl Hasher for CellHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_i64(i64::from(*byte)));
    }

    fn write_i64(&mut self, value: i64) {
        // The final steps of splitmix64. They spread neighbouring cells over the hash table.
        let mut mixed = (self.0.rotate_left(32) ^ value as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 31);
    }
}

type Cells = HashMap<(i64, i64), Vec<Slot>, BuildHasherDefault<CellHasher>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    cells: Cells,
    large: Vec<Slot>,
}

fn span(rect: &Rect) -> (i64, i64, i64, i64) {
    // The clamp moves a huge coordinate of a hostile file into the outermost cell, so that the cast
    // cannot overflow.
    let cell = |v: f64| (v / CELL).floor().clamp(-1e9, 1e9) as i64;
    (cell(rect.x), cell(rect.y), cell(rect.right()), cell(rect.bottom()))
}

fn is_large((x0, y0, x1, y1): (i64, i64, i64, i64)) -> bool {
    (x1 - x0 + 1).max(0).saturating_mul((y1 - y0 + 1).max(0)) > MANY
}

impl Grid {
    pub(crate) fn insert(&mut self, slot: Slot, rect: &Rect) {
        let span = span(rect);
        if is_large(span) {
            self.large.push(slot);
            return;
        }
        for x in span.0..=span.2 {
            for y in span.1..=span.3 {
                self.cells.entry((x, y)).or_default().push(slot);
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot, rect: &Rect) {
        let span = span(rect);
        if is_large(span) {
            self.large.retain(|found| *found != slot);
            return;
        }
        for x in span.0..=span.2 {
            for y in span.1..=span.3 {
                if let Some(list) = self.cells.get_mut(&(x, y)) {
                    list.retain(|found| *found != slot);
                }
            }
        }
    }

    /// Slots whose rectangles may overlap `rect`; each once, in ascending order.
    pub(crate) fn near(&self, rect: &Rect) -> Vec<Slot> {
        let (x0, y0, x1, y1) = span(rect);
        let mut found = self.large.clone();
        let cells = (x1 - x0 + 1).max(0).saturating_mul((y1 - y0 + 1).max(0));
        if cells as u64 > self.cells.len() as u64 {
            // The rectangle covers more cells than are filled, so it is cheaper to scan the filled
            // cells.
            for ((x, y), list) in &self.cells {
                if (x0..=x1).contains(x) && (y0..=y1).contains(y) {
                    found.extend_from_slice(list);
                }
            }
        } else {
            for x in x0..=x1 {
                for y in y0..=y1 {
                    found.extend_from_slice(self.cells.get(&(x, y)).map_or(&[], Vec::as_slice));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
