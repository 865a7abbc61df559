//! `database.execute`: runs one changing statement in a transaction.

use super::{DatabaseAccess, TOOLSET, bounds, database_schema, params_schema, sql_schema};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{integer, nullable, object};
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
}

pub fn definition(access: &DatabaseAccess) -> Definition {
    let (aiming, access) = (access.clone(), access.clone());
    let mut definition = Definition::new("database.execute", Tier::HardwareIo, TOOLSET, move |studio, clearance, arguments| {
        let access = access.clone();
        async move {
            let Arguments { sql, database, params } = parse_arguments(arguments)?;
            let database = database.as_deref();
            let password = access.password(database).await?;
            let password = password.as_ref().map(crate::secrets::Secret::expose);
            let done = access.databases.execute(database, sql, params, password, bounds(&studio, &clearance)).await;
            let changed = done.map_err(ToolError::from)?;
            Ok(Output::new(json!({ "rows_affected": changed.rows_affected, "last_insert_id": changed.last_insert_id })))
        }
    })
    .text(
        "Change database",
        "Runs one SQL statement that changes something, in one transaction. A person must approve each call. A statement that would change \
         more rows than allowed is rolled back completely.",
    )
    .input(object(json!({ "sql": sql_schema(), "database?": database_schema(), "params?": params_schema() })))
    .output(object(json!({ "rows_affected": integer(), "last_insert_id": nullable(integer()) })))
    .summary(|arguments| {
        let word = |key: &str| arguments.get(key).and_then(Value::as_str);
        let sql: String = word("sql").unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("in {}: {sql}", word("database").unwrap_or(conductor_hosts::database::OWN))
    });
    definition = super::with_target(definition, &aiming);
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition.host = Some("database".into());
    definition
}
