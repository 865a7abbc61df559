//! Writes the Set that the recorded exchanges use: `golden OUT.als`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

#[allow(dead_code, reason = "shared with the tests, which use the other functions too")]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).ok_or("usage: golden OUT.als")?;
    std::fs::write(out, fixtures::golden().to_als())?;
    Ok(())
}
