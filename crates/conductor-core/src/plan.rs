//! Plans: changes to `config.toml`, the resulting text, its diff, and the undo.
//!
//! All other bytes of the file stay the same: comments, order, newline style, byte order mark. Not
//! here: time, plan ids, approvals and the file itself. The daemon stores and applies a draft.

mod change;
pub mod describe;
pub mod diff;
mod edit;
mod layout;
mod undo;
mod write;

pub use change::{Change, RowRef};
pub use undo::undo;

use crate::config::{Diagnostic, Severity, Surroundings, timing_report};
use edit::{Editor, View};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// The TOML lines of a row, such as a mapping, as a plan writes them.
pub fn row_text(row: &Map<String, Value>) -> String {
    write::lines(row).join("\n") + "\n"
}

/// The row that these TOML lines describe.
pub fn parse_row(text: &str) -> Result<Map<String, Value>, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// The text that a plan writes, and the preview for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The whole file after the plan.
    pub result: Vec<u8>,
    /// Digest of the file before the plan.
    pub base_state_hash: String,
    /// Digest of the file after the plan.
    pub result_state_hash: String,
    /// The difference between the file before and after the plan; see [`diff`].
    pub diff_preview: String,
    /// One line per change.
    pub changes: Vec<ChangeRow>,
    /// New warnings: they apply to the result, but not to the old file.
    pub warnings: Vec<String>,
}

/// One line of a plan. The index is the row's position in the result, or in the old file if the row
/// is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeRow {
    /// The type of the change.
    pub change_type: &'static str,
    /// One sentence for people.
    pub description: String,
    /// Mode of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Position of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Id of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping_id: Option<String>,
    /// Alias of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

impl ChangeRow {
    fn of_row(description: String, mode: &str, index: usize, id: impl Into<String>) -> Self {
        Self {
            description,
            mode: Some(mode.to_owned()),
            index: Some(index),
            mapping_id: Some(id.into()),
            ..Self::default()
        }
    }
}

impl ChangeRow {
    /// The kind of change and its item, in one line.
    pub fn summary(&self) -> String {
        let quoted = |name: &Option<String>| name.as_ref().map(|it| format!(" \"{it}\"")).unwrap_or_default();
        let trigger = self.description.strip_prefix("Add ").and_then(|it| it.split(" -> ").next());
        let within = match self.mode.as_deref() {
            Some("*") => " in every mode".to_owned(),
            Some(mode) => format!(" in {mode} mode"),
            None => String::new(),
        };
        let id = quoted(&self.mapping_id);
        match (self.change_type, trigger) {
            ("CreateMapping", Some(trigger)) => {
                let mut letters = trigger.chars();
                // An abbreviation such as CC keeps its capital letters.
                let is_word = letters.clone().nth(1).is_some_and(char::is_lowercase);
                let first = letters.next().map(|it| if is_word { it.to_ascii_lowercase() } else { it }).into_iter();
                format!("Create mapping for {}{within}", first.chain(letters).collect::<String>())
            }
            ("CreateMapping", None) => format!("Create mapping{id}{within}"),
            ("UpdateMapping", _) => format!("Update mapping{id}{within}"),
            ("DeleteMapping", _) => format!("Delete mapping{id}{within}"),
            ("CreateContinuous", _) => format!("Create continuous binding{id}{within}"),
            ("DeleteContinuous", _) => format!("Remove continuous binding{id}{within}"),
            ("CreateMode", _) => format!("Create mode{}", quoted(&self.mode)),
            ("DeleteMode", _) => format!("Delete mode{} and its rows", quoted(&self.mode)),
            ("CreateDeviceIdentity", _) => format!("Create device{}", quoted(&self.alias)),
            ("DeleteDeviceIdentity", _) => format!("Remove device{}", quoted(&self.alias)),
            ("ApplyTemplate", _) => format!("Set up device{} from a template", quoted(&self.alias)),
            (_, _) => self.description.clone(),
        }
    }
}

