//! Checks whether Pure Data is installed. The product itself starts it.

use super::Missing;
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "puredata-core";

/// The version that Pd reports.
pub fn probe() -> Result<String, Missing> {
    let missing = |why: String| Missing { part: "pd", package: PACKAGE, why };
    let output = Command::new("pd").arg("-version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(format!("pd does not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("Pd-")).and_then(|it| it.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| missing(format!("pd reports no version: {text}")))
}
