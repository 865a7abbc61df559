//! Applies changes to a text one by one, and checks after each change that the values of the text
//! are as expected.
//!
//! Not here: whether the result has new faults; the caller compares the faults before and after.

use super::layout::{Layout, NewRow, Splice, Step, child, path, splice};
use super::{Change, ChangeRow, PlanError, RowList, RowRef, Subject, Template, TokenChange, describe, write};
use crate::config::{self, Config, Diagnostic, GLOBAL, Loaded, Rows, Surroundings, rows};
use serde_json::{Map, Value, json};

pub(crate) struct Editor<'a> {
    /// The byte order mark, or empty. It is not part of `text`.
    mark: &'static str,
    text: String,
    /// The parsed `text`.
    view: View,
    surroundings: &'a Surroundings<'a>,
}

/// A text that has been read.
pub(crate) struct View {
    pub config: Config,
    pub diagnostics: Vec<Diagnostic>,
    /// The file as JSON values, to find places and to check edits.
    pub tree: Value,
}

/// The place of the rows of a mode.
#[derive(Clone)]
pub(crate) struct Place {
    pub owner: Vec<Step>,
    pub mappings: &'static str,
    pub continuous: &'static str,
}

const MARK: &str = "\u{feff}";

pub(crate) fn read(text: &str, surroundings: &Surroundings<'_>) -> Result<View, PlanError> {
    let (Loaded { config, diagnostics }, tree) = config::load_with_tree(text, surroundings);
    match (config, tree) {
        (Some(config), Some(tree)) => Ok(View { config, diagnostics, tree: tree.to_json() }),
        (Some(_) | None, _) => Err(PlanError::Unreadable { diagnostics }),
    }
}

impl View {
    /// The error for an unknown mode.
    fn no_mode(&self, mode: &str) -> PlanError {
        PlanError::NotFound { subject: Subject::Mode, name: mode.to_owned(), known: self.mode_names() }
    }

    /// The index of a mode in the file. The file may also contain invalid modes, which the
    /// configuration leaves out.
    pub fn mode_index(&self, mode: &str) -> Option<usize> {
        self.tree.get("modes")?.as_array()?.iter().position(|it| it.get("name").and_then(Value::as_str) == Some(mode))
    }

    pub fn rows(&self, mode: &str) -> Option<&Rows> {
        if mode == GLOBAL {
            return Some(&self.config.global);
        }
        self.config.modes.iter().find(|it| it.name == mode).map(|it| &it.rows)
    }

    pub fn place(&self, mode: &str) -> Option<Place> {
        if mode == GLOBAL {
            return Some(Place { owner: Vec::new(), mappings: "global_mappings", continuous: "global_continuous" });
        }
        let index = self.mode_index(mode)?.to_string();
        Some(Place { owner: path(&["modes", &index]), mappings: "mappings", continuous: "continuous" })
    }

    pub fn device_index(&self, alias: &str) -> Option<usize> {
        self.tree
            .get("devices")?
            .as_array()?
            .iter()
            .position(|it| it.get("alias").and_then(Value::as_str) == Some(alias))
    }

    fn mode_names(&self) -> Vec<String> {
        self.config.modes.iter().map(|it| it.name.clone()).collect()
    }
}

impl<'a> Editor<'a> {
    pub fn new(text: &str, surroundings: &'a Surroundings<'a>) -> Result<Self, PlanError> {
        let (mark, body) = text.strip_prefix(MARK).map_or(("", text), |body| (MARK, body));
        Ok(Editor { mark, text: body.to_owned(), view: read(body, surroundings)?, surroundings })
    }

