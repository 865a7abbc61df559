//! What the engine lets others see of itself, so that a controller can show it: which mappings are pressed, and where bindings stand.

use super::Hands;
use crate::gesture::{PressId, Tap};
use crate::mapping::table::RowId;

/// Mappings that fired but were not asked for yet. More than these at one look are not told apart by anybody's eyes.
const FIRED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Shown {
    held: Vec<(PressId, RowId)>,
    fired: Vec<RowId>,
}

impl Shown {
    pub(super) fn fired(&mut self, row: RowId, tap: Option<Tap>) {
        if let Some(tap) = tap.filter(|it| it.held) {
            self.held.push((tap.id, row));
        }
        if self.fired.len() < FIRED_MAX && !self.fired.contains(&row) {
            self.fired.push(row);
        }
    }

    pub(super) fn released(&mut self, press: PressId) {
        self.held.retain(|it| it.0 != press);
    }

    pub(super) fn clear(&mut self) {
        *self = Shown::default();
    }
}

impl Hands {
    /// Whether somebody holds the key of a mapping with this id, in whatever mode.
    pub fn is_pressed(&self, mapping: &str) -> bool {
        self.shown.held.iter().any(|it| &*self.tables.row(it.1.0).id == mapping)
    }

    /// Mappings that fired since this was asked last, each once.
    pub fn take_fired(&mut self, mut tell: impl FnMut(&str)) {
        for row in self.shown.fired.drain(..) {
            tell(&self.tables.row(row.0).id);
        }
    }

    /// Where a continuous binding stands, 0..=1; absent until it was moved. Of several with one id the active mode's counts.
    pub fn binding_value(&self, id: &str) -> Option<f64> {
        let named = || self.tables.bindings.iter().zip(&self.bindings).filter(|it| &*it.0.id == id);
        let active = named().find(|it| it.0.mode.is_none_or(|mode| mode == self.mode));
        active.or_else(|| named().next()).and_then(|it| it.1.target)
    }
}
