//! `database.query`: reads rows. The database itself prevents changes.

use super::{DatabaseAccess, TOOLSET, bounds, database_schema, params_schema, sql_schema};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{boolean, integer, list, nullable, object, text};
use conductor_core::error::ToolError;
use conductor_core::policy::Tier;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Arguments {
    sql: String,
    database: Option<String>,
    #[serde(default)]
    params: Vec<Value>,
    limit: Option<usize>,
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let (aiming, access) = (access.clone(), access.clone());
    let cell = json!({ "anyOf": [
        { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "null" }, { "type": "object" },
        { "type": "array" },
    ] });
    let mut definition = Definition::new("database.query", Tier::ReadOnly, TOOLSET, move |studio, clearance, arguments| {
        let access = access.clone();
        async move {
            let Arguments { sql, database, params, limit } = parse_arguments(arguments)?;
            let database = database.as_deref();
            let password = access.password(database).await?;
            let password = password.as_ref().map(crate::secrets::Secret::expose);
            let rows = access
                .databases
                .query(database, sql, params, limit.unwrap_or(1000), password, bounds(&studio, &clearance))
                .await
                .map_err(ToolError::from)?;
            let columns: Vec<Value> = rows.columns.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect();
            let count = rows.rows.len();
            Ok(Output::new(json!({ "columns": columns, "rows": rows.rows, "row_count": count, "truncated": rows.truncated })))
        }
    })
    .text(
        "Query database",
        "Reads rows with one SQL statement; parameters are bound, never inserted into the text. The connection cannot write. Integers beyond \
         2^53 are returned as text, blobs as {\"base64\": …}. Returns 1000 rows unless `limit` is given.",
    )
    .input(object(json!({
        "sql": sql_schema(), "database?": database_schema(), "params?": params_schema(),
        "limit?": { "type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000 },
    })))
    .output(object(json!({
        "columns": list(object(json!({ "name": text(), "type": nullable(text()) }))),
        "rows": list(list(cell)), "row_count": integer(), "truncated": boolean(),
    })));
    definition.host = Some("database".into());
    super::with_target(definition, &aiming)
}
