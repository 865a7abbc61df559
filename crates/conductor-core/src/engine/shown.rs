//! The engine state that controllers display: pressed mappings and the values of bindings.

use super::Engine;
use crate::event::Taint;
use crate::gesture::{PressId, PressInfo};
use crate::mapping::table::RowId;

/// The maximum number of fired mappings that are stored between two calls to `take_fired`. Further
/// mappings are left out, because a person cannot distinguish so many lights.
const FIRED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Shown {
    held: Vec<(PressId, RowId)>,
    fired: Vec<(RowId, Taint)>,
}

impl Shown {
    pub(super) fn fired(&mut self, row: RowId, press: Option<PressInfo>, taint: Taint) {
        if let Some(press) = press.filter(|it| it.held) {
            self.held.push((press.id, row));
        }
        if let Some(fired) = self.fired.iter_mut().find(|it| it.0 == row) {
            fired.1 = fired.1.max(taint);
        } else if self.fired.len() < FIRED_MAX {
            self.fired.push((row, taint));
        }
    }

    pub(super) fn released(&mut self, press: PressId) {
        self.held.retain(|it| it.0 != press);
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.fired.clear();
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.held.reserve(more);
        self.fired.reserve(FIRED_MAX.saturating_sub(self.fired.len()));
    }

    pub(super) fn room(&self) -> usize {
        self.held.capacity() - self.held.len()
    }
}

impl Engine {
    /// Whether the key of a mapping with this id is held, in any mode.
    pub fn is_pressed(&self, mapping: &str) -> bool {
        self.shown.held.iter().any(|it| &*self.tables.row(it.1.0).id == mapping)
    }

    /// Calls `tell` once for each mapping that fired since the last call, with the taint of the
    /// event that fired it.
    pub fn take_fired(&mut self, mut tell: impl FnMut(&str, Taint)) {
        for (row, taint) in self.shown.fired.drain(..) {
            tell(&self.tables.row(row.0).id, taint);
        }
    }

    /// The value of a continuous binding, 0..=1, and the taint of the event that last changed it.
    /// `None` until the first change. If several bindings have this id, a binding that is active in
    /// the current mode is used, else the first.
    pub fn binding_value(&self, id: &str) -> Option<(f64, Taint)> {
        let named = || self.tables.bindings.iter().zip(&self.bindings).filter(|it| &*it.0.id == id);
        let active = named().find(|it| it.0.mode.is_none_or(|mode| mode == self.mode));
        active.or_else(|| named().next()).and_then(|it| Some((it.1.target?, it.1.trail.taint)))
    }
}
