//! `get_object_io_info`: returns the inlets and outlets of an object.

use super::argument::OneObject;
use super::prelude::*;
use conductor_patch::{Basis, Ports};

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// Number of inlets; null if it is unknown.
    inlet_count: Option<u32>,
    /// Number of outlets; null if it is unknown.
    outlet_count: Option<u32>,
    /// A type per outlet.
    #[serde(skip_serializing_if = "Option::is_none")]
    outlet_types: Option<Vec<String>>,
    /// Source of the counts: file, structure, rule, host or unknown.
    basis: &'static str,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_io_info", patches, run).text(
        "Inlets and outlets",
        "Returns how many inlets and outlets an object has, and the source of these counts. Counts are null if they are unknown.",
    )
}

fn run(asked: &Asked<OneObject>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        let object = scene.object(&asked.args.varname)?;
        let mut ports = object.ports();
        if let Some((inlets, outlets)) = scene.open.host().ports(scene.open.id(), &object)? {
            let types = ports.outlet_types.filter(|it| it.len() == outlets as usize);
            ports = Ports {
                inlets: Some(inlets),
                outlets: Some(outlets),
                outlet_types: types,
                basis: Basis::Host,
                exact: true,
            };
        }
        Ok(Answer {
            varname: object.label().to_owned(),
            inlet_count: ports.inlets,
            outlet_count: ports.outlets,
            outlet_types: ports.outlet_types,
            basis: answer::basis(ports.basis),
        })
    })
}
