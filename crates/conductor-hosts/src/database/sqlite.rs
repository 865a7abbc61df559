//! The embedded SQLite database. Queries use a connection that cannot write. Changes run in one
//! transaction, which is rolled back when it changes too many rows. Limits apply to the time of a
//! statement, the length of a value, and the memory of all statements together.

use super::functions::{self, Over};
use super::{Bounds, Changed, DatabaseError, Rows, Table, blob, integer, text};
use parking_lot::Mutex;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub struct Sqlite {
    path: PathBuf,
    /// Whether this is the studio's own file, which is created when it is missing.
    own: bool,
    /// The connection for queries. It is reused, because opening it takes longer than most queries.
    /// It keeps no state between two statements.
    reader: Mutex<Option<Connection>>,
    /// Allows one statement at a time, so that late statements block at most one thread.
    pub(super) turn: Arc<Semaphore>,
}

/// Virtual machine steps between two checks of the time limit.
const CHECK_EVERY: i32 = 1000;
/// Limit for the memory of all connections of the process together.
const HEAP_BYTES: i64 = 128 << 20;
/// Longest statement in bytes. SQLite does not check the time limit in code without loops, so the
/// length of that code is limited.
const LONGEST_STATEMENT: i32 = 64 << 10;

impl Sqlite {
    pub fn new(path: PathBuf, own: bool) -> Self {
        Sqlite { path, own, reader: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    fn offline(&self, error: &dyn std::fmt::Display) -> DatabaseError {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        DatabaseError::Offline { database: name, why: error.to_string() }
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, DatabaseError> {
        if self.own && !self.path.exists() {
            let folder = self.path.parent().unwrap_or(std::path::Path::new("/"));
            std::fs::create_dir_all(folder).map_err(|error| self.offline(&error))?;
            use crate::system::files::Opening as _;
            let made =
                std::fs::OpenOptions::new().write(true).create(true).truncate(false).owner_only().open(&self.path);
            made.map_err(|error| self.offline(&error))?;
        }
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(|error| self.offline(&error))?;
        let prepared = connection
            .set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)
            .and_then(|_| connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 64 << 20))
            .and_then(|_| connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT))
            .and_then(|_| connection.pragma_update(None, "hard_heap_limit", HEAP_BYTES))
            .and_then(|_| connection.busy_timeout(std::time::Duration::from_secs(2)));
        prepared.map_err(|error| self.offline(&error))?;
        Ok(connection)
    }

    pub fn query(&self, sql: &str, params: &[Value], limit: usize, bounds: &Bounds) -> Result<Rows, DatabaseError> {
        let kept = self.reader.lock().take();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                let prepared = connection
                    .pragma_update(None, "query_only", true)
                    // With this setting, sorting uses the limited memory and creates no files.
                    .and_then(|()| connection.pragma_update(None, "temp_store", "MEMORY"))
                    .and_then(|()| connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, functions::LONGEST).map(|_| ()))
                    .and_then(|()| connection.authorizer(Some(reading_only)));
                prepared.map_err(|error| self.offline(&error))?;
                connection
            }
        };
        watch(&mut connection, bounds)?;
        let read = read(&connection, sql, params, limit);
        // Remove the handler: it is only for this statement.
        let _ = connection.progress_handler(0, None::<fn() -> bool>);
        if !matches!(read, Err(DatabaseError::Offline { .. })) {
            *self.reader.lock() = Some(connection);
        }
        read
    }

    pub fn execute(&self, sql: &str, params: &[Value], most: u64, bounds: &Bounds) -> Result<Changed, DatabaseError> {
        let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        watch(&mut connection, bounds)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.authorizer(Some(changing))?;
        let before = connection.total_changes();
        let done = connection.prepare(sql).and_then(|mut statement| {
            let mut rows = statement.query(params_from_iter(params.iter().map(Param)))?;
            // A statement with RETURNING is complete only after its last row was read.
            while rows.next()?.is_some() {}
            Ok(())
        });
        connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
        let found = connection.total_changes().saturating_sub(before);
        let (rows_affected, id) = (connection.changes(), connection.last_insert_rowid());
        // On an early return, closing the connection rolls back the changes.
        done?;
        if found > most {
            return Err(DatabaseError::TooMany { found, most });
        }
        connection.execute_batch("COMMIT")?;
        let inserted = found > 0 && id != 0;
        Ok(Changed {
            rows_affected: if found == 0 { 0 } else { rows_affected },
            last_insert_id: inserted.then_some(id),
        })
    }

    pub fn schema(&self, table: Option<&str>) -> Result<Vec<Table>, DatabaseError> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let tables = || -> rusqlite::Result<Vec<Table>> {
            let mut listed = connection.prepare(
                "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                 AND (?1 IS NULL OR name = ?1) ORDER BY name",
            )?;
            let names = listed.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut columns = connection.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
            let mut indexes = connection.prepare("SELECT name FROM pragma_index_list(?1) ORDER BY name")?;
            names
                .map(|it| {
                    let (name, kind): (String, String) = it?;
                    let columns =
                        columns.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
                    let indexes = indexes.query_map([&name], |row| row.get(0))?.collect::<Result<_, _>>()?;
                    Ok(Table { name, kind, columns, indexes })
                })
                .collect()
        };
        Ok(tables()?)
    }
}

