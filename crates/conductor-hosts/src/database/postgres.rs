//! PostgreSQL databases. A query runs in a READ ONLY transaction that is rolled back. A query
//! without result columns is refused before it runs, because READ ONLY does not prevent `COPY … TO
//! PROGRAM`. A superuser role is refused for queries and changes.
//!
//! Each call opens a new connection, so that the settings of one statement do not affect the next.

use super::{Bounds, Changed, DatabaseError, Rows, Table, blob, integer, text};
use bytes::BytesMut;
use serde_json::Value;
use std::error::Error;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, IsolationLevel, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Number of rows that are fetched at a time.
const BATCH: i32 = 32;
/// Longest value in characters. The server writes each byte of a blob as two digits.
const MOST_LETTERS: usize = 2 * super::CELL + 16;

pub struct Postgres {
    url: String,
    tls: rustls::ClientConfig,
}

impl Postgres {
    pub fn new(url: &str, tls: rustls::ClientConfig) -> Self {
        Postgres { url: url.to_owned(), tls }
    }

    async fn connect(&self, password: Option<&str>, bounds: &Bounds) -> Result<Session, DatabaseError> {
        let mut config: Config = self.url.parse().map_err(|error| offline(&error))?;
        if let Some(password) = password {
            config.password(password);
        }
        config.application_name("conductor");
        config.connect_timeout(std::time::Duration::from_millis(bounds.left_ms()));
        let connector = MakeRustlsConnect::new(self.tls.clone());
        let cancel_tls = connector.clone();
        let (client, connection) = config.connect(connector).await.map_err(|error| offline(&error))?;
        let driver = tokio::spawn(async move {
            // The error is ignored here: if the connection fails, the client's pending call fails
            // too.
            let _ = connection.await;
        });
        let token = client.cancel_token();
        Ok(Session { client, driver, token: Some((token, cancel_tls)) })
    }

    pub async fn query(
        &self,
        sql: &str,
        params: &[Value],
        limit: usize,
        password: Option<&str>,
        bounds: &Bounds,
    ) -> Result<Rows, DatabaseError> {
        self.run(password, bounds, async |client| {
            let builder = client.build_transaction().read_only(true).isolation_level(IsolationLevel::RepeatableRead);
            let transaction = builder.start().await?;
            prepare(&transaction, bounds).await?;
            let rows = read(&transaction, sql, params, limit).await;
            // Roll back in any case, because a query must not change data.
            let _ = transaction.rollback().await;
            rows
        })
        .await
    }

    pub async fn execute(
        &self,
        sql: &str,
        params: &[Value],
        most: u64,
        password: Option<&str>,
        bounds: &Bounds,
    ) -> Result<Changed, DatabaseError> {
        self.run(password, bounds, async |client| {
            let transaction = client.transaction().await?;
            prepare(&transaction, bounds).await?;
            let statement = transaction.prepare(sql).await?;
            let params = bound(statement.params().len(), params)?;
            let found = transaction.execute_raw(&statement, params).await?;
            if found > most {
                let _ = transaction.rollback().await;
                return Err(DatabaseError::TooMany { found, most });
            }
            transaction.commit().await.map_err(|error| match error.code() {
                Some(_) => error.into(),
                // The server may have committed before the connection was lost.
                None => DatabaseError::Lost { database: "postgres".into(), why: message(&error) },
            })?;
            Ok(Changed { rows_affected: found, last_insert_id: None })
        })
        .await
    }

    /// Runs `work` on a new connection, until the time limit or until the caller cancels.
    async fn run<T>(
        &self,
        password: Option<&str>,
        bounds: &Bounds,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let mut session = self.connect(password, bounds).await?;
        // The server has its own time limit, which is about 250 ms earlier. The limit here is for
        // a server that does not respond.
        let late = tokio::time::sleep(std::time::Duration::from_millis(bounds.left_ms() + 250));
        let done = tokio::select! {
            done = work(&mut session.client) => Some(done),
            () = late => None,
            () = bounds.cancel.cancelled() => None,
        };
        session.end(done.is_none()).await;
        done.unwrap_or(Err(DatabaseError::Late))
    }

    pub async fn schema(
        &self,
        table: Option<&str>,
        password: Option<&str>,
        bounds: &Bounds,
    ) -> Result<Vec<Table>, DatabaseError> {
        const TABLES: &str = "SELECT t.table_schema || '.' || t.table_name AS name, lower(t.table_type) AS kind, \
             (SELECT json_agg(json_build_array(c.column_name, c.data_type) ORDER BY c.ordinal_position) \
                FROM information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name) AS columns, \
             (SELECT coalesce(json_agg(i.indexname ORDER BY i.indexname), '[]') FROM pg_indexes i \
                WHERE i.schemaname = t.table_schema AND i.tablename = t.table_name) AS indexes \
             FROM information_schema.tables t WHERE t.table_schema NOT IN ('pg_catalog', 'information_schema') \
             AND ($1::text IS NULL OR t.table_name = $1 OR t.table_schema || '.' || t.table_name = $1) ORDER BY 1";
        let asked = table.map_or(Value::Null, Value::from);
        let rows = self.query(TABLES, &[asked], 10_000, password, bounds).await?.rows;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let tables = rows.into_iter().map(|row| {
            let columns = row.get(2).map(list).unwrap_or_default();
            Table {
                name: word(row.first()),
                kind: if word(row.get(1)) == "view" { "view".into() } else { "table".into() },
                columns: columns.iter().map(|it| (word(it.get(0)), word(it.get(1)))).collect(),
                indexes: row.get(3).map(list).unwrap_or_default().iter().map(|it| word(Some(it))).collect(),
            }
        });
        Ok(tables.collect())
    }
}

