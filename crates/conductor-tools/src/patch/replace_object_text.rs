//! `replace_object_text`: changes the text of an object and keeps its cords.

use super::argument::LongText;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct NewText {
    varname: ObjectRef,
    /// Class and arguments, or the content of a message or comment.
    new_text: LongText,
    /// Whether to accept an unknown class.
    #[serde(default)]
    allow_unknown: bool,
}

impl NewText {
    pub fn op(&self) -> Op {
        let (text, allow_unknown) = (self.new_text.to_string(), self.allow_unknown);
        Op::SetText { target: self.varname.target(), text, allow_unknown }
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The object, as in the arguments.
    varname: String,
    /// Text before the change.
    old_text: String,
    /// Text after the change.
    new_text: String,
    /// Number of cords that stayed.
    reconnected: usize,
    /// Cords that were removed.
    dropped: Vec<Dropped>,
}

#[derive(Serialize, JsonSchema)]
struct Dropped {
    #[serde(flatten)]
    cord: answer::Cord,
    /// Why the cord was removed.
    reason: String,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("replace_object_text", patches, run).text(
        "Replace the text",
        "Changes the text of an object: class and arguments, or the content of a message or comment. Cords stay if their ports still \
         exist; the others are listed in `dropped`.",
    )
}

fn run(asked: &Asked<OneEdit<NewText>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: text } = &asked.args;
    asked.edit(patch, text.op(), |_, outcome| {
        let Outcome::TextSet { old_text, kept, dropped } = outcome else { return None };
        let dropped = dropped.iter().cloned().map(|it| Dropped {
            cord: answer::Cord { src_varname: it.from, outlet: it.outlet, dst_varname: it.to, inlet: it.inlet },
            reason: it.reason,
        });
        Some(Answer {
            varname: text.varname.to_string(),
            old_text: old_text.clone(),
            new_text: text.new_text.to_string(),
            reconnected: *kept,
            dropped: dropped.collect(),
        })
    })
}