/// The parts of a controller template that a plan writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// Free text for people.
    pub description: Option<String>,
    /// Matchers in the form of the `Matcher` schema; may be empty.
    pub matchers: Vec<Value>,
}

/// The reason why a plan cannot be made.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum PlanError {
    /// The present file cannot be read, so it cannot be changed.
    Unreadable { diagnostics: Vec<Diagnostic> },
    /// No object has this name. `known` lists the existing names.
    NotFound { subject: Subject, name: String, known: Vec<String> },
    /// No row has this index or id.
    StaleRow { mode: String, row: RowRef, count: usize },
    /// The name is already in use.
    Taken { subject: Subject, name: String },
    /// The change is not possible in this file.
    Refused { message: String },
    /// The result would have faults that the present file does not have.
    WouldBreak { diagnostics: Vec<Diagnostic> },
    /// An item that the plan changed was changed again after the plan was applied.
    Stale { item: String },
}

/// The kind of object that an error names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Mode,
    Mapping,
    Continuous,
    Device,
    Template,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Mode => "mode",
            Subject::Mapping => "mapping",
            Subject::Continuous => "continuous binding",
            Subject::Device => "device",
            Subject::Template => "template",
        })
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summaries =
            |diagnostics: &[Diagnostic]| diagnostics.iter().map(Diagnostic::summary).collect::<Vec<_>>().join("; ");
        match self {
            PlanError::Unreadable { diagnostics } => {
                write!(f, "the configuration cannot be read: {}", summaries(diagnostics))
            }
            PlanError::NotFound { subject, name, known } if known.is_empty() => {
                write!(f, "there is no {subject} \"{name}\"; none exist")
            }
            PlanError::NotFound { subject, name, known } => {
                write!(f, "there is no {subject} \"{name}\"; there are: {}", known.join(", "))
            }
            PlanError::StaleRow { mode, row: RowRef::Index(index), count } => {
                write!(
                    f,
                    "mode \"{mode}\" has no row {index}; rows are counted from 0, and the number of rows is {count}"
                )
            }
            PlanError::StaleRow { mode, row: RowRef::Id(id), .. } => {
                write!(f, "mode \"{mode}\" has no row with the id \"{id}\"")
            }
            PlanError::Taken { subject, name } => write!(f, "there is already a {subject} \"{name}\""),
            PlanError::Refused { message } => f.write_str(message),
            PlanError::WouldBreak { diagnostics } => {
                write!(f, "the result would have errors: {}", summaries(diagnostics))
            }
            PlanError::Stale { item } => write!(f, "{item} has changed since the plan was applied"),
        }
    }
}

impl std::error::Error for PlanError {}

/// The digest of the raw bytes, so that even an edited comment makes a plan stale.
pub fn state_hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Makes all changes in order, or none of them. `templates` returns a device template by name.
pub fn draft(
    base: &[u8],
    changes: &[Change],
    surroundings: &Surroundings<'_>,
    templates: &dyn Fn(&str) -> Option<Template>,
) -> Result<Draft, PlanError> {
    let base_text = text_of(base)?;
    let mut editor = Editor::new(base_text, surroundings)?;
    let before = Known::of(editor.view());
    let rows = changes.iter().map(|change| editor.apply(change, templates)).collect::<Result<Vec<_>, _>>()?;
    let (result, after) = editor.into_result();
    finish(base_text, &before, &result, &after, rows)
}

/// Sets keys in the row of a plugin. Only a person can make this change: no tool can change these
/// rows.
pub fn draft_plugin(
    base: &[u8],
    name: &str,
    members: &serde_json::Map<String, Value>,
    description: String,
    surroundings: &Surroundings<'_>,
) -> Result<Draft, PlanError> {
    let base_text = text_of(base)?;
    let mut editor = Editor::new(base_text, surroundings)?;
    let before = Known::of(editor.view());
    editor.set_plugin(name, members)?;
    let (result, after) = editor.into_result();
    let row = ChangeRow { change_type: "SetPlugin", description, ..ChangeRow::default() };
    finish(base_text, &before, &result, &after, vec![row])
}

