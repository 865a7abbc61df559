//! `database.schema`: lists tables.

use super::{DatabaseAccess, TOOLSET, bounds, database_schema};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{list, object, text};
use conductor_core::error::ToolError;
use conductor_core::policy::Tier;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Arguments {
    database: Option<String>,
    table: Option<String>,
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let (aiming, access) = (access.clone(), access.clone());
    let mut definition =
        Definition::new("database.schema", Tier::ReadOnly, TOOLSET, move |studio, clearance, arguments| {
            let access = access.clone();
            async move {
                let Arguments { database, table } = parse_arguments(arguments)?;
                let database = database.as_deref();
                let password = access.password(database).await?;
                let password = password.as_ref().map(crate::secrets::Secret::expose);
                let tables = access.databases.schema(database, table, password, bounds(&studio, &clearance)).await;
                let tables = tables.map_err(ToolError::from)?;
                let shown = tables.iter().map(|it| {
                    let columns: Vec<Value> =
                        it.columns.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect();
                    json!({ "name": it.name, "kind": it.kind, "columns": columns, "indexes": it.indexes })
                });
                Ok(Output::new(json!({ "tables": shown.collect::<Vec<_>>() })))
            }
        })
        .text("Show tables", "Lists tables and views with their columns and indexes.")
        .input(object(json!({
            "database?": database_schema(),
            "table?": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Show only this table" },
        })))
        .output(object(json!({
            "tables": list(object(json!({
                "name": text(), "kind": { "enum": ["table", "view"] },
                "columns": list(object(json!({ "name": text(), "type": text() }))), "indexes": list(text()),
            }))),
        })));
    definition.host = Some("database".into());
    super::with_target(definition, &aiming)
}
