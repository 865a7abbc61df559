//! `token.change`: a hidden tool for a person. It adds or removes an HTTP token, or a key of
//! another rig, as a plan, and applies the plan at once. The change is therefore stored, recorded
//! and can be undone like any other change of the configuration.

use super::plan_apply;
use super::prelude::*;
use conductor_core::plan::{RowList, TokenChange};
use conductor_core::policy::Channel;
use conductor_gateway::plans::Applied;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The list to change; without it, [[http.tokens]]
    #[serde(default)]
    list: List,
    /// Keys and values of the new row
    add: Option<Map<String, Value>>,
    /// Name of the row to remove
    remove: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum List {
    #[default]
    Tokens,
    Deciders,
    Rigs,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("token.change", Tier::ConfigChange, TOOLSET, owner, run).text(
        "Change token",
        "Adds or removes a row of [[http.tokens]], [[cluster.deciders]] or [[cluster.rigs]] in config.toml.",
    );
    definition.hidden = true;
    definition
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Applied, ToolError> {
    let by = plan_apply::person(&cx.clearance)?;
    let (list, what) = match args.list {
        List::Tokens => (RowList::Tokens, "HTTP token"),
        List::Deciders => (RowList::Deciders, "decider"),
        List::Rigs => (RowList::Rigs, "rig"),
    };
    let (change, description) = match (&args.add, &args.remove) {
        (Some(row), None) => {
            let name = row.get("name").and_then(Value::as_str).unwrap_or_default();
            (TokenChange::Add(row), format!("Add the {what} \"{name}\""))
        }
        (None, Some(name)) => (TokenChange::Remove(name), format!("Remove the {what} \"{name}\"")),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ToolError::new(Code::BadInput, "give either `add` or `remove`"));
        }
    };
    let made = plans::make_token(&cx, list, change, description).await?;
    plans::apply(&cx.studio, &owner, &by, Channel::Cli, made.plan_id).await
}
