//! Databases: the studio's own embedded database, and the configured ones. A call runs one
//! statement with bound parameters.
//!
//! The database itself enforces that a query only reads; Conductor does not inspect the statement's
//! text. Not here: approval by a person.

mod functions;
mod postgres;
mod sqlite;

use crate::system::Clock;
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::config::{self, DatabasePlace};
use conductor_core::error::{Code, Effect, RefusedBy, Subject, ToolError};
use conductor_core::event::Micros;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Name of the studio's own database.
pub const OWN: &str = "studio";
/// Texts and blobs of a cell are truncated to this number of bytes.
const CELL: usize = 64 * 1024;
/// Longest result in bytes. It is below the limit of the pipeline for results.
const ANSWER: usize = 900_000;
/// Larger integers are not exact in JSON, so they are returned as text.
const EXACT: i64 = 1 << 53;

pub struct Databases {
    own: Arc<Database>,
    /// All databases. The studio's own database is missing if a configured database has the same
    /// name.
    all: ArcSwap<Vec<Arc<Database>>>,
    user_home: Option<PathBuf>,
    tls: rustls::ClientConfig,
}

struct Database {
    name: String,
    engine: Engine,
    /// The database's file, or its address without the password.
    place: String,
    /// The name of the secret that contains the password.
    password: Option<String>,
    max_rows_affected: u64,
}

#[derive(Clone)]
enum Engine {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

/// The time limit and the cancellation of one statement.
pub struct Bounds {
    pub clock: Arc<dyn Clock>,
    pub deadline: Micros,
    pub cancel: CancellationToken,
}

impl Bounds {
    fn left_ms(&self) -> u64 {
        (self.deadline.0.saturating_sub(self.clock.now().0) / 1000).max(1)
    }
}

#[derive(Debug, Default)]
pub struct Rows {
    /// The name of each column, and its type if the database reports one.
    pub columns: Vec<(String, Option<String>)>,
    pub rows: Vec<Vec<Value>>,
    pub truncated: bool,
    bytes: usize,
}

impl Rows {
    /// Adds a row. Returns false, without adding it, when the result is full.
    fn push(&mut self, row: Vec<Value>, limit: usize) -> bool {
        self.bytes += row.iter().map(|it| it.to_string().len() + 1).sum::<usize>() + 2;
        if self.rows.len() >= limit || self.bytes > ANSWER {
            self.truncated = true;
            return false;
        }
        self.rows.push(row);
        true
    }
}

#[derive(Debug)]
pub struct Changed {
    pub rows_affected: u64,
    pub last_insert_id: Option<i64>,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub kind: String,
    pub columns: Vec<(String, String)>,
    pub indexes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("there is no database \"{asked}\"; there are: {known}")]
    Unknown { asked: String, known: String },
    #[error("{database}: {why}")]
    Offline { database: String, why: String },
    #[error("{database}: {why}; it is not known whether the change was made")]
    Lost { database: String, why: String },
    #[error("{0}")]
    Statement(String),
    #[error("refused: {0}")]
    Refused(String),
    #[error("the statement would change {found} rows, but at most {most} are allowed; nothing was changed")]
    TooMany { found: u64, most: u64 },
    #[error("{0}")]
    TooLarge(&'static str),
    #[error("the statement did not end in time and was stopped")]
    Late,
}

impl From<DatabaseError> for ToolError {
    fn from(error: DatabaseError) -> Self {
        let text = error.to_string();
        match error {
            DatabaseError::Unknown { asked, .. } => ToolError::new(Code::NotFound, text)
                .hint("Use one of these names, or omit `database` to use the studio's own database.")
                .subject(Subject::Other(asked)),
            DatabaseError::Offline { database, .. } => {
                ToolError::new(Code::HostOffline, text).subject(Subject::Host(database))
            }
            DatabaseError::Lost { database, .. } => ToolError::new(Code::HostOffline, text)
                .hint("Read the data before you repeat the call.")
                .subject(Subject::Host(database))
                .effect(Effect::Unknown),
            DatabaseError::Statement(_) => {
                ToolError::new(Code::SdkRejected, text).hint("Correct the statement; database.schema shows the tables.")
            }
            DatabaseError::Refused(_) => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("database.query only reads; database.execute changes data after a person has approved it. A call runs one statement."),
            DatabaseError::TooMany { .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Limit)
                .hint("Narrow the statement, or ask the person to raise max_rows_affected."),
            DatabaseError::TooLarge(_) => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Limit)
                .hint("Request less data: add a condition, select fewer columns, or select parts of long values."),
            DatabaseError::Late => ToolError::new(Code::Timeout, text).hint("Request less data: add a condition or a limit."),
        }
    }
}

impl Databases {
    pub fn new(home: &Path, user_home: Option<PathBuf>, tls: rustls::ClientConfig) -> Arc<Self> {
        let file = home.join("state").join("studio.db");
        let own = Arc::new(Database {
            name: OWN.into(),
            place: file.display().to_string(),
            engine: Engine::Sqlite(Arc::new(sqlite::Sqlite::new(file, true))),
            password: None,
            max_rows_affected: config::MOST_ROWS_AFFECTED,
        });
        Arc::new(Databases { all: ArcSwap::from_pointee(vec![Arc::clone(&own)]), own, user_home, tls })
    }

