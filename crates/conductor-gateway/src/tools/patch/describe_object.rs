//! `describe_object`: the known facts about a class.

use super::prelude::*;
use conductor_patch::Format;
use conductor_patch::objects::{self, Confidence};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("describe_object", patches, run)
        .text(
            "Describe a class",
            "Returns the known facts about a box text before the box is created: ports, size, arguments, attributes. An unknown class is \
             reported as unknown.",
        )
        .input(input(json!({ "text*": "long", "host": "family", "namespace": { "enum": ["box", "dsp.gen"], "default": "box" } })))
        .output(plain(json!({
            "class": "text", "canonical": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "family": { "anyOf": [{ "type": "string" }, { "type": "null" }] }, "box": "text", "inlets": "count", "outlets": "count",
            "outlet_types": { "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "null" }] }, "size": "point",
            "args": ["text"], "attributes": [{ "name": "text", "kind": "text" }], "basis": "text", "confidence": "text",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let format = if arguments.text("host") == Some("pd") { Format::Pd } else { Format::Maxpat };
    let it = objects::describe(format, arguments.word("text"), arguments.text("namespace") == Some("dsp.gen"));
    let confidence = match it.confidence {
        Confidence::Exact => "exact",
        Confidence::Guess => "guess",
        Confidence::Unknown => "unknown",
    };
    let attributes = it.known.map(|it| it.attributes.as_slice()).unwrap_or_default();
    let attributes: Vec<_> = attributes.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
    Ok(Output::new(json!({
        "class": it.class,
        "canonical": it.known.map(|it| it.name),
        "family": it.known.map(|it| it.family),
        "box": it.known.and_then(|it| it.ui).unwrap_or("newobj"),
        "inlets": it.inlets,
        "outlets": it.outlets,
        "outlet_types": it.outlet_types,
        "size": [it.size.0, it.size.1],
        "args": it.known.map(|it| it.arguments.clone()).unwrap_or_default(),
        "attributes": attributes,
        "basis": if it.confidence == Confidence::Unknown { "unknown" } else { "rule" },
        "confidence": confidence,
    })))
}
