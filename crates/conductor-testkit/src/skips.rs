//! Tests that end early because a part is missing, counted by name: each adds a line to the file
//! that `CONDUCTOR_SKIPS` names, and `.ci/test` prints them at its end.
//!
//! Knows nothing of the crates under test: `conductor-set`, which must not depend on the product,
//! includes this file as a module.

use std::fs::OpenOptions;
use std::io::Write;

/// Says why this test ends here, and counts it.
#[expect(clippy::disallowed_methods, reason = "the environment says where skips are counted")]
pub fn note(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIP {reason}");
    let Some(file) = std::env::var_os("CONDUCTOR_SKIPS") else { return };
    let line = format!("{}\t{reason}\n", test_name());
    let added =
        OpenOptions::new().append(true).create(true).open(file).and_then(|mut it| it.write_all(line.as_bytes()));
    assert!(added.is_ok(), "the skip is not counted: {added:?}");
}

/// The program and the name of the test, as the test runner calls it.
fn test_name() -> String {
    let program = std::env::current_exe().ok().and_then(|it| Some(it.file_stem()?.to_string_lossy().into_owned()));
    let program = program.unwrap_or_default();
    // Cargo adds a hash.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name).to_owned();
    let thread = std::thread::current().name().filter(|it| *it != "main").map(str::to_owned);
    let exact = || std::env::args().skip(1).find(|it| !it.starts_with('-'));
    format!("{program}::{}", thread.or_else(exact).unwrap_or_default())
}