    pub fn configure(&self, rows: &[(String, config::Database)]) {
        let named = rows.iter().map(|(name, row)| {
            let (engine, place) = match &row.place {
                DatabasePlace::Sqlite { file } => {
                    let home = self.user_home.as_deref().unwrap_or(Path::new("/"));
                    let file = file.strip_prefix("~/").map_or_else(|| PathBuf::from(file), |rest| home.join(rest));
                    let place = file.display().to_string();
                    (Engine::Sqlite(Arc::new(sqlite::Sqlite::new(file, false))), place)
                }
                DatabasePlace::Postgres { url } => {
                    let engine = Engine::Postgres(Arc::new(postgres::Postgres::new(url, self.tls.clone())));
                    (engine, without_password(url))
                }
            };
            Arc::new(Database {
                name: name.clone(),
                engine,
                place,
                password: row.password.clone(),
                max_rows_affected: row.max_rows_affected,
            })
        });
        let own = (!rows.iter().any(|(name, _)| name == OWN)).then(|| Arc::clone(&self.own));
        self.all.store(Arc::new(own.into_iter().chain(named).collect()));
    }

    /// The name of the secret that contains a database's password, if it has one.
    pub fn password_of(&self, name: Option<&str>) -> Option<String> {
        self.find(name).ok()?.password.clone()
    }

    /// Finds a database by name. If `name` is absent, returns the studio's own database.
    fn find(&self, name: Option<&str>) -> Result<Arc<Database>, DatabaseError> {
        let name = name.unwrap_or(OWN);
        let all = self.all.load();
        all.iter().find(|it| it.name == name).cloned().ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
            DatabaseError::Unknown { asked: name.to_owned(), known: known.join(", ") }
        })
    }

    /// The location of a database, to show to a person: its file, or its address without the
    /// password.
    pub fn place(&self, name: &str) -> Result<String, DatabaseError> {
        Ok(self.find(Some(name))?.place.clone())
    }

    /// All names that are configured for the database at this location.
    pub fn names_at(&self, place: &str) -> Vec<String> {
        self.all.load().iter().filter(|it| it.place == place).map(|it| it.name.clone()).collect()
    }

    pub fn is_postgres(&self, name: &str) -> bool {
        self.find(Some(name)).is_ok_and(|it| matches!(it.engine, Engine::Postgres(_)))
    }

    pub async fn query(
        &self,
        name: Option<&str>,
        sql: String,
        params: Vec<Value>,
        limit: usize,
        password: Option<&str>,
        bounds: Bounds,
    ) -> Result<Rows, DatabaseError> {
        match self.find(name)?.engine.clone() {
            Engine::Sqlite(it) => in_turn(it, bounds, move |it, bounds| it.query(&sql, &params, limit, bounds)).await,
            Engine::Postgres(it) => it.query(&sql, &params, limit, password, &bounds).await,
        }
    }

    pub async fn execute(
        &self,
        name: Option<&str>,
        sql: String,
        params: Vec<Value>,
        password: Option<&str>,
        bounds: Bounds,
    ) -> Result<Changed, DatabaseError> {
        let database = self.find(name)?;
        let most = database.max_rows_affected;
        match database.engine.clone() {
            Engine::Sqlite(it) => in_turn(it, bounds, move |it, bounds| it.execute(&sql, &params, most, bounds)).await,
            Engine::Postgres(it) => it.execute(&sql, &params, most, password, &bounds).await,
        }
    }

    pub async fn schema(
        &self,
        name: Option<&str>,
        table: Option<String>,
        password: Option<&str>,
        bounds: Bounds,
    ) -> Result<Vec<Table>, DatabaseError> {
        match self.find(name)?.engine.clone() {
            Engine::Sqlite(it) => in_turn(it, bounds, move |it, _| it.schema(table.as_deref())).await,
            Engine::Postgres(it) => it.schema(table.as_deref(), password, &bounds).await,
        }
    }
}

/// Runs `work` on a blocking thread after all earlier statements have ended. The next statement
/// starts only after `work` has ended, even if the caller has cancelled.
async fn in_turn<T: Send + 'static>(
    database: Arc<sqlite::Sqlite>,
    bounds: Bounds,
    work: impl FnOnce(&sqlite::Sqlite, &Bounds) -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    let turn = tokio::select! {
        turn = Arc::clone(&database.turn).acquire_owned() => turn,
        () = bounds.cancel.cancelled() => return Err(DatabaseError::Late),
    };
    let work = move || {
        // The semaphore is never closed, so `turn` is always a permit.
        let _turn = turn;
        work(&database, &bounds)
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(DatabaseError::Statement("the database task was aborted".into())))
}

fn integer(number: i64) -> Value {
    if (-EXACT..=EXACT).contains(&number) { json!(number) } else { Value::String(number.to_string()) }
}

fn text(text: &str) -> Value {
    Value::String(conductor_core::text::cut(text, CELL))
}

fn without_password(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut url) => {
            // `set_password` fails only for an address that cannot contain a password.
            let _ = url.set_password(None);
            url.to_string()
        }
        Err(_) => "postgres".to_owned(),
    }
}

fn blob(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes.get(..CELL).unwrap_or(bytes)) })
}
