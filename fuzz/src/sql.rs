//! SQL classification: SQLite itself decides whether a statement writes. A statement that writes is
//! never shown to a person as a statement that only reads. Removing comments does not change the
//! result.

use crate::SEEDED;
use crate::outside::statement::{Dialect, Statement};
use rusqlite::Connection;

/// Kinds of statements that only read.
const READS: [&str; 2] = ["SELECT", "VALUES"];

fn classify(sql: &str, dialect: Dialect) -> Statement {
    let mut read = Statement::read(sql, dialect);
    // The seeded mistake: only the first kind of a statement is kept.
    if SEEDED {
        read.kinds.truncate(1);
    }
    read
}

thread_local! {
    static DATABASE: Connection = {
        let database = Connection::open_in_memory().expect("a database");
        database.execute_batch("CREATE TABLE a (x, y); CREATE TABLE b (x, y); CREATE VIEW v AS SELECT x FROM a;").expect("tables");
        database
    };
}

pub fn check(data: &[u8]) {
    let Ok(sql) = std::str::from_utf8(data) else { return };
    if sql.contains('\0') || sql.len() > 400 {
        return;
    }
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let read = classify(sql, dialect);
        let again = classify(&read.text, dialect);
        assert_eq!(
            (&again.kinds, &again.tables),
            (&read.kinds, &read.tables),
            "removing comments changed the classification"
        );
    }
    let read = classify(sql, Dialect::Sqlite);
    let writes = DATABASE.with(|database| database.prepare(sql).is_ok_and(|it| !it.readonly()));
    if writes {
        assert!(
            read.kinds.iter().any(|it| !READS.contains(&it.as_str())),
            "the statement writes, but is shown as {:?}",
            read.kinds
        );
    }
}
