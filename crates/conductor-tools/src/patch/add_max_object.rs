//! `add_max_object`: adds an object.

use super::argument::{Atom, Attributes};
use super::prelude::*;
use conductor_patch::{NewBox, Point};

#[derive(Deserialize, JsonSchema)]
pub struct NewObject {
    /// Class, such as cycle~ or number.
    obj_type: Name,
    /// Left and top in pixels.
    position: [f64; 2],
    /// Scripting name of the object.
    varname: Option<Name>,
    /// Arguments after the class; for a message or comment, its content.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    arguments: Vec<Atom>,
    /// Attributes to set, by name.
    attributes: Option<Attributes>,
    /// Width and height in pixels; without it, the default size of the class.
    size: Option<[f64; 2]>,
    /// Whether to accept an unknown class or attribute.
    #[serde(default)]
    allow_unknown: bool,
}

impl NewObject {
    /// `handle` names the object for later edits of the same list.
    pub fn op(&self, handle: Option<&str>) -> Result<Op, ToolError> {
        if self.size.is_some_and(|[width, height]| width <= 0.0 || height <= 0.0) {
            return Err(bad("size", "size: width and height must be more than 0")
                .hint("Leave size out to use the default size."));
        }
        let [x, y] = self.position;
        Ok(Op::Add(NewBox {
            class: self.obj_type.to_string(),
            position: Point::new(x, y),
            arguments: self.arguments.iter().map(Into::into).collect(),
            attributes: self.attributes.as_ref().map(Attributes::values).transpose()?.unwrap_or_default(),
            varname: self.varname.as_deref().map(str::to_owned),
            size: self.size.map(Into::into),
            allow_unknown: self.allow_unknown,
            handle: handle.map(str::to_owned),
        }))
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The requested class.
    obj_type: String,
    /// Left and top in pixels.
    position: [f64; 2],
    /// Scripting name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    varname: Option<String>,
    /// Key of the object.
    id: String,
    /// Position in the list of objects, valid for this revision.
    index: usize,
    /// Text of the object.
    text: String,
    /// Width and height in pixels.
    size: [f64; 2],
    /// Number of inlets, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    inlet_count: Option<u32>,
    /// Number of outlets, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    outlet_count: Option<u32>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("add_max_object", patches, run)
        .text(
            "Add an object",
            "Adds an object to a patch. An unknown class is refused, and similar names are suggested, unless allow_unknown is true. Call \
             get_avoid_rect_position for a free place.",
        )
        .summary(with_args(|it: &OneEdit<NewObject>| format!("add {:?} to {:?}", &*it.edit.obj_type, &*it.patch.patch_id)))
}

fn run(asked: &Asked<OneEdit<NewObject>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: object } = &asked.args;
    asked.edit(patch, object.op(None)?, |scene, outcome| {
        let Outcome::Added { id, key, index, text, rect, ports } = outcome else { return None };
        Some(Answer {
            obj_type: object.obj_type.to_string(),
            position: [rect.x, rect.y],
            varname: scene.view.get(*id).and_then(|it| it.varname().map(str::to_owned)),
            id: key.clone(),
            index: *index,
            text: text.clone(),
            size: [rect.w, rect.h],
            inlet_count: ports.inlets,
            outlet_count: ports.outlets,
        })
    })
}
