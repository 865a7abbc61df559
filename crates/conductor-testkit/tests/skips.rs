//! A part that is missing is a skip that prints why, and a failure where real parts are required. Each case runs in a child of its own,
//! because the path and the switch are environment variables.

use conductor_testkit::{real, require};
use std::process::{Command, Output};

/// What the child does: the same lines as any test that needs JACK.
#[test]
fn needs_jack() {
    let version = require!(real::jack::probe());
    assert!(!version.is_empty());
}

fn child(required: bool) -> Output {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "needs_jack", "--nocapture"]).env("PATH", nowhere.path());
    command.env("CONDUCTOR_REQUIRE_REAL", if required { "1" } else { "0" });
    command.output().unwrap()
}

#[test]
fn a_hidden_part_is_a_skip_that_names_its_package() {
    let output = child(false);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("SKIP jack: ") && said.contains("(Debian package jackd2)"), "{said}");
}

#[test]
fn where_real_parts_are_required_the_same_words_are_a_failure() {
    let output = child(true);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("SKIP jack: "), "{said}");
}
