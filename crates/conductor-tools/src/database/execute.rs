//! `database.execute`: runs one changing statement in a transaction.

use super::{DatabaseAccess, Sql, TOOLSET, bounds, with_target};
use crate::prelude::*;
use conductor_gateway::secrets::Secret;
use conductor_hosts::database::OWN;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of changed rows
    rows_affected: u64,
    /// Id of the last new row, if the database reports it
    last_insert_id: Option<i64>,
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let definition = tool("database.execute", Tier::HardwareIo, TOOLSET, access, run)
        .text(
            "Change database",
            "Runs one SQL statement that changes something, in one transaction. A person must approve each call. A statement that would change \
             more rows than allowed is rolled back completely.",
        )
        .summary(with_args(|args: &Sql| {
            let sql = args.sql.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("in {}: {sql}", args.database.as_deref().unwrap_or(OWN))
        }));
    let mut definition = with_target(definition, access);
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition
}

async fn run(access: DatabaseAccess, cx: Context, args: Sql) -> Result<Answer, ToolError> {
    let Sql { sql, database, params } = args;
    let database = database.as_deref();
    let password = access.password(database).await?;
    let password = password.as_ref().map(Secret::expose);
    let changed = access.databases.execute(database, sql, params, password, bounds(&cx)).await?;
    Ok(Answer { rows_affected: changed.rows_affected, last_insert_id: changed.last_insert_id })
}