    /// The edited text with its byte order mark, and its view.
    pub fn into_result(self) -> (String, View) {
        (format!("{}{}", self.mark, self.text), self.view)
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    /// Changes the text, then checks that its values are exactly those that `expect` produces.
    fn edit(
        &mut self,
        splices: impl FnOnce(&Layout<'_>) -> Option<Vec<Splice>>,
        expect: impl FnOnce(&mut Value) -> Option<()>,
    ) -> Result<(), PlanError> {
        let unfit = || PlanError::Refused {
            message: "this change cannot be written into the file with its present layout; edit the file by hand"
                .to_owned(),
        };
        let layout = Layout::new(&self.text).ok_or_else(unfit)?;
        let edited = splice(&self.text, splices(&layout).ok_or_else(unfit)?);
        let mut wanted = self.view.tree.clone();
        expect(&mut wanted).ok_or_else(unfit)?;
        let (loaded, tree) = config::load_with_tree(&edited, self.surroundings);
        let tree = tree.map(|it| it.to_json()).filter(|it| same(it, &wanted)).ok_or_else(unfit)?;
        let Loaded { config, diagnostics } = loaded;
        let Some(config) = config else { return Err(PlanError::WouldBreak { diagnostics }) };
        self.view = View { config, diagnostics, tree };
        self.text = edited;
        Ok(())
    }

    pub fn insert(
        &mut self,
        owner: &[Step],
        key: &str,
        position: Option<usize>,
        row: &Map<String, Value>,
    ) -> Result<(), PlanError> {
        self.insert_new(owner, key, position, &NewRow::Keys(row), &Value::Object(row.clone()))
    }

    pub fn insert_new(
        &mut self,
        owner: &[Step],
        key: &str,
        position: Option<usize>,
        row: &NewRow<'_>,
        means: &Value,
    ) -> Result<(), PlanError> {
        self.edit(
            |layout| layout.insert_element(owner, key, position, row),
            |tree| {
                let list =
                    step_into(tree, owner)?.as_object_mut()?.entry(key).or_insert_with(|| json!([])).as_array_mut()?;
                let at = position.unwrap_or(list.len()).min(list.len());
                list.insert(at, means.clone());
                Some(())
            },
        )
    }

    pub fn remove(&mut self, owner: &[Step], key: &str, index: usize) -> Result<(), PlanError> {
        self.edit(
            |layout| layout.remove_element(owner, key, index),
            |tree| {
                let list = step_into(tree, owner)?.get_mut(key)?.as_array_mut()?;
                (index < list.len()).then(|| list.remove(index))?;
                Some(())
            },
        )
    }

    pub fn set_key(&mut self, row: &[Step], key: &str, value: &Value) -> Result<(), PlanError> {
        self.edit(
            |layout| layout.set_key(row, key, value, key == "id"),
            |tree| {
                step_into(tree, row)?.as_object_mut()?.insert(key.to_owned(), value.clone());
                Some(())
            },
        )
    }

    pub fn remove_key(&mut self, row: &[Step], key: &str) -> Result<(), PlanError> {
        self.edit(
            |layout| layout.remove_key(row, key),
            |tree| {
                step_into(tree, row)?.as_object_mut()?.remove(key);
                Some(())
            },
        )
    }

    /// Sets keys of `[plugins.<name>]`. If the plugin has no row, adds one at the end of the file.
    pub fn set_plugin(&mut self, name: &str, members: &Map<String, Value>) -> Result<(), PlanError> {
        let row = path(&["plugins", name]);
        if self.view.tree.pointer(&format!("/plugins/{name}")).is_some() {
            return members.iter().try_for_each(|(key, value)| self.set_key(&row, key, value));
        }
        let head = format!("[plugins.{}]", write::key(name));
        self.append(&head, members, |tree| {
            let plugins = tree.as_object_mut()?.entry("plugins").or_insert_with(|| json!({})).as_object_mut()?;
            plugins.insert(name.to_owned(), Value::Object(members.clone()));
            Some(())
        })
    }

    /// Adds or removes a row of a list, such as `[[http.tokens]]`.
    pub fn change_token(&mut self, list: RowList, change: TokenChange<'_>) -> Result<(), PlanError> {
        let (sections, key, what) = list.path();
        let name_of = |row: &Value| row.get("name").and_then(Value::as_str).map(str::to_owned);
        let held = self.view.tree.pointer(&format!("/{}/{key}", sections.join("/"))).and_then(Value::as_array);
        let at = |name: Option<String>| held.into_iter().flatten().position(|it| name_of(it) == name);
        match change {
            TokenChange::Add(members) => {
                let name = members.get("name").and_then(Value::as_str).map(str::to_owned);
                if at(name.clone()).is_some() {
                    let message = format!("there is already a {what} {:?}", name.unwrap_or_default());
                    return Err(PlanError::Refused { message });
                }
                let head = format!("[[{}.{key}]]", sections.join("."));
                let appended = self.append(&head, members, |tree| {
                    let table = sections.iter().try_fold(tree, |tree, section| {
                        Some(tree.as_object_mut()?.entry(*section).or_insert_with(|| json!({})))
                    })?;
                    let rows = table.as_object_mut()?.entry(key).or_insert_with(|| json!([])).as_array_mut()?;
                    rows.push(Value::Object(members.clone()));
                    Some(())
                });
                // A list that is written as `key = [...]` can only be extended in its place.
                appended.or_else(|_| self.insert(&path(sections), key, None, members))
            }
            TokenChange::Remove(name) => match at(Some(name.to_owned())) {
                Some(index) => self.remove(&path(sections), key, index),
                None => Err(PlanError::Refused { message: format!("there is no {what} {name:?} in config.toml") }),
            },
        }
    }

    /// Adds a table at the end of the file.
    fn append(
        &mut self,
        head: &str,
        members: &Map<String, Value>,
        expect: impl FnOnce(&mut Value) -> Option<()>,
    ) -> Result<(), PlanError> {
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let end = self.text.len();
        let gap = match self.text.as_str() {
            "" => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        let head = std::iter::once(head.to_owned());
        let lines: String = head.chain(write::lines(members)).map(|line| line + newline).collect();
        self.edit(|_| Some(vec![Splice { at: end..end, with: gap + &lines }]), expect)
    }

    pub fn apply(
        &mut self,
        change: &Change,
        templates: &dyn Fn(&str) -> Option<Template>,
    ) -> Result<ChangeRow, PlanError> {
        let row = match change {
            Change::CreateMapping { mode, mapping, position } => self.create_mapping(mode, mapping, *position)?,
            Change::UpdateMapping { mode, row, trigger, action, description, enabled } => {
                let keys = [
                    ("trigger", trigger.clone()),
                    ("action", action.clone()),
                    ("description", description.clone().map(Value::String)),
                    ("enabled", enabled.map(Value::Bool)),
                ];
                let keys = keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
                self.update_mapping(mode, row, keys)?
            }
            Change::DeleteMapping { mode, row } => self.delete_mapping(mode, row)?,
            Change::CreateContinuous { mode, continuous } => self.create_continuous(mode, continuous)?,
            Change::DeleteContinuous { mode, id } => self.delete_continuous(mode, id)?,
            Change::CreateMode { mode, color } => self.create_mode(mode, color.as_deref())?,
            Change::DeleteMode { mode } => self.delete_mode(mode)?,
            Change::CreateDeviceIdentity { alias, matchers, description } => {
                self.create_device(alias, None, matchers, description.as_deref())?
            }
            Change::DeleteDeviceIdentity { alias } => self.delete_device(alias)?,
            Change::ApplyTemplate { template, alias } => self.apply_template(template, alias, templates)?,
        };
        Ok(ChangeRow { change_type: change.name(), ..row })
    }

    /// The place of a mode's rows. A file without modes implies a mode `Default`; this mode is
    /// written to the file before its first row is added.
    fn rows_of(&mut self, mode: &str) -> Result<Place, PlanError> {
        let view = self.view();
        if let Some(place) = view.place(mode) {
            return Ok(place);
        }
        if view.rows(mode).is_none() {
            return Err(view.no_mode(mode));
        }
        self.spell_out_the_default_mode()?;
        self.view().place(mode).ok_or_else(|| PlanError::NotFound {
            subject: Subject::Mode,
            name: mode.to_owned(),
            known: Vec::new(),
        })
    }

    fn spell_out_the_default_mode(&mut self) -> Result<(), PlanError> {
        for mode in Config::default().modes {
            let row = Map::from_iter([("name".to_owned(), Value::String(mode.name))]);
            self.insert(&[], "modes", None, &row)?;
        }
        Ok(())
    }

    fn create_mapping(&mut self, mode: &str, mapping: &Value, position: Option<usize>) -> Result<ChangeRow, PlanError> {
        let place = self.rows_of(mode)?;
        let held = self.view().rows(mode).map(|it| it.mappings.as_slice()).unwrap_or_default();
        let taken = held.iter().map(|it| it.id.clone());
        let trigger = mapping.get("trigger").unwrap_or(&Value::Null);
        let (id, row) = named(mapping, taken, Subject::Mapping, |taken| rows::made_mapping_id(mode, trigger, taken))?;
        let index = position.unwrap_or(held.len()).min(held.len());
        self.insert(&place.owner, place.mappings, Some(index), &row)?;
        Ok(ChangeRow::of_row(format!("Add {}", in_words(mapping)), mode, index, id))
    }

    /// The place of the mode's rows, the index of the row, and the row itself.
    fn find_mapping(&mut self, mode: &str, row: &RowRef) -> Result<(Place, usize, config::Mapping), PlanError> {
        let view = self.view();
        let Some(rows) = view.rows(mode).map(|it| &it.mappings) else {
            return Err(view.no_mode(mode));
        };
        let index = match row {
            RowRef::Index(index) => Some(*index),
            RowRef::Id(id) => rows.iter().position(|it| it.id == *id),
        };
        let found = index.and_then(|index| Some((view.place(mode)?, index, rows.get(index)?.clone())));
        found.ok_or_else(|| PlanError::StaleRow { mode: mode.to_owned(), row: row.clone(), count: rows.len() })
    }

    fn update_mapping(
        &mut self,
        mode: &str,
        row: &RowRef,
        keys: Vec<(&'static str, Value)>,
    ) -> Result<ChangeRow, PlanError> {
        let (place, index, held) = self.find_mapping(mode, row)?;
        let at = child(&place.owner, place.mappings, Some(index));
        // Write the id first. A missing id is generated from the trigger, so it would change with a
        // new trigger.
        if !held.id_is_written {
            self.set_key(&at, "id", &Value::String(held.id.clone()))?;
        }
        for (key, value) in &keys {
            self.set_key(&at, key, value)?;
        }
        let mut now = json!({ "trigger": held.written.trigger, "action": held.written.action });
        for (key, value) in &keys {
            now[*key] = value.clone();
        }
        let names: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        Ok(ChangeRow::of_row(
            format!("Change {} of \"{}\": {}", names.join(", "), held.id, in_words(&now)),
            mode,
            index,
            held.id,
        ))
    }

    fn delete_mapping(&mut self, mode: &str, row: &RowRef) -> Result<ChangeRow, PlanError> {
        let (place, index, held) = self.find_mapping(mode, row)?;
        self.remove(&place.owner, place.mappings, index)?;
        let was = json!({ "trigger": held.written.trigger, "action": held.written.action });
        Ok(ChangeRow::of_row(format!("Delete \"{}\": {}", held.id, in_words(&was)), mode, index, held.id))
    }

    fn create_continuous(&mut self, mode: &str, continuous: &Value) -> Result<ChangeRow, PlanError> {
        let place = self.rows_of(mode)?;
        let held = self.view().rows(mode).map(|it| it.continuous.as_slice()).unwrap_or_default();
        let taken = held.iter().map(|it| it.id.clone());
        let source = continuous.get("source").unwrap_or(&Value::Null);
        let make = |taken: &mut dyn Iterator<Item = String>| rows::made_continuous_id(mode, source, taken);
        let (id, row) = named(continuous, taken, Subject::Continuous, make)?;
        let index = held.len();
        self.insert(&place.owner, place.continuous, None, &row)?;
        let kind = source.get("type").and_then(Value::as_str).unwrap_or("a source");
        Ok(ChangeRow::of_row(format!("Add continuous binding \"{id}\" from {kind}"), mode, index, id))
    }

    fn delete_continuous(&mut self, mode: &str, id: &str) -> Result<ChangeRow, PlanError> {
        let view = self.view();
        let Some(rows) = view.rows(mode).map(|it| &it.continuous) else {
            return Err(view.no_mode(mode));
        };
        let found = rows.iter().position(|it| it.id == id).zip(view.place(mode));
        let Some((index, place)) = found else {
            let row = RowRef::Id(id.to_owned());
            return Err(PlanError::StaleRow { mode: mode.to_owned(), row, count: rows.len() });
        };
        self.remove(&place.owner, place.continuous, index)?;
        Ok(ChangeRow::of_row(format!("Delete continuous binding \"{id}\""), mode, index, id.to_owned()))
    }

    fn create_mode(&mut self, mode: &str, color: Option<&str>) -> Result<ChangeRow, PlanError> {
        let view = self.view();
        if view.mode_names().iter().any(|it| it == mode) {
            return Err(PlanError::Taken { subject: Subject::Mode, name: mode.to_owned() });
        }
        // A file without modes implies the mode `Default`. Write it to the file, or it would
        // disappear when another mode is added.
        if view.config.modes.iter().all(|it| view.mode_index(&it.name).is_none()) {
            self.spell_out_the_default_mode()?;
        }
        let mut row = Map::from_iter([("name".to_owned(), json!(mode))]);
        if let Some(color) = color {
            row.insert("color".to_owned(), json!(color));
        }
        self.insert(&[], "modes", None, &row)?;
        Ok(ChangeRow {
            description: format!("Add mode \"{mode}\""),
            mode: Some(mode.to_owned()),
            ..ChangeRow::default()
        })
    }

    fn delete_mode(&mut self, mode: &str) -> Result<ChangeRow, PlanError> {
        let view = self.view();
        if view.rows(mode).is_none() || mode == GLOBAL {
            return Err(view.no_mode(mode));
        }
        let Some(index) = view.mode_index(mode).filter(|_| view.config.modes.len() > 1) else {
            return Err(PlanError::Refused {
                message: format!(
                    "\"{mode}\" is the only mode and cannot be deleted, because the file must have at least one mode"
                ),
            });
        };
        let count = view.rows(mode).map_or(0, |it| it.mappings.len() + it.continuous.len());
        self.remove(&[], "modes", index)?;
        let description = format!("Delete mode \"{mode}\" with {count} rows");
        Ok(ChangeRow { description, mode: Some(mode.to_owned()), ..ChangeRow::default() })
    }

    fn create_device(
        &mut self,
        alias: &str,
        template: Option<&str>,
        matchers: &[Value],
        description: Option<&str>,
    ) -> Result<ChangeRow, PlanError> {
        if self.view().device_index(alias).is_some() {
            return Err(PlanError::Taken { subject: Subject::Device, name: alias.to_owned() });
        }
        let mut row = Map::from_iter([("alias".to_owned(), json!(alias))]);
        for (key, text) in [("description", description), ("template", template)] {
            if let Some(text) = text {
                row.insert(key.to_owned(), json!(text));
            }
        }
        if !matchers.is_empty() {
            row.insert("matchers".to_owned(), Value::Array(matchers.to_vec()));
        }
        self.insert(&[], "devices", None, &row)?;
        let from = template.map(|it| format!(" from template \"{it}\"")).unwrap_or_default();
        let description = format!("Add device \"{alias}\"{from}");
        Ok(ChangeRow { description, alias: Some(alias.to_owned()), ..ChangeRow::default() })
    }

    fn delete_device(&mut self, alias: &str) -> Result<ChangeRow, PlanError> {
        let view = self.view();
        let Some(index) = view.device_index(alias) else {
            let known = view.config.devices.iter().map(|it| it.alias.clone()).collect();
            return Err(PlanError::NotFound { subject: Subject::Device, name: alias.to_owned(), known });
        };
        self.remove(&[], "devices", index)?;
        let description = format!("Delete device \"{alias}\"");
        Ok(ChangeRow { description, alias: Some(alias.to_owned()), ..ChangeRow::default() })
    }

    fn apply_template(
        &mut self,
        name: &str,
        alias: &str,
        templates: &dyn Fn(&str) -> Option<Template>,
    ) -> Result<ChangeRow, PlanError> {
        let Some(template) = templates(name) else {
            let known = crate::templates::names().into_iter().collect();
            return Err(PlanError::NotFound { subject: Subject::Template, name: name.to_owned(), known });
        };
        let Some(index) = self.view().device_index(alias) else {
            return self.create_device(alias, Some(name), &template.matchers, template.description.as_deref());
        };
        self.set_key(&child(&[], "devices", Some(index)), "template", &json!(name))?;
        let description = format!("Use template \"{name}\" for device \"{alias}\"");
        Ok(ChangeRow { description, alias: Some(alias.to_owned()), ..ChangeRow::default() })
    }
}

/// A new row with an id. If the row has no id, an id is generated. Fails if the row's own id is
/// already in use.
fn named(
    row: &Value,
    mut taken: impl Iterator<Item = String>,
    subject: Subject,
    make: impl FnOnce(&mut dyn Iterator<Item = String>) -> String,
) -> Result<(String, Map<String, Value>), PlanError> {
    let mut row = row.as_object().cloned().unwrap_or_default();
    let id = match row.get("id").and_then(Value::as_str) {
        Some(id) if taken.any(|it| it == id) => return Err(PlanError::Taken { subject, name: id.to_owned() }),
        Some(id) => id.to_owned(),
        None => make(&mut taken),
    };
    row.insert("id".to_owned(), Value::String(id.clone()));
    Ok((id, row))
}

/// Compares two trees. Numbers are compared by value, because a whole number that is too large for
/// TOML is written as a float. An absent list is equal to an empty list, because a list of sections
/// disappears with its last section.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            let none = Value::Array(Vec::new());
            let mut keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.all(|key| same(a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none)))
        }
        (
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => a == b,
    }
}

pub(crate) fn step_to<'v>(tree: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(tree, |at, step| match step {
        Step::Key(key) => at.get(key),
        Step::Index(index) => at.get(index),
    })
}

fn step_into<'v>(tree: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(tree, |at, step| match step {
        Step::Key(key) => at.get_mut(key),
        Step::Index(index) => at.get_mut(index),
    })
}

/// Describes a mapping, such as `Note 36 -> Keystroke cmd+c`. An invalid part is shown as its type.
fn in_words(mapping: &Value) -> String {
    let trigger = config::input::trigger(mapping.get("trigger").unwrap_or(&Value::Null), "");
    let action = config::input::action(mapping.get("action").unwrap_or(&Value::Null), "");
    let unread = |part: &str| {
        mapping.pointer(&format!("/{part}/type")).and_then(Value::as_str).unwrap_or("(unreadable)").to_owned()
    };
    let trigger = trigger.map_or_else(|_| unread("trigger"), |it| describe::trigger(&it));
    let action = action.map_or_else(|_| unread("action"), |it| describe::action(&it));
    format!("{trigger} -> {action}")
}
