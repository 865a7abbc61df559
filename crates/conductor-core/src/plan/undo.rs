//! Undoes an applied plan. If the file has not changed after the plan, the old bytes are restored.
//! Otherwise each item that the plan changed is restored by name in the present file. The undo
//! fails if such an item was changed after the plan.
//!
//! The changed items are found by comparing the file before the plan with the file after it, so no
//! other data is stored for the undo.

use super::edit::{Editor, View, read, step_to};
use super::layout::{Layout, NewRow, Step, child};
use super::{ChangeRow, Draft, Known, PlanError, finish, text_of};
use crate::config::{GLOBAL, Surroundings};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An item of the file, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Mode(String),
    Mapping { mode: String, id: String },
    Continuous { mode: String, id: String },
    Device(String),
}

impl Item {
    fn named(&self) -> String {
        match self {
            Item::Mode(name) => format!("mode \"{name}\""),
            Item::Mapping { mode, id } => format!("mapping \"{id}\" of mode \"{mode}\""),
            Item::Continuous { mode, id } => format!("continuous binding \"{id}\" of mode \"{mode}\""),
            Item::Device(alias) => format!("device \"{alias}\""),
        }
    }

    fn row(&self, description: String) -> ChangeRow {
        let mut row = ChangeRow { description, ..ChangeRow::default() };
        match self {
            Item::Mode(name) => row.mode = Some(name.clone()),
            Item::Mapping { mode, id } | Item::Continuous { mode, id } => {
                row.mode = Some(mode.clone());
                row.mapping_id = Some(id.clone());
            }
            Item::Device(alias) => row.alias = Some(alias.clone()),
        }
        row
    }

    fn change_type(&self, done: Done) -> &'static str {
        match (self, done) {
            (Item::Mode(_), Done::Deleted) => "DeleteMode",
            (Item::Mode(_), Done::Created | Done::Updated) => "CreateMode",
            (Item::Mapping { .. }, Done::Deleted) => "DeleteMapping",
            (Item::Mapping { .. }, Done::Created) => "CreateMapping",
            (Item::Mapping { .. }, Done::Updated) => "UpdateMapping",
            (Item::Continuous { .. }, Done::Deleted) => "DeleteContinuous",
            (Item::Continuous { .. }, Done::Created | Done::Updated) => "CreateContinuous",
            (Item::Device(_), Done::Deleted) => "DeleteDeviceIdentity",
            (Item::Device(_), Done::Created | Done::Updated) => "CreateDeviceIdentity",
        }
    }
}

/// The effect of an undo on an item.
#[derive(Clone, Copy)]
enum Done {
    Deleted,
    Created,
    Updated,
}

/// The place and the value of an item.
struct Found {
    owner: Vec<Step>,
    list: &'static str,
    index: usize,
    value: Value,
}

/// Undoes a plan. `before` and `after` are the bytes before and after the plan; `present` is the
/// file now.
pub fn undo(before: &[u8], after: &[u8], present: &[u8], surroundings: &Surroundings<'_>) -> Result<Draft, PlanError> {
    let (old, new, now) = (text_of(before)?, text_of(after)?, text_of(present)?);
    let (old_view, new_view) = (read(old, surroundings)?, read(new, surroundings)?);
    let (old_items, new_items) = (Catalog::new(&old_view), Catalog::new(&new_view));
    let touched = touched(&old_items, &new_items);
    if present == after {
        let rows = touched.iter().map(|item| change_row(item, &old_items, &new_items)).collect();
        // Compare the old file with itself: its faults existed before the plan, so they do not
        // prevent the undo.
        return finish(now, &Known::of(&old_view), old, &old_view, rows);
    }
    let mut editor = Editor::new(now, surroundings)?;
    let before = Known::of(editor.view());
    let mut rows = Vec::new();
    for item in in_order(&touched, &old_items) {
        put_back(&mut editor, item, old, &old_items, &new_items)?;
        rows.push(change_row(item, &old_items, &new_items));
    }
    let (result, after) = editor.into_result();
    finish(now, &before, &result, &after, rows)
}

