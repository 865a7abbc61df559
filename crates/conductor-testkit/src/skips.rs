//! Counts tests that skip themselves because a program is missing. Each skipped test adds a line to
//! the file `CONDUCTOR_SKIPS`, and `.ci/test` prints these lines at its end.
//!
//! This file does not use the crates under test: `conductor-set` must not depend on the product,
//! and includes this file as a module.

use std::fs::OpenOptions;
use std::io::Write;

/// Prints why this test is skipped, and counts the skip.
#[expect(clippy::disallowed_methods, reason = "an environment variable names the file of skips")]
pub fn note(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIP {reason}");
    let Some(file) = std::env::var_os("CONDUCTOR_SKIPS") else { return };
    let line = format!("{}\t{reason}\n", test_name());
    let added =
        OpenOptions::new().append(true).create(true).open(file).and_then(|mut it| it.write_all(line.as_bytes()));
    assert!(added.is_ok(), "the skip is not counted: {added:?}");
}

/// The name of the test program and of the test, as the test runner prints them.
fn test_name() -> String {
    let program = std::env::current_exe().ok().and_then(|it| Some(it.file_stem()?.to_string_lossy().into_owned()));
    let program = program.unwrap_or_default();
    // Cargo adds a hash to the file name.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name).to_owned();
    let thread = std::thread::current().name().filter(|it| *it != "main").map(str::to_owned);
    let exact = || std::env::args().skip(1).find(|it| !it.starts_with('-'));
    format!("{program}::{}", thread.or_else(exact).unwrap_or_default())
}
