//! The ids that automation targets, modulation targets and controller targets share. Assigns new
//! ids to clones.

use crate::document::Document;
use crate::error::LiveError;
use crate::xml::{El, Outline, Splices, splice};
use std::collections::HashMap;

/// Whether the element is a target, so that its `Id` is one of the shared ids.
pub(crate) fn is_pointee(el: El<'_>) -> bool {
    let name = el.name();
    name == "AutomationTarget"
        || name == "Pointee"
        || name.ends_with("ModulationTarget")
        || name.starts_with("ControllerTargets.")
}

/// The shared ids of the targets in these elements.
pub(crate) fn pointees<'a>(elements: impl Iterator<Item = El<'a>>) -> impl Iterator<Item = u32> {
    elements.filter(|el| is_pointee(*el)).filter_map(|el| el.attr_u32("Id"))
}

impl Document {
    /// The next free id: the Set's counter, or the highest id plus one when the counter is too low.
    pub(crate) fn next_pointee(&self) -> Result<u32, LiveError> {
        let said = self.in_set("NextPointeeId").and_then(|(_, el)| el.attr_u32("Value"));
        let said =
            said.ok_or_else(|| LiveError::unsupported("NextPointeeId", "the Set does not state its next free id"))?;
        let highest = self.chunks.iter().flat_map(|c| pointees(c.outline.all(&c.text))).max().unwrap_or(0);
        Ok(said.max(highest.saturating_add(1)))
    }
}

/// Assigns new ids to a clone, starting at `next`, and points its envelopes at the new ids. Sets
/// the `LomId` handles of Live's object model to 0.
pub(crate) fn renumber(text: &str, next: &mut u32) -> Result<String, LiveError> {
    let (outline, _) = Outline::read(text, &[]).map_err(|e| LiveError::broken(e.to_string()))?;
    let mut splices = Splices::default();
    let mut fresh: HashMap<u32, u32> = HashMap::new();
    for el in outline.all(text).filter(|el| is_pointee(*el)) {
        if let Some(old) = el.attr_u32("Id") {
            fresh.insert(old, *next);
            splices.attr(el, "Id", &next.to_string());
            *next = next
                .checked_add(1)
                .ok_or_else(|| LiveError::unsupported("NextPointeeId", "the Set has no free ids left"))?;
        }
    }
    for el in outline.all(text) {
        match el.name() {
            "PointeeId" => {
                if let Some(new) = el.attr_u32("Value").and_then(|old| fresh.get(&old)) {
                    splices.attr(el, "Value", &new.to_string());
                }
            }
            "LomId" | "LomIdView" => splices.attr(el, "Value", "0"),
            name if name.ends_with("ListWrapper") => splices.attr(el, "LomId", "0"),
            _ => {}
        }
    }
    splice(text, &splices.sorted()).ok_or_else(|| LiveError::broken("two replacements overlap"))
}
