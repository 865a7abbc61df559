//! `get_object_io_info`: inlets and outlets of an object.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::{Basis, Ports};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_io_info", patches, run)
        .text("Inlets and outlets", "How many inlets and outlets an object has, and how that is known. Counts are null when nothing says.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "inlet_count": "count", "outlet_count": "count", "outlet_types?": ["text"], "basis": "text" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        let mut ports = object.ports();
        if let Some((inlets, outlets)) = scene.open.host().ports(scene.open.id(), &object)? {
            let types = ports.outlet_types.filter(|it| it.len() == outlets as usize);
            ports = Ports { inlets: Some(inlets), outlets: Some(outlets), outlet_types: types, basis: Basis::Host, exact: true };
        }
        let mut told = json!({
            "varname": object.label(), "inlet_count": ports.inlets, "outlet_count": ports.outlets, "basis": told::basis(ports.basis),
        });
        if let Some(types) = ports.outlet_types {
            told["outlet_types"] = json!(types);
        }
        Ok(Output::new(told::of(scene, told)))
    })
}
