//! `database.*`: the studio's own SQLite file, and databases that a person configured. One file per
//! tool; this file contains the shared parts.

mod execute;
mod query;
mod schema;
mod statement;

use conductor_core::error::{Code, ToolError};
use conductor_gateway::catalog::typed::Context;
use conductor_gateway::catalog::{AskFacts, Catalog, CatalogError, Definition, Target, Tool};
use conductor_gateway::secrets::{Secret, Secrets};
use conductor_hosts::database::{Bounds, Databases, OWN};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use statement::{Dialect, Statement};
use std::sync::Arc;

pub const TOOLSET: &str = "database";

/// The databases, and the secrets for their passwords.
#[derive(Clone)]
struct DatabaseAccess {
    databases: Arc<Databases>,
    secrets: Arc<Secrets>,
}

pub fn add(catalog: &mut Catalog, databases: &Arc<Databases>, secrets: &Arc<Secrets>) -> Result<(), CatalogError> {
    let access = &DatabaseAccess { databases: Arc::clone(databases), secrets: Arc::clone(secrets) };
    for definition in [execute::definition(access), query::definition(access), schema::definition(access)] {
        catalog.add(Tool::new(definition)?)?;
    }
    Ok(())
}

impl DatabaseAccess {
    /// The password of a database, if it needs one. Opening the vault may block.
    async fn password(&self, database: Option<&str>) -> Result<Option<Secret>, ToolError> {
        let Some(name) = self.databases.password_of(database) else { return Ok(None) };
        let secrets = Arc::clone(&self.secrets);
        let got = tokio::task::spawn_blocking(move || secrets.get(&name)).await;
        let got = got.map_err(|_| ToolError::new(Code::Internal, "the secret could not be read"))?;
        Ok(Some(got?))
    }
}

/// Adds the target (the database, and the kinds and tables of the statement). Adds the statement
/// without its comments as a fact.
fn with_target(mut definition: Definition, access: &DatabaseAccess) -> Definition {
    let (aiming, showing) = (Arc::clone(&access.databases), Arc::clone(&access.databases));
    definition.host = Some("database".into());
    definition.facts = Some(Arc::new(move |_, arguments| {
        let text = statement(&showing, arguments).map(|it| it.text);
        AskFacts { facts: text.map(|it| ("sql".to_owned(), it)).into_iter().collect(), ..AskFacts::default() }
    }));
    definition.target(move |_, call| {
        let name = name(&call.arguments);
        let place = match aiming.place(name) {
            Ok(place) => place,
            Err(fault) => return Target::refused(fault),
        };
        let mut shown = vec![("database", format!("{name} ({place})"))];
        if let Some(statement) = statement(&aiming, &call.arguments) {
            let or = |list: &[String], none: &str| if list.is_empty() { none.to_owned() } else { list.join(", ") };
            shown.push(("statement", or(&statement.kinds, "unknown kind")));
            shown.push(("tables", or(&statement.tables, "none")));
        }
        let names = std::iter::once(name.to_owned()).chain(aiming.names_at(&place));
        let forms = names.map(|it| json!({ "database": it })).collect();
        Target { shown, forms, key: Some(name.to_owned()), ..Target::default() }
    })
}

fn name(arguments: &Value) -> &str {
    arguments.get("database").and_then(Value::as_str).unwrap_or(OWN)
}

fn statement(databases: &Databases, arguments: &Value) -> Option<Statement> {
    let dialect = if databases.is_postgres(name(arguments)) { Dialect::Postgres } else { Dialect::Sqlite };
    arguments.get("sql").and_then(Value::as_str).map(|sql| Statement::read(sql, dialect))
}

/// The database stops a statement shortly before the pipeline's deadline, so that the caller gets
/// the error of the database.
fn bounds(cx: &Context) -> Bounds {
    let deadline = conductor_core::event::Micros(cx.clearance.deadline().0.saturating_sub(500_000));
    Bounds { clock: Arc::clone(&cx.studio.clock), deadline, cancel: cx.clearance.cancel().clone() }
}

/// A statement and its database.
#[derive(Deserialize, JsonSchema)]
struct Sql {
    /// One statement
    #[schemars(length(min = 1, max = 65_536))]
    sql: String,
    /// Name in config.toml; default: the studio's own database
    #[schemars(length(min = 1, max = 64))]
    database: Option<String>,
    /// Values for ?1, ?2 (SQLite) or $1, $2 (PostgreSQL)
    #[serde(default)]
    #[schemars(length(max = 999), extend("items" = { "anyOf": [
        { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "null" },
    ] }))]
    params: Vec<Value>,
}
