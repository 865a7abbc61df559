//! `assign_varnames`: names objects by index.

use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    patch: EditedPatch,
    /// The new names.
    #[schemars(length(min = 1, max = 2000))]
    assignments: Vec<Assignment>,
}

#[derive(Deserialize, JsonSchema)]
struct Assignment {
    /// Position in the list of objects.
    index: usize,
    /// The new name.
    varname: Name,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of named objects.
    assigned: usize,
    /// The named objects.
    assignments: Vec<Assigned>,
}

#[derive(Serialize, JsonSchema)]
struct Assigned {
    /// Position in the list of objects.
    index: usize,
    /// The new name.
    varname: String,
    /// Kind of box.
    maxclass: String,
    /// The previous name.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_varname: Option<String>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("assign_varnames", patches, run).text(
        "Name objects",
        "Names objects by their index. All items are checked before any object is named. Pass the revision of the object list as \
         expected_revision: indices are valid for one revision only.",
    )
}

fn run(asked: &Asked<Args>) -> Result<EditAnswer<Answer>, ToolError> {
    let Args { patch, assignments } = &asked.args;
    let op = Op::AssignVarnames(assignments.iter().map(|it| (it.index, it.varname.to_string())).collect());
    asked.edit(patch, op, |_, outcome| {
        let Outcome::Named(named) = outcome else { return None };
        let assigned = named.iter().map(|it| Assigned {
            index: it.index,
            varname: it.varname.clone().unwrap_or_default(),
            maxclass: it.maxclass.clone(),
            old_varname: it.old_varname.clone(),
        });
        Some(Answer { assigned: named.len(), assignments: assigned.collect() })
    })
}