/// Interrupts the statement at its deadline, or when the caller cancels.
fn watch(connection: &mut Connection, bounds: &Bounds) -> Result<(), DatabaseError> {
    let (clock, deadline, cancel) = (bounds.clock.clone(), bounds.deadline, bounds.cancel.clone());
    let over: Over = Arc::new(move || cancel.is_cancelled() || clock.now() >= deadline);
    functions::replace_slow(connection, &over)?;
    Ok(connection.progress_handler(CHECK_EVERY, Some(move || over()))?)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum that gains variants; unknown ones are denied")]
fn reading_only(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !is_refused(function_name),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Whether the function is refused, because its arguments are code or memory addresses.
fn is_refused(function: &str) -> bool {
    ["load_extension", "fts3_tokenizer"].iter().any(|it| function.eq_ignore_ascii_case(it))
}

/// A statement may not end or nest our transaction, open another file, or change the permissions of
/// the connection.
#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum; other actions are covered by the transaction")]
fn changing(context: AuthContext<'_>) -> Authorization {
    let refused = match context.action {
        AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. } => true,
        AuthAction::Function { function_name } => is_refused(function_name),
        _ => false,
    };
    if refused { Authorization::Deny } else { Authorization::Allow }
}

fn read(connection: &Connection, sql: &str, params: &[Value], limit: usize) -> Result<Rows, DatabaseError> {
    let mut statement = connection.prepare(sql)?;
    if !statement.readonly() {
        return Err(DatabaseError::Refused("the statement would change the database".into()));
    }
    let columns = statement.columns();
    let columns: Vec<_> = columns.map(|it| (it.name().to_owned(), it.decl_type().map(str::to_owned))).collect();
    if columns.is_empty() {
        return Err(DatabaseError::Refused("the statement has no result columns".into()));
    }
    let width = columns.len();
    let mut out = Rows { columns, ..Rows::default() };
    let mut rows = statement.query(params_from_iter(params.iter().map(Param)))?;
    while let Some(row) = rows.next()? {
        let cells = (0..width).map(|index| row.get_ref(index).map(cell)).collect::<Result<Vec<_>, _>>()?;
        if !out.push(cells, limit) {
            break;
        }
    }
    Ok(out)
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => integer(number),
        ValueRef::Real(number) => serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number),
        ValueRef::Text(bytes) => text(&String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => blob(bytes),
    }
}

