//! Databases: an embedded one of the studio's own, and those a person named. One statement per
//! call, parameters bound.
//!
//! That a read reads is enforced by the database, never by looking at the text. Not here: whether a
//! person must be asked.

mod functions;
mod postgres;
mod sqlite;

use crate::system::Clock;
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::config::{self, DatabasePlace};
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use conductor_core::event::Micros;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The database every home has.
pub const OWN: &str = "studio";
/// Longest cell, in bytes.
const CELL: usize = 64 * 1024;
/// An answer stays below what the pipeline sends.
const ANSWER: usize = 900_000;
/// Beyond these a number is no longer exact in JSON.
const EXACT: i64 = 1 << 53;

pub struct Databases {
    own: Arc<sqlite::Sqlite>,
    named: ArcSwap<Vec<(config::Database, Engine)>>,
    user_home: Option<PathBuf>,
    tls: rustls::ClientConfig,
}

enum Engine {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Box<postgres::Postgres>),
}

/// What bounds one statement.
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
    /// Name, and type where the database knows one.
    pub columns: Vec<(String, Option<String>)>,
    pub rows: Vec<Vec<Value>>,
    pub truncated: bool,
    bytes: usize,
}

impl Rows {
    /// False when the answer is full.
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
    #[error("{0}")]
    Statement(String),
    #[error("refused: {0}")]
    Refused(String),
    #[error("the statement would change {found} rows, at most {most} are allowed; nothing was changed")]
    TooMany { found: u64, most: u64 },
    #[error("{0}")]
    TooLarge(&'static str),
    #[error("the statement did not end in time and was stopped")]
    Late,
}

impl From<DatabaseError> for ToolError {
    fn from(fault: DatabaseError) -> Self {
        let text = fault.to_string();
        match fault {
            DatabaseError::Unknown { asked, .. } => ToolError::new(Code::NotFound, text)
                .hint("Name one of these, or leave database out for the studio's own.")
                .subject(Subject::Other(asked)),
            DatabaseError::Offline { database, .. } => {
                ToolError::new(Code::HostOffline, text).subject(Subject::Host(database))
            }
            DatabaseError::Statement(_) => {
                ToolError::new(Code::SdkRejected, text).hint("Correct the statement; database.schema shows the tables.")
            }
            DatabaseError::Refused(_) => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("database.query reads, one statement per call; database.execute changes, after a person agreed."),
            DatabaseError::TooMany { .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Limit)
                .hint("Narrow the statement, or ask the person to raise max_rows_affected."),
            DatabaseError::TooLarge(_) => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Limit)
                .hint("Ask for less: a condition, fewer columns, or parts of long values."),
            DatabaseError::Late => ToolError::new(Code::Timeout, text).hint("Ask for less: a condition or a limit."),
        }
    }
}

impl Databases {
    pub fn new(home: &Path, user_home: Option<PathBuf>, tls: rustls::ClientConfig) -> Arc<Self> {
        let own = Arc::new(sqlite::Sqlite::new(home.join("state").join("studio.db"), true));
        Arc::new(Databases { own, named: ArcSwap::default(), user_home, tls })
    }

    pub fn configure(&self, rows: &[config::Database]) {
        let named = rows.iter().map(|row| {
            let engine = match &row.place {
                DatabasePlace::Sqlite { file } => {
                    let home = self.user_home.as_deref().unwrap_or(Path::new("/"));
                    let file = file.strip_prefix("~/").map_or_else(|| PathBuf::from(file), |rest| home.join(rest));
                    Engine::Sqlite(Arc::new(sqlite::Sqlite::new(file, false)))
                }
                DatabasePlace::Postgres { url } => {
                    Engine::Postgres(Box::new(postgres::Postgres::new(url, self.tls.clone())))
                }
            };
            (row.clone(), engine)
        });
        self.named.store(Arc::new(named.collect()));
    }

    /// The secret that holds the password of a database, if it has one.
    pub fn password_of(&self, name: Option<&str>) -> Option<String> {
        let named = self.named.load();
        named.iter().find(|(row, _)| Some(row.name.as_str()) == name).and_then(|(row, _)| row.password.clone())
    }

