//! `connect_max_objects`: draws a cord.

use super::argument::Cord;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct NewCord {
    #[serde(flatten)]
    ends: Cord,
    /// Whether the cord is hidden when the patch is locked.
    #[serde(default)]
    hidden: bool,
}

impl NewCord {
    pub fn op(&self) -> Op {
        Op::Connect { ends: self.ends.ends(), hidden: self.hidden }
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    #[serde(flatten)]
    cord: answer::Cord,
    /// True if the cord existed before the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("connect_max_objects", patches, run)
        .text(
            "Connect",
            "Draws a cord. A port that cannot exist is refused; the error contains the number of ports. Connecting twice is not an \
             error; the result then contains `already`.",
        )
        .idempotent()
}

fn run(asked: &Asked<OneEdit<NewCord>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: cord } = &asked.args;
    asked.edit(patch, cord.op(), |_, outcome| {
        let Outcome::Connected { already } = outcome else { return None };
        Some(Answer { cord: (&cord.ends).into(), already: *already })
    })
}
