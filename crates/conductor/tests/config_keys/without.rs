//! Runs a test with a configuration that lacks one key. The test cannot distinguish this from a
//! daemon that ignores the key.
//!
//! Keys are written as `table.key`, with `[]` for every row of a list and `{}` for every name in a
//! table of names.

use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::{Once, mpsc};
use std::thread;
use std::time::Duration;
use toml_edit::{DocumentMut, TableLike, Value};

thread_local! {
    /// The key that is removed from all files that this thread writes.
    static LOST: RefCell<Option<String>> = const { RefCell::new(None) };
}

const NAME: &str = "without a key";

/// If a test runs longer than this factor times its usual time, it is treated as waiting for an
/// event that never occurs.
const FACTOR: u32 = 3;
/// Lower and upper bound of the time after which a test counts as waiting.
const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(20);

/// The text that is passed to the daemon.
pub(super) fn written(config: &str) -> String {
    LOST.with_borrow(|lost| match lost {
        Some(key) => without(config, key),
        None => config.to_owned(),
    })
}

/// Whether the test fails without the key, or runs far longer than `usually`. The test runs in a
/// separate thread, which is abandoned if it hangs.
pub(super) fn is_missed(key: &str, test: fn(), usually: Duration) -> bool {
    let (sender, failed) = mpsc::channel();
    let key = key.to_owned();
    let run = move || {
        LOST.set(Some(key));
        // The receiver no longer exists if the test took too long.
        let _ = sender.send(catch_unwind(test).is_err());
    };
    silence_expected_panics();
    thread::Builder::new().name(NAME.into()).spawn(run).unwrap();
    failed.recv_timeout((usually * FACTOR).clamp(LEAST, MOST)).unwrap_or(true)
}

/// Suppresses the output of tests that fail as expected: a hundred backtraces would hide a real
/// failure.
fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(NAME) {
                usual(panic);
            }
        }));
    });
}

/// Removes the key. A text that is not TOML is returned unchanged, because it is invalid on
/// purpose.
pub(super) fn without(config: &str, key: &str) -> String {
    let Ok(mut document) = config.parse::<DocumentMut>() else { return config.to_owned() };
    let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
    at(document.as_table_mut(), table, &mut |table| drop(table.remove(key)));
    document.to_string()
}

/// Calls `act` with every table of that name.
pub(super) fn at(table: &mut dyn TableLike, name: &str, act: &mut dyn FnMut(&mut dyn TableLike)) {
    if name.is_empty() {
        return act(table);
    }
    let (step, rest) = name.split_once('.').unwrap_or((name, ""));
    let key = step.trim_end_matches("[]").trim_end_matches("{}");
    let Some(item) = table.get_mut(key) else { return };
    if step.ends_with("[]") {
        if let Some(rows) = item.as_array_of_tables_mut() {
            rows.iter_mut().for_each(|it| at(it, rest, act));
        } else if let Some(rows) = item.as_array_mut() {
            rows.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|it| at(it, rest, act));
        }
    } else if let Some(table) = item.as_table_like_mut() {
        if step.ends_with("{}") {
            table.iter_mut().filter_map(|(_, it)| it.as_table_like_mut()).for_each(|it| at(it, rest, act));
        } else {
            at(table, rest, act);
        }
    }
}

#[test]
fn every_spelling_of_a_key_is_lost_and_nothing_else() {
    let config = "a.b = 1\n[t]\nb = 1\nc = 2\nin = { b = 1, c = 2 }\nrows = [{ b = 1, c = 2 }]\n[[r]]\nb = 1\n[[r]]\nc = 2\n[n.\"x.y\"]\nb = 1\n";
    for (key, left) in
        [("a.b", 5), ("t.b", 5), ("t.in.b", 5), ("t.rows[].b", 5), ("r[].b", 5), ("n{}.b", 5), ("z.b", 6)]
    {
        assert_eq!(without(config, key).matches("b = 1").count(), left, "{key}");
        assert_eq!(without(config, key).matches("c = 2").count(), config.matches("c = 2").count(), "{key}");
    }
    assert_eq!(without("[", "a"), "[");
}

#[test]
fn a_test_that_does_not_care_about_a_key_misses_nothing() {
    let missed = |test: fn()| is_missed("a.b", test, LEAST);
    assert!(!missed(|| assert!(written("a.c = 1").contains("c"))));
    assert!(missed(|| assert!(written("a.b = 1").contains("b"))));
}