/// A JSON value as a parameter; lists and objects are passed as JSON text.
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Bool(it) => ToSqlOutput::Owned(i64::from(*it).into()),
            Value::Number(it) => match (it.as_i64(), it.as_f64()) {
                (Some(whole), _) => ToSqlOutput::Owned(whole.into()),
                (None, Some(real)) => ToSqlOutput::Owned(real.into()),
                (None, None) => ToSqlOutput::Borrowed(ValueRef::Null),
            },
            Value::String(it) => ToSqlOutput::Borrowed(ValueRef::Text(it.as_bytes())),
            Value::Array(_) | Value::Object(_) => ToSqlOutput::Owned(self.0.to_string().into()),
        })
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => DatabaseError::Late,
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
                DatabaseError::Refused("the statement uses an operation that is not allowed here".into())
            }
            Some(
                ErrorCode::CannotOpen | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::NotADatabase,
            ) => DatabaseError::Offline { database: "sqlite".into(), why: error.to_string() },
            Some(ErrorCode::TooBig) => DatabaseError::TooLarge("a value or the statement is longer than the limit"),
            Some(ErrorCode::OutOfMemory) => DatabaseError::TooLarge("the statement needs more memory than the limit"),
            _ if matches!(error, rusqlite::Error::MultipleStatement) => {
                DatabaseError::Refused("a call runs one statement only".into())
            }
            _ => DatabaseError::Statement(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::RealClock;
    use conductor_core::event::Micros;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    fn bounds(ms: u64) -> Bounds {
        Bounds { clock: Arc::new(RealClock::new()), deadline: Micros(ms * 1000), cancel: CancellationToken::new() }
    }

    fn songs() -> (tempfile::TempDir, Sqlite) {
        let folder = tempfile::tempdir().unwrap();
        let database = Sqlite::new(folder.path().join("songs.db"), true);
        for sql in [
            "CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT NOT NULL, bpm REAL, cover BLOB)",
            "CREATE INDEX by_title ON songs (title)",
            "CREATE VIEW fast AS SELECT * FROM songs WHERE bpm > 120",
        ] {
            database.execute(sql, &[], 1000, &bounds(10_000)).unwrap();
        }
        for (title, bpm) in [("One", 100.0), ("Two", 128.0), ("Three", 174.0)] {
            let made = database.execute(
                "INSERT INTO songs (title, bpm) VALUES (?1, ?2)",
                &[json!(title), json!(bpm)],
                1000,
                &bounds(10_000),
            );
            assert_eq!(made.unwrap().rows_affected, 1);
        }
        (folder, database)
    }

    fn query(database: &Sqlite, sql: &str) -> Result<Vec<Vec<Value>>, DatabaseError> {
        database.query(sql, &[], 1000, &bounds(10_000)).map(|it| it.rows)
    }

    #[test]
    fn values_come_as_they_are() {
        let (_folder, database) = songs();
        let rows =
            query(&database, "SELECT title, bpm, NULL, 9007199254740993, x'00ff' FROM songs WHERE id = 2").unwrap();
        assert_eq!(
            rows,
            [[json!("Two"), json!(128.0), Value::Null, json!("9007199254740993"), json!({"base64": "AP8="})]]
        );
        let found = database
            .query("SELECT title FROM songs WHERE bpm > ?1 ORDER BY id", &[json!(110)], 1, &bounds(10_000))
            .unwrap();
        assert_eq!((found.rows.len(), found.truncated), (1, true));
        assert_eq!(found.columns, [("title".to_owned(), Some("TEXT".to_owned()))]);
        let tables = database.schema(None).unwrap();
        let names: Vec<_> = tables.iter().map(|it| (it.name.as_str(), it.kind.as_str())).collect();
        assert_eq!(names, [("fast", "view"), ("songs", "table")]);
        assert_eq!(database.schema(Some("songs")).unwrap()[0].indexes, ["by_title"]);
    }

    /// Tries many ways to write through a query. A naive check of the first word is the negative
    /// control.
    #[test]
    fn a_read_reads() {
        let (folder, database) = songs();
        let other = folder.path().join("other.db");
        let attach = format!("ATTACH DATABASE '{}' AS o", other.display());
        let attacks = [
            "DELETE FROM songs",
            "WITH x AS (SELECT 1) DELETE FROM songs",
            "INSERT INTO songs (title) VALUES ('x') RETURNING title",
            "WITH x AS (SELECT 'y' AS t) INSERT INTO songs (title) SELECT t FROM x",
            "SELECT 1; DELETE FROM songs",
            "SELECT 1; DROP TABLE songs;",
            "PRAGMA writable_schema = ON",
            "PRAGMA query_only = OFF",
            "PRAGMA journal_mode = DELETE",
            "SELECT * FROM pragma_journal_mode('wal')",
            "SELECT load_extension('/tmp/x.so')",
            "CREATE TEMP TABLE t (a)",
            "VACUUM INTO '/tmp/copy.db'",
            "BEGIN",
            &attach,
            "REINDEX",
            "ANALYZE",
        ];
        for sql in attacks {
            assert!(query(&database, sql).is_err(), "{sql}");
        }
        assert!(!other.exists());
        assert_eq!(query(&database, "SELECT count(*) FROM songs").unwrap(), [[json!(3)]]);
        // Negative control: judged by their first word, several of these statements are reads. On a
        // connection that can write, they delete the songs and drop the table.
        let naive = |sql: &str| sql.starts_with("SELECT") || sql.starts_with("WITH");
        let connection = Connection::open(folder.path().join("songs.db")).unwrap();
        for sql in attacks.iter().filter(|it| naive(it)) {
            let _ = connection.execute_batch(sql);
        }
        assert!(query(&database, "SELECT count(*) FROM songs").is_err(), "the naive version did not drop the table");
    }

    #[test]
    fn a_slow_statement_is_stopped_by_the_clock_and_by_a_cancel() {
        let (_folder, database) = songs();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let late = database.query(endless, &[], 10, &bounds(50));
        assert!(matches!(late, Err(DatabaseError::Late)), "{late:?}");
        let cancelled = bounds(600_000);
        cancelled.cancel.cancel();
        assert!(matches!(database.query(endless, &[], 10, &cancelled), Err(DatabaseError::Late)));
        assert_eq!(query(&database, "SELECT 1").unwrap(), [[json!(1)]], "the next statement failed");
    }

    /// Runs reads that would use all processor time or all memory without the limits.
    #[test]
    fn a_read_is_bounded_by_the_work_it_does() {
        let (folder, database) = songs();
        let long = "replace(hex(zeroblob(15000000)),'0','a')";
        let rows = |n: u32| format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})");
        let refused = [
            format!("SELECT instr({long}, replace(hex(zeroblob(6000000)),'0','a')||'b')"),
            format!("{} SELECT i, randomblob(100000) AS r FROM n ORDER BY r", rows(5000)),
            format!("{} SELECT group_concat(hex(randomblob(10000))) FROM n", rows(5000)),
            "SELECT printf('%.*c', 900000000, 'x')".to_owned(),
            "SELECT length(randomblob(900000000))".to_owned(),
            "SELECT length(zeroblob(900000000) || 'x')".to_owned(),
            format!("{} SELECT count(*) FROM (SELECT DISTINCT randomblob(100000) FROM n)", rows(5000)),
            format!("{} SELECT json_group_array(hex(randomblob(100000))) FROM n", rows(5000)),
            format!("SELECT '{}'", "x".repeat(100_000)),
        ];
        for sql in &refused {
            let answer = database.query(sql, &[], 10, &bounds(60_000));
            let shown = &sql[..sql.len().min(90)];
            assert!(
                matches!(answer, Err(DatabaseError::TooLarge(_) | DatabaseError::Statement(_))),
                "{shown}: {answer:?}"
            );
        }
        // A statement without a loop but with many slow calls is stopped too.
        let calls = ["instr(a, b)", "a LIKE c"].repeat(500).join(", ");
        let straight = format!(
            "WITH v AS (SELECT replace(hex(zeroblob(400000)),'0','a') AS a, replace(hex(zeroblob(200000)),'0','a')||'b' AS b, \
             '%' || replace(hex(zeroblob(1000)),'0','a') || 'b%' AS c) SELECT {calls} FROM v"
        );
        let answer = database.query(&straight, &[], 10, &bounds(300));
        assert!(matches!(answer, Err(DatabaseError::Late)), "{answer:?}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["songs.db"], "a temporary file is left");
        assert_eq!(query(&database, "SELECT count(*) FROM songs").unwrap(), [[json!(3)]], "the next statement failed");
    }

    #[test]
    fn a_change_is_one_statement_in_one_transaction_of_bounded_size() {
        let (_folder, database) = songs();
        let change = |sql: &str, most| database.execute(sql, &[], most, &bounds(10_000));
        let large = change("DELETE FROM songs", 2);
        assert!(matches!(large, Err(DatabaseError::TooMany { found: 3, most: 2 })), "{large:?}");
        assert_eq!(query(&database, "SELECT count(*) FROM songs").unwrap(), [[json!(3)]], "not rolled back");
        for sql in [
            "COMMIT",
            "SAVEPOINT s",
            "ATTACH DATABASE '/tmp/o.db' AS o",
            "PRAGMA writable_schema = ON",
            "DELETE FROM songs; SELECT 1",
        ] {
            assert!(change(sql, 1000).is_err(), "{sql}");
        }
        let made = change("UPDATE songs SET bpm = bpm + 1 WHERE id < 3", 2).unwrap();
        assert_eq!(made.rows_affected, 2);
        assert_eq!(change("CREATE TABLE t (a)", 1000).unwrap().rows_affected, 0);
    }
}
