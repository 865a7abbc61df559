//! `get_object_value`: returns the value that an object shows.

use super::answer::AttributeValue;
use super::argument::OneObject;
use super::prelude::*;
use conductor_hosts::patch::HostKind;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// The value that the object shows.
    value: AttributeValue,
    /// Whether the value is live from a program or stored in a file.
    basis: Basis,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Basis {
    Live,
    Stored,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_value", patches, run).text(
        "Read a value",
        "Returns the value that an object shows: the live value from a running program, or the stored value from a file.",
    )
}

fn run(asked: &Asked<OneObject>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        let object = scene.object(&asked.args.varname)?;
        let value = scene.open.host().value(scene.open.id(), &object)?.ok_or_else(|| {
            ToolError::new(Code::Unsupported, format!("{} has no value on this host", object.label()))
                .hint("A document has only the values that are stored in its file; read an attribute or the object's text instead.")
        })?;
        let basis = match scene.open.host().kind() {
            HostKind::Document => Basis::Stored,
            HostKind::Pd | HostKind::Max => Basis::Live,
        };
        Ok(Answer { varname: object.label().to_owned(), value: (&value).into(), basis })
    })
}
