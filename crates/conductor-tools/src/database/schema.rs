//! `database.schema`: lists tables.

use super::{DatabaseAccess, TOOLSET, bounds, with_target};
use crate::prelude::*;
use conductor_gateway::secrets::Secret;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Name in config.toml; default: the studio's own database
    #[schemars(length(min = 1, max = 64))]
    database: Option<String>,
    /// Show only this table
    #[schemars(length(min = 1, max = 256))]
    table: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Tables and views
    tables: Vec<Table>,
}

#[derive(Serialize, JsonSchema)]
struct Table {
    /// Name of the table
    name: String,
    /// Whether it is a table or a view
    #[schemars(extend("enum" = ["table", "view"]))]
    kind: String,
    /// In the order of the table
    columns: Vec<Column>,
    /// Names of the indexes
    indexes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Column {
    /// Name of the column
    name: String,
    /// Declared type
    #[serde(rename = "type")]
    kind: String,
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let definition = tool("database.schema", Tier::ReadOnly, TOOLSET, access, run)
        .text("Show tables", "Lists tables and views with their columns and indexes.");
    with_target(definition, access)
}

async fn run(access: DatabaseAccess, cx: Context, args: Args) -> Result<Answer, ToolError> {
    let database = args.database.as_deref();
    let password = access.password(database).await?;
    let password = password.as_ref().map(Secret::expose);
    let found = access.databases.schema(database, args.table, password, bounds(&cx)).await?;
    let tables = found.into_iter().map(|it| Table {
        name: it.name,
        kind: it.kind,
        columns: it.columns.into_iter().map(|(name, kind)| Column { name, kind }).collect(),
        indexes: it.indexes,
    });
    Ok(Answer { tables: tables.collect() })
}