fn change_row(item: &Item, old: &Catalog<'_>, new: &Catalog<'_>) -> ChangeRow {
    let (done, verb) = match (old.find(item), new.find(item)) {
        (None, _) => (Done::Deleted, "Remove"),
        (Some(_), None) => (Done::Created, "Restore deleted"),
        (Some(_), Some(_)) => (Done::Updated, "Restore"),
    };
    ChangeRow { change_type: item.change_type(done), ..item.row(format!("{verb} {}", item.named())) }
}

/// The place of each item of a file, by name. Each row of a mode is an item.
struct Catalog<'v> {
    view: &'v View,
    places: BTreeMap<Item, (Vec<Step>, &'static str, usize)>,
}

impl<'v> Catalog<'v> {
    fn new(view: &'v View) -> Self {
        let mut places = BTreeMap::new();
        for device in &view.config.devices {
            let place = view.device_index(&device.alias).map(|index| (Vec::new(), "devices", index));
            places.extend(place.map(|it| (Item::Device(device.alias.clone()), it)));
        }
        let names = view.config.modes.iter().map(|it| it.name.as_str());
        for name in names.clone() {
            let place = view.mode_index(name).map(|index| (Vec::new(), "modes", index));
            places.extend(place.map(|it| (Item::Mode(name.to_owned()), it)));
        }
        for mode in names.chain(std::iter::once(GLOBAL)) {
            let Some((rows, place)) = view.rows(mode).zip(view.place(mode)) else { continue };
            for (index, row) in rows.mappings.iter().enumerate() {
                let item = Item::Mapping { mode: mode.to_owned(), id: row.id.clone() };
                places.insert(item, (place.owner.clone(), place.mappings, index));
            }
            for (index, row) in rows.continuous.iter().enumerate() {
                let item = Item::Continuous { mode: mode.to_owned(), id: row.id.clone() };
                places.insert(item, (place.owner.clone(), place.continuous, index));
            }
        }
        Catalog { view, places }
    }

    fn find(&self, item: &Item) -> Option<Found> {
        let (owner, list, index) = self.places.get(item)?;
        let value = step_to(&self.view.tree, &child(owner, list, Some(*index)))?.clone();
        Some(Found { owner: owner.clone(), list, index: *index, value })
    }
}

