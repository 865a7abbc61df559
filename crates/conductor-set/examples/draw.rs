//! Draws a Set, or one of its clips: `draw FILE.als OUT.svg [CLIP_ID]`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

use conductor_set::{DEFAULT_XML_LIMIT, Document};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(out), clip) = (args.next(), args.next(), args.next()) else {
        return Err("usage: draw FILE.als OUT.svg [CLIP_ID]".into());
    };
    let set = Document::open(&std::fs::read(file)?, DEFAULT_XML_LIMIT)?;
    let svg = match clip {
        Some(clip) => set.draw_clip(clip.parse()?, 1200)?.drawing.svg(),
        None => set.draw_session(1200).svg(),
    };
    std::fs::write(out, svg)?;
    Ok(())
}
