//! SQL that tries to reach outside the database, to write in a read, or to use up the machine's
//! resources.

use crate::rig::{Rig, settle};
use crate::studio::until;
use serde_json::json;

#[test]
fn no_statement_leaves_the_database_or_writes_through_a_read() {
    let rig = Rig::start("");
    let mut model = rig.model();
    let new = rig.outside.path().join("new.db").display().to_string();
    for sql in [
        format!("ATTACH DATABASE '{new}' AS x"),
        format!("VACUUM INTO '{new}'"),
        "CREATE TABLE t (a)".to_owned(),
        "PRAGMA writable_schema = 1".to_owned(),
        format!("SELECT writefile('{new}', 'x')"),
        "SELECT load_extension('/tmp/x.so')".to_owned(),
        format!("SELECT readfile('{}')", rig.secret()),
        "SELECT 1; ATTACH DATABASE '/tmp/x' AS y".to_owned(),
    ] {
        let answer = model.call("database.query", json!({ "sql": sql }));
        assert!(answer["rows"].is_null(), "{sql}: {answer}");
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}

/// Short queries with a very large amount of work: each must end, and must not use the processor
/// afterwards.
#[test]
fn a_read_that_would_take_the_machine_ends() {
    let rig = Rig::start("");
    for sql in [
        "SELECT instr(replace(hex(zeroblob(15000000)),'0','a'), replace(hex(zeroblob(6000000)),'0','a')||'b')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n",
        "SELECT replace(hex(zeroblob(400000)), '0', hex(zeroblob(400000)))",
        "SELECT printf('%.*c', 500000000, 'x') LIKE '%' || printf('%.*c', 500000, 'x') || 'y%'",
    ] {
        let mut model = rig.model();
        let answer = model.call("database.query", json!({ "sql": sql }));
        assert!(answer["rows"].is_null() || answer["row_count"] == 1, "{sql}: {answer}");
    }
    until("the daemon is idle", || rig.studio.rests().then_some(()));
    rig.assert_unharmed();
}