/// The items that a plan changed. If the plan added or removed a whole mode, the rows of that mode
/// are not listed.
fn touched(old: &Catalog<'_>, new: &Catalog<'_>) -> Vec<Item> {
    let mut all: Vec<&Item> = old.places.keys().collect();
    all.extend(new.places.keys().filter(|it| !old.places.contains_key(*it)));
    let stays =
        |mode: &str| mode == GLOBAL || old.view.mode_index(mode).is_some() == new.view.mode_index(mode).is_some();
    all.retain(|item| {
        let differs = match (old.find(item), new.find(item)) {
            (Some(a), Some(b)) => own_keys(item, &a.value) != own_keys(item, &b.value),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        let apart = match item {
            Item::Mapping { mode, .. } | Item::Continuous { mode, .. } => stays(mode),
            Item::Mode(_) | Item::Device(_) => true,
        };
        differs && apart
    });
    all.into_iter().cloned().collect()
}

/// The value of an item, without the rows if it is a mode.
fn own_keys(item: &Item, value: &Value) -> Value {
    let mut value = value.clone();
    if let (Item::Mode(_), Some(map)) = (item, value.as_object_mut()) {
        map.retain(|key, _| key != "mappings" && key != "continuous");
    }
    value
}

/// Sorts the items: first removals, then restored modes and devices, then restored rows in their
/// old order.
fn in_order<'i>(touched: &'i [Item], old: &Catalog<'_>) -> Vec<&'i Item> {
    let (mut back, gone): (Vec<&Item>, Vec<&Item>) = touched.iter().partition(|item| old.places.contains_key(*item));
    back.sort_by_key(|item| {
        let rank = match item {
            Item::Mode(_) | Item::Device(_) => 0,
            Item::Mapping { .. } | Item::Continuous { .. } => 1,
        };
        (rank, old.places.get(item).map(|(_, _, index)| *index))
    });
    gone.into_iter().rev().chain(back).collect()
}

fn put_back(
    editor: &mut Editor<'_>,
    item: &Item,
    old_text: &str,
    old: &Catalog<'_>,
    new: &Catalog<'_>,
) -> Result<(), PlanError> {
    let stale = || PlanError::Stale { item: item.named() };
    let now = Catalog::new(editor.view()).find(item);
    match (old.find(item), new.find(item), now) {
        // The plan created the item: remove it if it is unchanged.
        (None, Some(made), Some(now)) => {
            if now.value != made.value {
                return Err(stale());
            }
            editor.remove(&now.owner, now.list, now.index)
        }
        // The plan deleted the item: restore it after its old neighbour.
        (Some(was), None, None) => bring_back(editor, item, old_text, old.view, &was).map_err(|_| stale()),
        (Some(was), Some(made), Some(now)) => {
            if now.value != made.value {
                return Err(stale());
            }
            restore_keys(editor, &child(&now.owner, now.list, Some(now.index)), &made.value, &was.value)
        }
        (None, None, _) => Ok(()),
        (None, Some(_), None) | (Some(_), None, Some(_)) | (Some(_), Some(_), None) => Err(stale()),
    }
}

fn restore_keys(editor: &mut Editor<'_>, row: &[Step], made: &Value, was: &Value) -> Result<(), PlanError> {
    let empty = Map::new();
    let (made, was) = (made.as_object().unwrap_or(&empty), was.as_object().unwrap_or(&empty));
    for (key, value) in was {
        if made.get(key) != Some(value) {
            editor.set_key(row, key, value)?;
        }
    }
    for key in made.keys().filter(|key| !was.contains_key(*key)) {
        editor.remove_key(row, key)?;
    }
    Ok(())
}

fn bring_back(editor: &mut Editor<'_>, item: &Item, old_text: &str, old: &View, was: &Found) -> Result<(), PlanError> {
    let view = editor.view();
    let owner = match item {
        Item::Mode(_) | Item::Device(_) => Vec::new(),
        Item::Mapping { mode, .. } | Item::Continuous { mode, .. } => {
            view.place(mode).ok_or_else(|| PlanError::Stale { item: item.named() })?.owner
        }
    };
    let now = Catalog::new(view);
    let position = neighbours(item, old, was).iter().find_map(|it| now.find(it)).map_or(0, |it| it.index + 1);
    let body = old_text.strip_prefix('\u{feff}').unwrap_or(old_text);
    let source = Layout::new(body).and_then(|it| it.source(&was.owner, was.list, was.index));
    // Prefer the old text, which has the comments. If it cannot be inserted, write only the keys.
    let as_text = source.map(NewRow::Text);
    if let Some(text) = as_text
        && editor.insert_new(&owner, was.list, Some(position), &text, &was.value).is_ok()
    {
        return Ok(());
    }
    let keys = was.value.as_object().cloned().unwrap_or_default();
    editor.insert(&owner, was.list, Some(position), &keys)
}

/// The items before this item in its list; the nearest is first.
fn neighbours(item: &Item, old: &View, was: &Found) -> Vec<Item> {
    let named = |list: &str, key: &str, make: fn(String) -> Item| {
        let rows = old.tree.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let names = rows.iter().take(was.index).filter_map(|it| it.get(key)?.as_str());
        names.map(|it| make(it.to_owned())).collect::<Vec<_>>()
    };
    let mut before: Vec<Item> = match item {
        Item::Mode(_) => named("modes", "name", Item::Mode),
        Item::Device(_) => named("devices", "alias", Item::Device),
        Item::Mapping { mode, .. } => {
            let rows = old.rows(mode).into_iter().flat_map(|it| &it.mappings).take(was.index);
            rows.map(|it| Item::Mapping { mode: mode.clone(), id: it.id.clone() }).collect()
        }
        Item::Continuous { mode, .. } => {
            let rows = old.rows(mode).into_iter().flat_map(|it| &it.continuous).take(was.index);
            rows.map(|it| Item::Continuous { mode: mode.clone(), id: it.id.clone() }).collect()
        }
    };
    before.reverse();
    before
}
