//! Prints the contents of a Set as JSON: `info FILE.als`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

use conductor_set::{DEFAULT_XML_LIMIT, Document, check};
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: info FILE.als")?;
    let set = Document::open(&std::fs::read(file)?, DEFAULT_XML_LIMIT)?;
    let faults: Vec<String> = check(&set).iter().map(ToString::to_string).collect();
    let report = serde_json::json!({
        "overview": set.overview(),
        "scenes": set.scenes(),
        "tracks": set.track_rows().iter().map(|t| set.track_detail(t.id)).collect::<Result<Vec<_>, _>>()?,
        "faults": faults,
    });
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    Ok(())
}