struct Session {
    client: Client,
    driver: tokio::task::JoinHandle<()>,
    token: Option<(tokio_postgres::CancelToken, MakeRustlsConnect)>,
}

impl Session {
    /// Ends the session. If the statement has not ended (`late`), cancels it on the server, because
    /// it would continue after the connection is closed. Otherwise `drop` has nothing to cancel.
    async fn end(mut self, late: bool) {
        let token = self.token.take();
        if late && let Some((token, tls)) = token {
            let _ = token.cancel_query(tls).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some((token, tls)) = self.token.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // A statement may still run on the server, so cancel it. If none runs, the server
            // ignores the request.
            runtime.spawn(async move {
                let _ = token.cancel_query(tls).await;
            });
        }
        self.driver.abort();
    }
}

async fn prepare(transaction: &Transaction<'_>, bounds: &Bounds) -> Result<(), DatabaseError> {
    // These settings override the defaults of the role.
    let limit = format!(
        "SET LOCAL statement_timeout = {}; SET LOCAL work_mem = '16MB'; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off",
        bounds.left_ms()
    );
    transaction.batch_execute(&limit).await?;
    // Run this query before the statement: after the first query, the statement cannot make a READ
    // ONLY transaction writable.
    let asked = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user";
    let row = transaction.query_one(asked, &[]).await?;
    if row.try_get::<_, bool>(0).unwrap_or(true) {
        return Err(DatabaseError::Refused(
            "the role of this database is a superuser; configure a role that is not a superuser".into(),
        ));
    }
    Ok(())
}

async fn read(transaction: &Transaction<'_>, sql: &str, params: &[Value], limit: usize) -> Result<Rows, DatabaseError> {
    // Preparing does not run the statement, and fails if the text contains more than one statement.
    let statement = transaction.prepare(sql).await?;
    let columns: Vec<(String, Type)> =
        statement.columns().iter().map(|it| (it.name().to_owned(), it.type_().clone())).collect();
    if columns.is_empty() {
        return Err(DatabaseError::Refused("the statement has no result columns".into()));
    }
    let bound = bound(statement.params().len(), params)?;
    // All values are requested as text, because the server can convert every type to text. A
    // statement that cannot be a subquery, such as SHOW, returns text anyway and is not wrapped.
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let casts: Vec<String> = names.iter().map(|it| format!("left({it}::text, {MOST_LETTERS})")).collect();
    let inner = sql.trim_end().trim_end_matches(';');
    let wrapped = format!("SELECT {} FROM (\n{inner}\n) AS q({})", casts.join(", "), names.join(", "));
    let all_text = columns.iter().all(|(_, kind)| *kind == Type::TEXT);
    let first: String = inner.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let is_bare = all_text && !["select", "with", "values", "table"].iter().any(|it| first.eq_ignore_ascii_case(it));
    let chosen = if is_bare { statement } else { transaction.prepare(&wrapped).await? };
    let portal = transaction.bind_raw(&chosen, bound).await?;
    let named = columns.iter().map(|(name, kind)| (name.clone(), Some(kind.name().to_owned()))).collect();
    let mut out = Rows { columns: named, ..Rows::default() };
    // Fetch a few rows at a time: the result may be full long before the last row.
    loop {
        let found = transaction.query_portal(&portal, BATCH).await?;
        let is_last = found.len() < BATCH as usize;
        for row in found {
            let cells = columns.iter().enumerate().map(|(index, (_, kind))| {
                let text: Option<&str> = row.try_get(index)?;
                Ok(text.map_or(Value::Null, |text| cell(kind, text)))
            });
            if !out.push(cells.collect::<Result<Vec<_>, DatabaseError>>()?, limit) {
                return Ok(out);
            }
        }
        if is_last {
            return Ok(out);
        }
    }
}

fn cell(kind: &Type, written: &str) -> Value {
    let number = || written.parse().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
    if *kind == Type::BOOL {
        Value::Bool(written == "true")
    } else if [Type::INT2, Type::INT4, Type::INT8, Type::OID].contains(kind) {
        written.parse().map_or_else(|_| text(written), integer)
    } else if [Type::FLOAT4, Type::FLOAT8].contains(kind) {
        number().unwrap_or_else(|| text(written))
    } else if [Type::JSON, Type::JSONB].contains(kind) {
        serde_json::from_str(written).unwrap_or_else(|_| text(written))
    } else if *kind == Type::BYTEA {
        hex(written).map_or_else(|| text(written), |bytes| blob(&bytes))
    } else {
        // Exact decimals, dates and other types stay in the server's text form.
        text(written)
    }
}

fn hex(written: &str) -> Option<Vec<u8>> {
    let digits = written.strip_prefix("\\x")?.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

/// A JSON value in the server's text form; the statement determines its type.
#[derive(Debug)]
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                out.extend_from_slice(self.0.to_string().as_bytes());
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

fn bound(wanted: usize, params: &[Value]) -> Result<Vec<Param<'_>>, DatabaseError> {
    if wanted != params.len() {
        return Err(DatabaseError::Statement(format!(
            "the statement has {wanted} parameters, {} were given",
            params.len()
        )));
    }
    Ok(params.iter().map(Param).collect())
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::SqlState;
        match error.code() {
            Some(code) if *code == SqlState::QUERY_CANCELED => DatabaseError::Late,
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => DatabaseError::Refused(message(&error)),
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => DatabaseError::Refused(message(&error)),
            Some(_) => DatabaseError::Statement(message(&error)),
            None => offline(&error),
        }
    }
}

fn offline(error: &tokio_postgres::Error) -> DatabaseError {
    DatabaseError::Offline { database: "postgres".into(), why: message(error) }
}

/// The server's message, or the local cause if there is none. The result never contains the
/// address, which may contain secrets.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(reported), _) => reported.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
