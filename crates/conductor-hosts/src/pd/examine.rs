//! Diagnoses Pure Data for `doctor`: the program that would be started, its version, and whether
//! Conductor supports it.
//!
//! No patch is opened.

use super::{BEFORE, FROM, TESTED};
use crate::system::program_of;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Time limit for a program to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of the search for a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// No folder of the search path contains the command.
    Nothing,
    /// The program exists, but its version is unknown for the reason `why`.
    Dumb {
        program: PathBuf,
        why: String,
    },
    Pd {
        program: PathBuf,
        version: String,
        fit: Fit,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The version that the tests use.
    Tested,
    /// A supported version other than the tested one.
    Driven,
    /// An unsupported version. Conductor does not start it.
    Refused,
}

impl Fit {
    fn of(version: &str) -> Option<Fit> {
        let mut numbers = version.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
        let number = (numbers.next()?, numbers.next()?);
        Some(match (FROM..BEFORE).contains(&number) {
            true if version == TESTED => Fit::Tested,
            true => Fit::Driven,
            false => Fit::Refused,
        })
    }
}

/// Finds the program of a command, and its version. `folders` is the search path, which is not used
/// for a command that contains a slash.
pub async fn examine(command: &Path, folders: &[PathBuf]) -> Found {
    let Some(program) = program_of(command, folders) else { return Found::Nothing };
    let mut asking = tokio::process::Command::new(&program);
    asking.arg("-version").stdin(Stdio::null()).kill_on_drop(true);
    let said = match tokio::time::timeout(PATIENCE, asking.output()).await {
        Ok(Ok(output)) => [output.stderr, output.stdout].concat(),
        Ok(Err(fault)) => return Found::Dumb { program, why: fault.to_string() },
        Err(_) => return Found::Dumb { program, why: "it did not print its version and exit in time".to_owned() },
    };
    let said = String::from_utf8_lossy(&said).into_owned();
    let version = said.lines().find_map(|it| it.strip_prefix("Pd-")).and_then(|it| it.split_whitespace().next());
    match version.and_then(|it| Fit::of(it).map(|fit| (it.to_owned(), fit))) {
        Some((version, fit)) => Found::Pd { program, version, fit },
        None => Found::Dumb { program, why: "it reports no version of Pd".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for (version, fit) in [
            (TESTED, Some(Fit::Tested)),
            ("0.53.2", Some(Fit::Driven)),
            ("0.57.0", Some(Fit::Driven)),
            ("0.55-2", Some(Fit::Driven)),
            ("0.52.2", Some(Fit::Refused)),
            ("0.58.0", Some(Fit::Refused)),
            ("1.0", Some(Fit::Refused)),
            ("vanilla", None),
            ("", None),
        ] {
            assert_eq!(Fit::of(version), fit, "{version}");
        }
    }
}
