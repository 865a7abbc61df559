//! A test whose program is missing is skipped and prints why. It fails if real programs are
//! required. Each case runs in a child process, because PATH and the switch are environment
//! variables.

use conductor_testkit::{real, require};
use std::path::Path;
use std::process::{Command, Output};

/// The test that the child process runs. It is written like any test that needs JACK.
#[test]
fn needs_jack() {
    let version = require!(real::jack::probe());
    assert!(!version.is_empty());
}

fn child(required: bool, counted: &Path) -> Output {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "skips::needs_jack", "--nocapture"]).env("PATH", nowhere.path());
    command.env("CONDUCTOR_REQUIRE_REAL", if required { "1" } else { "0" });
    command.env("CONDUCTOR_SKIPS", counted);
    command.output().unwrap()
}

#[test]
fn a_hidden_part_is_a_skip_that_names_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("skips");
    let output = child(false, &counted);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("SKIP jack: ") && said.contains("(Debian package jackd2)"), "{said}");
    let lines = std::fs::read_to_string(&counted).unwrap();
    assert!(
        lines.starts_with("clients::skips::needs_jack\tjack: ") && lines.lines().count() == 1,
        "the skip was not counted by name: {lines}"
    );
}

/// Runs `.ci/summary` on example lines of skipped tests and on example summaries of the runners.
#[test]
fn the_last_lines_of_a_run_name_every_skip_and_second_try() {
    let folder = tempfile::tempdir().unwrap();
    let (skips, log) = (folder.path().join("skips"), folder.path().join("log"));
    std::fs::write(&skips, "vm::b\tvm: elsewhere\nall::a\tno data\nvm::b\tvm: elsewhere\n").unwrap();
    std::fs::write(
        &log,
        "     Summary [  12.3s] 10 tests run: 9 passed (1 slow, 1 flaky), 1 failed, 3 skipped\n\
         \x20  FLAKY 2/2 [   0.413s] ( 7/10) conductor::integration live::one\n\
         test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n",
    )
    .unwrap();
    let summary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/summary");
    let output = Command::new(summary).args([&log, &skips]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said,
        "SKIPPED 2:\n  all::a: no data\n  vm::b: vm: elsewhere\nFLAKY 1:\n  conductor::integration live::one\n11 passed, 1 failed, 2 skipped\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn where_real_parts_are_required_the_same_words_are_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let output = child(true, &folder.path().join("skips"));
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("SKIP jack: "), "{said}");
}
