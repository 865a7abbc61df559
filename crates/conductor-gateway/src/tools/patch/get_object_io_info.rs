//! `get_object_io_info`: inlets and outlets of an object.

use super::prelude::*;
use conductor_patch::{Basis, Ports};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_io_info", patches, run)
        .text(
            "Inlets and outlets",
            "Returns how many inlets and outlets an object has, and how that is known. Counts are null if they are unknown.",
        )
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "inlet_count": "count", "outlet_count": "count", "outlet_types?": ["text"], "basis": "text" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        let mut ports = object.ports();
        if let Some((inlets, outlets)) = scene.open.host().ports(scene.open.id(), &object)? {
            let types = ports.outlet_types.filter(|it| it.len() == outlets as usize);
            ports = Ports { inlets: Some(inlets), outlets: Some(outlets), outlet_types: types, basis: Basis::Host, exact: true };
        }
        let mut members = json!({
            "varname": object.label(), "inlet_count": ports.inlets, "outlet_count": ports.outlets, "basis": answer::basis(ports.basis),
        });
        if let Some(types) = ports.outlet_types {
            members["outlet_types"] = json!(types);
        }
        Ok(members)
    })
}
