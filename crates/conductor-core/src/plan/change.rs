//! The changes of a plan, and reading them from the arguments of a tool.
//!
//! Rows are checked but stored as they were sent, so that `keys = ["cmd", "c"]` is written as an
//! array.

use crate::config::reader::{Fields, Reader};
use crate::config::tree::Node;
use crate::config::{Diagnostic, device, input, rows};
use crate::named_enum::variant_names;
use serde_json::Value;

/// One change of a plan.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields have the names of the tool's arguments")]
pub enum Change {
    CreateMapping {
        mode: String,
        mapping: Value,
        position: Option<usize>,
    },
    UpdateMapping {
        mode: String,
        row: RowRef,
        trigger: Option<Value>,
        action: Option<Value>,
        description: Option<String>,
        enabled: Option<bool>,
    },
    DeleteMapping {
        mode: String,
        row: RowRef,
    },
    CreateContinuous {
        mode: String,
        continuous: Value,
    },
    DeleteContinuous {
        mode: String,
        id: String,
    },
    CreateMode {
        mode: String,
        color: Option<String>,
    },
    DeleteMode {
        mode: String,
    },
    CreateDeviceIdentity {
        alias: String,
        matchers: Vec<Value>,
        description: Option<String>,
    },
    DeleteDeviceIdentity {
        alias: String,
    },
    ApplyTemplate {
        template: String,
        alias: String,
    },
}

/// The row to change. An index is resolved to an id when the plan is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowRef {
    Id(String),
    /// The position within its mode, from 0.
    Index(usize),
}

variant_names!(Change {
    CreateMapping,
    UpdateMapping,
    DeleteMapping,
    CreateContinuous,
    DeleteContinuous,
    CreateMode,
    DeleteMode,
    CreateDeviceIdentity,
    DeleteDeviceIdentity,
    ApplyTemplate,
});

impl Change {
    /// Reads a change. `at` is the JSON pointer of `value` within the tool's arguments; it is empty
    /// if `value` contains all arguments.
    pub fn read(value: &Value, at: &str) -> Result<Change, Vec<Diagnostic>> {
        input::read(value, at, read)
    }
}

fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Change> {
    let mut f = r.table(node)?;
    let name = f.tag(r, "change_type", Change::NAMES)?;
    let change = kind(r, &mut f, name);
    f.finish(r);
    change
}

fn kind<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, name: &str) -> Option<Change> {
    Some(match name {
        "CreateMapping" => {
            let mode = f.need(r, "mode", Reader::name);
            let mapping = f.need(r, "mapping", |r, it| rows::mapping(r, it).held.map(|_| it.to_json()));
            let position = f.opt(r, "position", index);
            Change::CreateMapping { mode: mode?, mapping: mapping?, position }
        }
        "UpdateMapping" => {
            let row = row(r, f);
            let trigger = f.opt(r, "trigger", |r, it| crate::config::trigger::read(r, it).map(|_| it.to_json()));
            let action = f.opt(r, "action", |r, it| crate::config::action::read(r, it).map(|_| it.to_json()));
            let description = f.opt(r, "description", Reader::description);
            let enabled = f.opt(r, "enabled", Reader::boolean);
            if !["trigger", "action", "description", "enabled"].iter().any(|key| f.has(key)) {
                let place = f.place.clone();
                let help = Some("give at least one of trigger, action, description, enabled".to_owned());
                r.shape_help(&place, "this update changes nothing".to_owned(), help);
            }
            let (mode, row) = row?;
            Change::UpdateMapping { mode, row, trigger, action, description, enabled }
        }
        "DeleteMapping" => {
            let (mode, row) = row(r, f)?;
            Change::DeleteMapping { mode, row }
        }
        "CreateContinuous" => {
            let mode = f.need(r, "mode", Reader::name);
            let continuous = f.need(r, "continuous", |r, it| rows::continuous(r, it).held.map(|_| it.to_json()));
            Change::CreateContinuous { mode: mode?, continuous: continuous? }
        }
        "DeleteContinuous" => {
            let mode = f.need(r, "mode", Reader::name);
            let id = f.need(r, "id", Reader::id);
            Change::DeleteContinuous { mode: mode?, id: id? }
        }
        "CreateMode" => {
            let mode = f.need(r, "mode", Reader::name);
            let color = f.opt(r, "color", Reader::name);
            Change::CreateMode { mode: mode?, color }
        }
        "DeleteMode" => Change::DeleteMode { mode: f.need(r, "mode", Reader::name)? },
        "CreateDeviceIdentity" => {
            let alias = f.need(r, "alias", Reader::alias);
            let matchers = f.need(r, "matchers", |r, it| {
                r.list_of(it, 1, 16, |r, item| device::matcher(r, item).map(|_| item.to_json()))
            });
            let description = f.opt(r, "description", Reader::description);
            Change::CreateDeviceIdentity { alias: alias?, matchers: matchers?, description }
        }
        "DeleteDeviceIdentity" => Change::DeleteDeviceIdentity { alias: f.need(r, "alias", Reader::alias)? },
        "ApplyTemplate" => {
            let template = f.need(r, "template", Reader::name);
            let alias = f.need(r, "alias", Reader::alias);
            Change::ApplyTemplate { template: template?, alias: alias? }
        }
        // Never reached: `tag` returns only names in `Change::NAMES`, and a test covers each of
        // them.
        _ => return None,
    })
}

fn index<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<usize> {
    r.at_least_zero(node).and_then(|it| usize::try_from(it).ok())
}

fn row<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<(String, RowRef)> {
    let mode = f.need(r, "mode", Reader::name);
    let id = f.opt(r, "id", Reader::id).map(RowRef::Id);
    let index = f.opt(r, "index", index).map(RowRef::Index);
    if f.has("id") == f.has("index") {
        let place = f.place.clone();
        r.shape_help(&place, "name the row either by `id` or by `index`".to_owned(), None);
    }
    mode.zip(id.or(index))
}