/// A list of rows that a person changes with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowList {
    /// The list `[[http.tokens]]`.
    Tokens,
    /// The list `[[cluster.deciders]]`.
    Deciders,
    /// The list `[[cluster.rigs]]`.
    Rigs,
    /// The list `[[tools.filesystem.roots]]`.
    Folders,
}

impl RowList {
    /// The path of the section, the key of the list, and the word for one row.
    pub const fn path(self) -> (&'static [&'static str], &'static str, &'static str) {
        match self {
            Self::Tokens => (&["http"], "tokens", "token"),
            Self::Deciders => (&["cluster"], "deciders", "decider"),
            Self::Rigs => (&["cluster"], "rigs", "rig"),
            Self::Folders => (&["tools", "filesystem"], "roots", "folder"),
        }
    }
}

/// A change of the rows of a list.
#[derive(Clone, Copy, Debug)]
pub enum TokenChange<'a> {
    /// Adds a row with these keys.
    Add(&'a serde_json::Map<String, Value>),
    /// Removes the row with this name.
    Remove(&'a str),
}

/// Adds or removes a row of a list. Only a person can make this change.
pub fn draft_token(
    base: &[u8],
    list: RowList,
    change: TokenChange<'_>,
    description: String,
    surroundings: &Surroundings<'_>,
) -> Result<Draft, PlanError> {
    let base_text = text_of(base)?;
    let mut editor = Editor::new(base_text, surroundings)?;
    let before = Known::of(editor.view());
    editor.change_token(list, change)?;
    let (result, after) = editor.into_result();
    let row = ChangeRow { change_type: "ChangeToken", description, ..ChangeRow::default() };
    finish(base_text, &before, &result, &after, vec![row])
}

/// The diagnostics and the delays of the file before the change.
struct Known {
    diagnostics: Vec<Diagnostic>,
    waits: Vec<timing_report::WaitNote>,
}

impl Known {
    fn of(view: &View) -> Self {
        Known { diagnostics: view.diagnostics.clone(), waits: timing_report::waits(&view.config) }
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, PlanError> {
    std::str::from_utf8(bytes)
        .map_err(|_| PlanError::Refused { message: "the configuration is not UTF-8 text".to_owned() })
}

fn finish(base: &str, before: &Known, result: &str, after: &View, changes: Vec<ChangeRow>) -> Result<Draft, PlanError> {
    let broken = news(&before.diagnostics, &after.diagnostics, |it| it.severity >= Severity::Error);
    if !broken.is_empty() {
        return Err(PlanError::WouldBreak { diagnostics: broken.into_iter().cloned().collect() });
    }
    let warned = news(&before.diagnostics, &after.diagnostics, |it| it.severity == Severity::Warning);
    let waits = timing_report::waits(&after.config);
    let waits = waits.iter().filter(|it| !before.waits.contains(it)).map(ToString::to_string);
    Ok(Draft {
        result: result.as_bytes().to_vec(),
        base_state_hash: state_hash(base.as_bytes()),
        result_state_hash: state_hash(result.as_bytes()),
        diff_preview: diff::preview(base, result),
        changes,
        warnings: warned.into_iter().map(|it| it.message.clone()).chain(waits).collect(),
    })
}

/// Diagnostics that are only in the new text. Numbers in messages are ignored, because an old fault
/// has another row number after rows were moved.
fn news<'d>(before: &[Diagnostic], after: &'d [Diagnostic], wanted: fn(&Diagnostic) -> bool) -> Vec<&'d Diagnostic> {
    let blur = |it: &Diagnostic| it.message.chars().filter(|it| !it.is_ascii_digit()).collect::<String>();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for fault in before.iter().filter(|it| wanted(it)) {
        *known.entry(blur(fault)).or_default() += 1;
    }
    let mut out = Vec::new();
    for fault in after.iter().filter(|it| wanted(it)) {
        match known.get_mut(&blur(fault)) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => out.push(fault),
        }
    }
    out
}
