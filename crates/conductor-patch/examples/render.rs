//! Draws a patch file: `cargo run --example render -- FILE > picture.svg`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

use conductor_patch::{Document, Format, Limits, render};

#[expect(clippy::print_stdout, reason = "the picture is the program's output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: render FILE")?;
    let format = Format::of_name(&path).ok_or("not a patch file")?;
    let document = Document::open(std::fs::read(&path)?, format, &Limits::default())?;
    let presentation = std::env::args().nth(2).as_deref() == Some("presentation");
    let picture = render::render(&document.root(), &render::Options { presentation, ..render::Options::default() });
    print!("{}", picture.to_svg());
    Ok(())
}
