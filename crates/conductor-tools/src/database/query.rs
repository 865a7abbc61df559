//! `database.query`: reads rows. The database itself prevents changes.

use super::{DatabaseAccess, Sql, TOOLSET, bounds, with_target};
use crate::prelude::*;
use conductor_gateway::secrets::Secret;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    sql: Sql,
    /// Maximum number of rows
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

fn default_limit() -> usize {
    1000
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The columns of each row
    columns: Vec<Column>,
    /// The values, in the order of the columns
    #[schemars(extend("items" = { "type": "array", "items": { "anyOf": [
        { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "null" }, { "type": "object" },
        { "type": "array" },
    ] } }))]
    rows: Vec<Vec<Value>>,
    /// Number of rows
    row_count: usize,
    /// Whether there are more rows
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Column {
    /// Name of the column
    name: String,
    /// Declared type, if the database reports one
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let definition = tool("database.query", Tier::ReadOnly, TOOLSET, access, run).text(
        "Query database",
        "Reads rows with one SQL statement; parameters are bound, never inserted into the text. The connection cannot write. Integers beyond \
         2^53 are returned as text, blobs as {\"base64\": …}. Returns 1000 rows unless `limit` is given.",
    );
    with_target(definition, access)
}

async fn run(access: DatabaseAccess, cx: Context, args: Args) -> Result<Answer, ToolError> {
    let Args { sql: Sql { sql, database, params }, limit } = args;
    let database = database.as_deref();
    let password = access.password(database).await?;
    let password = password.as_ref().map(Secret::expose);
    let found = access.databases.query(database, sql, params, limit, password, bounds(&cx)).await?;
    let columns = found.columns.into_iter().map(|(name, kind)| Column { name, kind }).collect();
    Ok(Answer { columns, row_count: found.rows.len(), rows: found.rows, truncated: found.truncated })
}