    fn find<T>(
        &self,
        name: Option<&str>,
        own: impl FnOnce(&Arc<sqlite::Sqlite>) -> T,
        other: impl FnOnce(&config::Database, &Engine) -> T,
    ) -> Result<T, DatabaseError> {
        let name = name.unwrap_or(OWN);
        let named = self.named.load();
        if let Some((row, engine)) = named.iter().find(|(row, _)| row.name == name) {
            return Ok(other(row, engine));
        }
        if name == OWN {
            return Ok(own(&self.own));
        }
        let known = std::iter::once(OWN).chain(named.iter().map(|(row, _)| row.name.as_str()));
        Err(DatabaseError::Unknown { asked: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") })
    }

    /// Where a database is, for a person: its file, or its address without the password.
    pub fn place(&self, name: &str) -> Result<String, DatabaseError> {
        self.find(
            Some(name),
            |own| own.path().display().to_string(),
            |row, engine| match (engine, &row.place) {
                (Engine::Sqlite(it), _) => it.path().display().to_string(),
                (Engine::Postgres(_), DatabasePlace::Postgres { url }) => address(url),
                (Engine::Postgres(_), DatabasePlace::Sqlite { .. }) => String::new(),
            },
        )
    }

    /// Every name of the database at this place.
    pub fn names_at(&self, place: &str) -> Vec<String> {
        let named = self.named.load();
        let all = std::iter::once(OWN).chain(named.iter().map(|(row, _)| row.name.as_str()));
        all.filter(|it| self.place(it).is_ok_and(|it| it == place)).map(str::to_owned).collect()
    }

    pub fn is_postgres(&self, name: &str) -> bool {
        self.find(Some(name), |_| false, |_, engine| matches!(engine, Engine::Postgres(_))).unwrap_or(false)
    }

    /// Where the work is done, with what it needs.
    fn engine(&self, name: Option<&str>) -> Result<(Work, u64), DatabaseError> {
        self.find(
            name,
            |own| (Work::Sqlite(Arc::clone(own)), config::MOST_ROWS_AFFECTED),
            |row, engine| {
                let work = match engine {
                    Engine::Sqlite(it) => Work::Sqlite(Arc::clone(it)),
                    Engine::Postgres(it) => Work::Postgres(it.clone()),
                };
                (work, row.max_rows_affected)
            },
        )
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
        match self.engine(name)?.0 {
            Work::Sqlite(it) => in_turn(it, bounds, move |it, bounds| it.query(&sql, &params, limit, bounds)).await,
            Work::Postgres(it) => it.query(&sql, &params, limit, password, &bounds).await,
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
        let (work, most) = self.engine(name)?;
        match work {
            Work::Sqlite(it) => in_turn(it, bounds, move |it, bounds| it.execute(&sql, &params, most, bounds)).await,
            Work::Postgres(it) => it.execute(&sql, &params, most, password, &bounds).await,
        }
    }

    pub async fn schema(
        &self,
        name: Option<&str>,
        table: Option<String>,
        password: Option<&str>,
        bounds: Bounds,
    ) -> Result<Vec<Table>, DatabaseError> {
        match self.engine(name)?.0 {
            Work::Sqlite(it) => in_turn(it, bounds, move |it, _| it.schema(table.as_deref())).await,
            Work::Postgres(it) => it.schema(table.as_deref(), password, &bounds).await,
        }
    }
}

enum Work {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Box<postgres::Postgres>),
}

/// Runs on a thread for what waits, when the statements before it are done. The turn is held to the
/// end of the work, also when nobody waits for it any more.
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
        // It is never closed.
        let _turn = turn;
        work(&database, &bounds)
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(DatabaseError::Statement("the work was ended".into())))
}

fn integer(number: i64) -> Value {
    if (-EXACT..=EXACT).contains(&number) { json!(number) } else { Value::String(number.to_string()) }
}

fn text(text: &str) -> Value {
    Value::String(conductor_core::text::cut(text, CELL))
}

/// An address without its password.
fn address(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut url) => {
            // An address that cannot have a password has none.
            let _ = url.set_password(None);
            url.to_string()
        }
        Err(_) => "postgres".to_owned(),
    }
}

fn blob(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes.get(..CELL).unwrap_or(bytes)) })
}
